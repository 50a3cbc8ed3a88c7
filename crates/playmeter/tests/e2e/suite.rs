//! JSONTestSuite through the real door: what has to be accepted is, what has to be refused is, the rest harms nothing.

use std::path::PathBuf;

use crate::client::Request;
use crate::world::World;

/// The folder of the suite, if it is on this machine.
fn folder() -> Option<PathBuf> {
    let suites = match std::env::var_os("PLAYMETER_SUITES") {
        Some(suites) => PathBuf::from(suites),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites"),
    };
    let folder = suites.join("json/test_parsing");
    folder.is_dir().then_some(folder)
}

#[test]
fn json_is_accepted_and_refused_as_the_public_suite_says() {
    let Some(folder) = folder() else {
        eprintln!(
            "SKIPPED: JSONTestSuite is not here; PLAYMETER_SUITES names the folder with json/test_parsing"
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
        let status = connection.ask(&request).unwrap_or_else(|failure| panic!("{name}: {failure}")).status;
        let right = match &name[..2] {
            "y_" => status == 202,
            "n_" => status == 400,
            _ => matches!(status, 202 | 400),
        };
        if !right {
            wrong.push(format!("{name}: {status}"));
        }
    }
    assert!(files > 300, "the whole suite: {files}");
    assert_eq!(wrong, [""; 0]);
    assert_eq!(world.post(r#"{"event":"win"}"#).told(), "1 accepted");
}
