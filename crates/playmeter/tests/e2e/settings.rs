//! Settings: precedence, sources, and errors.

use std::net::TcpListener;
use std::process::Command;

use serde_json::{Value, json};

use crate::world::{CommandOutput, World, playmeter, run};

/// An empty folder to run commands in.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A row of `playmeter config`.
fn setting(command: &mut Command, key: &str) -> (Value, String) {
    let done = run(command.arg("--json"));
    assert_eq!(done.code, 0, "{done:?}");
    let rows = done.out.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"));
    let row =
        rows.into_iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("no {key} in {}", done.out));
    (row["value"].clone(), row["source"].as_str().expect("a source").to_owned())
}

/// Runs a command that must fail with this code and an error of one sentence that contains these parts.
fn rejected(command: &mut Command, code: i32, parts: &[&str]) -> CommandOutput {
    let done = run(command);
    assert_eq!(done.code, code, "{done:?}");
    for part in parts {
        assert!(done.err.contains(part), "`{part}` is not in {done:?}");
    }
    assert!(!done.err.contains("panicked"), "{done:?}");
    if code == 1 {
        assert!(
            done.err.starts_with("playmeter: ") && done.err.lines().count() == 1,
            "one sentence: {done:?}"
        );
    }
    done
}

#[test]
fn settings_precedence_is_flag_environment_file_default() {
    let root = folder();
    let file = root.path().join("own.toml");
    std::fs::write(&file, "listen = \"127.0.0.1:1111\"\nruntimes = 3\n[log]\nretention_days = 7\n")
        .expect("a file");
    let config = || {
        let mut command = playmeter(root.path());
        command.arg("config");
        command
    };
    let with_file = || {
        let mut command = config();
        command.arg("--config").arg(&file);
        command
    };
    let check = |mut command: Command, key: &str, value: Value, source: &str| {
        let (found, from) = setting(&mut command, key);
        assert_eq!(found, value, "{key}");
        assert!(from.contains(source), "{key} comes from `{from}`, not `{source}`");
    };
    check(config(), "listen", json!("127.0.0.1:8080"), "default");
    check(with_file(), "listen", json!("127.0.0.1:1111"), "own.toml");
    check(with_file(), "log.retention_days", json!(7), "own.toml");
    check(with_file(), "log.segment_bytes", json!(64 << 20), "default");
    let with_environment = || {
        let mut command = with_file();
        command.env("PLAYMETER_LISTEN", "127.0.0.1:2222").env("PLAYMETER_LOG__RETENTION_DAYS", "9");
        command
    };
    check(with_environment(), "listen", json!("127.0.0.1:2222"), "environment");
    check(with_environment(), "log.retention_days", json!(9), "environment");
    check(with_environment(), "runtimes", json!(3), "own.toml");
    let mut with_origins = config();
    with_origins.env("PLAYMETER_ORIGINS", "https://a.example");
    check(with_origins, "origins", json!("https://a.example"), "environment");
    let mut with_origins = config();
    with_origins.args(["--origins", "https://a.example"]);
    check(with_origins, "origins", json!("https://a.example"), "--origins");
    let mut with_flag = with_environment();
    with_flag.args(["--listen", "127.0.0.1:3333", "--data", "elsewhere"]);
    check(with_flag, "listen", json!("127.0.0.1:3333"), "--listen");
}

#[test]
fn config_file_in_the_working_folder_is_read_by_default() {
    let root = folder();
    std::fs::write(root.path().join("playmeter.toml"), "demo = true\n").expect("a file");
    let (value, source) = setting(playmeter(root.path()).arg("config"), "demo");
    assert_eq!(value, json!(true));
    assert!(source.contains("playmeter.toml"), "{source}");
}

#[test]
fn config_command_lists_settings_with_their_sources() {
    let root = folder();
    let done = run(playmeter(root.path()).args(["config", "--runtimes", "2"]).env("PLAYMETER_DEMO", "true"));
    assert_eq!(done.code, 0, "{done:?}");
    for (setting, source) in [
        ("listen = \"127.0.0.1:8080\"", "default"),
        ("runtimes = 2", "--runtimes"),
        ("demo = true", "environment"),
    ] {
        let line = done.out.lines().find(|line| line.starts_with(setting));
        let line = line.unwrap_or_else(|| panic!("no `{setting}` in {}", done.out));
        assert!(line.contains(source), "{line}");
    }
    let columns: Vec<&str> = done.out.lines().filter(|line| !line.contains(" = ")).collect();
    assert!(columns.is_empty(), "{columns:?}");
}

