//! A minimal DDP client over a WebSocket library that the server does not use.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::handshake::client::Request;
use tungstenite::protocol::Message;
use tungstenite::{Error, WebSocket};

use crate::world::World;

/// The longest time that the server may take to send a message.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The close code of a connection, or 0 if it had none.
pub(crate) type Closed = u16;

/// A DDP connection.
pub(crate) struct Socket {
    inner: WebSocket<TcpStream>,
}

/// The handshake request for a socket at this target.
pub(crate) fn handshake(world: &World, target: &str) -> Request {
    format!("ws://{}{target}", world.address).into_client_request().expect("an address")
}

impl Socket {
    /// Opens a socket with this request.
    pub(crate) fn with_request(world: &World, request: Request) -> Socket {
        let stream = TcpStream::connect(world.address).expect("the server accepts connections");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout can be set");
        let (inner, _) = tungstenite::client(request, stream).expect("the server answers the handshake");
        Socket { inner }
    }

    /// Opens a socket without a credential and without sending `connect`.
    pub(crate) fn unconnected(world: &World) -> Socket {
        Socket::with_request(world, handshake(world, "/websocket"))
    }

    /// Connects without a credential.
    pub(crate) fn anonymous(world: &World) -> Socket {
        Socket::unconnected(world).connected()
    }

    /// Connects with a key.
    pub(crate) fn open(world: &World, key: &str) -> Socket {
        let mut request = handshake(world, "/websocket");
        let value = format!("Bearer {key}").parse().expect("a header");
        request.headers_mut().insert("Authorization", value);
        Socket::with_request(world, request).connected()
    }

    /// The underlying connection.
    pub(crate) fn stream(&self) -> &TcpStream {
        self.inner.get_ref()
    }

    /// Sends `connect`.
    pub(crate) fn connected(mut self) -> Socket {
        self.send_json(json!({"msg": "connect", "version": "1", "support": ["1"]}));
        let answer = self.next();
        assert_eq!(answer["msg"], "connected", "{answer}");
        self
    }

    pub(crate) fn send_json(&mut self, message: Value) {
        self.send_text(&message.to_string());
    }

    pub(crate) fn send_text(&mut self, text: &str) {
        self.send(Message::text(text)).expect("the server reads");
    }

    pub(crate) fn send(&mut self, message: Message) -> Result<(), Error> {
        self.inner.send(message)
    }

    /// Returns the next message; heartbeats are answered.
    pub(crate) fn next(&mut self) -> Value {
        self.next_or_closed().unwrap_or_else(|code| panic!("the connection was closed with {code}"))
    }

