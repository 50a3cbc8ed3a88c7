//! Adds to the description what is the same for many operations, so that no handler has to repeat it: the tags, the
//! errors of every operation, their content type, and the formats of lists.

use serde_json::{Map, Value, json};

use crate::rows::LISTS;

const PROBLEM_JSON: &str = "application/problem+json";
const PROBLEM_SCHEMA: &str = "#/components/schemas/ProblemDocument";

const TAGS: [(&str, &str); 18] = [
    ("achievements", "Achievements of players."),
    ("alerts", "Rules that watch queries and notify."),
    ("analytics", "Queries over everything that was received."),
    ("boards", "Leaderboards."),
    ("cohorts", "Sets of players."),
    ("dashboards", "Saved questions, and grids of them."),
    ("events", "Sending events and samples."),
    ("feed", "Activities of the players that a player follows."),
    ("flows", "Two-way streams with quality metrics."),
    ("games", "The games of this installation, for the owner."),
    ("levels", "Levels made and shared by players."),
    ("live", "Updates as they happen."),
    ("operations", "The state of the server."),
    ("people", "People who sign in to the dashboard."),
    ("players", "Sessions and bans of players."),
    ("privacy", "Export and erasure of a player's data."),
    ("surveys", "Questions to players."),
    ("variables", "Values that games load and are pushed."),
];

/// The operations that answer in the encoding of their request, as OpenTelemetry exporters expect.
const OTLP: [&str; 3] = ["/v1/metrics", "/v1/logs", "/v1/traces"];

/// An error that operations have in common.
struct CommonError {
    status: &'static str,
    /// Its name among the components.
    name: &'static str,
    description: &'static str,
    applies: fn(&Operation<'_>) -> bool,
}

/// What decides which errors an operation has.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    definition: &'a Map<String, Value>,
}

impl Operation<'_> {
    fn needs_credential(&self) -> bool {
        let alternatives = self.definition["security"].as_array().map_or(&[][..], Vec::as_slice);
        alternatives.iter().any(|alternative| alternative.as_object().is_some_and(|one| !one.is_empty()))
    }

    fn has_body(&self) -> bool {
        self.definition.contains_key("requestBody")
    }

    /// Returns true if it is a live-ops write, which the applier may refuse.
    fn is_command(&self) -> bool {
        let tag = self.definition["tags"][0].as_str().unwrap_or_default();
        self.method != "get" && !["analytics", "events", "flows", "games", "people"].contains(&tag)
    }
}

const COMMON_ERRORS: [CommonError; 13] = [
    CommonError {
        status: "400",
        name: "BadRequest",
        description: "The request is malformed, or `field` is invalid.",
        applies: |operation| operation.needs_credential(),
    },
    CommonError {
        status: "401",
        name: "Unauthorized",
        description: "The credential or the signature is missing or invalid.",
        applies: |operation| operation.needs_credential(),
    },
    CommonError {
        status: "403",
        name: "Forbidden",
        description: "The credential does not permit this request.",
        applies: |operation| operation.needs_credential(),
    },
    CommonError {
        status: "404",
        name: "NotFound",
        description: "The addressed object does not exist.",
        applies: |operation| operation.path.contains('{') || operation.is_command(),
    },
    CommonError {
        status: "408",
        name: "BodyTimeout",
        description: "The body arrived too slowly. Send it again.",
        applies: |operation| operation.has_body(),
    },
    CommonError {
        status: "409",
        name: "Conflict",
        description: "The request conflicts with the current state.",
        applies: |operation| operation.is_command(),
    },
    CommonError {
        status: "413",
        name: "TooLarge",
        description: "The body is too large; nothing was accepted.",
        applies: |operation| operation.has_body() || operation.is_command(),
    },
    CommonError {
        status: "415",
        name: "UnsupportedContent",
        description: "The content type or encoding is not supported.",
        applies: |operation| operation.has_body(),
    },
    CommonError {
        status: "421",
        name: "Misdirected",
        description: "The request names another host than the public URL of the server.",
        applies: |_| true,
    },
    CommonError {
        status: "422",
        name: "Unprocessable",
        description: "The request is valid, but a limit of the game or of the server does not allow it.",
        applies: |operation| operation.is_command() || is_list(operation.path),
    },
    CommonError {
        status: "429",
        name: "TooManyRequests",
        description: "A rate limit or quota, named by `field`, is exceeded. Send it again after `Retry-After`.",
        applies: |operation| operation.needs_credential(),
    },
    CommonError {
        status: "500",
        name: "Internal",
        description: "The server failed to handle the request.",
        applies: |_| true,
    },
    CommonError {
        status: "503",
        name: "Unavailable",
        description: "The server is busy, stopping, or its disk is full. Send it again after `Retry-After`.",
        applies: |_| true,
    },
];

fn is_list(path: &str) -> bool {
    LISTS.iter().any(|(list, _)| *list == path)
}

/// Completes a description.
pub(super) fn complete(description: &mut Value) {
    description["servers"] = json!([{ "url": "/", "description": "This server." }]);
    description["tags"] =
        TAGS.iter().map(|(name, text)| json!({"name": name, "description": text})).collect();
    let errors = COMMON_ERRORS.iter().map(|error| {
        let retry = matches!(error.status, "429" | "503");
        (error.name.to_owned(), problem_response(error.description, retry))
    });
    description["components"]["responses"] = Value::Object(errors.collect());
    let paths = description["paths"].as_object_mut().expect("a description has paths");
    for (path, methods) in paths {
        for (method, definition) in methods.as_object_mut().expect("a path has methods") {
            let definition = definition.as_object_mut().expect("an operation is an object");
            complete_operation(method, path, definition);
        }
    }
}

