//! The routes of the server, read from the sources that declare them.

use std::path::Path;

/// Returns each route as its path and the source of its handlers, such as `routing::get(list).post(submit)`.
pub(crate) fn routes() -> Vec<(String, String)> {
    let mut routes = Vec::new();
    read_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../http/src"), &mut routes);
    routes
}

fn read_folder(folder: &Path, routes: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            read_folder(&path, routes);
        } else {
            let source = std::fs::read_to_string(&path).expect("the file is readable");
            routes.extend(source.split(".route(").skip(1).map(route));
        }
    }
}

/// Reads `"/path", handlers)`.
fn route(source: &str) -> (String, String) {
    let (_, rest) = source.split_once('"').expect("a route begins with its path");
    let (path, rest) = rest.split_once('"').expect("a path ends");
    let mut open = 0;
    let end = rest.find(|character| {
        open += i32::from(character == '(') - i32::from(character == ')');
        open < 0
    });
    (path.to_owned(), rest[..end.expect("a call ends")].to_owned())
}
