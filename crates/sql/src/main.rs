//! `playmeter-sql`: the process in which the server runs queries in SQL. It is started by the server and speaks
//! [`sql::protocol`] with it. `playmeter-sql check` shows what isolates it on this machine.

mod worker;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let result = match (arguments.next().as_deref(), arguments.next()) {
        (None, _) => worker::run(),
        (Some("check"), isolation) => worker::check(isolation.as_deref()),
        _ => Err(std::io::Error::other("usage: playmeter-sql [check [landlock|namespaces]]")),
    };
    let code = match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    };
    worker::exit(code);
}
