//! `playmeter agent`: the real program against a real server, and against one that is down.

mod sources;
mod tls;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::Request;
use crate::collectors::account;
use crate::world::{CommandOutput, World, playmeter, run};

/// Longer than any step of these tests takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An agent that runs until a signal ends it.
struct Agent {
    child: Child,
    /// The line it printed at the start.
    greeting: String,
    _stdout: BufReader<ChildStdout>,
}

impl Agent {
    fn start(world: &World, args: &[&str]) -> Agent {
        let mut command = playmeter(world.root());
        command.arg("agent").args(args).arg("--to").arg(format!("http://{}", world.address));
        command.env("PLAYMETER_KEY", &world.secret_key).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program can be started");
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output is piped"));
        let mut greeting = String::new();
        stdout.read_line(&mut greeting).expect("standard output can be read");
        Agent { child, greeting, _stdout: stdout }
    }

    /// Sends SIGTERM and returns the exit code.
    fn end(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the agent can be signalled");
        self.child.wait().expect("a child can be waited for").code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A measure of a metric of one host or part since yesterday; 0 if there is none.
fn measured(world: &World, metric: &str, measure: &str, (by, value): (&str, &str)) -> f64 {
    let query = json!({
        "metric": metric, "measure": measure, "last": "24h", "step": "all", "where": { by: [value] },
    });
    let answer = world.query(&query);
    // Before the first reading the dimension does not exist.
    if answer.status == 400 {
        return 0.0;
    }
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["series"][0]["total"].as_f64().unwrap_or_default()
}

/// Waits until at least this many readings of `web-1` were counted and returns their number.
fn wait_for(world: &World, readings: f64) -> f64 {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let now = measured(world, "host.memory_total", "count", ("host", "web-1"));
        if now >= readings {
            return now;
        }
        assert!(Instant::now() < deadline, "{now} readings\n{}", world.log_lines());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The total memory that the kernel reports, in bytes.
fn memory_total() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("tests run on Linux");
    let line =
        text.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("the kernel reports MemTotal");
    1024.0 * line.trim_end_matches("kB").trim().parse::<f64>().expect("a number")
}

/// The space on `/` that `df` reports: used and total, in bytes.
fn root_space() -> (f64, f64) {
    let done = run(std::process::Command::new("df").args(["-B1", "--output=used,avail", "/"]));
    let words = done.out.lines().nth(1).expect("a line of numbers").split_whitespace();
    let [used, available] = words.map(|word| word.parse::<f64>().expect("a number")).collect::<Vec<_>>()[..]
    else {
        panic!("{done:?}")
    };
    (used, used + available)
}

#[test]
fn agent_once_reports_the_metrics_of_this_host() {
    let world = World::new();
    let done = world.command(&["agent", "--once", "--host", "web-1"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "", ""));
    let of = |metric: &str| measured(&world, metric, "last", ("host", "web-1"));
    assert_eq!(of("host.memory_total"), memory_total());
    assert_eq!(of("host.memory_used") + of("host.memory_available"), memory_total());
    let cores = std::thread::available_parallelism().expect("there are processors").get();
    assert!(of("host.cores") >= cores as f64 && (0.0..=100.0).contains(&of("host.cpu")));
    let root = |metric: &str| measured(&world, metric, "last", ("host_part", "web-1//"));
    let (used, total) = root_space();
    // Other processes create and delete files meanwhile.
    assert!((root("mount.used") - used).abs() < 0.05 * total, "{used} of {total}");
    assert!((root("mount.total") - total).abs() < 0.01 * total, "{used} of {total}");
    let (accepted, reasons) = account(&world, "agent");
    assert!(accepted > 20 && reasons == json!({}), "{accepted} {reasons}");
}

#[test]
fn print_shows_the_reading_without_sending_it() {
    let world = World::new();
    let lines = world.command(&["agent", "--print", "--once", "--host", "web 1"]);
    assert!(lines.out.lines().any(|line| line.starts_with("host.cpu,host=web\\ 1 value=")), "{lines:?}");
    let printed = world.command(&["agent", "--print", "--once", "--json", "--host", "web-1"]).json();
    assert_eq!(printed["host"], "web-1");
    let values = printed["values"].as_array().expect("a list");
    let total = values.iter().find(|value| value["name"] == "host.memory_total").expect("memory");
    assert_eq!(total["value"].as_f64(), Some(memory_total()));
    assert_eq!(account(&world, "agent").0, 0);
}

#[test]
fn agent_reports_until_it_is_terminated() {
    let world = World::new();
    let agent = Agent::start(&world, &["--interval", "1", "--host", "web-1"]);
    let expected = format!("Playmeter agent: web-1 to http://{} every 1 s, reads host\n", world.address);
    assert_eq!(agent.greeting, expected);
    wait_for(&world, 3.0);
    assert_eq!(agent.end(), Some(0));
}

#[test]
fn readings_taken_while_the_server_is_down_arrive_later() {
    let mut world = World::new();
    world.listen(world.address);
    let agent = Agent::start(&world, &["--interval", "1", "--host", "web-1", "--json"]);
    let greeting: Value = serde_json::from_str(&agent.greeting).expect("it is JSON");
    assert_eq!((&greeting["host"], &greeting["interval_s"]), (&json!("web-1"), &json!(1)));
    let (before, counted_at) = (wait_for(&world, 1.0), Instant::now());
    world.kill9();
    std::thread::sleep(Duration::from_secs(8));
    world.start();
    wait_for(&world, before + 1.0);
    assert_eq!(agent.end(), Some(0));
    // One per second; on a busy machine a few arrive later.
    let expected = before + counted_at.elapsed().as_secs() as f64 - 4.0;
    let readings = wait_for(&world, 1.0);
    assert!(readings >= expected, "{readings} of {expected}");
    let lost = measured(&world, "agent.readings_lost", "max", ("host", "web-1"));
    assert_eq!(lost, 0.0);
}

#[test]
fn agent_stops_on_sigterm_while_the_server_is_down() {
    let mut world = World::new();
    world.stop();
    let agent = Agent::start(&world, &["--interval", "1", "--host", "web-1"]);
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(agent.end(), Some(0));
}

/// Serves one request per status and returns the bodies of the accepted ones.
fn scripted(statuses: &'static [u16]) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let thread = std::thread::spawn(move || {
        let mut accepted = Vec::new();
        let mut connection: Option<BufReader<std::net::TcpStream>> = None;
        for status in statuses {
            let stream = connection
                .get_or_insert_with(|| BufReader::new(listener.accept().expect("an agent connects").0));
            let body = body(stream);
            let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
            std::io::Write::write_all(stream.get_mut(), answer.as_bytes()).expect("the agent reads");
            if *status == 204 {
                accepted.push(body);
            }
        }
        accepted
    });
    (url, thread)
}

