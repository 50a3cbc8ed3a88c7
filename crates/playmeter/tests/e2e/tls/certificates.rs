//! Handshakes, their limits, and the renewal of certificates.

use rustix::process::Signal;

use super::*;
use crate::client::Connection;
use crate::world::{playmeter, run};

#[test]
fn protocol_is_negotiated_in_the_handshake() {
    let Some(world) = world("", &[]) else { return };
    for (offered, expected) in [
        (&["h2", "http/1.1"][..], Some("h2")),
        (&["http/1.1", "h2"], Some("h2")),
        (&["http/1.1"], Some("http/1.1")),
        (&[], None),
    ] {
        let stream = connect(&world, "one.pem", offered).expect("its certificate is trusted");
        let agreed = stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        assert_eq!(agreed.as_deref(), expected, "{offered:?}");
    }
    assert!(connect(&world, "one.pem", &["spdy/3"]).is_err(), "no common protocol");
    assert!(connect(&world, "other.pem", &["h2"]).is_err(), "another certificate is trusted");
    let key = &world.public_key;
    let request = format!("POST /v1/events?key={key} HTTP/1.1\nHost: localhost\n\n{{\"event\":\"win\"}}");
    let response = send(&world, &request);
    assert!(response.starts_with("HTTP/1.1 202") && response.contains("\"accepted\":1"), "{response}");
}