fn complete_operation(method: &str, path: &str, definition: &mut Map<String, Value>) {
    let operation = Operation { method, path, definition };
    let common: Vec<&CommonError> =
        COMMON_ERRORS.iter().filter(|error| (error.applies)(&operation)).collect();
    let responses = definition["responses"].as_object_mut().expect("an operation has responses");
    for (status, response) in responses.iter_mut().filter(|(status, _)| status.as_str() >= "400") {
        let text = response["description"].as_str().unwrap_or_default();
        *response = problem_response(text, matches!(status.as_str(), "429" | "503"));
    }
    for error in common {
        let reference = || json!({ "$ref": format!("#/components/responses/{}", error.name) });
        responses.entry(error.status).or_insert_with(reference);
    }
    if OTLP.contains(&path) {
        for (_, response) in responses.iter_mut().filter(|(status, _)| status.as_str() >= "400") {
            *response = otlp_response();
        }
        responses["200"]["content"]["application/x-protobuf"] = json!({ "schema": { "type": "string" } });
    }
    if method == "get" && (is_list(path) || path == "/v1/query") {
        add_formats(definition);
    }
    if path == "/v1/query" {
        add_row_contents(definition);
    }
}

/// Describes an error with a problem document as its body.
fn problem_response(description: &str, retry: bool) -> Value {
    let mut response = json!({
        "description": description,
        "content": { PROBLEM_JSON: { "schema": { "$ref": PROBLEM_SCHEMA } } },
    });
    if retry {
        let header = json!({ "description": "Seconds to wait.", "schema": { "type": "integer" } });
        response["headers"] = json!({ "Retry-After": header });
    }
    response
}

/// Describes an error in the encoding of the request; without a valid key it is a problem document.
fn otlp_response() -> Value {
    let mut response = problem_response(
        "The request was rejected as a whole: a `google.rpc.Status` with a `message`.",
        true,
    );
    response["content"]["application/json"] = json!({ "schema": { "type": "object" } });
    response["content"]["application/x-protobuf"] = json!({ "schema": { "type": "string" } });
    response
}

/// Describes the parameter `format` of an operation, and the content types that it adds.
fn add_formats(definition: &mut Map<String, Value>) {
    let format = json!({
        "name": "format", "in": "query", "required": false,
        "description": "`csv` or `ndjson`: flat rows instead of one JSON document. In CSV a text that a spreadsheet \
                        would run as a formula gets an apostrophe in front.",
        "schema": { "type": "string", "enum": ["json", "csv", "ndjson"] },
    });
    let parameters = definition.entry("parameters").or_insert_with(|| json!([]));
    parameters.as_array_mut().expect("parameters are a list").push(format);
    add_row_contents(definition);
}

fn add_row_contents(definition: &mut Map<String, Value>) {
    let content = &mut definition["responses"]["200"]["content"];
    for content_type in ["text/csv", "application/x-ndjson"] {
        content[content_type] = json!({ "schema": { "type": "string" } });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;

    use super::super::JSON;
    use super::*;

    fn sources(folder: &Path, texts: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("the sources are there").flatten() {
            match entry.path() {
                path if path.is_dir() => sources(&path, texts),
                path => texts.push(fs::read_to_string(path).expect("the file is readable")),
            }
        }
    }

    /// The description has one schema per name, whatever type it came from.
    #[test]
    fn no_two_types_have_the_same_schema_name() {
        let (mut texts, mut counts) = (Vec::new(), BTreeMap::<String, usize>::new());
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut texts);
        for derived in texts.iter().flat_map(|text| text.split("#[derive(").skip(1)) {
            let (traits, rest) = derived.split_once(")]").expect("a derive ends");
            if traits.contains("ToSchema") {
                let mut words = rest.split_whitespace().skip_while(|word| !["struct", "enum"].contains(word));
                let name = words.nth(1).expect("a name").trim_end_matches(['<', '(', ';']);
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        assert!(counts.len() > 40, "{counts:?}");
        let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        assert!(repeated.is_empty(), "{repeated:?}");
    }

    #[test]
    fn every_error_is_a_problem_document() {
        let description: Value = serde_json::from_str(&JSON).expect("the description is JSON");
        let tags: Vec<_> = TAGS.iter().map(|(name, _)| *name).collect();
        for (path, methods) in description["paths"].as_object().expect("paths") {
            for (method, definition) in methods.as_object().expect("methods") {
                let tag = definition["tags"][0].as_str().expect("a tag");
                assert!(tags.contains(&tag), "{method} {path}: {tag}");
                for (status, response) in definition["responses"].as_object().expect("responses") {
                    let response = match response["$ref"].as_str().and_then(|name| name.rsplit('/').next()) {
                        Some(name) => &description["components"]["responses"][name],
                        None => response,
                    };
                    let content = response["content"].as_object();
                    let is_problem = content.is_some_and(|content| content.contains_key(PROBLEM_JSON));
                    assert_eq!(is_problem, status.as_str() >= "400", "{method} {path} {status}");
                }
            }
        }
    }
}
