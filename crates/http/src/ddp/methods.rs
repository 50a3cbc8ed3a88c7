//! Methods: every write of live-ops, named by its operation id in the OpenAPI document.
//!
//! A call becomes a request to the route, with the connection's credential. Fields of the route's path and query string
//! go there. All other fields become the body, unchanged and in their order, so that a client can sign it: the signature
//! covers `JSON.stringify` of those fields.

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
use super::messages::DdpError;
use crate::AppState;
use crate::api::json::from_json;
use crate::api::openapi;
use crate::body_memory::ReservedMemory;
use crate::monitor::RequestCounts;
use crate::problem::Problem;
use crate::request_context::RequestGame;

/// The largest response of a route. A page of a board is the largest in practice.
const RESPONSE_BYTES_MAX: usize = 8 << 20;
/// The largest body of a method that does not count as memory of a request body.
const COUNTED_BYTES_MIN: usize = 4 << 10;

/// The route of a method.
#[derive(Debug, PartialEq)]
struct Operation {
    method: Method,
    /// The path template, such as `/v1/boards/{table}/scores`.
    path: String,
    /// The fields of the query string.
    query: BTreeSet<String>,
    has_body: bool,
}

/// All methods by operation id.
static OPERATIONS: LazyLock<BTreeMap<String, Operation>> = LazyLock::new(|| {
    operations(&serde_json::from_str(openapi::liveops_json()).expect("the OpenAPI document is JSON"))
});

/// The HTTP routes that methods call, and the counts of the requests to them.
#[derive(Clone)]
pub(crate) struct MethodRouter {
    pub(crate) router: Router,
    /// The counts of this thread.
    pub(crate) requests: Arc<RequestCounts>,
}

/// A validated method call.
pub(super) struct MethodCall {
    operation: &'static Operation,
    request: Request<Body>,
    /// The memory of its body, until the method has finished.
    reserved: ReservedMemory,
}

/// The JSON of the response body, which may be empty.
pub(super) type MethodResult = Result<String, DdpError>;

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct MethodOptions {
    signature: Option<String>,
    idempotency_key: Option<String>,
}

impl MethodCall {
    /// Validates a call. Fails if there is no such method or its parameters do not fit it.
    pub(super) fn parse(
        credential: &Credential,
        name: &str,
        params: &[&RawValue],
    ) -> Result<MethodCall, Problem> {
        let operation = OPERATIONS.get(name).ok_or_else(|| {
            Problem::not_found("no such method: use `login` or the `operationId` of a live-ops write")
                .field("method")
        })?;
        if params.len() > 2 {
            return Err(Problem::invalid("at most two are allowed: fields and options").field("params"));
        }
        let fields =
            params.first().map_or(Ok(MethodFields::default()), |fields| MethodFields::parse(fields.get()))?;
        let options: MethodOptions =
            params.get(1).map_or(Ok(MethodOptions::default()), |it| from_json(it.get().as_bytes()))?;
        let RouteRequest { path, body } = operation.route_request(fields)?;
        let mut request = credential.request().method(operation.method.clone()).uri(credential.target(&path));
        let headers = request
            .headers_mut()
            .ok_or_else(|| Problem::invalid("the fields do not form a valid URL").field("params"))?;
        for (name, value) in
            [("x-playmeter-signature", options.signature), ("idempotency-key", options.idempotency_key)]
        {
            let Some(value) = value else { continue };
            let problem = || Problem::invalid("must be a valid header value").field(name);
            headers
                .insert(HeaderName::from_static(name), HeaderValue::from_str(&value).map_err(|_| problem())?);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Smaller ones are bounded by the number of methods of a connection.
        let counted = if body.len() > COUNTED_BYTES_MIN { body.len() } else { 0 };
        let reserved = credential.reserve(counted)?;
        let request = request.body(Body::from(body)).map_err(|error| Problem::invalid(error.to_string()))?;
        Ok(MethodCall { operation, request, reserved })
    }

    /// Calls the route and returns its response body. The monitor counts it as a request to the route.
    pub(super) async fn run(self, shared: Arc<AppState>, routes: MethodRouter) -> MethodResult {
        let MethodRouter { router, requests } = routes;
        let (route, started) = ((&self.operation.method, &self.operation.path[..]), Instant::now());
        let _reserved = self.reserved;
        let mut response = router.oneshot(self.request).await.unwrap_or_else(|never| match never {});
        let game = response.extensions_mut().remove::<RequestGame>().map(|RequestGame(game)| game);
        shared.monitor.record_request(&requests, game, route, (response.status(), started.elapsed()));
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(|_| Problem::internal("the response is too large"))?.to_bytes();
        if status >= 400 {
            return Err(DdpError::from_response(status, &body));
        }
        String::from_utf8(body.into()).map_err(|_| Problem::internal("the response is not UTF-8").into())
    }
}

struct RouteRequest {
    path: String,
    body: String,
}

impl Operation {
    /// Distributes the fields over path, query string and body. The route validates the fields of the body.
    fn route_request(&self, fields: MethodFields) -> Result<RouteRequest, Problem> {
        let mut path = self.path.clone();
        let mut query = String::new();
        let mut body = String::from("{");
        for (name, value) in fields.0 {
            let placeholder = format!("{{{name}}}");
            if path.contains(&placeholder) {
                path = path.replace(&placeholder, &percent_encoded(&parameter_text(&name, &value)?));
            } else if self.query.contains(&name) || name.starts_with("filter.") && !self.query.is_empty() {
                let separator = if query.is_empty() { '?' } else { '&' };
                let _ = write!(
                    query,
                    "{separator}{}={}",
                    percent_encoded(&name),
                    percent_encoded(&parameter_text(&name, &value)?)
                );
            } else {
                let comma = if body.len() == 1 { "" } else { "," };
                let value =
                    ejson::plain_text(value.get()).map_err(|error| Problem::malformed(error.to_string()))?;
                let _ = write!(body, "{comma}{}:{value}", Value::from(name));
            }
        }
        if let Some((_, missing)) = path.split_once('{') {
            let name = missing.split('}').next().unwrap_or_default();
            return Err(Problem::invalid("required field is missing").field(name));
        }
        if !self.has_body && body.len() > 1 {
            let name = body.split('"').nth(1).unwrap_or_default();
            return Err(Problem::invalid("unknown field").field(name));
        }
        body.push('}');
        Ok(RouteRequest { path: path + &query, body: if self.has_body { body } else { String::new() } })
    }
}

/// Formats the value of a field of a path or query string: text, a number, true or false.
fn parameter_text(name: &str, value: &RawValue) -> Result<String, Problem> {
    match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) if !text.is_empty() => Ok(text),
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
        _ => Err(Problem::invalid("must be text, a number, true or false, and not empty").field(name)),
    }
}

