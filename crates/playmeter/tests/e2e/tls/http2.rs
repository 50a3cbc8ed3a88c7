//! The limits of requests hold over HTTP/2, where one connection carries many.

use bytes::Bytes;
use h2::Reason;
use h2::client::{ResponseFuture, SendRequest};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use ureq::http::{Request, Response};

use super::*;
use crate::bodies::{gzip, peak_bytes};

/// A connection, and the task that ends with it.
struct Http2 {
    sender: SendRequest<Bytes>,
    driver: JoinHandle<Result<(), h2::Error>>,
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

async fn open(world: &World, window_bytes: u32) -> Http2 {
    let stream = tokio::net::TcpStream::connect(world.address).await.expect("the server accepts");
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(client_config(world, "one.pem", &["h2"]));
    let stream = connector.connect(name, stream).await.expect("its certificate is trusted");
    let handshake = h2::client::Builder::new().initial_window_size(window_bytes).handshake(stream);
    let (sender, connection) = handshake.await.expect("the server speaks HTTP/2");
    Http2 { sender, driver: tokio::spawn(connection) }
}

fn get(world: &World, path: &str) -> Request<()> {
    let request = Request::get(format!("https://localhost{path}"));
    request.header("Authorization", format!("Bearer {}", world.secret_key)).body(()).expect("a request")
}

fn post(world: &World) -> ureq::http::request::Builder {
    let request = Request::post("https://localhost/v1/events");
    request.header("Authorization", format!("Bearer {}", world.public_key))
}

impl Http2 {
    async fn send(&mut self, request: Request<()>, body: impl Into<Bytes>) -> ResponseFuture {
        let mut sender = self.sender.clone().ready().await.expect("the connection is open");
        let body = body.into();
        let (response, mut stream) = sender.send_request(request, body.is_empty()).expect("a request");
        if !body.is_empty() {
            stream.send_data(body, true).expect("the stream is open");
        }
        response
    }

