//! Certificates from Pebble, a real certificate authority for tests, which looks names up in its own DNS server.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::json;

use super::*;
use crate::world::playmeter;

/// The name of the certificate.
const NAME: &str = "stats.example";

/// A certificate authority and its DNS server.
pub(super) struct Pebble {
    children: Vec<Child>,
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The ports of a test.
pub(super) struct Ports {
    pub(super) directory: u16,
    pub(super) https: u16,
    pub(super) http: u16,
}

pub(super) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| std::net::TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("it is bound").port())
}

/// Starts the program with these arguments; `None` if it is not installed.
fn start(folder: &Path, program: &str, args: &[&str]) -> Option<Child> {
    let installed = PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join("go/bin").join(program);
    let program = if installed.exists() { installed } else { program.into() };
    let log = std::fs::File::create(folder.join("pebble.log")).expect("a file");
    let mut command = Command::new(program);
    command.args(args).env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0").current_dir(folder);
    let started = command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log).spawn();
    if started.is_err() {
        testkit::skip::skip("pebble", "it is not installed; `make test-deps` builds it");
    }
    started.ok()
}

/// Starts an authority in a folder with the certificate `one`, whose certificates are valid for so long.
pub(super) fn pebble(folder: &Path, ports: &Ports, valid_s: u64) -> Option<Pebble> {
    let [dns, management, unused] = free_ports();
    let dns_args =
        ["-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", &format!("127.0.0.1:{dns}")];
    let management_address = format!("127.0.0.1:{unused}");
    let off =
        ["-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", &management_address];
    let resolver = start(folder, "pebble-challtestsrv", &[&dns_args[..], &off[..]].concat())?;
    let settings = json!({ "pebble": {
        "listenAddress": format!("127.0.0.1:{}", ports.directory),
        "managementListenAddress": format!("127.0.0.1:{management}"),
        "certificate": "one.pem",
        "privateKey": "one.key",
        "httpPort": ports.http,
        "tlsPort": ports.https,
        "keyAlgorithm": "ecdsa",
        "profiles": { "default": { "description": "a test", "validityPeriod": valid_s } },
    }});
    std::fs::write(folder.join("pebble.json"), settings.to_string()).expect("a file");
    let mut all = Pebble { children: vec![resolver] };
    let args = ["-config", "pebble.json", "-dnsserver", &format!("127.0.0.1:{dns}")];
    all.children.push(start(folder, "pebble", &args)?);
    wait_until("the authority listens", || TcpStream::connect(("127.0.0.1", ports.directory)).is_ok());
    Some(all)
}

/// A running server that asks the authority, killed at the end.
struct Served {
    root: tempfile::TempDir,
    server: Child,
    https: u16,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn settings(ports: &Ports, challenge: &str) -> String {
    format!(
        "listen = '127.0.0.1:{}'\n[tls]\nredirect_listen = '127.0.0.1:{}'\n[tls.acme]\ndomains = ['{NAME}']\n\
         contact = 'admin@{NAME}'\nca_file = 'one.pem'\nchallenge = '{challenge}'\n\
         directory_url = 'https://localhost:{}/dir'\n",
        ports.https, ports.http, ports.directory
    )
}

impl Served {
    fn start(root: tempfile::TempDir, https: u16) -> Served {
        let server = Served::spawn(&root);
        Served { root, server, https }
    }

    fn spawn(root: &tempfile::TempDir) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(root.path().join("stderr"));
        let mut command = playmeter(root.path());
        command.arg("serve").stdout(Stdio::null()).stderr(log.expect("a file"));
        command.spawn().expect("the program can be started")
    }

    fn restart(&mut self) {
        self.server.kill().and_then(|()| self.server.wait()).expect("it runs");
        self.server = Served::spawn(&self.root);
    }

