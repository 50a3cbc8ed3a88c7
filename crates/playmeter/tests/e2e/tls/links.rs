//! Sign-in over HTTPS, links, HSTS, and the redirect from HTTP.

use std::net::TcpListener;

use serde_json::json;
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::Message;

use super::*;
use crate::client::{Connection, Request};
use crate::world::playmeter;

const YEAR: Option<&str> = Some("max-age=31536000");

#[test]
fn sign_in_over_https_sets_a_secure_cookie() {
    let Some(world) = world("", &[]) else { return };
    let bootstrap = world.bootstrap();
    let base = format!("https://localhost:{}", world.address.port());
    assert_eq!(bootstrap["url"], base, "the name is the one in the certificate");
    let link = bootstrap["sign_in_url"].as_str().expect("a link");
    let target = link.strip_prefix(&base).expect("it begins with the URL");
    let response = send(&world, &format!("GET {target} HTTP/1.1\nHost: localhost"));
    let set = header(&response, "set-cookie").unwrap_or_else(|| panic!("{response}"));
    assert!(set.starts_with("__Host-playmeter=") && set.contains("; Secure"), "{set}");
    let cookie = set.split(';').next().expect("a cookie");
    let load = |origin: &str| {
        let host = origin.split_once("://").expect("an origin").1;
        let request = format!("GET /v1/load HTTP/1.1\nHost: {host}\nCookie: {cookie}\nOrigin: {origin}");
        send(&world, &request).lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(load(&base), "HTTP/1.1 200 OK");
    let plain = base.replace("https", "http");
    assert_eq!(load(&plain), "HTTP/1.1 403 Forbidden", "a page without TLS is another origin");
    let mut request =
        format!("wss://localhost:{}/ddp", world.address.port()).into_client_request().expect("a URL");
    for (name, value) in [("Cookie", cookie), ("Origin", &base)] {
        request.headers_mut().insert(name, value.parse().expect("a header"));
    }
    let stream = connect(&world, "one.pem", &["http/1.1"]).expect("its certificate is trusted");
    let (mut socket, _) = tungstenite::client(request, stream).expect("the handshake succeeds");
    let mut ask = |message: serde_json::Value, kind: &str| {
        socket.send(Message::text(message.to_string())).expect("the server reads");
        loop {
            let answer = socket.read().expect("an answer").into_text().expect("text");
            let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
            if answer["msg"] == kind {
                return answer;
            }
        }
    };
    ask(json!({"msg": "connect", "version": "1", "support": ["1"]}), "connected");
    ask(json!({"msg": "sub", "id": "a", "name": "load", "params": []}), "ready");
    // Larger than one TLS record.
    let value = "x".repeat(60_000);
    let params = json!([{"name": "a", "value": value}]);
    let result =
        ask(json!({"msg": "method", "id": "m", "method": "put_variable", "params": params}), "result");
    assert!(result["error"].is_null(), "{result}");
}

#[test]
fn https_answers_ask_browsers_to_stay_with_https() {
    let Some(world) = world("", &[]) else { return };
    let hsts = |request: &str| header(&send(&world, request), "strict-transport-security").map(str::to_owned);
    for request in [
        "GET /healthz HTTP/1.1\nHost: stats.example",
        "GET /nowhere HTTP/1.1\nHost: stats.example",
        "POST /v1/events HTTP/1.1\nHost: stats.example\n\n{}",
        "GET / HTTP/1.1\nHost: stats.example",
    ] {
        assert_eq!(hsts(request).as_deref(), YEAR, "{request}");
    }
    // Browsers remember a name without its port, and other programs of a developer use this one.
    assert_eq!(hsts("GET /healthz HTTP/1.1\nHost: localhost"), None);
}

#[test]
fn hsts_can_be_switched_off() {
    let Some(root) = folder(&format!("{SETTINGS}hsts_max_age_s = 0\n")) else { return };
    let world = World::on(root, &[]);
    let response = send(&world, "GET /healthz HTTP/1.1\nHost: stats.example");
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert_eq!(header(&response, "strict-transport-security"), None);
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

#[test]
fn http_port_redirects_to_https() {
    let port = free_port();
    let Some(root) = folder(&format!("{SETTINGS}redirect_listen = 'localhost:{port}'\n")) else { return };
    let world = World::on(root, &[]);
    let https = world.address.port();
    let plain = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let location = |request: Request| {
        let answer = Connection::open(plain).expect("it accepts").send(&request).expect("an answer");
        (answer.status, answer.header("location").map(str::to_owned))
    };
    let to = |url: String| (308, Some(url));
    assert_eq!(
        location(Request::get("/a?b=c").host("stats.example")),
        to(format!("https://stats.example:{https}/a?b=c"))
    );
    assert_eq!(
        location(Request::events("{}").host("stats.example:80")),
        to(format!("https://stats.example:{https}/v1/events"))
    );
    assert_eq!(
        location(Request::get("//evil.example/").host("stats.example")),
        to(format!("https://stats.example:{https}//evil.example/"))
    );
    assert_eq!(location(Request::get("/").host("a b")).0, 400);
    let mut silent = Connection::open(plain).expect("it accepts");
    assert!(silent.is_closed_silently(), "the limits of connections hold here, too");
}

#[test]
fn links_begin_with_the_public_url() {
    let Some(root) = folder(&format!("public_url = 'https://stats.example:8443'\n{SETTINGS}")) else {
        return;
    };
    let port = free_port();
    let mut command = playmeter(root.path());
    command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
    let mut server =
        command.stdout(std::process::Stdio::piped()).spawn().expect("the program can be started");
    let mut line = String::new();
    let stdout = server.stdout.take().expect("it is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
    let created = crate::world::run(playmeter(root.path()).args(["keys", "sign-in"]));
    server.kill().and_then(|()| server.wait()).expect("it runs");
    assert!(line.contains("https://stats.example:8443/sign-in?token="), "{line}");
    assert!(created.out.contains("https://stats.example:8443/sign-in?token="), "{created:?}");
    let text = std::fs::read_to_string(root.path().join("data/bootstrap.json")).expect("a file");
    assert!(text.contains("\"url\": \"https://stats.example:8443\""), "{text}");
}

#[test]
fn agent_reports_over_https() {
    let Some(world) = world("", &[]) else { return };
    let url = format!("https://localhost:{}", world.address.port());
    let agent = |trusted: &str| {
        let mut command = playmeter(world.root());
        command.args(["agent", "--once", "--host", "web-1", "--key", &world.secret_key, "--to", &url]);
        crate::world::run(command.env("SSL_CERT_FILE", world.root().join(trusted)))
    };
    let done = agent("other.pem");
    assert!(done.code == 1 && done.err.contains("invalid peer certificate"), "{done:?}");
    let done = agent("one.pem");
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{done:?}");
}
