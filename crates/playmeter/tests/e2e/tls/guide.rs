//! The settings and configurations in `docs/howto/tls.md`, run as they are written, with other paths and ports.

use std::process::{Child, Stdio};

use super::acme::{Ports, free_ports, pebble};
use super::*;
use crate::world::{playmeter, run};

/// Returns the code blocks of this language.
fn blocks(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/tls.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let begin = format!("```{language}\n");
    let rest = page.split(begin.as_str()).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// Replaces the paths of the page by those of the certificate `one`.
fn with_own_files(block: &str) -> String {
    block.replace("/etc/playmeter/fullchain.pem", "one.pem").replace("/etc/playmeter/privkey.pem", "one.key")
}

/// A running proxy, killed at the end.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn settings_of_the_guide_are_valid() {
    let Some(root) = folder("") else { return };
    let blocks = blocks("toml");
    assert_eq!(blocks.len(), 3, "{blocks:?}");
    for block in blocks {
        std::fs::write(root.path().join("playmeter.toml"), with_own_files(&block)).expect("a file");
        let done = run(playmeter(root.path()).arg("config"));
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{block}");
        assert!(done.out.contains("public_url = \"https://stats.example\""), "{}", done.out);
    }
}

#[test]
fn nginx_of_the_guide_serves_https_and_sockets() {
    let blocks = blocks("nginx");
    let [block] = &blocks[..] else { panic!("{blocks:?}") };
    let settings = "behind_proxy = true\npublic_url = 'https://stats.example'\n";
    let Some(root) = folder(settings) else { return };
    let world = World::on(root, &[]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let (address, folder) = (free.expect("a free port"), world.root().display());
    let server = with_own_files(block)
        .replace("listen 443", &format!("listen {address}"))
        .replace("127.0.0.1:8080", &world.address.to_string())
        .replace("one.", &format!("{folder}/one."));
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/{name};"))
        .join("\n");
    let config = format!(
        "daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;\n\
         events {{}}\nhttp {{ access_log off;\n{temporary}\n{server}}}\n"
    );
    let file = world.root().join("nginx.conf");
    std::fs::write(&file, config).expect("a file");
    let mut command = Command::new("nginx");
    command.arg("-p").arg(world.root()).arg("-c").arg(&file);
    let Ok(nginx) = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return testkit::skip::skip("nginx", "install nginx");
    };
    let _nginx = Proxy(nginx);
    check_proxy(&world, "https://stats.example", address.port(), &world.root().join("errors"));
}

#[test]
fn caddy_of_the_guide_orders_a_certificate_and_serves_https_and_sockets() {
    let blocks = blocks("caddy");
    let [block] = &blocks[..] else { panic!("{blocks:?}") };
    let [directory, https, http] = free_ports();
    // Caddy passes the `Host` of the request on, which has the port of the test.
    let url = format!("https://stats.example:{https}");
    let Some(root) = folder(&format!("behind_proxy = true\npublic_url = '{url}'\n")) else { return };
    let world = World::on(root, &[]);
    let Some(_authority) = pebble(world.root(), &Ports { directory, https, http }, 7_776_000) else { return };
    let folder = world.root().display();
    let options = format!(
        "{{\nadmin off\nskip_install_trust\nhttp_port {http}\nhttps_port {https}\n\
         acme_ca https://localhost:{directory}/dir\nacme_ca_root {folder}/one.pem\n\
         storage file_system {folder}/caddy\n}}\n"
    );
    let file = world.root().join("Caddyfile");
    std::fs::write(&file, options + &block.replace("127.0.0.1:8080", &world.address.to_string()))
        .expect("a file");
    let errors = world.root().join("errors");
    let log = std::fs::File::create(&errors).expect("a file");
    let mut command = Command::new("caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
    command.env("XDG_DATA_HOME", world.root()).env("XDG_CONFIG_HOME", world.root());
    let Ok(caddy) = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn() else {
        return testkit::skip::skip("caddy", "it is not installed; `make test-deps` installs it");
    };
    let _caddy = Proxy(caddy);
    check_proxy(&world, &url, https, &errors);
}

/// Signs in through a proxy on this port, whose public URL this is, requests the API with the cookie, and opens a WebSocket.
fn check_proxy(world: &World, public_url: &str, https: u16, log: &Path) {
    let get = |path: &str, args: &[&str]| {
        let url = format!("https://stats.example:{https}{path}");
        let resolve = format!("stats.example:{https}:127.0.0.1");
        let mut command = Command::new("curl");
        command.args(["-sSki", "--max-time", "10", "--resolve", &resolve]).args(args).arg(&url);
        String::from_utf8_lossy(&command.output().expect("curl is installed").stdout).into_owned()
    };
    let started = Instant::now();
    while !get("/healthz", &[]).starts_with("HTTP/2 200") {
        let is_late = started.elapsed() > Duration::from_secs(90);
        assert!(!is_late, "{}", std::fs::read_to_string(log).unwrap_or_default());
        std::thread::sleep(Duration::from_millis(50));
    }
    let link = world.bootstrap()["sign_in_url"].as_str().expect("a link").to_owned();
    let target = link.strip_prefix(public_url).expect("links begin with the public URL");
    let response = get(target, &[]);
    let set = response.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    assert!(set.starts_with("__Host-playmeter=") && set.contains("; Secure"), "{set}");
    let cookie = format!("Cookie: {}", set.split(';').next().expect("a cookie"));
    let load = get("/v1/load", &["-H", &cookie, "-H", &format!("Origin: {public_url}")]);
    assert!(load.starts_with("HTTP/2 200"), "{load}");
    let upgrade = [
        "--http1.1",
        "-H",
        "Connection: Upgrade",
        "-H",
        "Upgrade: websocket",
        "-H",
        "Sec-WebSocket-Version: 13",
        "-H",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        "--max-time",
        "2",
    ];
    assert!(get("/websocket", &upgrade).starts_with("HTTP/1.1 101"));
}
