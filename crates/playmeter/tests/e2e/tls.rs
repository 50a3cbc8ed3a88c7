//! HTTPS: certificates, HTTP/2 and HTTP/1.1, limits, and the redirect from HTTP.

mod acme;
mod certificates;
mod conformance;
mod guide;
mod http2;
mod links;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::world::World;

/// Settings with the certificate `one`.
const SETTINGS: &str = "[tls]\ncertificate = 'one.pem'\nkey = 'one.key'\n";

/// Creates `NAME.pem` and `NAME.key` for this machine. Returns false if `openssl` is not installed.
fn certificate(folder: &Path, name: &str) -> bool {
    let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
    let options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 20 -subj /CN=playmeter \
                 -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
    let mut command = Command::new("openssl");
    command.args(options.split_whitespace()).args(["-keyout", &key, "-out", &certificate]);
    match command.current_dir(folder).output() {
        Ok(created) => {
            assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
            true
        }
        Err(_) => {
            testkit::skip::skip("openssl", "it is not installed; `make test-deps` installs it");
            false
        }
    }
}

/// A folder with the certificates `one` and `other`; `None` if `openssl` is not installed.
fn folder(settings: &str) -> Option<tempfile::TempDir> {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), settings).expect("a file");
    let created = ["one", "other"].map(|name| certificate(root.path(), name));
    created.into_iter().all(|created| created).then_some(root)
}

/// A server with the certificate `one`, and these settings before those of TLS.
fn world(settings: &str, args: &[&str]) -> Option<World> {
    Some(World::on(folder(&format!("{settings}{SETTINGS}"))?, args))
}

/// Settings of a client that trusts only this certificate and offers these protocols.
fn client_config(world: &World, trusted: &str, protocols: &[&str]) -> Arc<ClientConfig> {
    let certificate = CertificateDer::from_pem_file(world.root().join(trusted)).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config =
        config.expect("the provider supports them").with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Connects a client that trusts only this certificate.
fn connect(world: &World, trusted: &str, protocols: &[&str]) -> std::io::Result<TlsStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    let client =
        ClientConnection::new(client_config(world, trusted, protocols), name).expect("a configuration");
    let stream = TcpStream::connect(world.address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut stream = StreamOwned::new(client, stream);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

/// Sends a request over HTTP/1.1 and returns the whole response.
fn send(world: &World, request: &str) -> String {
    let mut stream = connect(world, "one.pem", &["http/1.1"]).expect("its certificate is trusted");
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let head = head.replace('\n', "\r\n");
    let length = body.len();
    let request = format!("{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    String::from_utf8_lossy(&response).into_owned()
}

/// Returns a header of a response.
fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = response.lines().skip(1).take_while(|line| !line.is_empty());
    lines.find_map(|line| {
        line.split_once(": ").filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    })
}

/// Waits until this is true.
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_true() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns a metric of the server.
fn metric(world: &World, name: &str) -> u64 {
    let response = send(world, "GET /metrics HTTP/1.1\nHost: localhost");
    let line = response.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in {response}"))
}
