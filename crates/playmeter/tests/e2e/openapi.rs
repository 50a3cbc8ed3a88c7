//! The OpenAPI description at `/openapi.json` is complete, and every example in it works.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::client::Request;
use crate::route_table;
use crate::world::World;

/// Routes for browsers and for clients of other services, which are described elsewhere.
const NOT_DESCRIBED: &[&str] = &[
    "/",
    "/assets/{*path}",
    "/{file}",
    "/sign-in",
    "/play",
    "/play/",
    "/play/config.json",
    "/play/{*path}",
    "/openapi.json",
    "/sdk/integrity.json",
    "/sdk/{file}",
    "/sdk/{version}/{file}",
    "/v1",
    "/tracker/q.aspx",
    "/{key}/tracker/q.aspx",
    "/tracker/p.aspx",
    "/{key}/tracker/p.aspx",
    "/v3/api.aspx",
    "/{key}/v3/api.aspx",
    "/ping",
    "/health",
    "/query",
    "/websocket",
    "/ddp",
    "/sockjs",
    "/sockjs/",
    "/sockjs/info",
    "/sockjs/{server}/{session}/websocket",
    "/sockjs/{server}/{session}/xhr",
    "/sockjs/{server}/{session}/xhr_streaming",
    "/sockjs/{server}/{session}/xhr_send",
    "/api/event",
    "/api/send",
    "/e",
    "/e/",
    "/i/v0/e",
    "/i/v0/e/",
    "/capture",
    "/capture/",
    "/batch",
    "/batch/",
    "/flags",
    "/flags/",
    "/decide",
    "/decide/",
    "/array/{key}/config",
    "/array/{key}/config.js",
    "/v1/batch",
    "/v1/track",
    "/v1/identify",
    "/v1/page",
    "/v1/screen",
    "/v1/group",
    "/v1/alias",
    "/v2/{key}/events",
    "/v2/{key}/init",
    "/remote_configs/v1/init",
];
/// The order of the methods: earlier ones create what later ones need.
const ORDER: [&str; 5] = ["put", "post", "patch", "get", "delete"];

/// One operation of the OpenAPI description.
pub(crate) struct Operation {
    pub method: &'static str,
    pub path: String,
    definition: Value,
}

impl Operation {
    /// All operations, in an order in which their examples work.
    pub(crate) fn all(description: &Value) -> Vec<Operation> {
        let paths = description["paths"].as_object().expect("paths");
        let of = |method: &'static str| {
            let having = paths.iter().filter(move |(_, methods)| methods[method].is_object());
            having.map(move |(path, methods)| Operation {
                method,
                path: path.clone(),
                definition: methods[method].clone(),
            })
        };
        let mut all: Vec<Operation> = ORDER.iter().flat_map(|method| of(method)).collect();
        // The other operations create receipts.
        all.sort_by_key(|operation| operation.path == "/v1/erasures/{receipt}");
        all
    }

    /// The content type of its body, if it is not JSON.
    fn content_type(&self) -> Option<&str> {
        let content = self.definition["requestBody"]["content"].as_object()?;
        content.keys().next().map(String::as_str).filter(|kind| *kind != "application/json")
    }

    /// The example of its body, if it has one.
    pub(crate) fn body(&self) -> Option<Value> {
        let content = self.definition["requestBody"]["content"].as_object()?;
        content.values().next().map(|kind| kind["example"].clone())
    }

    /// The fields that its body may have.
    pub(crate) fn fields(&self, description: &Value) -> BTreeSet<String> {
        let content = self.definition["requestBody"]["content"].as_object();
        let schema = content.and_then(|content| content.values().next()).map(|kind| &kind["schema"]);
        let name = schema.and_then(|schema| schema["$ref"].as_str()).and_then(|name| name.rsplit('/').next());
        let schema = name.map(|name| &description["components"]["schemas"][name]).or(schema);
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        properties.map(|fields| fields.keys().cloned().collect()).unwrap_or_default()
    }

    /// Its path and query string from the examples; ids of earlier answers take precedence.
    pub(crate) fn target(&self, created: &BTreeMap<String, String>) -> String {
        let mut target = self.path.clone();
        let mut separator = '?';
        for parameter in self.definition["parameters"].as_array().into_iter().flatten() {
            let name = parameter["name"].as_str().expect("a name");
            let example = match &parameter["example"] {
                Value::Null => &parameter["schema"]["example"],
                example => example,
            };
            let example = example.as_str().map_or_else(|| example.to_string(), str::to_owned);
            if parameter["in"] == "path" {
                let key = self.path.split(&format!("{{{name}}}")).next().unwrap_or_default();
                // The moderation routes use the ids of levels.
                let key = if key == "/v1/moderation/" { "/v1/levels/" } else { key };
                let value = created.get(key).cloned().unwrap_or(example);
                target = target.replace(&format!("{{{name}}}"), &value);
            } else if parameter["in"] == "query" && example != "null" {
                target += &format!("{separator}{name}={}", example.replace(' ', "+"));
                separator = '&';
            }
        }
        target
    }

    pub(crate) fn request(&self, created: &BTreeMap<String, String>) -> Request {
        let method = match self.method {
            "put" => "PUT",
            "post" => "POST",
            "patch" => "PATCH",
            "get" => "GET",
            _ => "DELETE",
        };
        let mut request = Request::new(method, self.target(created));
        for parameter in self.definition["parameters"].as_array().into_iter().flatten() {
            if let ("header", Some(example)) =
                (parameter["in"].as_str().unwrap_or_default(), parameter["example"].as_str())
            {
                request = request.header(parameter["name"].as_str().expect("a name"), example);
            }
        }
        match (self.content_type(), self.body()) {
            (Some(kind), Some(Value::String(text))) => request.header("Content-Type", kind).body(text),
            (_, Some(body)) => request.body(body.to_string()),
            (_, None) => request,
        }
    }

    /// Its operation id.
    pub(crate) fn id(&self) -> &str {
        self.definition["operationId"].as_str().expect("an operationId")
    }

    /// The example fields of its body and of its path; ids of earlier answers take precedence.
    pub(crate) fn example_fields(&self, created: &BTreeMap<String, String>) -> Value {
        let mut fields = self.body().unwrap_or_else(|| serde_json::json!({}));
        let target = self.target(created);
        let path = target.split('?').next().unwrap_or_default();
        for (name, value) in self.path.split('/').zip(path.split('/')) {
            let value = value.split(':').next().unwrap_or_default();
            if let Some(name) = name.strip_prefix('{').and_then(|name| name.split('}').next()) {
                fields[name] = value.into();
            }
        }
        fields
    }

    /// Returns true if it requires a sign-in.
    pub(crate) fn requires_sign_in(&self) -> bool {
        self.definition["security"] == serde_json::json!([{ "sign_in": [] }])
    }

    fn statuses(&self) -> BTreeSet<u16> {
        let responses = self.definition["responses"].as_object().expect("responses");
        responses.keys().filter_map(|status| status.parse().ok()).filter(|status| *status < 400).collect()
    }
}

