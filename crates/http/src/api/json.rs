//! JSON of request and response bodies.

use axum::response::IntoResponse;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};
use model::limits::JSON_DEPTH_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::commands::HandlerResult;
use crate::problem::Problem;

/// Responds with 200 and JSON that must not be cached.
pub(crate) fn json_response(body: &impl Serialize) -> HandlerResult {
    let json = serde_json::to_vec(body).map_err(|error| Problem::internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], json).into_response())
}

/// Reads JSON into a type. An error names the path of the field that is wrong.
pub(crate) fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if depth(bytes) > JSON_DEPTH_MAX {
        return Err(Problem::malformed(format!(
            "the JSON must not nest deeper than {JSON_DEPTH_MAX} levels"
        )));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        bad_json(error.inner(), &path)
    })?;
    deserializer.end().map_err(|error| bad_json(&error, "."))?;
    Ok(value)
}

fn bad_json(error: &serde_json::Error, path: &str) -> Problem {
    let detail = error.to_string();
    if !error.is_data() {
        return Problem::malformed(format!("the body is not JSON: {detail}"));
    }
    let detail = detail.split(" at line ").next().unwrap_or_default().to_owned();
    let named = detail.split_once(" field `").and_then(|(_, rest)| rest.split('`').next());
    let field = match (path, named) {
        (".", Some(named)) => named.to_owned(),
        (path, Some(named)) if !path.ends_with(named) => format!("{path}.{named}"),
        (path, _) => path.to_owned(),
    };
    let problem = Problem::invalid(detail);
    if field == "." { problem } else { problem.field(field) }
}

/// Returns how deep brackets nest, outside of strings.
fn depth(json: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in json {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (_, b'"') => in_string = !in_string,
            (false, b'[' | b'{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "the test only checks that it can be read")]
    struct Outer {
        name: String,
        inner: Option<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "the test only checks that it can be read")]
    struct Inner {
        number: u8,
    }

    fn check(json: &str, expected: &str) {
        let problem = from_json::<Outer>(json.as_bytes()).expect_err(json);
        assert_eq!(problem.brief(), expected, "{json}");
    }

    #[test]
    fn invalid_field_is_named_by_its_path() {
        assert!(from_json::<Outer>(br#"{"name": "a", "inner": {"number": 1}}"#).is_ok());
        check(r#"{"name": "a", "owner": 1}"#, "400 invalid_field (owner)");
        check(r#"{"inner": {"number": 1}}"#, "400 invalid_field (name)");
        check(r#"{"name": 1}"#, "400 invalid_field (name)");
        check(r#"{"name": "a", "name": "b"}"#, "400 invalid_field (name)");
        check(r#"{"name": "a", "inner": {"number": 300}}"#, "400 invalid_field (inner.number)");
        check(r#"{"name": "a", "inner": {"number": 1, "id": 2}}"#, "400 invalid_field (inner.id)");
        check(r#"{"name": "a""#, "400 malformed");
        check(r#"{"name": "a"} {}"#, "400 malformed");
        check("[]", "400 invalid_field");
    }

    #[test]
    fn deep_nesting_is_rejected() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(from_json::<serde_json::Value>(nested(32).as_bytes()).is_ok());
        assert_eq!(from_json::<serde_json::Value>(nested(33).as_bytes()).unwrap_err().status(), 400);
        assert_eq!(depth(br#"{"a": "[[[\"[[[", "b": [1]}"#), 2);
    }
}