#[test]
fn server_reads_settings_from_the_environment() {
    let mut world = World::new();
    world.stop();
    let mut command = playmeter(world.root());
    command.arg("serve").env("PLAYMETER_DATA", world.folder()).env("PLAYMETER_LISTEN", "127.0.0.1:0");
    world.start_as(command);
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    let done = run(playmeter(world.root()).args(["games", "list"]).env("PLAYMETER_DATA", world.folder()));
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn unknown_or_invalid_setting_is_named() {
    let root = folder();
    let file = root.path().join("own.toml");
    for (text, parts) in [
        ("listn = \"127.0.0.1:0\"\n", &["listn", "own.toml, line 1)"][..]),
        ("# log\n[log]\nsegment_bytes = 1\nsegments = 1\n", &["segments", "own.toml, line 4)"]),
        ("[collectors.a]\ntransport = \"udp\"\nlissten = 1\n", &["lissten", "own.toml, line 3)"]),
        ("demo = false\n[lgo]\nsegment_bytes = 1\n", &["lgo", "own.toml, line 2)"]),
        ("\nruntimes = \"many\"\n", &["runtimes", "own.toml, line 2)"]),
        ("listen = \"somewhere\"\n", &["listen", "own.toml"]),
        ("[log]\nsegment_bytes = 5\n", &["log.segment_bytes"]),
        ("[connections]\ntotal_max = 0\n", &["connections.total_max"]),
        ("[connections]\nheartbeat_s = 0\n", &["connections.heartbeat_s"]),
        ("[connections]\nsubscriptions_each_max = 0\n", &["connections.subscriptions_each_max"]),
        ("proxy_hops = 0\n", &["proxy_hops"]),
        ("proxy_hops = 17\n", &["proxy_hops"]),
        ("public_url = \"stats.example\"\n", &["public_url", "stats.example"]),
        ("public_url = \"https://stats.example/path\"\n", &["public_url", "https://stats.example/path"]),
        ("[queries]\ntimeout_s = 0\n", &["queries.timeout_s"]),
        ("[queries]\nmemory_bytes_max = 1000\n", &["queries.memory_bytes_max"]),
        ("[queries]\nper_game_max = 0\n", &["queries.per_game_max"]),
        ("[sql]\ntimeout_s = 0\n", &["sql.timeout_s"]),
        ("[sql]\nmemory_bytes_max = 1000\n", &["sql.memory_bytes_max"]),
        ("[sql]\nworkers_max = 0\n", &["sql.workers_max"]),
        ("[sql]\nrows_max = 0\n", &["sql.rows_max"]),
        ("[sql]\nisolation = \"none\"\n", &["sql.isolation"]),
        ("[queries]\ncohorts_bytes_max = 1000\n", &["queries.cohorts_bytes_max"]),
        ("[archive]\nmemory_bytes_max = 1000\n", &["archive.memory_bytes_max"]),
        ("[archive]\nevents_days = 36501\n", &["archive.events_days"]),
        ("[bodies]\naddress_bytes_max = 1000\n", &["bodies.address_bytes_max"]),
        ("[bodies]\nbytes_max = 1000\n", &["bodies.bytes_max"]),
        ("origins = [\"https://a.example/path\"]\n", &["origins", "https://a.example/path"]),
        ("origins = \"a.example\"\n", &["origins", "a.example"]),
        ("origins = 7\n", &["origins", "own.toml"]),
        ("geo_file = \"nowhere.mmdb\"\n", &["geo_file", "nowhere.mmdb"]),
        ("listen = \n", &["own.toml"]),
    ] {
        std::fs::write(&file, text).expect("a file");
        for command in ["serve", "config"] {
            rejected(playmeter(root.path()).arg(command).arg("--config").arg(&file), 1, parts);
        }
    }
    for (name, value, parts) in [
        ("PLAYMETER_LISTN", "127.0.0.1:0", &["listn", "environment"][..]),
        ("PLAYMETER_LOG__SEGMENTS", "1", &["segments", "environment"]),
        ("PLAYMETER_LOG__RETENTION_DAYS", "soon", &["retention_days", "environment"]),
        ("PLAYMETER_LISTEN", "somewhere", &["listen", "environment"]),
        ("PLAYMETER_BEHIND_PROXY", "perhaps", &["behind_proxy", "environment"]),
    ] {
        for command in ["serve", "config"] {
            rejected(playmeter(root.path()).arg(command).env(name, value), 1, parts);
        }
    }
    rejected(playmeter(root.path()).args(["serve", "--config", "nowhere.toml"]), 1, &["nowhere.toml"]);
    assert!(!root.path().join("data").exists(), "nothing was created before the settings were read");
}

#[test]
fn usage_error_exits_with_2() {
    let root = folder();
    for args in [
        &[][..],
        &["serv"],
        &["serve", "--port", "80"],
        &["serve", "--listen", "somewhere"],
        &["serve", "--runtimes", "many"],
        &["serve", "now"],
        &["games", "destroy"],
    ] {
        rejected(playmeter(root.path()).args(args), 2, &["--help"]);
    }
    for args in [["--help"], ["--version"]] {
        assert_eq!(run(playmeter(root.path()).args(args)).code, 0);
    }
}

#[test]
fn port_in_use_is_reported_in_one_sentence() {
    let root = folder();
    let occupied = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = occupied.local_addr().expect("an address").to_string();
    rejected(playmeter(root.path()).args(["serve", "--listen", &address]), 1, &[&address, "--listen"]);
    let world = World::new();
    let other = world.address.to_string();
    rejected(playmeter(root.path()).args(["serve", "--listen", &other]), 1, &[&other, "--listen"]);
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted", "the first server still works");
}

#[test]
fn data_folder_allows_one_server() {
    let world = World::new();
    rejected(&mut world.serve(), 1, &["another playmeter runs on", "--data"]);
    assert_eq!(world.bootstrap()["url"], format!("http://{}", world.address));
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    assert_eq!(world.command(&["games", "list"]).code, 0);
}

#[test]
fn public_address_requires_behind_proxy() {
    let root = folder();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        for command in ["serve", "config"] {
            rejected(
                playmeter(root.path()).args([command, "--listen", address]),
                1,
                &["--behind-proxy", address],
            );
        }
    }
    let world = World::with(&["--listen", "0.0.0.0:0", "--behind-proxy"]);
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
}

