//! A collector that receives files over SFTP, from OpenSSH's client.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::files::wait_for;
use super::*;

/// A server that receives files, and its folder; `None` if OpenSSH is not installed.
fn world_with_inbox(more: &str) -> Option<(World, PathBuf)> {
    let root = tempfile::tempdir().expect("a temporary folder");
    for name in ["host", "client"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(root.path().join(name));
        if command.status().is_err() {
            testkit::skip::skip("ssh-keygen", "it is not installed; `make test-deps` installs it");
            return None;
        }
    }
    let inbox = root.path().join("inbox");
    std::fs::create_dir(&inbox).expect("a folder");
    let config = format!(
        "[collectors.one]\ntransport='sftp'\ndecoder='json'\nlisten='127.0.0.1:0'\npath='{}'\nhost_key='{}'\n\
         authorized_keys='{}'\n{more}",
        inbox.display(),
        root.path().join("host").display(),
        root.path().join("client.pub").display()
    );
    std::fs::write(root.path().join("playmeter.toml"), config).expect("a file");
    Some((World::on(root, &[]), inbox))
}

/// Returns the collector when it accepts connections.
fn running(world: &World) -> Value {
    wait_until(world, "one", |now| now["state"] == "running")
}

/// Runs `sftp` with one command, signed in with the key of the client or with a password.
fn sftp(world: &World, password: Option<&str>, command: &str) -> (bool, String) {
    let row = running(world);
    let address = row["address"].as_str().expect("it listens").parse::<std::net::SocketAddr>();
    let port = address.expect("an address").port();
    let root = world.root();
    let host = std::fs::read_to_string(root.join("host.pub")).expect("a key");
    std::fs::write(root.join("known"), format!("[127.0.0.1]:{port} {host}")).expect("a file");
    std::fs::write(root.join("batch"), format!("{command}\n")).expect("a file");
    let mut client = Command::new("sftp");
    client.args(["-F", "none", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile=known"]);
    client.args(["-o", "IdentitiesOnly=yes", "-o", "NumberOfPasswordPrompts=1", "-P", &port.to_string()]);
    match password {
        None => client.args(["-i", "client"]),
        Some(password) => {
            let script = root.join("askpass");
            std::fs::write(&script, format!("#!/bin/sh\necho '{password}'\n")).expect("a file");
            let executable = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&script, executable).expect("a file");
            client.env("SSH_ASKPASS", script).env("SSH_ASKPASS_REQUIRE", "force");
            client.args(["-o", "PubkeyAuthentication=no", "-o", "BatchMode=no"])
        }
    };
    client.args(["-b", "batch", "game@127.0.0.1"]).current_dir(root).stdin(Stdio::null());
    let done = client.output().expect("sftp is installed");
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn uploaded_file_is_counted_once_and_archived() {
    let Some((mut world, inbox)) = world_with_inbox("") else { return };
    let text = "{\"event\":\"win\",\"value\":2}\nbad\n{\"event\":\"win\",\"value\":3}\n";
    std::fs::write(world.root().join("wins"), text).expect("a file");
    let (done, output) = sftp(&world, None, "put wins one.json");
    assert!(done, "{output}");
    assert_eq!(wait_for(&inbox.join("archive/one.json"), &world), text);
    assert_eq!(measured(&world, "win", "sum"), 5.0);
    assert_eq!(account(&world, "json"), (2, json!({"malformed_json": 1})));
    let row = collector(&world, "one");
    assert_eq!(
        (&row["counters"]["packets"], &row["counters"]["connections_total"]),
        (&json!(1), &json!(1)),
        "{row}"
    );
    // A crash during an upload leaves a hidden file, which the next start removes.
    world.kill9();
    std::fs::write(inbox.join(".upload-0"), text).expect("a file");
    world.start();
    let (done, output) = sftp(&world, None, "put wins two.json");
    assert!(done, "{output}");
    wait_for(&inbox.join("archive/two.json"), &world);
    assert_eq!(measured(&world, "win", "sum"), 10.0);
    assert!(!inbox.join(".upload-0").exists());
}

#[test]
fn password_is_a_secret_key_of_the_game_that_may_send_events() {
    let Some((world, inbox)) = world_with_inbox("") else { return };
    std::fs::write(world.root().join("wins"), "{\"event\":\"win\"}\n").expect("a file");
    let keys = [("query", false), ("events:write", true)].map(|(scope, allowed)| (world.key(scope), allowed));
    let public = (world.public_key.clone(), false);
    let rows = keys.into_iter().chain([public, (world.secret_key.clone(), true), ("wrong".into(), false)]);
    for (number, (key, is_allowed)) in rows.enumerate() {
        let (done, output) = sftp(&world, Some(&key), &format!("put wins {number}.json"));
        assert_eq!(done, is_allowed, "{number}: {output}");
    }
    for number in [1, 3] {
        wait_for(&inbox.join(format!("archive/{number}.json")), &world);
    }
    assert_eq!(measured(&world, "win", "count"), 2.0);
}

#[test]
fn restarted_collector_accepts_uploads_on_the_same_port() {
    let Some((world, inbox)) = world_with_inbox("") else { return };
    std::fs::write(world.root().join("wins"), "{\"event\":\"win\"}\n").expect("a file");
    let before = running(&world)["address"].clone();
    let address = before.as_str().expect("it listens").to_owned();
    let _idle = std::net::TcpStream::connect(&address).expect("the server accepts");
    let restarted = world.command(&["collectors", "restart", "one"]);
    assert_eq!(restarted.code, 0, "{restarted:?}");
    assert_eq!(running(&world)["address"], before);
    let (done, output) = sftp(&world, None, "put wins one.json");
    assert!(done, "{output}");
    wait_for(&inbox.join("archive/one.json"), &world);
}
