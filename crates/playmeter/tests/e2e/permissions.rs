//! The permissions of the data folder.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::world::World;

/// Everything in the folder, itself included, with its permissions.
fn modes(path: &Path, found: &mut Vec<(PathBuf, u32)>) {
    let metadata = fs::symlink_metadata(path).expect("it is there");
    found.push((path.to_owned(), metadata.permissions().mode() & 0o7777));
    if metadata.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            modes(&entry.expect("an entry").path(), found);
        }
    }
}

/// Asserts that only the owner may read anything in the data folder.
fn check(world: &World) {
    let mut found = Vec::new();
    modes(&world.folder(), &mut found);
    assert!(found.len() > 15, "{found:?}");
    for (path, mode) in found {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode, expected, "{}: {mode:o}", path.display());
    }
}

#[test]
fn data_folder_is_readable_by_its_owner_only() {
    let mut world = World::new();
    world.post(r#"[{"event":"hit","id":"1f0e8c52-6f5c-4b51-8d0e-1c3c4b5a6978"}]"#);
    check(&world);
    world.restart();
    check(&world);
}

#[test]
fn data_folder_of_an_earlier_version_is_restricted_at_start() {
    let mut world = World::new();
    world.post(r#"{"event":"hit"}"#);
    world.stop();
    let mut found = Vec::new();
    modes(&world.folder(), &mut found);
    let is_secret = |path: &Path| {
        ["catalog.json", "bootstrap.json"]
            .iter()
            .any(|name| path.file_name().is_some_and(|file| file == *name))
    };
    for (path, _) in found.into_iter().filter(|(path, _)| !is_secret(path)) {
        let mode = if path.is_dir() { 0o755 } else { 0o644 };
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("it belongs to this user");
    }
    world.start();
    check(&world);
}
