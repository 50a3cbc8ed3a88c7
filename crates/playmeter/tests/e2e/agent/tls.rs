//! HTTPS: the server's certificate has to be trusted by the system.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// Creates `cert.pem` and `key.pem` for this machine. Returns false if `openssl` is not installed.
fn certificate(folder: &Path) -> bool {
    let mut command = Command::new("openssl");
    command.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]);
    command.args(["-subj", "/CN=playmeter", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "key.pem", "-out", "cert.pem"]);
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

/// Accepts this many connections; returns how many completed the TLS handshake and sent a request.
fn serve(folder: &Path, connections: usize) -> (String, std::thread::JoinHandle<usize>) {
    let certificate = CertificateDer::from_pem_file(folder.join("cert.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder.join("key.pem")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().expect("the provider supports them");
    let config = config.with_no_client_auth().with_single_cert(vec![certificate], key);
    let config = Arc::new(config.expect("key and certificate match"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("it is bound"));
    let one = move |stream: TcpStream| {
        let connection =
            ServerConnection::new(Arc::clone(&config)).expect("a configuration that was checked");
        let mut stream = BufReader::new(StreamOwned::new(connection, stream));
        if stream.fill_buf().is_err() {
            return 0;
        }
        assert!(body(&mut stream).contains("host.memory_total,host=web-1 value="));
        let answer = b"HTTP/1.1 204 X\r\nContent-Length: 0\r\n\r\n";
        std::io::Write::write_all(stream.get_mut(), answer).expect("the agent reads");
        1
    };
    let thread = std::thread::spawn(move || {
        listener.incoming().take(connections).map(|stream| one(stream.expect("one"))).sum()
    });
    (url, thread)
}

#[test]
fn reading_is_sent_over_tls_only_to_a_trusted_server() {
    let folder = tempfile::tempdir().expect("a folder");
    if !certificate(folder.path()) {
        return;
    }
    let (url, server) = serve(folder.path(), 2);
    let mut command = playmeter(folder.path());
    command.args(["agent", "--once", "--host", "web-1", "--key", "sk_1", "--to", &url]);
    let done = run(&mut command);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.err.contains("does not answer") && done.err.contains("UnknownIssuer"), "{done:?}");
    let done = run(command.env("SSL_CERT_FILE", folder.path().join("cert.pem")));
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    assert_eq!(server.join().expect("the server ends"), 1);
}