    pub(crate) fn next_or_closed(&mut self) -> Result<Value, Closed> {
        loop {
            let message = self.next_of_any()?;
            if message["msg"] != "ping" {
                return Ok(message);
            }
            let _ = self.send(Message::text(r#"{"msg":"pong"}"#));
        }
    }

    /// Returns the code with which the connection is closed; `None` if it is not within the timeout of its stream.
    pub(crate) fn try_next_closed(&mut self) -> Option<Closed> {
        loop {
            match self.inner.read() {
                Ok(Message::Close(frame)) => return Some(frame.map_or(0, |frame| frame.code.into())),
                Ok(_) => {}
                Err(Error::Io(failure)) if failure.kind() == std::io::ErrorKind::WouldBlock => return None,
                Err(_) => return Some(0),
            }
        }
    }

    /// Returns the next message. Heartbeats are returned and not answered.
    pub(crate) fn next_of_any(&mut self) -> Result<Value, Closed> {
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

    /// Returns the next message of this kind; those before it are skipped.
    pub(crate) fn until(&mut self, kind: &str) -> Value {
        loop {
            let message = self.next();
            if message["msg"] == kind {
                return message;
            }
        }
    }

    /// Returns every message up to and including the next one of this kind.
    pub(crate) fn read_until(&mut self, kind: &str) -> Vec<Value> {
        let mut messages = vec![self.next()];
        while messages.last().expect("one")["msg"] != kind {
            messages.push(self.next());
        }
        messages
    }

    /// Subscribes and returns the messages up to `ready` or `nosub`.
    pub(crate) fn subscribe(&mut self, id: &str, name: &str, params: Value) -> Vec<Value> {
        self.send_json(json!({"msg": "sub", "id": id, "name": name, "params": params}));
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

    /// Subscribes and returns the outcome: `ready`, `404 (name)`, `reload`.
    pub(crate) fn try_subscribe(&mut self, id: &str, name: &str, params: Value) -> String {
        let messages = self.subscribe(id, name, params);
        let last = messages.last().expect("one");
        if last["msg"] == "ready" { "ready".into() } else { rejection(&last["error"]) }
    }

    /// Calls a method and returns the messages up to `updated`.
    pub(crate) fn call(&mut self, id: &str, method: &str, params: Value) -> Vec<Value> {
        self.send_json(json!({"msg": "method", "id": id, "method": method, "params": params}));
        let mut messages = self.read_until("updated");
        while messages.last().expect("one")["methods"] != json!([id]) {
            messages.extend(self.read_until("updated"));
        }
        messages
    }

    /// Calls a method and returns its result, or an error such as `400 (score)`.
    pub(crate) fn try_call(&mut self, id: &str, method: &str, params: Value) -> Result<Value, String> {
        let messages = self.call(id, method, params);
        let result = messages.iter().find(|message| message["msg"] == "result").expect("a result");
        assert_eq!(result["id"], id);
        if result["error"].is_null() {
            Ok(result["result"].clone())
        } else {
            Err(rejection(&result["error"]))
        }
    }
}

fn rejection(error: &Value) -> String {
    assert_eq!(
        (&error["errorType"], &error["isClientSafe"]),
        (&json!("Meteor.Error"), &json!(true)),
        "{error}"
    );
    let code = error["error"].as_str().map_or_else(|| error["error"].to_string(), str::to_owned);
    let reason = error["reason"].as_str().expect("a reason");
    assert_eq!(error["message"], format!("{reason} [{code}]"));
    match error["details"]["field"].as_str() {
        Some(field) => format!("{code} ({field})"),
        None => code,
    }
}

/// The collections of a client, built from the messages of the server.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ClientStore {
    documents: BTreeMap<(String, String), Map<String, Value>>,
    orders: BTreeMap<String, Vec<String>>,
}

impl ClientStore {
    /// Applies messages. A message that contradicts the known documents fails the test.
    pub(crate) fn apply<'a>(&mut self, messages: impl IntoIterator<Item = &'a Value>) {
        messages.into_iter().for_each(|message| self.apply_one(message));
    }

    fn apply_one(&mut self, message: &Value) {
        let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
        let key = (text("collection"), text("id"));
        let fields = message["fields"].as_object().cloned().unwrap_or_default();
        let order = self.orders.entry(key.0.clone()).or_default();
        match text("msg").as_str() {
            kind @ ("added" | "addedBefore") => {
                assert!(
                    self.documents.insert(key.clone(), fields).is_none(),
                    "the document exists already: {message}"
                );
                if kind == "addedBefore" {
                    let at = place(order, &message["before"]);
                    order.insert(at, key.1);
                }
            }
            "changed" => {
                let document = self
                    .documents
                    .get_mut(&key)
                    .unwrap_or_else(|| panic!("the document does not exist: {message}"));
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
                assert!(self.documents.remove(&key).is_some(), "the document does not exist: {message}");
                order.retain(|id| *id != key.1);
            }
            _ => {}
        }
    }

    /// A field of the documents of a collection, in their order if they have one, otherwise in the order of their ids.
    pub(crate) fn column(&self, collection: &str, field: &str) -> Vec<Value> {
        let of = |id: &String| self.documents[&(collection.to_owned(), id.clone())][field].clone();
        match self.orders.get(collection).filter(|order| !order.is_empty()) {
            Some(order) => order.iter().map(of).collect(),
            None => {
                let documents = self.documents.iter().filter(|((own, _), _)| own == collection);
                documents.map(|(_, fields)| fields.get(field).cloned().unwrap_or_default()).collect()
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }
}

fn place(order: &[String], before: &Value) -> usize {
    match before.as_str() {
        None => order.len(),
        Some(before) => order.iter().position(|id| id == before).expect("`before` names a known document"),
    }
}
