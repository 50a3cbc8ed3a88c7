//! A client of DDP of a few lines, over a WebSocket library that is not the server's business.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::client::Request;
use tungstenite::protocol::Message;
use tungstenite::{Error, WebSocket};

use crate::world::World;

/// No message of the server may take longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a connection ended: the code, or 0 without one.
pub type Closed = u16;

/// A connection.
pub struct Socket {
    inner: WebSocket<TcpStream>,
}

/// The request for a socket at this target.
pub fn handshake(world: &World, target: &str) -> Request {
    format!("ws://{}{target}", world.address).into_client_request().expect("an address")
}

impl Socket {
    /// Opens a socket with this request.
    pub fn of(world: &World, request: Request) -> Socket {
        let stream = TcpStream::connect(world.address).expect("the server takes connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out can be set");
        let (inner, _) = tungstenite::client(request, stream).expect("the server answers the handshake");
        Socket { inner }
    }

    /// Opens one without a credential and says nothing yet.
    pub fn silent(world: &World) -> Socket {
        Socket::of(world, handshake(world, "/websocket"))
    }

    /// Connects without a credential.
    pub fn nobody(world: &World) -> Socket {
        Socket::silent(world).connected()
    }

    /// Connects with a key.
    pub fn open(world: &World, key: &str) -> Socket {
        let mut request = handshake(world, "/websocket");
        let value = format!("Bearer {key}").parse().expect("a header");
        request.headers_mut().insert("Authorization", value);
        Socket::of(world, request).connected()
    }

    /// What is underneath.
    pub fn stream(&self) -> &TcpStream {
        self.inner.get_ref()
    }

    /// Says `connect`.
    pub fn connected(mut self) -> Socket {
        self.say(json!({"msg": "connect", "version": "1", "support": ["1"]}));
        let answer = self.next();
        assert_eq!(answer["msg"], "connected", "{answer}");
        self
    }

    pub fn say(&mut self, message: Value) {
        self.say_text(&message.to_string());
    }

    pub fn say_text(&mut self, text: &str) {
        self.send(Message::text(text)).expect("the server reads");
    }

    pub fn send(&mut self, message: Message) -> Result<(), Error> {
        self.inner.send(message)
    }

    /// The next message; heartbeats are answered.
    pub fn next(&mut self) -> Value {
        self.next_or_closed().unwrap_or_else(|code| panic!("the connection was closed with {code}"))
    }

