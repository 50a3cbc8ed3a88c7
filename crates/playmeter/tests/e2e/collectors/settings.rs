//! Collector settings: errors are named, and the source of each value is shown.

use std::process::Command;

use crate::world::{playmeter, run};

fn with_config(command: &str, config: &str) -> (tempfile::TempDir, Command) {
    let root = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(root.path().join("playmeter.toml"), config).expect("a file");
    let mut program = playmeter(root.path());
    program.arg(command);
    if command == "serve" {
        program.args(["--listen", "127.0.0.1:0"]);
    }
    (root, program)
}

#[test]
fn invalid_collector_prevents_start_and_is_named() {
    let udp = "[collectors.one]\ntransport='udp'\ndecoder='statsd'\n";
    let folder = tempfile::tempdir().expect("a folder");
    let (used, file) = (folder.path().join("used.sock"), folder.path().join("file"));
    std::fs::write(&file, "precious").expect("a file");
    let unix = |path: &std::path::Path| {
        format!("[collectors.one]\ntransport='unixgram'\ndecoder='statsd'\npath='{}'\n", path.display())
    };
    let many: Vec<String> = (0..17).map(|number| format!("'t{number}'")).collect();
    let tags = format!("{udp}listen='127.0.0.1:0'\ntags=[{}]\n", many.join(","));
    for (config, parts) in [
        (format!("{udp}listn='127.0.0.1:1'\n"), ["collectors.one", "listn"]),
        (format!("{udp}listen='somewhere'\n"), ["collectors.one.listen", "invalid socket address"]),
        (udp.to_owned(), ["collectors.one", "listen: missing"]),
        (format!("{udp}listen='192.0.2.1:9'\n"), ["collectors.one: listen", "binding 192.0.2.1:9"]),
        (
            format!("{udp}listen='127.0.0.1:9'\n[collectors.two]\nextends='one'\n"),
            ["collectors.two: listen", "also that of collectors.one"],
        ),
        (
            [unix(&used), "[collectors.two]\nextends='one'\n".into()].concat(),
            ["collectors.two: path", "also that of"],
        ),
        (unix(&file), ["collectors.one: path", "is not a socket"]),
        (unix(&folder.path().join("none/in.sock")), ["collectors.one: path", "No such file"]),
        (format!("{udp}listen='127.0.0.1:0'\ngame='none'\n"), ["collectors.one: game", "no game `none`"]),
        (tags, ["collectors.one: tags", "more than 16"]),
        (format!("{udp}extends='none'\n"), ["collectors.one: extends", "no such collector: `none`"]),
    ] {
        let (_root, mut serve) = with_config("serve", &config);
        let done = run(&mut serve);
        assert_eq!((done.code, done.err.lines().count()), (1, 1), "{done:?}");
        for part in parts {
            assert!(done.err.contains(part), "`{part}` in {done:?}");
        }
    }
    assert_eq!(std::fs::read(&file).expect("a file"), b"precious");
}

#[test]
fn inherited_settings_show_their_source() {
    let config = "[collectors.base]\ntemplate=true\ntransport='udp'\nreceive_buffer_bytes=2048\n\
                  [collectors.one]\nextends='base'\ndecoder='statsd'\nlisten='127.0.0.1:1'\n";
    let (_root, mut program) = with_config("config", config);
    program.args(["--statsd", "127.0.0.1:2"]);
    let done = run(&mut program);
    assert_eq!(done.code, 0, "{done:?}");
    for (setting, source) in [
        ("collectors.one.listen = \"127.0.0.1:1\"", "playmeter.toml"),
        ("collectors.one.receive_buffer_bytes = 2048", "extends base"),
        ("collectors.one.transport = \"udp\"", "extends base"),
        ("collectors.statsd.listen = \"127.0.0.1:2\"", "--statsd"),
    ] {
        let line = done.out.lines().find(|line| line.starts_with(setting));
        assert!(line.is_some_and(|line| line.contains(source)), "{setting} from {source} in {}", done.out);
    }
}