fn percent_encoded(text: &str) -> String {
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

/// The fields of an object, unchanged and in their order.
#[derive(Default)]
struct MethodFields(Vec<(String, Box<RawValue>)>);

impl MethodFields {
    fn parse(text: &str) -> Result<MethodFields, Problem> {
        // Not converted from EJSON here: a signed body must stay unchanged.
        from_json::<MethodFields>(text.as_bytes())
    }
}

impl<'de> Deserialize<'de> for MethodFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MethodFields, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = MethodFields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MethodFields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(MethodFields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Returns every write of an OpenAPI document.
fn operations(document: &Value) -> BTreeMap<String, Operation> {
    let paths = document["paths"].as_object().into_iter().flatten();
    let operations = paths.flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.filter_map(|(method, spec)| {
            Some((spec["operationId"].as_str()?.to_owned(), operation(path, method, spec, document)?))
        })
    });
    operations.collect()
}

/// Returns the operation of a write, or `None` for a read.
fn operation(path: &str, method: &str, spec: &Value, document: &Value) -> Option<Operation> {
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).ok()?;
    if !matches!(method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE) {
        return None;
    }
    let schema = &spec["requestBody"]["content"]["application/json"]["schema"];
    let schema = match schema["$ref"].as_str() {
        Some(name) => document.pointer(name.trim_start_matches('#')).unwrap_or(schema),
        None => schema,
    };
    let parameters = spec["parameters"].as_array().into_iter().flatten();
    let query = parameters.filter(|parameter| parameter["in"] == "query");
    let names = query.filter_map(|parameter| parameter["name"].as_str());
    // A name that is also a field of the body belongs to the body.
    let query = names.filter(|name| schema["properties"][*name].is_null()).map(str::to_owned).collect();
    Some(Operation { method, path: path.to_owned(), query, has_body: spec["requestBody"].is_object() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, fields: &str, expected: &str) {
        let operation = &OPERATIONS[name];
        let request = MethodFields::parse(fields).and_then(|fields| operation.route_request(fields));
        let summary = match request {
            Ok(RouteRequest { path, body }) => format!("{} {path} {body}", operation.method),
            Err(problem) => problem.brief(),
        };
        assert_eq!(summary.trim_end(), expected, "{name} {fields}");
    }

    #[test]
    fn fields_are_placed_in_path_query_and_body() {
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
    fn invalid_field_is_named_in_the_problem() {
        check("submit_score", r#"{"score":1}"#, "400 invalid_field (table)");
        check("submit_score", r#"{"table":{"a":1}}"#, "400 invalid_field (table)");
        check("submit_score", r#"{"table":""}"#, "400 invalid_field (table)");
        check("follow", r#"{"player":"bo","other":"cy","since":1}"#, "400 invalid_field (since)");
        check("follow", "[]", "400 invalid_field");
        check("follow", "7", "400 invalid_field");
    }

    #[test]
    fn methods_are_the_writes_of_live_ops() {
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