fn body(stream: &mut impl BufRead) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("the agent writes");
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().expect("a length"),
            Some(_) => {}
            None if line == "\r\n" => break,
            None => assert!(line.starts_with("POST /v1/agent/readings?precision=ms"), "{line}"),
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("the whole body");
    String::from_utf8(body).expect("it is text")
}

#[test]
fn failed_reading_is_retried_with_its_original_time() {
    let (url, server) = scripted(&[500, 503, 204, 204]);
    let world = World::new();
    let mut command = playmeter(world.root());
    command.args(["agent", "--interval", "1", "--host", "a", "--key", "sk_1", "--to", &url]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it can be started");
    let accepted = server.join().expect("the server ends");
    child.kill().and_then(|()| child.wait()).expect("it can be ended");
    let times: Vec<Vec<i64>> = accepted.iter().map(|lines| times(lines)).collect();
    assert!(times[0].len() >= 2, "failed readings are sent again together: {times:?}");
    let all = times.concat();
    let gaps = all.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| gap >= 500), "readings are a second apart and sent once: {all:?}");
}

/// The times of the readings, taken from a value that occurs once per reading.
fn times(lines: &str) -> Vec<i64> {
    let totals = lines.lines().filter(|line| line.starts_with("host.memory_total,"));
    totals.map(|line| line.rsplit(' ').next().expect("a time").parse().expect("a time")).collect()
}

