//! JSONTestSuite over HTTP: valid JSON is accepted, invalid JSON is rejected, and the rest does no harm.

use std::path::PathBuf;

use crate::client::Request;
use crate::world::World;

/// The folder of the suite, if it exists on this machine.
fn folder() -> Option<PathBuf> {
    let suites = match std::env::var_os("PLAYMETER_SUITES") {
        Some(suites) => PathBuf::from(suites),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites"),
    };
    let folder = suites.join("json/test_parsing");
    folder.is_dir().then_some(folder)
}

#[test]
fn events_endpoint_conforms_to_jsontestsuite() {
    let Some(folder) = folder() else {
        testkit::skip::skip(
            "json-suite",
            "set PLAYMETER_SUITES to the folder that contains json/test_parsing",
        );
        return;
    };
    let world = World::new();
    let mut connection = world.connect();
    let (mut files, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let body = std::fs::read(&path).expect("a file");
        files += 1;
        let request = Request::events(body).key(&world.public_key);
        let status = connection.send(&request).unwrap_or_else(|failure| panic!("{name}: {failure}")).status;
        let right = match &name[..2] {
            "y_" => status == 202,
            "n_" => status == 400,
            _ => matches!(status, 202 | 400),
        };
        if !right {
            wrong.push(format!("{name}: {status}"));
        }
    }
    assert!(files > 300, "the suite is complete: {files}");
    assert_eq!(wrong, [""; 0]);
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
}
