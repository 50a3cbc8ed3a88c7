//! The commands of pages of `docs/`, run in their order by one shell, next to a running server.

use std::path::Path;
use std::process::Command;

use crate::client::Request;
use crate::world::{CommandOutput, World, run};

/// Runs all commands of a page. `{folder}/data` is the data folder, as on the page.
fn run_page(world: &World, page: &str) -> CommandOutput {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let page = std::fs::read_to_string(path).expect("the page is readable");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    let script: String = blocks.collect::<String>().replace("127.0.0.1:8080", &world.address.to_string());
    assert!(script.lines().count() > 3, "{script}");
    let program =
        Path::new(env!("CARGO_BIN_EXE_playmeter")).parent().expect("a folder").display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    // `--fail` only here: without it, a page's reader sees the answer that says what is wrong.
    std::fs::write(world.root().join(".curlrc"), "fail\nsilent\nshow-error\n").expect("a file");
    shell.args(["-e", "-u", "-c", &script]).current_dir(world.root());
    let output = run(shell.env("PATH", &path).env("HOME", world.root()));
    assert_eq!(output.code, 0, "{script}{output:?}");
    output
}

#[test]
fn first_key_page_leads_to_events_and_a_replaced_key() {
    let world = World::new();
    let output = run_page(&world, "howto/first-key.md");
    assert!(output.out.contains(r#""accepted":1"#) && output.out.contains(r#""total":1"#), "{output:?}");
    let games = world.command(&["games", "list", "--json"]).json();
    assert_eq!(games[0]["name"], "Letters");
    let key = |file: &str| {
        let text = std::fs::read(world.root().join(file)).expect("the page wrote it");
        let key: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        key["secret_key"].as_str().expect("a key").to_owned()
    };
    let load = |key: &str| world.send(&Request::get("/v1/load").key(key)).status;
    assert_eq!((load(&key("key.json")), load(&key("new-key.json"))), (401, 200));
}

#[test]
fn dimensions_page_declares_breaks_down_and_removes() {
    let world = World::new();
    let output = run_page(&world, "howto/dimensions.md");
    assert!(output.out.contains("axe") && output.out.contains("bow"), "{output:?}");
    let games = world.command(&["games", "list", "--json"]).json();
    let settings = &games[0]["settings"];
    assert_eq!(
        (&settings["values_max"], settings["dimensions"].as_array().map(Vec::len)),
        (&2000.into(), Some(1))
    );
}

#[test]
fn sizing_page_measures_and_quotes_the_figures_of_its_sources() {
    let world = World::new();
    for _ in 0..5 {
        let events: Vec<String> = (0..100).map(|n| format!(r#"{{"event":"hit","player":"p{n}"}}"#)).collect();
        assert_eq!(world.post(format!("[{}]", events.join(","))).summary(), "100 accepted");
    }
    let output = run_page(&world, "howto/sizing.md");
    let measured = output.out.lines().find_map(|line| line.strip_prefix("bytes an event: "));
    let bytes: f64 = measured.expect("a line").parse().expect("a number");
    assert!(bytes > 20.0 && bytes < 10_000.0, "{bytes}");
    assert!(
        output.out.contains("playmeter_rollups_memory_bytes ") && output.out.contains("VmRSS"),
        "{output:?}"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/howto/sizing.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| ") && line.contains("bench/results"));
    let mut quoted = 0;
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (figure, source) = (cells[2].split(' ').next().expect("a figure"), cells[3].trim_matches('`'));
        let source =
            std::fs::read_to_string(root.join(source)).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert!(source.contains(figure), "{figure} is not in the source of: {row}");
        quoted += 1;
    }
    assert!(quoted > 10, "{quoted}");
}

#[test]
fn games_page_archives_exports_and_imports() {
    let world = World::new();
    let event = r#"{"event":"hit","player":"ann","props":{"weapon":"axe"}}"#;
    assert_eq!(world.post(event).summary(), "1 accepted");
    let output = run_page(&world, "games.md");
    assert!(output.out.contains("archived since"), "{output:?}");
    let export = std::fs::read_to_string(world.root().join("demo-export/events/000001.ndjson"));
    assert_eq!(export.expect("it is exported").lines().count(), 1);
}