    fn log(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.root.path().join(name)).unwrap_or_default();
        format!("{}\n{}", read("stderr"), read("pebble.log"))
    }

    /// The certificate that clients are shown; `None` if the handshake fails.
    fn shown(&self) -> Option<Vec<u8>> {
        let stream = TcpStream::connect(("127.0.0.1", self.https)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
        let name = ServerName::try_from(NAME).expect("a name");
        let client = ClientConnection::new(Arc::new(any_certificate()), name).expect("a configuration");
        let mut stream = StreamOwned::new(client, stream);
        stream.conn.complete_io(&mut stream.sock).ok()?;
        stream.conn.peer_certificates()?.first().map(|certificate| certificate.to_vec())
    }

    /// Waits for a certificate other than this one.
    fn wait_shown(&self, other: Option<&[u8]>) -> Vec<u8> {
        let started = Instant::now();
        loop {
            match self.shown() {
                Some(shown) if Some(&shown[..]) != other => return shown,
                _ if started.elapsed() > Duration::from_secs(90) => panic!("no certificate:\n{}", self.log()),
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Requests a path over HTTPS, without a look at the certificate.
    fn get(&self, path: &str) -> String {
        let url = format!("https://localhost:{}{path}", self.https);
        let mut command = Command::new("curl");
        let done = command.args(["-sSk", "--max-time", "10", &url]).output().expect("curl is installed");
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    fn stored(&self) -> Vec<(String, u32)> {
        let files = std::fs::read_dir(self.root.path().join("data/tls")).into_iter().flatten();
        let mut files: Vec<_> = files
            .map(|file| {
                let file = file.expect("a file");
                let mode = file.metadata().expect("a file").permissions().mode() & 0o777;
                (file.file_name().to_string_lossy().split('-').next().unwrap_or_default().to_owned(), mode)
            })
            .collect();
        files.sort();
        files
    }
}

/// A client that accepts every certificate: the authority makes new roots at each start.
fn any_certificate() -> ClientConfig {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::pki_types::UnixTime;
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    #[derive(Debug)]
    struct Any;
    impl ServerCertVerifier for Any {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("the provider supports them").dangerous();
    config.with_custom_certificate_verifier(Arc::new(Any)).with_no_client_auth()
}

/// A folder with these settings, and the ports of a test; `None` if `openssl` is not installed.
fn prepared(challenge: &str) -> Option<(tempfile::TempDir, Ports)> {
    let [directory, https, http] = free_ports();
    let ports = Ports { directory, https, http };
    Some((folder(&settings(&ports, challenge))?, ports))
}

/// Orders a certificate by this challenge and restarts the server.
fn check_challenge(challenge: &str) {
    let Some((root, ports)) = prepared(challenge) else { return };
    let Some(authority) = pebble(root.path(), &ports, 7_776_000) else { return };
    let mut served = Served::start(root, ports.https);
    let first = served.wait_shown(None);
    wait_until("account and certificate are stored", || served.stored().len() == 2);
    assert_eq!(served.stored(), [("account".to_owned(), 0o600), ("certificate".to_owned(), 0o600)]);
    assert_eq!(served.get("/readyz"), "ready\n");
    assert!(served.get("/metrics").contains("playmeter_tls_certificate_failures_total 0\n"));
    let bootstrap = std::fs::read_to_string(served.root.path().join("data/bootstrap.json")).expect("a file");
    assert!(bootstrap.contains(&format!("https://{NAME}:{}/sign-in", ports.https)), "{bootstrap}");
    drop(authority);
    served.restart();
    assert_eq!(served.wait_shown(None), first, "a stored certificate needs no authority");
    assert_eq!(served.get("/readyz"), "ready\n");
}

#[test]
fn authority_issues_a_certificate_after_a_tls_alpn_challenge() {
    check_challenge("tls-alpn-01");
}

#[test]
fn authority_issues_a_certificate_after_an_http_challenge() {
    check_challenge("http-01");
}

#[test]
fn certificate_is_renewed_and_a_failure_is_loud_while_the_server_serves() {
    let Some((root, ports)) = prepared("tls-alpn-01") else { return };
    let Some(authority) = pebble(root.path(), &ports, 24) else { return };
    let served = Served::start(root, ports.https);
    let first = served.wait_shown(None);
    let second = served.wait_shown(Some(&first));
    drop(authority);
    let started = Instant::now();
    while !served.get("/readyz").contains("warning: TLS: tls.acme: no certificate for stats.example") {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", served.log());
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(served.shown(), Some(second), "the last certificate stays in use");
    let metrics = served.get("/metrics");
    assert!(metrics.contains("playmeter_tls_certificate_ok 0\n"), "{metrics}");
    assert!(served.log().contains("ERROR"), "{}", served.log());
}

#[test]
fn server_starts_without_an_authority_and_gets_a_certificate_when_there_is_one() {
    let Some((root, ports)) = prepared("tls-alpn-01") else { return };
    let served = Served::start(root, ports.https);
    let started = Instant::now();
    while !served.log().contains("the next attempt is in") {
        assert!(started.elapsed() < Duration::from_secs(30), "{}", served.log());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(served.shown(), None);
    let Some(_authority) = pebble(served.root.path(), &ports, 7_776_000) else { return };
    served.wait_shown(None);
    wait_until("the warning ends", || served.get("/readyz") == "ready\n");
}
