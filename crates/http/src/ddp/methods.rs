//! Methods: every write of live-ops, by the name that the description of the HTTP interface gives it.
//!
//! A call becomes a request to the route, with the connection's credential. The fields that stand in the route's path and
//! query string go there; all others are the body, in their order and as they were written, so that a client can sign
//! it: what is signed is `JSON.stringify` of those others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use http_body_util::{BodyExt, Limited};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use tower::ServiceExt;

use super::Credential;
use super::ejson;
use super::messages::Refusal;
use crate::AppState;
use crate::api::commands::from_json;
use crate::api::openapi;
use crate::monitor::{Requests, noting_game};
use crate::problem::Problem;

/// An answer of a route: a page of a board is the largest.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// A route, as a method.
#[derive(Debug, PartialEq)]
struct Operation {
    method: Method,
    /// `/v1/boards/{table}/scores`.
    path: String,
    /// Fields that stand in the query string.
    query: BTreeSet<String>,
    has_body: bool,
}

/// By the names of the description.
static OPERATIONS: LazyLock<BTreeMap<String, Operation>> =
    LazyLock::new(|| operations(&serde_json::from_str(openapi::liveops()).expect("the description is JSON")));

/// The routes of the HTTP door, and where it is counted what they are asked.
#[derive(Clone)]
pub struct Routes {
    /// The routes.
    pub router: Router,
    /// Of the thread.
    pub requests: Arc<Requests>,
}

/// What is called, checked and ready to be done.
pub(super) struct Call {
    operation: &'static Operation,
    request: Request<Body>,
}

/// What a call came to: JSON, which is empty if there is nothing to say.
pub(super) type Answer = Result<String, Refusal>;

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    signature: Option<String>,
    idempotency_key: Option<String>,
}

impl Call {
    /// Reads a call.
    pub(super) fn read(
        shared: &AppState,
        credential: &Credential,
        name: &str,
        params: &[&RawValue],
    ) -> Result<Call, Problem> {
        let operation = OPERATIONS.get(name).ok_or_else(|| {
            Problem::not_found(
                "there is no such method: it is `login`, or the `operationId` of a write of live-ops",
            )
            .field("method")
        })?;
        if params.len() > 2 {
            return Err(Problem::invalid("there are two at most: fields, and options").field("params"));
        }
        let fields = params.first().map_or(Ok(Fields::default()), |fields| Fields::read(fields.get()))?;
        let options: Options =
            params.get(1).map_or(Ok(Options::default()), |it| from_json(it.get().as_bytes()))?;
        let Placed { path, body } = operation.place(fields)?;
        let mut request =
            credential.request(shared).method(operation.method.clone()).uri(credential.target(&path));
        let headers = request
            .headers_mut()
            .ok_or_else(|| Problem::invalid("it does not fit into an address").field("params"))?;
        for (name, value) in
            [("x-playmeter-signature", options.signature), ("idempotency-key", options.idempotency_key)]
        {
            let Some(value) = value else { continue };
            let problem = || Problem::invalid("it cannot stand in a header").field(name);
            headers
                .insert(HeaderName::from_static(name), HeaderValue::from_str(&value).map_err(|_| problem())?);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let request = request.body(Body::from(body)).map_err(|error| Problem::invalid(error.to_string()))?;
        Ok(Call { operation, request })
    }

    /// Does it. It counts as a request of its route.
    pub(super) async fn answer(self, shared: Arc<AppState>, routes: Routes) -> Answer {
        let Routes { router, requests } = routes;
        let (route, started) = ((&self.operation.method, &self.operation.path[..]), Instant::now());
        let (game, response) = noting_game(router.oneshot(self.request)).await;
        let response = response.unwrap_or_else(|never| match never {});
        shared.monitor.answered(&requests, game, route, (response.status(), started.elapsed()));
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Problem::internal("the answer is too large"))?.to_bytes();
        if status >= 400 {
            return Err(Refusal::answered(status, &body));
        }
        String::from_utf8(body.into()).map_err(|_| Problem::internal("the answer is no JSON").into())
    }
}

struct Placed {
    path: String,
    body: String,
}

