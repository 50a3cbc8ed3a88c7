//! The dashboard's files, compressed once at build time.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

/// Writes a table of all files of `web/dist` and their compressed content.
pub fn embed() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/dist");
    let watched = if dist.exists() { dist.clone() } else { dist.with_file_name("package.json") };
    println!("cargo:rerun-if-changed={}", watched.display());
    if !dist.join("index.html").exists() {
        println!("cargo:warning=no dashboard: run `make web` and build again");
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    list(&dist, &dist, &mut files);
    files.sort();
    let mut table = String::from("[\n");
    for (index, path) in files.iter().enumerate() {
        let content = fs::read(dist.join(path)).expect("it was listed a moment ago");
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