#[test]
fn curl_speaks_both_protocols() {
    let Some(world) = world("", &[]) else { return };
    let url = format!("https://localhost:{}/healthz", world.address.port());
    for (flag, expected) in [("--http2", "2 200"), ("--http1.1", "1.1 200"), ("--tls-max=1.2", "2 200")] {
        let mut command = Command::new("curl");
        command.args(["-sS", "--cacert", "one.pem", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"]);
        match flag.split_once('=') {
            Some((name, value)) => command.args([name, value]),
            None => command.arg(flag),
        };
        let Ok(done) = command.arg(&url).current_dir(world.root()).output() else {
            return testkit::skip::skip("curl", "it is not installed; `make test-deps` installs it");
        };
        assert_eq!(String::from_utf8_lossy(&done.stdout), expected, "{flag}: {done:?}");
    }
}

#[test]
fn http_without_tls_gets_an_answer_that_says_so() {
    let Some(world) = world("", &[]) else { return };
    let line = crate::connections::first_line(&world, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(line, "HTTP/1.1 400 Bad Request");
    let alert = crate::connections::first_line(&world, b"\x16\x03nonsense");
    assert!(alert.starts_with('\u{15}') || alert == "closed", "{alert:?}");
    wait_until("both are counted", || {
        metric(&world, "playmeter_tls_handshakes_total{outcome=\"failed\"}") >= 2
    });
}

/// Replaces the pair that the server uses.
fn install(world: &World, certificate: &str, key: &str) {
    for (from, to) in [(certificate, "one.pem"), (key, "one.key")] {
        let staged = world.root().join(format!("{to}.new"));
        std::fs::copy(world.root().join(from), &staged).expect("a file");
        std::fs::rename(staged, world.root().join(to)).expect("a file");
    }
}

/// Tells whether clients are shown the certificate.
fn is_shown(world: &World, certificate: &str) -> bool {
    connect(world, certificate, &["http/1.1"]).is_ok()
}

#[test]
fn renewed_certificate_is_used_without_a_restart() {
    let Some(world) = world("", &[]) else { return };
    std::fs::copy(world.root().join("one.pem"), world.root().join("first.pem")).expect("a file");
    let mut open = connect(&world, "one.pem", &["http/1.1"]).expect("its certificate is trusted");
    ask(&mut open);
    assert!(is_shown(&world, "first.pem"));
    install(&world, "other.pem", "other.key");
    wait_until("the new certificate is shown", || is_shown(&world, "other.pem"));
    assert!(!is_shown(&world, "first.pem"));
    ask(&mut open);
}

/// Sends a request on an open connection.
fn ask(open: &mut TlsStream) {
    open.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").expect("it is open");
    let mut response = [0; 15];
    open.read_exact(&mut response).expect("open connections go on");
    assert_eq!(&response, b"HTTP/1.1 200 OK");
    while !response.ends_with(b"\r\n\r\nok\n") {
        response.rotate_left(1);
        open.read_exact(&mut response[14..]).expect("a response");
    }
}

#[test]
fn broken_pair_changes_nothing_and_is_reported() {
    let Some(mut world) = world("", &[]) else { return };
    std::fs::copy(world.root().join("one.pem"), world.root().join("first.pem")).expect("a file");
    std::fs::copy(world.root().join("one.key"), world.root().join("first.key")).expect("a file");
    install(&world, "other.pem", "first.key");
    wait_until("the failure is in the log", || {
        world.log_lines().contains("tls.key: does not match the certificate")
    });
    assert!(is_shown(&world, "first.pem"));
    let get = |world: &World, path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut stream = connect(world, "first.pem", &["http/1.1"]).expect("its certificate is trusted");
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut response = String::new();
        let _ = stream.read_to_string(&mut response);
        response
    };
    let ready = get(&world, "/readyz");
    assert!(
        ready.starts_with("HTTP/1.1 200") && ready.contains("warning: TLS: tls.key: does not match"),
        "{ready}"
    );
    let metrics = get(&world, "/metrics");
    assert!(metrics.contains("playmeter_tls_certificate_ok 0\n"), "{metrics}");
    assert!(!metrics.contains("playmeter_tls_certificate_failures_total 0\n"), "{metrics}");
    install(&world, "first.pem", "first.key");
    world.signal(Signal::HUP);
    wait_until("a pair that can be used ends the warning", || !get(&world, "/readyz").contains("warning"));
    assert!(get(&world, "/metrics").contains("playmeter_tls_certificate_ok 1\n"));
}

#[test]
fn certificate_is_read_again_on_sighup() {
    let Some(mut world) = world("", &[]) else { return };
    std::fs::copy(world.root().join("one.pem"), world.root().join("first.pem")).expect("a file");
    install(&world, "other.pem", "other.key");
    world.signal(Signal::HUP);
    wait_until("the new certificate is shown", || is_shown(&world, "other.pem"));
    assert!(!is_shown(&world, "first.pem"));
    world.stop();
}

#[test]
fn unusable_certificate_prevents_the_start_and_is_named() {
    let Some(root) = folder("") else { return };
    for (settings, expected) in [
        ("certificate = 'none.pem'\nkey = 'one.key'", "tls.certificate: reading none.pem"),
        ("certificate = 'one.key'\nkey = 'one.key'", "tls.certificate: no certificate in one.key"),
        ("certificate = 'one.pem'\nkey = 'one.pem'", "tls.key: reading one.pem"),
        ("certificate = 'one.pem'\nkey = 'other.key'", "tls.key: does not match the certificate"),
        ("certificate = 'one.pem'", "tls.key: set it together with tls.certificate"),
        ("key = 'one.key'", "tls.certificate: set it together with tls.key"),
        ("redirect_listen = '127.0.0.1:0'", "tls.redirect_listen: there is no HTTPS"),
        ("redirect_listen = 'somewhere'", "tls.redirect_listen: `somewhere`"),
        ("handshakes_max = 0", "tls.handshakes_max"),
        (
            "certificate = 'one.pem'\nkey = 'one.key'\nacme.domains = ['a.example']",
            "tls.acme.domains: set either",
        ),
        ("acme.domains = ['*.example']", "tls.acme.domains: `*.example`"),
        ("acme.domains = ['192.0.2.1']", "tls.acme.domains: `192.0.2.1`"),
        ("acme = { domains = ['a.example'], contact = ['me'] }", "tls.acme.contact: `me`"),
        ("acme = { domains = ['a.example'], directory_url = 'http://a' }", "tls.acme.directory_url"),
        ("acme = { domains = ['a.example'], challenge = 'dns-01' }", "tls.acme.challenge: `dns-01`"),
        ("acme = { domains = ['a.example'], challenge = 'http-01' }", "tls.acme.challenge: http-01 needs"),
        ("acme = { domains = ['a.example'], ca_file = 'none.pem' }", "tls.acme.ca_file: no such file"),
        ("acme.domain = 'a.example'", "domain"),
    ] {
        std::fs::write(root.path().join("playmeter.toml"), format!("[tls]\n{settings}\n")).expect("a file");
        let done = run(playmeter(root.path()).args(["serve", "--listen", "127.0.0.1:0"]));
        assert!(done.code == 1 && done.err.contains(expected), "{expected}: {done:?}");
    }
    std::fs::write(root.path().join("playmeter.toml"), "public_url = 'http://a.example'\n").expect("a file");
    let args = ["serve", "--tls-cert", "one.pem", "--tls-key", "one.key"];
    let done = run(playmeter(root.path()).args(args));
    assert!(
        done.code == 1 && done.err.contains("public_url: `http://a.example` must begin with https"),
        "{done:?}"
    );
    assert!(!root.path().join("data").exists(), "nothing was created before the settings were read");
}

#[test]
fn connections_are_limited_before_the_handshake() {
    let Some(world) = world("connections.per_address_max = 3\n", &[]) else { return };
    let mut silent: Vec<_> = (0..3).map(|_| world.connect()).collect();
    assert!(world.connect().is_closed_silently(), "the fourth is closed before a handshake");
    for connection in &mut silent {
        assert!(connection.is_closed_silently(), "an unfinished handshake times out");
    }
    assert_eq!(metric(&world, "playmeter_tls_handshakes_total{outcome=\"timed_out\"}"), 3);
}

#[test]
fn unfinished_handshakes_are_limited_by_address() {
    let settings = format!("{SETTINGS}handshakes_per_address_max = 2\n");
    let Some(root) = folder(&settings) else { return };
    let world = World::on(root, &[]);
    let silent: Vec<_> = (0..2).map(|_| world.connect()).collect();
    std::thread::sleep(Duration::from_millis(100));
    assert!(world.connect().is_closed_silently());
    let elsewhere = std::net::Ipv4Addr::new(127, 0, 0, 9);
    let mut other = Connection::open_from(elsewhere, world.address).expect("another address is served");
    other.write(b"GET ").expect("it can be sent");
    assert!(!other.is_closed_silently(), "another address gets an answer");
    drop(silent);
    wait_until("the places are free again", || connect(&world, "one.pem", &[]).is_ok());
    assert!(metric(&world, "playmeter_tls_handshakes_total{outcome=\"rejected\"}") >= 1);
}
