//! Streams over TLS, from a real client.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::*;

/// Creates `NAME.pem` and `NAME.key` for this machine. Returns false if `openssl` is not installed.
fn certificate(folder: &Path, name: &str) -> bool {
    let (certificate, key) = (format!("{name}.pem"), format!("{name}.key"));
    let options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=playmeter \
                 -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE";
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

const CONFIG: &str = "[collectors.one]\ntransport='tcp_server'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n\
     tls_certificate='one.pem'\ntls_key='one.key'\n";

/// A folder with these settings and two certificates; `None` if `openssl` is not installed.
fn folder(config: &str) -> Option<tempfile::TempDir> {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), config).expect("a file");
    let created = ["one", "other"].map(|name| certificate(root.path(), name));
    created.into_iter().all(|created| created).then_some(root)
}

/// Connects a client that trusts only this certificate.
fn connect_tls(world: &World, trusted: &str) -> std::io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let certificate = CertificateDer::from_pem_file(world.root().join(trusted)).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config =
        config.expect("the provider supports them").with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let client = ClientConnection::new(Arc::new(config), name).expect("a configuration");
    let mut stream = StreamOwned::new(client, connect(world, "one"));
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

#[test]
fn only_tls_connections_are_read() {
    let Some(root) = folder(CONFIG) else { return };
    let world = World::on(root, &[]);
    let mut stream = connect_tls(&world, "one.pem").expect("its certificate is trusted");
    stream.write_all(b"hits:3|c\nhits:4|c\n").expect("it reads");
    wait_received(&world, "one", 2);
    let failure = connect_tls(&world, "other.pem").map(drop).expect_err("another certificate is trusted");
    assert!(failure.to_string().contains("certificate"), "{failure}");
    connect(&world, "one").write_all(b"hits:100|c\n").expect("it is sent");
    stream.write_all(b"hits:5|c\n").expect("it reads");
    wait_received(&world, "one", 3);
    stream.conn.send_close_notify();
    stream.flush().expect("it reads");
    wait_until(&world, "one", |now| now["counters"]["connections"] == 0);
    assert_eq!(measured(&world, "hits", "sum"), 12.0, "lines outside of TLS are not counted");
    wait_until(&world, "one", |now| now["counters"]["handshakes_failed"] == 2);
}

#[test]
fn last_line_counts_without_close_notify() {
    let Some(root) = folder(CONFIG) else { return };
    let world = World::on(root, &[]);
    let mut stream = connect_tls(&world, "one.pem").expect("its certificate is trusted");
    stream.write_all(b"hits:3|c\nhits:4|c").expect("it reads");
    stream.flush().expect("it reads");
    stream.sock.shutdown(std::net::Shutdown::Write).expect("it is open");
    wait_received(&world, "one", 2);
    assert_eq!(measured(&world, "hits", "sum"), 7.0);
}

#[test]
fn renewed_certificate_is_used_after_collector_restart() {
    let Some(root) = folder(CONFIG) else { return };
    let world = World::on(root, &[]);
    for ending in ["pem", "key"] {
        let of = |name: &str| world.root().join(format!("{name}.{ending}"));
        std::fs::copy(of("other"), of("one")).expect("a file");
    }
    assert_eq!(control(&world, "restart", "one")["state"], "running");
    connect_tls(&world, "other.pem").expect("the server presents the new certificate");
}

#[test]
fn invalid_certificate_or_key_prevents_start_and_is_named() {
    let starts = |config: &str, expected: &str| {
        let Some(root) = folder(config) else { return };
        let mut command = crate::world::playmeter(root.path());
        let done = crate::world::run(command.args(["serve", "--data", "data", "--listen", "127.0.0.1:0"]));
        assert!(done.code == 1 && done.err.contains(expected), "{expected}: {done:?}");
    };
    starts(&CONFIG.replace("one.pem", "none.pem"), "collectors.one: tls_certificate: reading none.pem");
    starts(
        &CONFIG.replace("one.pem", "one.key"),
        "collectors.one: tls_certificate: no certificate in one.key",
    );
    starts(&CONFIG.replace("one.key", "one.pem"), "collectors.one: tls_key: reading one.pem");
    starts(
        &CONFIG.replace("one.key", "other.key"),
        "collectors.one: tls_key: does not match the certificate",
    );
}
