//! Complete runs against a small server in this process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use clap::Parser;

use super::*;

#[derive(clap::Parser)]
struct BenchCommandLine {
    #[command(flatten)]
    args: BenchArgs,
}

fn args(line: &str) -> BenchArgs {
    BenchCommandLine::try_parse_from(["bench"].into_iter().chain(line.split_whitespace()))
        .expect("arguments")
        .args
}

/// Starts a server that answers each request with `respond(number, body)`. It closes the connection instead of sending an
/// empty response.
fn server(respond: impl Fn(usize, &str) -> String + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let respond = respond.clone();
            std::thread::spawn(move || serve(stream, respond));
        }
    });
    format!("http://{address}")
}

fn serve(mut stream: TcpStream, respond: impl Fn(usize, &str) -> String) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    for number in 0.. {
        let (mut length, mut closes) = (0, false);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
            if let Some(digits) = line.strip_prefix("Content-Length: ") {
                length = digits.trim().parse().ok()?;
            }
            closes |= line == "Connection: close\r\n";
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let response =
            Some(respond(number, &String::from_utf8(body).ok()?)).filter(|text| !text.is_empty())?;
        stream.write_all(response.as_bytes()).ok()?;
        if closes {
            return None;
        }
    }
    None
}

fn accepted(body: &str) -> String {
    let count = body.matches("\"event\":").count();
    response(202, &format!("{{\"accepted\":{count},\"duplicate\":0,\"results\":[]}}"))
}

fn response(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} Word\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn measure(line: &str) -> LoadReport {
    let mut bench = Bench::prepare(&args(line)).expect("the arguments are valid");
    bench.run_once().expect("the run ends")
}

#[track_caller]
fn check(url: &str, line: &str, expected: (u64, u64, u64)) {
    let report = measure(&format!("--url {url} --rate 1000 --warmup 0.1 --seconds 0.2 {line}"));
    let total = report.total;
    assert_eq!((total.requests_sent, total.accepted, total.errors), expected);
}

#[test]
fn all_events_are_sent_and_counted() {
    let url = server(|_, body| accepted(body));
    check(&url, "", (300, 300, 0));
    check(&url, "--batch 7", (300, 2_100, 0));
    check(&url, "--depth 4 --connections 2", (300, 300, 0));
}

#[test]
fn new_connection_for_each_request_works() {
    check(&server(|_, body| accepted(body)), "--connection close --connections 4", (300, 300, 0));
}

#[test]
fn error_responses_are_counted_and_fail_the_run() {
    let url = server(|_, _| response(503, ""));
    check(&url, "", (300, 0, 300));
    let line = format!("--url {url} --rate 100 --warmup 0 --seconds 0.1 --json -");
    let error = run(args(&line)).expect_err("errors fail the run").to_string();
    assert_eq!(error, "10 of 10 requests failed");
}

#[test]
fn broken_connection_loses_its_request_and_is_reopened() {
    let url = server(|number, body| if number == 9 { String::new() } else { accepted(body) });
    check(&url, "--connections 1", (300, 270, 30));
}

#[test]
fn stall_shows_in_all_requests_that_were_due_meanwhile() {
    let url = server(|number, body| {
        if number == 100 {
            std::thread::sleep(Duration::from_millis(100));
        }
        accepted(body)
    });
    let line = format!("--url {url} --rate 1000 --warmup 0 --seconds 0.3 --connections 1");
    let latency = measure(&line).latency_us;
    assert!(latency.p90 > 50_000.0, "a tenth waited for half of the stall: {latency:?}");
}

#[test]
fn requests_without_response_count_as_slow() {
    let url = server(|_, _| {
        std::thread::sleep(Duration::from_secs(60));
        String::new()
    });
    let report = measure(&format!("--url {url} --rate 100 --warmup 0 --seconds 0.1 --grace 0.5"));
    assert_eq!(report.total.unanswered, 10);
    assert!(report.latency_us.p50 > 4e5, "{:?}", report.latency_us);
}

#[test]
fn ledger_has_the_outcome_of_each_event() {
    let receipt = r#"{"accepted":1,"duplicate":1,"invalid":1,"results":
        [{"i":0,"outcome":"duplicate"},{"i":2,"outcome":"invalid","reason":"x"}]}"#;
    let url = server(move |number, _| match number {
        0 => response(202, receipt),
        1 => response(400, ""),
        2 => response(503, ""),
        _ => String::new(),
    });
    let folder = tempfile::tempdir().expect("a folder for the test");
    let path = folder.path().join("ledger");
    let line = "--rate 400 --warmup 0 --seconds 0.01 --connections 1 --batch 3";
    run(args(&format!("--url {url} {line} --ledger {}", path.display()))).expect_err("three of four fail");
    let ledger = fs::read_to_string(path).expect("the ledger exists");
    let outcomes: Vec<&str> = ledger.lines().filter_map(|line| Some(line.rsplit_once(' ')?.1)).collect();
    let expected = ["duplicate", "acked", "refused"].into_iter();
    assert_eq!(outcomes, expected.chain(["refused"; 3]).chain(["unknown"; 6]).collect::<Vec<_>>());
}

#[test]
fn data_folder_provides_url_key_and_pid() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let bootstrap = r#"{"url": "http://127.0.0.1:9", "public_key": "pk", "secret_key": "sk"}"#;
    fs::write(folder.path().join("bootstrap.json"), bootstrap).expect("the folder is writable");
    fs::write(folder.path().join("server.pid"), "42\n").expect("the folder is writable");
    let target = BenchTarget::from_args(&args(&format!("--data {}", folder.path().display())))
        .expect("it is readable");
    assert_eq!(
        (target.url.as_str(), target.key.as_deref(), &target.pids[..]),
        ("http://127.0.0.1:9", Some("pk"), &[42][..])
    );
}

#[track_caller]
fn check_error(line: &str, expected: &str) {
    let error = Bench::prepare(&args(line)).err().expect("it is an error").to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn invalid_arguments_are_errors_with_a_hint() {
    check_error("--url https://127.0.0.1", "must have the form http://HOST:PORT");
    check_error("--url http://127.0.0.1:1", "start the server first");
    check_error("--rate 0", "raise --rate");
    check_error("--warmup NaN", "must be 0 or greater");
    check_error("--connection close --depth 2", "--depth requires --connection keep-alive");
    check_error("--ids none --ledger x", "--ledger requires events with ids");
}

#[track_caller]
fn check_search(first: f64, passes_up_to: f64, expected: Option<std::ops::Range<f64>>) {
    let mut steps = Vec::new();
    while let Some(rate) = next_rate(first, &steps) {
        steps.push(RateStep { rate, p99_us: 0.0, errors: 0, passed: rate <= passes_up_to });
    }
    let found = steps.iter().filter(|step| step.passed).map(|step| step.rate).reduce(f64::max);
    assert_eq!(found.is_some(), expected.is_some());
    assert!(found.is_none_or(|rate| expected.expect("some rate passes").contains(&rate)), "{found:?}");
    assert!(steps.len() < 30, "{} steps", steps.len());
}

#[test]
fn highest_rate_is_found_within_five_percent() {
    check_search(1_000.0, 33_333.0, Some(31_745.0..33_334.0));
    check_search(1_000.0, 300.0, Some(285.0..301.0));
    check_search(1_000.0, 0.0, None);
}