    /// Sends a request and returns the status and the body.
    async fn exchange(&mut self, request: Request<()>, body: impl Into<Bytes>) -> (u16, Value) {
        let response = self.send(request, body).await.await;
        read(response.expect("an answer")).await
    }
}

async fn read(response: Response<h2::RecvStream>) -> (u16, Value) {
    let (head, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.expect("the stream is open");
        body.flow_control().release_capacity(chunk.len()).expect("it was received");
        bytes.extend_from_slice(&chunk);
    }
    (head.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
}

const EVENT: &str = r#"{"event":"win"}"#;

#[test]
fn stalled_body_times_out_and_other_streams_go_on() {
    let Some(world) = world("", &[]) else { return };
    runtime().block_on(async {
        let mut connection = open(&world, 65_535).await;
        let mut sender = connection.sender.clone().ready().await.expect("the connection is open");
        let mut stalled = Vec::new();
        for _ in 0..10 {
            let request = post(&world).header("Content-Length", "1000").body(()).expect("a request");
            let (response, mut body) = sender.send_request(request, false).expect("a request");
            body.send_data("{".into(), false).expect("the stream is open");
            sender = sender.ready().await.expect("the connection is open");
            stalled.push((response, body));
        }
        let started = Instant::now();
        for _ in 0..50 {
            let (status, receipt) =
                connection.exchange(post(&world).body(()).expect("a request"), EVENT).await;
            assert_eq!((status, &receipt["accepted"]), (202, &Value::from(1)));
        }
        assert!(started.elapsed() < Duration::from_secs(4), "they do not wait for the stalled ones");
        for (response, _body) in stalled {
            let (status, problem) = read(response.await.expect("an answer")).await;
            assert_eq!((status, &problem["type"]), (408, &Value::from("/problems/body_stalled")));
        }
        let (status, _) = connection.exchange(get(&world, "/healthz"), "").await;
        assert_eq!(status, 200, "the connection goes on");
    });
}

#[test]
fn bodies_over_http2_share_a_bounded_memory() {
    let Some(mut world) = world("", &[]) else { return };
    let mut body = br#"[{"event":"win"}"#.to_vec();
    body.resize(63 << 20, b' ');
    body.push(b']');
    let body = Bytes::from(gzip(&body));
    runtime().block_on(async {
        let mut connection = open(&world, 65_535).await;
        let mut sent = Vec::new();
        for _ in 0..24 {
            let request = post(&world).header("Content-Encoding", "gzip").body(()).expect("a request");
            sent.push(connection.send(request, body.clone()).await);
        }
        let (mut accepted, mut rejected) = (0, 0);
        for response in sent {
            match read(response.await.expect("an answer")).await {
                (202, _) => accepted += 1,
                (503, problem) => {
                    assert_eq!(problem["type"], "/problems/overloaded");
                    rejected += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(accepted > 0 && accepted + rejected == 24, "{accepted} {rejected}");
    });
    let peak = peak_bytes(&mut world);
    assert!(peak < 512 << 20, "{peak} bytes");
}

#[test]
fn responses_that_are_not_read_hold_the_places_of_their_address() {
    let Some(world) = world("connections.per_address_max = 10\n", &[]) else { return };
    runtime().block_on(async {
        let mut connection = open(&world, 0).await;
        let mut statuses = Vec::new();
        for _ in 0..20 {
            let response = connection.send(get(&world, "/openapi.json"), "").await;
            // The response is kept, and its window stays closed.
            statuses.push(response.await.expect("a head"));
        }
        let served = statuses.iter().filter(|response| response.status() == 200).count();
        let refused = statuses.iter().filter(|response| response.status() == 429).count();
        assert_eq!((served, refused), (9, 11), "the connection has a place, too");
        assert!(connection.sender.current_max_send_streams() == 100);
        let refused = statuses.iter().find(|response| response.status() == 429).expect("one");
        assert_eq!(refused.headers()["retry-after"], "1");
        drop((statuses, connection));
    });
    wait_until("the places are free again", || {
        connect(&world, "one.pem", &["http/1.1"]).is_ok() && metric(&world, "playmeter_log_full") == 0
    });
    runtime().block_on(async {
        let mut connection = open(&world, 65_535).await;
        for _ in 0..20 {
            assert_eq!(connection.exchange(get(&world, "/openapi.json"), "").await.0, 200);
        }
    });
}

#[test]
fn connection_that_abandons_its_requests_is_closed() {
    let Some(world) = world("", &[]) else { return };
    runtime().block_on(async {
        let mut connection = open(&world, 65_535).await;
        let mut abandoned = 0;
        while !connection.driver.is_finished() {
            assert!(abandoned < 2_000, "the connection is still open");
            let Ok(mut sender) = connection.sender.clone().ready().await else { break };
            let request = post(&world).header("Content-Length", "10").body(()).expect("a request");
            let Ok((response, mut body)) = sender.send_request(request, false) else { break };
            // The handler must have begun: h2 itself limits resets of requests that it has not handed over.
            tokio::time::sleep(Duration::from_millis(2)).await;
            body.send_reset(Reason::CANCEL);
            drop(response);
            abandoned += 1;
        }
        assert!(abandoned >= 200, "a client may change its mind: {abandoned}");
        // As fast as it can.
        connection = open(&world, 65_535).await;
        for number in 0.. {
            assert!(number < 5_000, "the connection is still open");
            let Ok(mut sender) = connection.sender.clone().ready().await else { break };
            let Ok((_, mut body)) = sender.send_request(post(&world).body(()).expect("a request"), false)
            else {
                break;
            };
            // The request is on its way.
            tokio::task::yield_now().await;
            body.send_reset(Reason::CANCEL);
        }
        let mut connection = open(&world, 65_535).await;
        assert_eq!(connection.exchange(post(&world).body(()).expect("a request"), EVENT).await.0, 202);
    });
}

#[test]
fn connection_without_a_request_is_closed() {
    let Some(world) = world("", &[]) else { return };
    runtime().block_on(async {
        let connection = open(&world, 65_535).await;
        let opened = Instant::now();
        let _ = connection.driver.await;
        assert!(opened.elapsed() > Duration::from_secs(3), "{:?}", opened.elapsed());
    });
}

#[test]
fn request_names_one_host_and_a_head_of_bounded_size() {
    let Some(world) = world("", &[]) else { return };
    runtime().block_on(async {
        let mut connection = open(&world, 65_535).await;
        let host = |host: &str| {
            Request::get("https://localhost/healthz").header("Host", host).body(()).expect("a request")
        };
        assert_eq!(connection.exchange(host("localhost"), "").await.0, 200);
        let (status, problem) = connection.exchange(host("other.example"), "").await;
        assert_eq!((status, &problem["field"]), (400, &Value::from("Host")));
        let long = Request::get("https://localhost/healthz").header("X-Long", "x".repeat(20_000));
        assert_eq!(connection.exchange(long.body(()).expect("a request"), "").await.0, 431);
        assert_eq!(connection.exchange(host("localhost"), "").await.0, 200, "the connection goes on");
    });
}

#[test]
fn streams_over_http2_end_with_the_server() {
    let Some(mut world) = world("", &[]) else { return };
    let runtime = runtime();
    let connection = runtime.block_on(async {
        let mut connection = open(&world, 65_535).await;
        let stream = connection.send(get(&world, "/v1/watch?load=1"), "").await.await.expect("a head");
        assert_eq!(stream.status(), 200);
        (connection, stream)
    });
    let driver = std::thread::spawn(move || {
        runtime.block_on(async {
            let (connection, stream) = connection;
            let reading = tokio::spawn(read(stream));
            let _ = connection.driver.await;
            reading.abort();
        });
    });
    let asked = Instant::now();
    world.stop();
    assert!(
        asked.elapsed() < Duration::from_secs(9),
        "an open stream does not delay a stop: {:?}",
        asked.elapsed()
    );
    driver.join().expect("the client ends");
}