impl Operation {
    /// Puts each field where the route expects it. Whether the body may have it is for the route to say.
    fn place(&self, fields: Fields) -> Result<Placed, Problem> {
        let mut path = self.path.clone();
        let mut query = String::new();
        let mut body = String::from("{");
        for (name, value) in fields.0 {
            let placeholder = format!("{{{name}}}");
            if path.contains(&placeholder) {
                path = path.replace(&placeholder, &encoded(&text(&name, &value)?));
            } else if self.query.contains(&name) || name.starts_with("filter.") && !self.query.is_empty() {
                let separator = if query.is_empty() { '?' } else { '&' };
                let _ = write!(query, "{separator}{}={}", encoded(&name), encoded(&text(&name, &value)?));
            } else {
                let comma = if body.len() == 1 { "" } else { "," };
                let value =
                    ejson::plain_text(value.get()).map_err(|error| Problem::malformed(error.to_string()))?;
                let _ = write!(body, "{comma}{}:{value}", Value::from(name));
            }
        }
        if let Some((_, missing)) = path.split_once('{') {
            let name = missing.split('}').next().unwrap_or_default();
            return Err(Problem::invalid("it is missing").field(name));
        }
        if !self.has_body && body.len() > 1 {
            let name = body.split('"').nth(1).unwrap_or_default();
            return Err(Problem::invalid("there is no such field").field(name));
        }
        body.push('}');
        Ok(Placed { path: path + &query, body: if self.has_body { body } else { String::new() } })
    }
}

/// A field of a path or query string: text, a number, true or false.
fn text(name: &str, value: &RawValue) -> Result<String, Problem> {
    match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) if !text.is_empty() => Ok(text),
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        _ => Err(Problem::invalid("it is text, or a number").field(name)),
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

/// The fields of an object in their order, as they were written.
#[derive(Default)]
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    fn read(text: &str) -> Result<Fields, Problem> {
        // Not through `ejson`: what is signed must stay as it is.
        from_json::<Fields>(text.as_bytes())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Every write of a description.
fn operations(description: &Value) -> BTreeMap<String, Operation> {
    let paths = description["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.filter_map(|(method, about)| {
            Some((about["operationId"].as_str()?.to_owned(), operation(path, method, about, description)?))
        })
    });
    operations.collect()
}

/// `None`: it is a read.
fn operation(path: &str, method: &str, about: &Value, description: &Value) -> Option<Operation> {
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).ok()?;
    if !matches!(method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE) {
        return None;
    }
    let schema = &about["requestBody"]["content"]["application/json"]["schema"];
    let schema = match schema["$ref"].as_str() {
        Some(name) => description.pointer(name.trim_start_matches('#')).unwrap_or(schema),
        None => schema,
    };
    let parameters = about["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|parameter| parameter["in"] == "query");
    let names = query.filter_map(|parameter| parameter["name"].as_str());
    // A field of the body comes first: it is what the method is about.
    let query = names.filter(|name| schema["properties"][*name].is_null()).map(str::to_owned).collect();
    Some(Operation { method, path: path.to_owned(), query, has_body: about["requestBody"].is_object() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, fields: &str, expected: &str) {
        let operation = &OPERATIONS[name];
        let placed = Fields::read(fields).and_then(|fields| operation.place(fields));
        let said = match placed {
            Ok(Placed { path, body }) => format!("{} {path} {body}", operation.method),
            Err(problem) => problem.brief(),
        };
        assert_eq!(said.trim_end(), expected, "{name} {fields}");
    }

    #[test]
    fn each_field_goes_where_the_route_expects_it() {
        check(
            "submit_score",
            r#"{"table":"high scores/1","player":"bo","score":1.50}"#,
            r#"POST /v1/boards/high%20scores%2F1/scores {"player":"bo","score":1.50}"#,
        );
        check(
            "submit_and_list",
            r#"{"score": 7, "table":"a","per_page":20,"source":"ad","filter.mode":"easy","highest":true}"#,
            r#"POST /v1/boards/a/scores:saveAndList?per_page=20&filter.mode=easy&highest=true {"score":7,"source":"ad"}"#,
        );
        check("follow", r#"{"player":"bo","other":"cy"}"#, "PUT /v1/players/bo/follows/cy");
        check(
            "put_variable",
            r#"{"name":"a","value":{"$date":0}}"#,
            r#"PUT /v1/vars/a {"value":"1970-01-01T00:00:00Z"}"#,
        );
    }

    #[test]
    fn what_does_not_fit_a_route_is_named() {
        check("submit_score", r#"{"score":1}"#, "400 invalid_field (table)");
        check("submit_score", r#"{"table":{"a":1}}"#, "400 invalid_field (table)");
        check("submit_score", r#"{"table":""}"#, "400 invalid_field (table)");
        check("follow", r#"{"player":"bo","other":"cy","since":1}"#, "400 invalid_field (since)");
        check("follow", "[]", "400 invalid_field");
        check("follow", "7", "400 invalid_field");
    }

    #[test]
    fn every_write_of_live_ops_is_a_method_and_no_read_is() {
        let names: Vec<&str> = OPERATIONS.keys().map(String::as_str).collect();
        for name in
            ["answer_survey", "grant_achievement", "open_session", "post_to_feed", "rate_level", "save_level"]
        {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        for name in ["list_scores", "send_events", "query", "sign_out", "watch"] {
            assert!(!names.contains(&name), "{name}");
        }
        assert!(OPERATIONS.values().all(|operation| operation.path.starts_with("/v1/")));
    }
}
