//! Embeds the files for browsers, compressed at build time: the dashboard that `make web` builds, the demo game that
//! `make letters` builds and the JavaScript client that `make sdk` builds. Without them the crate builds with a warning.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// The folder of built files, a file that it must contain, the hint to print if that is missing, and the path prefix
/// under which the folder is served.
const FOLDERS: [(&str, &str, &str, &str); 3] = [
    ("web/dist", "index.html", "the dashboard is not embedded: run `make web`", ""),
    ("examples/letters/dist", "index.html", "the demo game is not embedded: run `make letters`", "play/"),
    ("sdk/js/dist", "playmeter.js", "the JavaScript client is not embedded: run `make sdk`", "sdk/"),
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut files = Vec::new();
    for (folder, required, hint, prefix) in FOLDERS {
        let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let watched = if dist.exists() { dist.clone() } else { dist.with_file_name("package.json") };
        println!("cargo:rerun-if-changed={}", watched.display());
        if !dist.join(required).exists() {
            println!("cargo:warning={hint} and build again");
        }
        let mut found = Vec::new();
        list(&dist, &dist, &mut found);
        // The type declarations of the client are for bundlers, which get them from its package.
        found.retain(|path| !path.ends_with(".d.ts"));
        files.extend(found.into_iter().map(|path| (format!("{prefix}{path}"), dist.join(path))));
    }
    files.sort();
    let mut table = String::from("[\n");
    for (index, (path, file)) in files.iter().enumerate() {
        let content = fs::read(file).expect("the file was listed above");
        let compressed = out.join(format!("asset-{index}.gz"));
        fs::write(&compressed, gzip(&content)).expect("OUT_DIR is writable");
        let etag: String = Sha256::digest(&content)[..8].iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let _ =
            writeln!(table, "Asset::embedded({path:?}, \"\\\"{etag}\\\"\", include_bytes!({compressed:?})),");
    }
    table.push(']');
    fs::write(out.join("assets.rs"), table).expect("OUT_DIR is writable");
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
    encoder.write_all(content).and_then(|()| encoder.finish()).expect("writing to memory never fails")
}
