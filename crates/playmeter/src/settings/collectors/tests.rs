use super::*;

fn read(text: &str) -> RawCollectors {
    let figment =
        figment::Figment::from(<figment::providers::Toml as figment::providers::Format>::string(text));
    figment.extract().expect("it is valid TOML")
}

/// Checks the collectors of a settings file, as text, or the error.
fn check(text: &str, expected: &str) {
    let actual = match resolve(&read(text)) {
        Ok(all) => all.iter().map(summary).collect::<Vec<_>>().join("; "),
        Err(error) => format!("{error:#}"),
    };
    assert_eq!(actual, expected, "{text}");
}

fn summary(collector: &CollectorSettings) -> String {
    let address = match &collector.transport {
        Transport::Unixgram(unix) => {
            format!("{} {:o} {}", unix.path.display(), unix.permissions, unix.receive_buffer_bytes)
        }
        Transport::Udp(udp) => format!("{} {}", udp.listen, udp.receive_buffer_bytes),
        Transport::TcpServer(tcp) => format!("{} {:?}", tcp.listen, tcp.stream.framing),
        Transport::TcpClient(tcp) => format!("{} {:?}", tcp.address, tcp.stream.framing),
        Transport::Dir(dir) => dir.path.display().to_string(),
        Transport::Sftp(sftp) => sftp.listen.to_string(),
    };
    let (transport, decoder) = (collector.transport.label(), collector.decoder.label());
    let game = collector.game.as_deref().unwrap_or("first");
    format!("{}: {transport} {decoder} {game} {address} {}", collector.name, collector.tags.join(","))
}

#[test]
fn collector_has_the_settings_of_its_keys() {
    check(
        "[a]\ntransport = 'udp'\ndecoder = 'statsd'\nlisten = '127.0.0.1:1'\ntags = ['host', 'app']",
        "a: udp statsd first 127.0.0.1:1 4194304 host,app",
    );
    check(
        "[a]\ntransport = 'tcp_client'\ndecoder = 'json'\naddress = 'source:1'\nframing = 'length'\ngame = 'demo'",
        "a: tcp_client json demo source:1 Length ",
    );
}

#[test]
fn keys_that_are_not_set_are_inherited() {
    let base = "[base]\ntemplate = true\ntransport = 'udp'\nreceive_buffer_bytes = 2048\ngame = 'demo'\n\
                [middle]\nextends = 'base'\ntemplate = true\ndecoder = 'influx'\ngame = 'other'\n";
    check(
        &format!("{base}[a]\nextends = 'middle'\nlisten = '127.0.0.1:1'\n"),
        "a: udp influx other 127.0.0.1:1 2048 ",
    );
    check(
        &format!("{base}[a]\nextends = 'base'\nlisten = '127.0.0.1:1'\ndecoder = 'statsd'\n"),
        "a: udp statsd demo 127.0.0.1:1 2048 ",
    );
}

#[test]
fn extending_an_unknown_collector_or_itself_is_an_error() {
    check("[a]\nextends = 'b'", "collectors.a: extends: no such collector: `b`");
    check("[a]\nextends = 'a'", "collectors.a: extends: `a` extends itself");
    check(
        "[a]\nextends = 'b'\n[b]\nextends = 'c'\n[c]\nextends = 'b'",
        "collectors.a: extends: `b` extends itself",
    );
}

#[test]
fn missing_unused_and_invalid_keys_are_named() {
    let udp = "[a]\ntransport = 'udp'\ndecoder = 'statsd'\n";
    check(
        "[a]\n",
        "collectors.a: transport: missing; must be udp, unixgram, tcp_server, tcp_client, dir or sftp",
    );
    let unix = "[a]\ntransport = 'unixgram'\ndecoder = 'statsd'\n";
    check(
        unix,
        "collectors.a: path: missing; set the file of the socket, for example /run/playmeter/statsd.sock",
    );
    check(
        &format!("{unix}path = '/run/a.sock'\npermissions = '888'\n"),
        "collectors.a: permissions: must be three octal digits, for example 660",
    );
    check(
        "[a]\ntransport = 'udp'\n",
        "collectors.a: decoder: missing; must be statsd, influx, json, csv, flow or rtcp",
    );
    check(udp, "collectors.a: listen: missing; set an address and a port, for example 127.0.0.1:8125");
    check(
        &format!("{udp}path = '/'\n"),
        "collectors.a: path: not supported by this transport and decoder; remove it",
    );
    check(
        &format!("{udp}precision = 'ms'\n"),
        "collectors.a: precision: not supported by this transport and decoder; remove it",
    );
    check(
        &format!("{udp}listen = '127.0.0.1:1'\nreceive_buffer_bytes = 1\n"),
        "collectors.a: receive_buffer_bytes: must be between 1024 and 1073741824",
    );
    let tcp = "[a]\ntransport = 'tcp_server'\ndecoder = 'statsd'\nlisten = '127.0.0.1:1'\n";
    check(
        &format!("{tcp}tls_certificate = 'cert.pem'\n"),
        "collectors.a: tls_key: missing; set it together with `tls_certificate`",
    );
    check(
        &format!("{tcp}tls_key = 'key.pem'\n"),
        "collectors.a: tls_certificate: missing; set it together with `tls_key`",
    );
    check(
        &format!("{udp}tls_key = 'key.pem'\n"),
        "collectors.a: tls_key: not supported by this transport and decoder; remove it",
    );
    let mismatch = "decoder: does not fit the transport; dir and sftp support json, csv and flow; tcp_server and tcp_client support \
                    statsd, influx, json and flow; unixgram supports statsd, influx, json and flow; udp supports all but csv";
    check("[a]\ntransport = 'udp'\ndecoder = 'csv'\n", &format!("collectors.a: {mismatch}"));
    check("[a]\ntransport = 'dir'\ndecoder = 'statsd'\n", &format!("collectors.a: {mismatch}"));
    let dir = "[a]\ntransport = 'dir'\ndecoder = 'csv'\n";
    check(dir, "collectors.a: path: missing; set the folder to read files from");
    let sftp = "[a]\ntransport = 'sftp'\ndecoder = 'json'\nlisten = '127.0.0.1:2022'\n";
    check(sftp, "collectors.a: host_key: missing; set a file that `ssh-keygen -t ed25519` writes");
    let sftp = format!("{sftp}host_key = 'key'\n");
    check(&sftp, "collectors.a: path: missing; set the folder to read files from");
    check(
        &format!("{sftp}path = '/'\nsettle_ms = 5\n"),
        "collectors.a: settle_ms: not supported by this transport and decoder; remove it",
    );
    check(&format!("{dir}path = '/no/where'\n"), "collectors.a: path: no such folder: /no/where");
    check(
        &format!("{dir}path = '/'\ncolumns = {{ when = 'time' }}\n"),
        "collectors.a: columns.when: \"time\" is not an event field, `props.` followed by a name, or `ignore`",
    );
    check("['A b']\n", "collectors.A b: the name must have 1 to 64 lower-case letters, digits, `_` or `-`");
}
