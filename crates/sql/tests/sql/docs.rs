//! Runs the examples of `docs/sql.md`.

use crate::support::{World, query};

const PAGE: &str = include_str!("../../../../docs/sql.md");

#[test]
fn every_example_of_the_page_has_rows() {
    let world = World::with_events();
    let examples: Vec<&str> =
        PAGE.split("```sql\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    assert!(examples.len() >= 6, "{} examples", examples.len());
    for example in examples {
        let answer = world.ask(query(example)).unwrap_or_else(|error| panic!("{example}: {error:?}"));
        assert!(answer.summary.rows > 0, "{example}");
    }
}

#[test]
fn tables_of_the_page_are_those_of_the_worker() {
    let world = World::with_events();
    for table in ["sessions", "players", "scores"] {
        let columns: Vec<String> = world
            .rows(&format!("DESCRIBE {table}"))
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| format!("`{}`", row[0].as_str().expect("a name")))
            .collect();
        let row = format!("| `{table}` | {} |", columns.join(", "));
        assert!(PAGE.contains(&row), "{row}");
    }
}
