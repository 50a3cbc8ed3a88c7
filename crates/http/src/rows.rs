//! Flat rows in CSV or NDJSON, for spreadsheets, data frames and databases that read a URL: `format=csv` or
//! `format=ndjson` in the query string of a route that lists something.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode, Uri};
use model::csv::push_csv_text;
use serde_json::{Map, Value};

use crate::problem::Problem;

/// Routes that answer with a list, and the field of the answer that holds it.
pub(crate) const LISTS: [(&str, &str); 16] = [
    ("/v1/achievements", "achievements"),
    ("/v1/alerts", "alerts"),
    ("/v1/alerts/{key}/deliveries", "notifications"),
    ("/v1/boards", "boards"),
    ("/v1/boards/{table}/quarantine", "items"),
    ("/v1/boards/{table}/scores", "rows"),
    ("/v1/collectors", "collectors"),
    ("/v1/dimensions", "dimensions"),
    ("/v1/feed/{player}", "items"),
    ("/v1/flows", "flows"),
    ("/v1/flows/ended", "flows"),
    ("/v1/levels", "levels"),
    ("/v1/moderation", "items"),
    ("/v1/players/{player}/follows", "follows"),
    ("/v1/surveys", "surveys"),
    ("/v1/vars:history", "changes"),
];
/// The parameter that selects the format.
const PARAMETER: &str = "format";
/// Maximum size of a list that is converted.
const LIST_BYTES_MAX: usize = 64 << 20;
/// Maximum number of cells: a row has every column of all rows.
const CELLS_MAX: usize = 4 << 20;

/// The format of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowFormat {
    /// The JSON of the route.
    #[default]
    Json,
    /// RFC 4180, with a header.
    Csv,
    /// One JSON object per line.
    Ndjson,
}

impl RowFormat {
    fn parse(value: &str) -> Result<RowFormat, Problem> {
        match value {
            "json" => Ok(RowFormat::Json),
            "csv" => Ok(RowFormat::Csv),
            "ndjson" => Ok(RowFormat::Ndjson),
            _ => Err(Problem::invalid("must be json, csv or ndjson").field(PARAMETER)),
        }
    }

    /// Removes the format from the parameters of a request; `None` if there is none.
    pub(crate) fn take(pairs: &mut Vec<(String, String)>) -> Result<Option<RowFormat>, Problem> {
        let mut formats = pairs.extract_if(.., |(name, _)| name == PARAMETER).map(|(_, value)| value);
        let format = formats.next().map(|value| RowFormat::parse(&value)).transpose()?;
        if formats.next().is_some() {
            return Err(Problem::invalid("occurs more than once").field(PARAMETER));
        }
        Ok(format)
    }

    /// Returns a response with a body in this format. `name` is the file name that a browser saves CSV under.
    pub(crate) fn response(self, name: &str, body: Vec<u8>) -> Response {
        let content_type = match self {
            RowFormat::Json => "application/json",
            RowFormat::Csv => "text/csv; charset=utf-8",
            RowFormat::Ndjson => "application/x-ndjson",
        };
        let mut response = ([(CONTENT_TYPE, content_type)], body).into_response();
        if self == RowFormat::Csv
            && let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}.csv\""))
        {
            response.headers_mut().insert(CONTENT_DISPOSITION, value);
        }
        response
    }
}

/// Answers a request for a list in the format that its query string names.
pub(crate) async fn convert_list(path: MatchedPath, mut request: Request, next: Next) -> Response {
    let list = LISTS.iter().find(|(list, _)| *list == path.as_str());
    let (Some((path, field)), &Method::GET) = (list, request.method()) else {
        return next.run(request).await;
    };
    let format = match take_format(request.uri_mut()) {
        Ok(format) => format.unwrap_or_default(),
        Err(problem) => return problem.into_response(),
    };
    let response = next.run(request).await;
    if format == RowFormat::Json || response.status() != StatusCode::OK {
        return response;
    }
    let (head, body) = response.into_parts();
    let name = path.rsplit(['/', ':']).find(|part| !part.starts_with('{')).unwrap_or("list");
    let mut response = match rows(body, field, format).await {
        Ok(rows) => format.response(name, rows),
        Err(problem) => problem.into_response(),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    *response.extensions_mut() = head.extensions;
    response
}

/// Removes the format from a URL, so that the route does not see it.
fn take_format(uri: &mut Uri) -> Result<Option<RowFormat>, Problem> {
    let query = uri.query().unwrap_or_default();
    let is_format = |pair: &&str| pair.split('=').next() == Some(PARAMETER);
    if !query.split('&').any(|pair| is_format(&pair)) {
        return Ok(None);
    }
    let format = RowFormat::take(&mut crate::query_string::pairs(query)?)?;
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_format(pair)).collect();
    let target = format!("{}?{}", uri.path(), rest.join("&"));
    *uri = target.parse().map_err(|_| Problem::malformed("the URL is not valid"))?;
    Ok(format)
}

