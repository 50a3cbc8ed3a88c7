use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// Serves one connection: for each response, reads a request and its body, then sends the response.
fn serve(responses: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let respond = |response: &&str| {
            let request = read(&mut stream);
            stream.write_all(response.as_bytes()).expect("the client reads");
            request
        };
        responses.iter().map(respond).collect()
    });
    (url, thread)
}

fn read(stream: &mut impl Read) -> String {
    let mut request = Vec::new();
    while !is_complete(&request) {
        let mut bytes = [0; 1024];
        let length = stream.read(&mut bytes).expect("the client writes");
        assert_ne!(length, 0, "a complete request: {}", String::from_utf8_lossy(&request));
        request.extend_from_slice(&bytes[..length]);
    }
    String::from_utf8(request).expect("it is text")
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
    body.len() >= length.map_or(0, |length| length.parse().expect("a length"))
}

fn post(client: &Client, body: &[u8]) -> Result<ApiResponse, ClientError> {
    client.send(&ApiRequest { method: Method::POST, path: "/x?y=1", headers: &[("X-Way", "up")], body })
}

/// Checks how the client reports this response.
fn check(response: &'static [&'static str], expected: &str) {
    let (url, server) = serve(response);
    let client = Client::new(&url, "sk_1").expect("it is a URL");
    let actual = match post(&client, b"hello") {
        Ok(response) => format!("done: {}", String::from_utf8_lossy(&response.body)),
        Err(error) => {
            let retry = if error.is_temporary() { "retryable" } else { "permanent" };
            let after = error.retry_after().map_or_else(String::new, |after| format!(" after {after:?}"));
            format!("{error}, {retry}{after}")
        }
    };
    assert_eq!(actual.replace(&url, "URL"), expected);
    server.join().expect("the server ends");
}

#[test]
fn request_has_the_key_the_headers_and_the_body() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (url, server) = serve(Box::leak(Box::new([ok, ok])));
    let client = Client::new(&format!("{url}/"), "sk_1").expect("it is a URL");
    assert_eq!(post(&client, b"hello").expect("a response").body, b"ok");
    let get = ApiRequest { method: Method::GET, path: "/z", headers: &[], body: b"" };
    assert_eq!(client.send(&get).expect("a response on the same connection").body, b"ok");
    let requests = server.join().expect("the server ends");
    let post = requests[0].to_lowercase();
    assert!(requests[0].starts_with("POST /x?y=1 HTTP/1.1\r\n"), "{post}");
    for line in ["authorization: bearer sk_1\r\n", "x-way: up\r\n", "content-length: 5\r\n", "\r\n\r\nhello"]
    {
        assert!(post.contains(line), "{line} in {post}");
    }
    assert!(requests[1].starts_with("GET /z HTTP/1.1\r\n"), "{}", requests[1]);
}

#[test]
fn error_response_becomes_one_sentence() {
    check(&["HTTP/1.1 204 No Content\r\n\r\n"], "done: ");
    check(
        &["HTTP/1.1 400 X\r\nContent-Length: 72\r\n\r\n\
           {\"title\": \"A field is invalid\", \"detail\": \"must be 1 or 2\", \"field\":\"n\"}   "],
        "URL answered 400: A field is invalid: n: must be 1 or 2, permanent",
    );
    check(
        &[
            "HTTP/1.1 503 X\r\nRetry-After: 7\r\nContent-Length: 34\r\n\r\n{\"title\":\"The disk is full\"}       ",
        ],
        "URL answered 503: The disk is full, retryable after 7s",
    );
    check(&["HTTP/1.1 404 X\r\nContent-Length: 8\r\n\r\n no\n\tway"], "URL answered 404: no way, permanent");
    check(&["HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"], "URL answered 401: no details, permanent");
    check(
        &["HTTP/1.1 301 X\r\nLocation: https://a.example/\r\nContent-Length: 0\r\n\r\n"],
        "URL answered 301: redirected to https://a.example/; use that URL, permanent",
    );
}

#[test]
fn incomplete_response_is_no_response() {
    for response in
        [&["HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf"], &["HTTP/1.1 20"], &["what?\r\n\r\n"]]
    {
        let (url, server) = serve(response);
        let client = Client::new(&url, "sk_1").expect("it is a URL");
        let error = post(&client, b"hello").expect_err("half a response is an error");
        assert!(matches!(error, ClientError::NoResponse { .. }) && error.is_temporary(), "{error}");
        server.join().expect("the server ends");
    }
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("it is bound");
    let client = Client::new(&format!("http://{closed}"), "sk_1").expect("it is a URL");
    let error = post(&client, b"hello").expect_err("the port is closed").to_string();
    assert!(error.contains("does not answer: Connection refused"), "{error}");
}

#[test]
fn invalid_urls_and_keys_are_errors() {
    for url in ["", "play.example.com", "ftp://a", "http://", "http://a b", "http://a/?x=1"] {
        assert_eq!(Client::new(url, "sk_1").err(), Some(InvalidServer::Url(url.to_owned())), "{url}");
    }
    for url in
        ["http://u:s3cret@a", "http://u:s3/cret@a", "https://u:s3cret@", "u:s3cret@a", "http://u/s3cret@a"]
    {
        let error = Client::new(url, "sk_1").err();
        assert_eq!(error, Some(InvalidServer::Credentials), "{url}");
        assert!(error.is_some_and(|error| !error.to_string().contains("s3")), "{url} is repeated");
    }
    for key in ["", "sk 1", "sk\n1", "schlüssel"] {
        assert_eq!(Client::new("http://a", key).err(), Some(InvalidServer::Key), "{key}");
    }
    for url in ["http://a", "https://a:8443/", "http://[::1]:80", "https://a.example/under"] {
        assert!(Client::new(url, "sk_1").is_ok(), "{url}");
    }
}
