use super::*;

fn read(text: &str) -> WrittenCollectors {
    let figment =
        figment::Figment::from(<figment::providers::Toml as figment::providers::Format>::string(text));
    figment.extract().expect("it is well written")
}

/// What comes of a file: each collector in words, or why not.
fn check(text: &str, expected: &str) {
    let told = match resolve(&read(text)) {
        Ok(all) => all.iter().map(told).collect::<Vec<_>>().join("; "),
        Err(failure) => format!("{failure:#}"),
    };
    assert_eq!(told, expected, "{text}");
}

fn told(collector: &CollectorSettings) -> String {
    let place = match &collector.transport {
        Transport::Udp(udp) => format!("{} {}", udp.listen, udp.receive_buffer_bytes),
        Transport::TcpServer(tcp) => format!("{} {:?}", tcp.listen, tcp.stream.framing),
        Transport::TcpClient(tcp) => format!("{} {:?}", tcp.address, tcp.stream.framing),
        Transport::Dir(dir) => dir.path.display().to_string(),
    };
    let (transport, decoder) = (collector.transport.label(), collector.decoder.label());
    let game = collector.game.as_deref().unwrap_or("first");
    format!("{}: {transport} {decoder} {game} {place} {}", collector.name, collector.tags.join(","))
}

#[test]
fn a_collector_says_what_it_is() {
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
fn what_a_collector_does_not_say_the_one_says_that_it_extends() {
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
fn who_extends_nobody_or_himself_is_refused() {
    check("[a]\nextends = 'b'", "collectors.a: extends: there is no collector `b`");
    check("[a]\nextends = 'a'", "collectors.a: extends: `a` extends itself in the end");
    check(
        "[a]\nextends = 'b'\n[b]\nextends = 'c'\n[c]\nextends = 'b'",
        "collectors.a: extends: `b` extends itself in the end",
    );
}

#[test]
fn a_key_that_is_missing_or_has_no_use_is_named() {
    let udp = "[a]\ntransport = 'udp'\ndecoder = 'statsd'\n";
    check("[a]\n", "collectors.a: transport: missing; it is udp, tcp_server, tcp_client or dir");
    check(
        "[a]\ntransport = 'udp'\n",
        "collectors.a: decoder: missing; it is statsd, influx, json, csv, flow or rtcp",
    );
    check(udp, "collectors.a: listen: missing; an address and a port, such as 127.0.0.1:8125");
    check(&format!("{udp}path = '/'\n"), "collectors.a: path: this transport and decoder have no use for it");
    check(
        &format!("{udp}precision = 'ms'\n"),
        "collectors.a: precision: this transport and decoder have no use for it",
    );
    check(
        &format!("{udp}listen = '127.0.0.1:1'\nreceive_buffer_bytes = 1\n"),
        "collectors.a: receive_buffer_bytes: 1024 to 1073741824",
    );
    let tcp = "[a]\ntransport = 'tcp_server'\ndecoder = 'statsd'\nlisten = '127.0.0.1:1'\n";
    check(
        &format!("{tcp}tls_certificate = 'cert.pem'\n"),
        "collectors.a: tls_key: missing; the key of `tls_certificate`",
    );
    check(
        &format!("{tcp}tls_key = 'key.pem'\n"),
        "collectors.a: tls_certificate: missing; the certificate of `tls_key`",
    );
    check(
        &format!("{udp}tls_key = 'key.pem'\n"),
        "collectors.a: tls_key: this transport and decoder have no use for it",
    );
    let both = "decoder: a folder takes json, csv or flow, connections take statsd, influx, json or flow, packets all but csv";
    check("[a]\ntransport = 'udp'\ndecoder = 'csv'\n", &format!("collectors.a: {both}"));
    check("[a]\ntransport = 'dir'\ndecoder = 'statsd'\n", &format!("collectors.a: {both}"));
    let dir = "[a]\ntransport = 'dir'\ndecoder = 'csv'\n";
    check(dir, "collectors.a: path: missing; the folder where files come");
    check(&format!("{dir}path = '/no/where'\n"), "collectors.a: path: there is no folder /no/where");
    check(
        &format!("{dir}path = '/'\ncolumns = {{ when = 'time' }}\n"),
        "collectors.a: columns.when: \"time\" is not an event field, `props.` followed by a name, or `ignore`",
    );
    check(
        "['A b']\n",
        "collectors.A b: its name has other characters than lower-case letters, digits, `_` and `-`",
    );
}