#[test]
fn unusable_folder_is_reported_in_one_sentence() {
    let root = folder();
    std::fs::write(root.path().join("file"), "").expect("a file");
    let serve = |data: &str| {
        let mut command = playmeter(root.path());
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", data]);
        command
    };
    rejected(&mut serve("file"), 1, &["file"]);
    rejected(&mut serve("file/inside"), 1, &["file/inside"]);
    rejected(&mut serve("/proc/playmeter"), 1, &["/proc/playmeter"]);
    let world = World::new();
    let catalog = world.folder().join("catalog.json");
    let mut world = world;
    world.stop();
    let text = std::fs::read_to_string(&catalog).expect("there is a catalog");
    std::fs::write(&catalog, text.replace("\"format\": 1", "\"format\": 99")).expect("it can be written");
    rejected(&mut world.serve(), 1, &["catalog.json", "99"]);
    std::fs::write(&catalog, "{").expect("it can be written");
    rejected(&mut world.serve(), 1, &["catalog.json"]);
}

#[test]
fn server_listens_on_a_name_of_this_machine() {
    let world = World::with(&["--listen", "localhost:0"]);
    assert_eq!(world.post(r#"{"event":"win"}"#).summary(), "1 accepted");
    assert!(world.address.ip().is_loopback(), "{}", world.address);
    let root = folder();
    let unknown = ["serve", "--listen", "name.invalid:8080"];
    rejected(playmeter(root.path()).args(unknown), 1, &["listen", "name.invalid:8080"]);
}

#[test]
fn low_port_without_the_right_is_explained() {
    let first = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    if first.trim().parse().is_ok_and(|first: u16| first <= 80) {
        return testkit::skip::skip("low-ports", "every user of this machine may listen on port 80");
    }
    let root = folder();
    let mut command = playmeter(root.path());
    if rustix::process::geteuid().is_root() {
        let program = command.get_program().to_owned();
        command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_bind_service", "--inh-caps", "-net_bind_service"]).arg(program);
        command.current_dir(root.path());
    }
    let advice =
        ["127.77.0.1:80", "setcap cap_net_bind_service", "AmbientCapabilities", "sysctl", "ermission denied"];
    rejected(command.args(["serve", "--listen", "127.77.0.1:80"]), 1, &advice);
}