async fn rows(body: Body, field: &str, format: RowFormat) -> Result<Vec<u8>, Problem> {
    let too_large = |_| Problem::limit_reached("the list is too large for rows; ask for a smaller page");
    let bytes = axum::body::to_bytes(body, LIST_BYTES_MAX).await.map_err(too_large)?;
    let internal = |error: serde_json::Error| Problem::internal(error.to_string());
    let mut answer: Map<String, Value> = serde_json::from_slice(&bytes).map_err(internal)?;
    let Some(Value::Array(items)) = answer.remove(field) else {
        return Err(Problem::internal(format!("the answer has no list `{field}`")));
    };
    let rows: Vec<Map<String, Value>> = items.into_iter().map(flat_row).collect();
    match format {
        RowFormat::Csv => csv(&rows),
        RowFormat::Json | RowFormat::Ndjson => Ok(ndjson(&rows)),
    }
}

/// Returns an item as a row: the fields of objects inside it become columns such as `row.score`. An item that is no
/// object becomes the column `value`.
fn flat_row(item: Value) -> Map<String, Value> {
    let mut row = Map::new();
    match item {
        Value::Object(fields) => flatten(fields, "", &mut row),
        item => drop(row.insert("value".to_owned(), item)),
    }
    row
}

fn flatten(fields: Map<String, Value>, prefix: &str, row: &mut Map<String, Value>) {
    for (name, value) in fields {
        match value {
            Value::Object(inner) => flatten(inner, &format!("{prefix}{name}."), row),
            value => drop(row.insert(format!("{prefix}{name}"), value)),
        }
    }
}

fn ndjson(rows: &[Map<String, Value>]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut out, row).expect("writing to memory cannot fail");
        out.push(b'\n');
    }
    out
}

fn csv(rows: &[Map<String, Value>]) -> Result<Vec<u8>, Problem> {
    let columns: BTreeSet<&String> = rows.iter().flat_map(Map::keys).collect();
    if columns.len().saturating_mul(rows.len()) > CELLS_MAX {
        return Err(Problem::limit_reached("the list has too many columns for CSV; use format=ndjson"));
    }
    let mut out = Vec::new();
    let end_line = |out: &mut Vec<u8>| {
        out.pop();
        out.extend_from_slice(b"\r\n");
    };
    for column in &columns {
        push_csv_text(&mut out, column);
        out.push(b',');
    }
    end_line(&mut out);
    for row in rows {
        for column in &columns {
            match row.get(*column) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => push_csv_text(&mut out, text),
                Some(Value::Array(list)) => push_csv_text(&mut out, &Value::from(list.clone()).to_string()),
                Some(plain) => out.extend_from_slice(plain.to_string().as_bytes()),
            }
            out.push(b',');
        }
        end_line(&mut out);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(items: Value, as_csv: &str, as_ndjson: &str) {
        let items = items.as_array().expect("a list").clone();
        let rows: Vec<_> = items.into_iter().map(flat_row).collect();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it is text").replace('\r', "");
        assert_eq!(text(csv(&rows).expect("it is small")), as_csv);
        assert_eq!(text(ndjson(&rows)), as_ndjson);
    }

    #[test]
    fn items_become_rows_with_all_columns() {
        check(
            json!([{"id": 1, "row": {"score": -2.5, "player": "=1"}}, {"id": 2, "tags": ["a", "b"], "x": null}]),
            "id,row.player,row.score,tags,x\n1,'=1,-2.5,,\n2,,,\"[\"\"a\"\",\"\"b\"\"]\",\n",
            "{\"id\":1,\"row.player\":\"=1\",\"row.score\":-2.5}\n{\"id\":2,\"tags\":[\"a\",\"b\"],\"x\":null}\n",
        );
        check(json!(["bo", "eve"]), "value\nbo\neve\n", "{\"value\":\"bo\"}\n{\"value\":\"eve\"}\n");
    }

    #[test]
    fn format_is_removed_from_the_url() {
        let mut uri: Uri = "/v1/levels?page=2&format=csv&filter.format=x".parse().expect("a URL");
        assert_eq!(take_format(&mut uri).expect("a known format"), Some(RowFormat::Csv));
        assert_eq!(uri.to_string(), "/v1/levels?page=2&filter.format=x");
        let mut uri: Uri = "/v1/levels?page=2".parse().expect("a URL");
        assert_eq!(take_format(&mut uri).expect("no format"), None);
        for wrong in ["/v1/levels?format=xml", "/v1/levels?format=csv&format=csv", "/v1/levels?format"] {
            let mut uri: Uri = wrong.parse().expect("a URL");
            assert_eq!(take_format(&mut uri).unwrap_err().brief(), "400 invalid_field (format)", "{wrong}");
        }
    }

    #[test]
    fn csv_with_too_many_cells_is_refused() {
        let row = |n: usize| Map::from_iter([(n.to_string(), Value::Null)]);
        let rows: Vec<_> = (0..3_000).map(row).collect();
        assert_eq!(csv(&rows).unwrap_err().status(), 422);
        assert_eq!(ndjson(&rows).iter().filter(|byte| **byte == b'\n').count(), 3_000);
    }
}
