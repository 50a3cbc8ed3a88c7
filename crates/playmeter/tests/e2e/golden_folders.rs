//! Data folders that released versions wrote: opened, verified, counted and used by this version.
//!
//! `scripts/golden_folder.py` writes them.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Request;
use crate::world::World;

/// The released formats.
const FORMATS: [&str; 1] = ["format-1"];

/// Unpacks the folder of a format and serves it.
fn serve(format: &str) -> World {
    let root = tempfile::tempdir().expect("a temporary folder");
    let data = root.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{format}.tar.gz"));
    let unpacked = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(&data).status();
    assert!(unpacked.is_ok_and(|status| status.success()), "tar unpacks {format}");
    World::on(root, &[])
}

/// The number of events of a name, and its rows by one dimension if it is given.
fn count(world: &World, name: &str, by: Option<&str>) -> Vec<(String, u64)> {
    let mut query = json!({
        "metric": name, "from": "2026-01-01T00:00:00Z", "to": "2027-12-31T00:00:00Z", "step": "all",
    });
    if let Some(dimension) = by {
        query["by"] = json!([dimension]);
    }
    let answer = world.query(&query).json();
    let series = answer["series"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let row = |series: &Value| (series["by"].to_string(), series["total"].as_u64().unwrap_or_default());
    let mut rows: Vec<(String, u64)> = series.iter().map(row).collect();
    rows.sort_by_key(|row| row.1);
    rows
}

#[test]
fn folders_of_every_released_format_are_read_and_written() {
    for format in FORMATS {
        let mut world = serve(format);
        for _ in 0..2 {
            let totals =
                |name: &str, by| count(&world, name, by).into_iter().map(|row| row.1).collect::<Vec<_>>();
            assert_eq!(totals("score", None), [500], "{format}");
            assert_eq!(totals("score", Some("country")), [166, 167, 167], "{format}");
            assert_eq!(totals("last", None), [1], "{format}: what was not in the views yet");
            let variables = world.send(&Request::get("/v1/vars").key(&world.public_key));
            assert_eq!(variables.text(), r#"{"speed":5}"#, "{format}");
            let games = world.command(&["games", "list", "--json"]).json();
            assert_eq!(games[1]["name"], "Second game", "{format}: {games}");
            let verified = world.command(&["verify", "--json"]).json();
            assert_eq!(
                (&verified["agrees"], &verified["not_derivable"]),
                (&json!(true), &json!(0)),
                "{verified}"
            );
            world.restart();
        }
        assert_eq!(world.post(r#"{"event":"new"}"#).summary(), "1 accepted", "{format}");
        world.restart();
        assert_eq!(world.command(&["verify", "--json"]).json()["agrees"], true, "{format}");
    }
}
