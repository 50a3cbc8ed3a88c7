//! A server uses a new folder or its own, and one of a newer version is left as it is.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::world::{World, playmeter, run};

/// Starts a server, which must refuse, and returns what it prints.
fn refused(root: &Path, data: &Path) -> String {
    let output = run(playmeter(root).args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data));
    assert_eq!(output.code, 1, "{output:?}");
    output.err
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn folder_with_other_files_is_refused_and_left_as_it_is() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let home = root.path().join("home");
    fs::create_dir_all(home.join("log")).expect("a folder");
    fs::write(home.join("letter.txt"), "dear").expect("a file");
    let message = refused(root.path(), &home);
    assert!(message.contains("is not empty and not a data folder (it contains `letter.txt`)"), "{message}");
    assert_eq!(names(&home), ["letter.txt", "log"]);
    fs::remove_file(home.join("letter.txt")).expect("a file");
    fs::write(home.join("log/system"), "line").expect("a file");
    let message = refused(root.path(), &home);
    assert!(message.contains("(it contains `log`)"), "{message}");
}

#[test]
fn folder_of_a_newer_version_is_refused_by_every_command_and_left_as_it_is() {
    let mut world = World::new();
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted");
    world.stop();
    let path = world.folder().join("catalog.json");
    let text = fs::read_to_string(&path).expect("a catalog");
    let mut catalog: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(catalog["format"], 1);
    catalog["format"] = 3.into();
    catalog["a_field_of_the_future"] = true.into();
    fs::write(&path, catalog.to_string()).expect("a file");
    let state = || {
        let folders = ["", "log", "views", "ids"].map(|name| names(&world.folder().join(name)));
        let modified =
            |name: &str| fs::metadata(world.folder().join(name)).and_then(|found| found.modified());
        (folders, ["", "log", "views", "lock"].map(|name| modified(name).expect("it exists")))
    };
    let before = state();
    let message = refused(world.root(), &world.folder());
    assert!(message.contains("newer version of Playmeter: its catalog.json has format 3"), "{message}");
    for command in [&["verify"][..], &["rebuild"], &["games", "list"], &["keys", "list"], &["repair"]] {
        let output = world.command(command);
        assert!(
            output.code == 1 && output.err.contains("newer version of Playmeter"),
            "{command:?}: {output:?}"
        );
    }
    assert_eq!(state(), before, "nothing was written");
    fs::write(&path, text).expect("a file");
    world.start();
}

#[test]
fn first_game_is_a_demo_game_only_with_demo() {
    for (flags, name) in [(&[][..], "My game"), (&["--demo"], "Demo game")] {
        let world = World::with(flags);
        let games = world.command(&["games", "list", "--json"]).json();
        assert_eq!(games[0]["name"], name, "{games}");
        let renamed = world.command(&["games", "rename", "demo", "Letters", "--json"]).json();
        assert_eq!((&renamed["id"], &renamed["name"]), (&"demo".into(), &"Letters".into()));
        for wrong in ["", "a\nb"] {
            let output = world.command(&["games", "rename", "demo", wrong]);
            assert!(output.code == 1 && output.err.contains("name"), "{output:?}");
        }
    }
}
