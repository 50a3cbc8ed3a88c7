//! An HTTP server that receives webhooks, and behaves as a test says.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(super) enum Behaviour {
    /// Responds with this status.
    Status(u16),
    /// Never responds.
    Hang,
    /// Closes the connection.
    Close,
    /// Redirects to this URL.
    Redirect(String),
}

/// A request that it has received.
#[derive(Clone, Debug)]
pub(super) struct Received {
    pub(super) head: String,
    pub(super) body: String,
    /// The status that it responded with; 0 for none.
    pub(super) status: u16,
}

impl Received {
    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then_some(value.trim())
        });
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// The server. It ends with the process.
pub(super) struct Receiver {
    /// Its URL.
    pub(super) url: String,
    behaviour: Arc<Mutex<Behaviour>>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    pub(super) fn start(behaviour: Behaviour) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let behaviour = Arc::new(Mutex::new(behaviour));
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let shared = (Arc::clone(&behaviour), Arc::clone(&received));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (behaviour, received) = (Arc::clone(&shared.0), Arc::clone(&shared.1));
                std::thread::spawn(move || serve(stream, &behaviour, &received));
            }
        });
        Receiver { url, behaviour, received }
    }

    pub(super) fn behave(&self, behaviour: Behaviour) {
        *self.behaviour.lock().expect("no thread panics with it") = behaviour;
    }

    /// All requests so far.
    pub(super) fn all(&self) -> Vec<Received> {
        self.received.lock().expect("no thread panics with it").clone()
    }

    /// The requests that were confirmed.
    pub(super) fn confirmed(&self) -> Vec<Received> {
        self.all().into_iter().filter(|request| request.status == 200).collect()
    }
}

fn serve(mut stream: TcpStream, behaviour: &Mutex<Behaviour>, received: &Mutex<Vec<Received>>) {
    let Some((head, body)) = read(&mut stream) else { return };
    let behaviour = behaviour.lock().expect("no thread panics with it").clone();
    let (status, more) = match &behaviour {
        Behaviour::Status(status) => (*status, String::new()),
        Behaviour::Redirect(url) => (302, format!("Location: {url}\r\n")),
        Behaviour::Hang | Behaviour::Close => (0, String::new()),
    };
    received.lock().expect("no thread panics with it").push(Received { head, body, status });
    if matches!(behaviour, Behaviour::Hang) {
        std::thread::sleep(Duration::from_secs(600));
    }
    if status > 0 {
        let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 2\r\n{more}\r\nok");
    }
}

fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            let body_end = end + 4 + length.unwrap_or_default();
            if bytes.len() >= body_end {
                return Some((head, String::from_utf8_lossy(&bytes[end + 4..body_end]).into_owned()));
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