/// Checks that `playmeter agent` fails with this code and error for these arguments.
fn check(world: &World, args: &[&str], code: i32, expected: &str) {
    let done: CommandOutput = run(playmeter(world.root()).arg("agent").args(args));
    assert_eq!(done.code, code, "{args:?}: {done:?}");
    assert!(done.err.contains(expected), "{args:?}: {done:?}");
    assert!(code == 2 || done.err.lines().count() == 1, "one sentence: {done:?}");
}

#[test]
fn errors_are_one_sentence() {
    let world = World::new();
    let (url, public) = (format!("http://{}", world.address), world.public_key.as_str());
    let query_only = world.key("query");
    check(&world, &["--to", "here", "--key", "k"], 1, "--to here: must be http:// or https:// with a host");
    check(&world, &["--to", &url], 1, "no key: set PLAYMETER_KEY, or name a data folder with --data");
    check(
        &world,
        &["--data", "nowhere"],
        1,
        "nowhere has no bootstrap.json; name the server with --to and --key",
    );
    check(&world, &["--to", &url, "--key", "sk_x"], 1, "answered 401: Missing or invalid credential");
    check(
        &world,
        &["--to", &url, "--key", public],
        1,
        "answered 403: Permission denied: readings need a secret key",
    );
    check(
        &world,
        &["--to", &url, "--key", &query_only],
        1,
        "this request needs a key with the scope `events:write`",
    );
    check(
        &world,
        &["--to", "http://127.0.0.1:9", "--key", "k", "--once"],
        1,
        "does not answer: Connection refused",
    );
    check(&world, &["--interval", "0"], 2, "1..=60");
    check(&world, &["--host", "", "--print"], 1, "--host: must have 1 to 64 bytes");
    check(&world, &["--print", "--redis", "a b"], 1, "--redis: must be HOST:PORT");
    check(&world, &["--print", "--nginx", "a"], 1, "--nginx: must be the URL of stub_status");
    check(
        &world,
        &["--print", "--postgres", "postgres://a?sslmode=require"],
        1,
        "--postgres: TLS is not supported",
    );
    let secret = world.secret_key.clone();
    for number in 0..16 {
        assert_eq!(world.command(&["games", "set", "demo", "--dimension", &format!("d{number}")]).code, 0);
    }
    let full = "answered 409: Conflict: readings need the dimensions host and host_part";
    check(&world, &["--to", &url, "--key", &secret], 1, full);
    check(&world, &["--to", &url, "--key", &secret, "--once"], 1, full);
}

#[test]
fn first_reading_declares_its_dimensions() {
    let world = World::new();
    let post = |body: &str| {
        let request =
            Request::new("POST", "/v1/agent/readings?precision=ms").key(&world.secret_key).body(body);
        world.send(&request).summary()
    };
    assert_eq!(post("host.cpu,host=a value=1"), "204");
    assert_eq!(post("host.cpu,host=b value=3\nbad"), "204");
    assert_eq!(post("bad"), "400 malformed");
    let answer = world.send(&Request::get("/v1/dimensions").key(&world.secret_key)).json();
    let all = answer["dimensions"].as_array().expect("a list");
    let declared = all.iter().filter(|one| one["declared"] == true).map(|one| one["name"].clone());
    assert_eq!(declared.collect::<Vec<_>>(), ["host", "host_part"]);
    let of = |host: &str| measured(&world, "host.cpu", "avg", ("host", host));
    assert_eq!((of("a"), of("b")), (1.0, 3.0));
    assert_eq!(account(&world, "agent"), (2, json!({"malformed_line": 2})));
}
