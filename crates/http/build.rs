//! Embeds the files for browsers, compressed at build time: the dashboard that `make web` builds and the demo game that
//! `make letters` builds. Without them the crate builds with a warning.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Where built files are, what the folder is called when it is missing, and the path under which they are served.
const FOLDERS: [(&str, &str, &str); 2] = [
    ("web/dist", "dashboard: run `make web`", ""),
    ("examples/letters/dist", "demo game: run `make letters`", "play/"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    for (folder, name, prefix) in FOLDERS {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let watched = if dist.exists() { dist.clone() } else { dist.with_file_name("package.json") };
        println!("cargo:rerun-if-changed={}", watched.display());
        if !dist.join("index.html").exists() {
            println!("cargo:warning=no {name} and build again");
        }
        let mut found = Vec::new();
        list(&dist, &dist, &mut found);
        files.extend(found.into_iter().map(|path| (format!("{prefix}{path}"), dist.join(path))));
    }
    files.sort();
    let mut table = String::from("[\n");
    for (index, (path, file)) in files.iter().enumerate() {
        let content = fs::read(file).expect("it was listed a moment ago");
        let compressed = out.join(format!("asset-{index}.gz"));
        fs::write(&compressed, gzip(&content)).expect("cargo made the folder");
        let etag: String = Sha256::digest(&content)[..8].iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let _ = writeln!(
            table,
            "Asset {{ path: {path:?}, etag: \"\\\"{etag}\\\"\", gzip: include_bytes!({compressed:?}) }},"
        );
    }
    table.push(']');
    fs::write(out.join("assets.rs"), table).expect("cargo made the folder");
}

fn list(root: &Path, folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(root, &path, files);
        } else if let Ok(path) = path.strip_prefix(root) {
            files.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("memory does not fail to write")
}