/// The OpenAPI description of a running server.
pub(crate) fn description(world: &World) -> Value {
    world.send(&Request::get("/openapi.json")).json()
}

/// Every method of every route that must be described, such as `put /v1/vars/{name}`.
fn routes() -> BTreeSet<String> {
    let mut routes = BTreeSet::from(["post /v1/events".to_owned()]);
    for (path, handlers) in route_table::routes() {
        let has = |method: &str| {
            handlers.contains(&format!("::{method}(")) || handlers.contains(&format!(".{method}("))
        };
        let methods =
            ORDER.into_iter().filter(|method| has(method) && !NOT_DESCRIBED.contains(&path.as_str()));
        routes.extend(methods.map(|method| format!("{method} {path}")));
    }
    routes
}

#[test]
fn every_route_is_described() {
    let world = World::new();
    let description = description(&world);
    assert_eq!(description["openapi"], "3.1.0");
    let described = Operation::all(&description).into_iter();
    let described: BTreeSet<String> =
        described.map(|operation| format!("{} {}", operation.method, operation.path)).collect();
    assert_eq!(described, routes());
    for operation in Operation::all(&description) {
        let named = format!("{} {}", operation.method, operation.path);
        assert!(
            operation.definition["summary"].as_str().is_some_and(|text| !text.is_empty()),
            "{named}: summary"
        );
        assert!(operation.definition["operationId"].is_string(), "{named}: operationId");
        assert!(operation.definition["security"].is_array(), "{named}: security");
        assert!(!operation.statuses().is_empty(), "{named}: responses");
        assert!(operation.body() != Some(Value::Null), "{named}: an example of the body");
    }
}

/// The id of a score in quarantine: the examples use a secret key, whose scores are not checked.
fn waiting_score(world: &World) -> String {
    let board = Request::new("PUT", "/v1/boards/high-scores").key(&world.secret_key);
    world.send(&board.body(r#"{"mode":"open","checks":{"min_play_s":1}}"#));
    let score = Request::new("POST", "/v1/boards/high-scores/scores").key(&world.public_key);
    world.send(&score.body(r#"{"player":"eve","score":9}"#));
    let waiting =
        world.send(&Request::get("/v1/boards/high-scores/quarantine").key(&world.secret_key)).json();
    waiting["items"][0]["id"].as_str().expect("an id").to_owned()
}

/// The id of a running flow.
fn running_flow(world: &World) -> String {
    let packets = Request::new("POST", "/v1/flows/packets").key(&world.secret_key);
    world.send(&packets.body(r#"{"from":"cy","to":"dee","seq":1}"#));
    let flows = world.send(&Request::get("/v1/flows").key(&world.secret_key)).json();
    flows["flows"][0]["id"].as_str().expect("an id").to_owned()
}

#[test]
fn every_example_works() {
    let world = World::new();
    assert_eq!(world.command(&["games", "set", "demo", "--export", "true"]).code, 0);
    let description = description(&world);
    let mut created = BTreeMap::from([
        ("/v1/boards/{table}/quarantine/".to_owned(), waiting_score(&world)),
        ("/v1/flows/".to_owned(), running_flow(&world)),
    ]);
    let mut failed = Vec::new();
    for operation in Operation::all(&description).iter().filter(|operation| !operation.requires_sign_in()) {
        let request = operation.request(&created).key(&world.secret_key);
        let answer = world.send(&request);
        if !operation.statuses().contains(&answer.status) {
            let target = operation.target(&created);
            failed.push(format!("{} {target}: {} {}", operation.method, answer.status, answer.text()));
            continue;
        }
        if operation.path == "/v1/players/{player}" && operation.method == "delete" {
            let receipt = answer.json()["receipt"].as_str().expect("a receipt").to_owned();
            created.insert("/v1/erasures/".to_owned(), receipt);
        }
        if operation.method == "post" && answer.text().starts_with('{') {
            let id = ["id", "receipt"]
                .into_iter()
                .find_map(|name| answer.json()[name].as_str().map(str::to_owned));
            id.map(|id| created.insert(format!("{}/", operation.path), id));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
