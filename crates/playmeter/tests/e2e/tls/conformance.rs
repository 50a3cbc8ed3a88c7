//! `h2spec`, the conformance suite for HTTP/2.

use std::path::PathBuf;

use super::*;

#[test]
fn http2_passes_every_case_of_h2spec() {
    let installed = PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join("go/bin/h2spec");
    let program = if installed.exists() { installed } else { "h2spec".into() };
    let Some(world) = world("", &[]) else { return };
    let port = world.address.port().to_string();
    // A route that reads the body of its requests.
    let path = format!("/v1/events?key={}", world.public_key);
    let mut command = Command::new(program);
    command.args([
        "--host",
        "127.0.0.1",
        "--port",
        &port,
        "--tls",
        "--insecure",
        "--timeout",
        "10",
        "--path",
        &path,
    ]);
    let Ok(done) = command.output() else {
        return testkit::skip::skip("h2spec", "it is not installed; `make test-deps` builds it");
    };
    let report = String::from_utf8_lossy(&done.stdout);
    let summary = report.lines().find(|line| line.contains(" tests, ")).unwrap_or_else(|| panic!("{report}"));
    assert!(done.status.success() && summary.ends_with(" 0 failed"), "{report}");
    let cases: u32 = summary.split(' ').next().and_then(|count| count.parse().ok()).expect("a number");
    assert!(cases >= 145 && summary.contains(" 0 skipped"), "{summary}");
    assert!(!world.log_lines().contains("panicked"), "{}", world.log_lines());
}