    pub fn next_or_closed(&mut self) -> Result<Value, Closed> {
        loop {
            let message = self.next_of_any()?;
            if message["msg"] != "ping" {
                return Ok(message);
            }
            let _ = self.send(Message::text(r#"{"msg":"pong"}"#));
        }
    }

    /// The next message, heartbeats included, which are left unanswered.
    pub fn next_of_any(&mut self) -> Result<Value, Closed> {
        loop {
            match self.inner.read() {
                Ok(Message::Text(text)) => return Ok(serde_json::from_str(&text).expect("messages are JSON")),
                Ok(Message::Close(frame)) => return Err(frame.map_or(0, |frame| frame.code.into())),
                Ok(_) => {}
                Err(Error::ConnectionClosed | Error::Protocol(_)) => return Err(0),
                Err(Error::Io(failure)) if failure.kind() == std::io::ErrorKind::ConnectionReset => {
                    return Err(0);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next message of this kind; those before it are passed over.
    pub fn until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next();
            if message["msg"] == kind {
                return message;
            }
        }
    }

    /// Everything up to this kind of message, that included.
    pub fn up_to(&mut self, kind: &str) -> Vec<Value> {
        let mut messages = vec![self.next()];
        while messages.last().expect("one")["msg"] != kind {
            messages.push(self.next());
        }
        messages
    }

    /// Subscribes; what is told until it is ready, or refused.
    pub fn sub(&mut self, id: &str, name: &str, params: Value) -> Vec<Value> {
        self.say(json!({"msg": "sub", "id": id, "name": name, "params": params}));
        let mut messages = vec![self.next()];
        let is_last = |message: &Value| {
            message["msg"] == "ready" && message["subs"] == json!([id])
                || message["msg"] == "nosub" && message["id"] == id
        };
        while !is_last(messages.last().expect("one")) {
            messages.push(self.next());
        }
        messages
    }

    /// What came of a subscription: `ready`, `404 (name)`, `reload`.
    pub fn subbed(&mut self, id: &str, name: &str, params: Value) -> String {
        let messages = self.sub(id, name, params);
        let last = messages.last().expect("one");
        if last["msg"] == "ready" { "ready".into() } else { refusal(&last["error"]) }
    }

    /// Calls a method; everything up to `updated`.
    pub fn call(&mut self, id: &str, method: &str, params: Value) -> Vec<Value> {
        self.say(json!({"msg": "method", "id": id, "method": method, "params": params}));
        let mut messages = self.up_to("updated");
        while messages.last().expect("one")["methods"] != json!([id]) {
            messages.extend(self.up_to("updated"));
        }
        messages
    }

    /// What a method came to: its result, or `400 (score)`.
    pub fn called(&mut self, id: &str, method: &str, params: Value) -> Result<Value, String> {
        let messages = self.call(id, method, params);
        let result = messages.iter().find(|message| message["msg"] == "result").expect("a result");
        assert_eq!(result["id"], id);
        if result["error"].is_null() { Ok(result["result"].clone()) } else { Err(refusal(&result["error"])) }
    }
}

fn refusal(error: &Value) -> String {
    assert_eq!(
        (&error["errorType"], &error["isClientSafe"]),
        (&json!("Meteor.Error"), &json!(true)),
        "{error}"
    );
    let said = error["error"].as_str().map_or_else(|| error["error"].to_string(), str::to_owned);
    let reason = error["reason"].as_str().expect("a reason");
    assert_eq!(error["message"], format!("{reason} [{said}]"));
    match error["details"]["field"].as_str() {
        Some(field) => format!("{said} ({field})"),
        None => said,
    }
}

/// Collections as a client keeps them, by what it was told.
#[derive(Debug, Default, PartialEq)]
pub struct Store {
    documents: BTreeMap<(String, String), Map<String, Value>>,
    orders: BTreeMap<String, Vec<String>>,
}

impl Store {
    /// Follows messages; whatever does not fit what is known fails the test.
    pub fn follow<'a>(&mut self, messages: impl IntoIterator<Item = &'a Value>) {
        messages.into_iter().for_each(|message| self.follow_one(message));
    }

    fn follow_one(&mut self, message: &Value) {
        let word = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        let key = (word("collection"), word("id"));
        let fields = message["fields"].as_object().cloned().unwrap_or_default();
        let order = self.orders.entry(key.0.clone()).or_default();
        match word("msg").as_str() {
            kind @ ("added" | "addedBefore") => {
                assert!(
                    self.documents.insert(key.clone(), fields).is_none(),
                    "it is there already: {message}"
                );
                if kind == "addedBefore" {
                    let at = place(order, &message["before"]);
                    order.insert(at, key.1);
                }
            }
            "changed" => {
                let document =
                    self.documents.get_mut(&key).unwrap_or_else(|| panic!("it is not there: {message}"));
                document.extend(fields);
                for name in message["cleared"].as_array().into_iter().flatten() {
                    assert!(document.remove(name.as_str().expect("a name")).is_some(), "{message}");
                }
            }
            "movedBefore" => {
                order.retain(|id| *id != key.1);
                let at = place(order, &message["before"]);
                order.insert(at, key.1);
            }
            "removed" => {
                assert!(self.documents.remove(&key).is_some(), "it is not there: {message}");
                order.retain(|id| *id != key.1);
            }
            _ => {}
        }
    }

    /// A field of the documents of a collection, in their order if they have one, else in that of their ids.
    pub fn column(&self, collection: &str, field: &str) -> Vec<Value> {
        let of = |id: &String| self.documents[&(collection.to_owned(), id.clone())][field].clone();
        match self.orders.get(collection).filter(|order| !order.is_empty()) {
            Some(order) => order.iter().map(of).collect(),
            None => {
                let documents = self.documents.iter().filter(|((own, _), _)| own == collection);
                documents.map(|(_, fields)| fields.get(field).cloned().unwrap_or_default()).collect()
            }
        }
    }

    pub fn len(&self) -> usize {
        self.documents.len()
    }
}

fn place(order: &[String], before: &Value) -> usize {
    match before.as_str() {
        None => order.len(),
        Some(before) => order.iter().position(|id| id == before).expect("it is before one that is there"),
    }
}
