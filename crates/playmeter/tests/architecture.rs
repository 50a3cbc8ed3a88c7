//! Holds the crate table of `docs/ARCHITECTURE.md` against what cargo knows: which crate uses which, and what a crate's
//! dependencies may never contain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A row of the table: a crate, the crates of the workspace that it uses, and the packages that it must not reach.
type Row = (String, (BTreeSet<String>, BTreeSet<String>));

/// Returns what the table says: `| crate | promise | uses | never |`.
fn documented() -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).expect("the page is readable");
    let (_, table) = page.split_once("| crate | promise | uses | never |").expect("the page has the table");
    table.lines().skip(2).take_while(|line| line.starts_with('|')).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
    let [name, _, uses, never] = cells[..] else { panic!("a row has four cells: {line}") };
    let names = |cell: &str| -> BTreeSet<String> {
        cell.split(',')
            .map(|name| name.trim().trim_matches('`').to_owned())
            .filter(|name| !name.is_empty())
            .collect()
    };
    (name.trim().trim_matches('`').to_owned(), (names(uses), names(never)))
}

fn metadata() -> Value {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let rustc = String::from_utf8(rustc.stdout).expect("text");
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--all-features", "--locked", "--offline"])
        .args(["--filter-platform", host])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    serde_json::from_slice(&cargo.stdout).expect("JSON")
}

/// The packages that each package uses in a build of the product, by id. Development dependencies are left out.
struct Graph {
    names: BTreeMap<String, String>,
    uses: BTreeMap<String, BTreeSet<String>>,
    members: BTreeSet<String>,
}

impl Graph {
    fn read(metadata: &Value) -> Graph {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let names = list(&metadata["packages"])
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let is_normal =
            |dependency: &Value| list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
        let uses_of = |node: &Value| {
            let used = list(&node["deps"]).into_iter().filter(|dependency| is_normal(dependency));
            (text(&node["id"]), used.map(|dependency| text(&dependency["pkg"])).collect())
        };
        let uses = list(&metadata["resolve"]["nodes"]).iter().map(uses_of).collect();
        let members = list(&metadata["workspace_members"]).iter().map(text).collect();
        Graph { names, uses, members }
    }

    fn short(&self, id: &str) -> String {
        self.names[id].trim_start_matches("playmeter-").to_owned()
    }

    /// Returns the crates of the workspace that this one uses directly.
    fn workspace_uses(&self, id: &str) -> BTreeSet<String> {
        self.uses[id].intersection(&self.members).map(|used| self.short(used)).collect()
    }
}

/// Returns the names of all packages that end up in a build of this crate alone. A build of the whole workspace shares
/// the features of packages between crates.
fn reaches(name: &str) -> BTreeSet<String> {
    let package = if name == "playmeter" { name.to_owned() } else { format!("playmeter-{name}") };
    let cargo = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "-e", "normal", "--prefix", "none", "--package", &package])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let tree = String::from_utf8(cargo.stdout).expect("text");
    tree.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

#[test]
fn crates_use_what_the_architecture_says_and_nothing_else() {
    let (documented, graph) = (documented(), Graph::read(&metadata()));
    let actual: BTreeMap<String, BTreeSet<String>> =
        graph.members.iter().map(|id| (graph.short(id), graph.workspace_uses(id))).collect();
    let expected: BTreeMap<String, BTreeSet<String>> =
        documented.into_iter().map(|(name, (uses, _))| (name, uses)).collect();
    assert_eq!(actual, expected, "left: cargo; right: docs/ARCHITECTURE.md");
}

#[test]
fn crates_never_reach_what_the_architecture_forbids() {
    let documented = documented();
    for (name, (_, never)) in &documented {
        let reached = reaches(name);
        assert!(!reached.is_empty(), "cargo knows {name}");
        let forbidden: Vec<&String> = never.intersection(&reached).collect();
        assert!(forbidden.is_empty(), "{name} reaches {forbidden:?}");
    }
    assert!(documented.values().any(|(_, never)| never.contains("axum")), "the table forbids something");
}
