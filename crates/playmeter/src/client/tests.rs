use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use super::*;

/// Serves one connection: for each answer, reads a request with as long a body as it says, and sends the answer.
fn serve(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let one = |answer: &&str| {
            let request = read(&mut stream);
            stream.write_all(answer.as_bytes()).expect("the client reads");
            request
        };
        answers.iter().map(one).collect()
    });
    (url, thread)
}

fn read(stream: &mut impl Read) -> String {
    let mut request = Vec::new();
    while !is_whole(&request) {
        let mut bytes = [0; 1024];
        let length = stream.read(&mut bytes).expect("the client writes");
        assert_ne!(length, 0, "a whole request: {}", String::from_utf8_lossy(&request));
        request.extend_from_slice(&bytes[..length]);
    }
    String::from_utf8(request).expect("it is text")
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next());
    body.len() >= length.map_or(0, |length| length.parse().expect("a length"))
}

fn post(client: &Client, body: &[u8]) -> Result<Answer, Failure> {
    client.ask(&Request { method: Method::POST, path: "/x?y=1", headers: &[("X-Way", "up")], body })
}

/// What a client says of this answer.
fn check(answer: &'static [&'static str], expected: &str) {
    let (url, server) = serve(answer);
    let client = Client::new(&url, "sk_1").expect("it is a URL");
    let told = match post(&client, b"hello") {
        Ok(answer) => format!("done: {}", String::from_utf8_lossy(&answer.body)),
        Err(failure) => {
            let again = if failure.is_temporary() { "again" } else { "never" };
            let after = failure.retry_after().map_or_else(String::new, |after| format!(" in {after:?}"));
            format!("{failure}, {again}{after}")
        }
    };
    assert_eq!(told.replace(&url, "URL"), expected);
    server.join().expect("the server ends");
}

#[test]
fn a_request_says_who_asks_and_what() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let (url, server) = serve(Box::leak(Box::new([ok, ok])));
    let client = Client::new(&format!("{url}/"), "sk_1").expect("it is a URL");
    assert_eq!(post(&client, b"hello").expect("an answer").body, b"ok");
    let get = Request { method: Method::GET, path: "/z", headers: &[], body: b"" };
    assert_eq!(client.ask(&get).expect("an answer on the same connection").body, b"ok");
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
fn a_refusal_becomes_a_sentence() {
    check(&["HTTP/1.1 204 No Content\r\n\r\n"], "done: ");
    check(
        &["HTTP/1.1 400 X\r\nContent-Length: 70\r\n\r\n\
           {\"title\": \"A field is invalid\", \"detail\": \"it is 1 or 2\", \"field\":\"n\"}   "],
        "URL says 400: A field is invalid: n: it is 1 or 2, never",
    );
    check(
        &[
            "HTTP/1.1 503 X\r\nRetry-After: 7\r\nContent-Length: 34\r\n\r\n{\"title\":\"The disk is full\"}       ",
        ],
        "URL says 503: The disk is full, again in 7s",
    );
    check(&["HTTP/1.1 404 X\r\nContent-Length: 8\r\n\r\n no\n\tway"], "URL says 404: no way, never");
    check(&["HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"], "URL says 401: nothing else, never");
    check(
        &["HTTP/1.1 301 X\r\nLocation: https://a.example/\r\nContent-Length: 0\r\n\r\n"],
        "URL says 301: it is at https://a.example/, never",
    );
}

#[test]
fn a_server_that_does_not_answer_to_the_end_has_not_answered() {
    for answer in
        [&["HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf"], &["HTTP/1.1 20"], &["what?\r\n\r\n"]]
    {
        let (url, server) = serve(answer);
        let client = Client::new(&url, "sk_1").expect("it is a URL");
        let failure = post(&client, b"hello").expect_err("half an answer is none");
        assert!(matches!(failure, Failure::NoAnswer { .. }) && failure.is_temporary(), "{failure}");
        server.join().expect("the server ends");
    }
    let closed = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("it is bound");
    let client = Client::new(&format!("http://{closed}"), "sk_1").expect("it is a URL");
    let failure = post(&client, b"hello").expect_err("nobody is there").to_string();
    assert!(failure.contains("does not answer: Connection refused"), "{failure}");
}

#[test]
fn what_is_no_server_is_refused() {
    for url in ["", "play.example.com", "ftp://a", "http://", "http://a b", "http://a/?x=1"] {
        assert_eq!(Client::new(url, "sk_1").err(), Some(BadServer::Url(url.to_owned())), "{url}");
    }
    for url in
        ["http://u:s3cret@a", "http://u:s3/cret@a", "https://u:s3cret@", "u:s3cret@a", "http://u/s3cret@a"]
    {
        let told = Client::new(url, "sk_1").err();
        assert_eq!(told, Some(BadServer::User), "{url}");
        assert!(told.is_some_and(|told| !told.to_string().contains("s3")), "{url} is repeated");
    }
    for key in ["", "sk 1", "sk\n1", "schlüssel"] {
        assert_eq!(Client::new("http://a", key).err(), Some(BadServer::Key), "{key}");
    }
    for url in ["http://a", "https://a:8443/", "http://[::1]:80", "https://a.example/under"] {
        assert!(Client::new(url, "sk_1").is_ok(), "{url}");
    }
}
