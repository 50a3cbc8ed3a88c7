//! A query as a JSON object, or as URL parameters with the same names.
//!
//! This file lists every field; an unknown field is an error that names it.

use model::limits::QUERY_BYTES_MAX;
use model::query::{
    CompareWith, Measure, MetricQuery, NumberedDimension, Query, QueryDimension, QueryError, Step,
    WindowLength,
};
use serde_json::{Map, Value, json};

use crate::time::parse_time;

/// URL parameters that are not part of the query: the handler has read the credential already.
const IGNORED_PARAMETERS: [&str; 2] = ["key", "game"];

/// Parses a JSON object. `declared` are the declared dimensions of the game.
pub fn from_json(body: &[u8], declared: &[NumberedDimension]) -> Result<Query, QueryError> {
    if body.len() > QUERY_BYTES_MAX {
        return Err(QueryError::new("body", format!("must not be larger than {QUERY_BYTES_MAX} bytes")));
    }
    let fields: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| QueryError::new("body", format!("is not a JSON object: {error}")))?;
    query(&fields, declared)
}

/// Parses decoded URL parameters. `by` is a comma-separated list, `where.platform=web` may be repeated, and `metrics`
/// is JSON.
pub fn from_pairs<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    declared: &[NumberedDimension],
) -> Result<Query, QueryError> {
    let mut fields = Map::new();
    let mut filter = Map::new();
    for (name, text) in pairs {
        if IGNORED_PARAMETERS.contains(&name) {
            continue;
        }
        if let Some(by) = name.strip_prefix("where.") {
            let values = filter.entry(by).or_insert_with(|| Value::Array(Vec::new()));
            values.as_array_mut().expect("it was made an array").push(text.into());
        } else if fields.insert(name.to_owned(), parameter(name, text)?).is_some() {
            return Err(QueryError::new(name, "occurs more than once"));
        }
    }
    if !filter.is_empty() && fields.insert("where".to_owned(), Value::Object(filter)).is_some() {
        return Err(QueryError::new("where", "occurs more than once"));
    }
    query(&fields, declared)
}

/// Returns the query as a JSON object for [`from_json`]. Unset fields are omitted.
pub fn to_json(query: &Query) -> Value {
    let metric = |metric: &MetricQuery| {
        let measure = metric.measure.map(Measure::label);
        without_nulls([
            ("as", json!(metric.as_name)),
            ("metric", json!(metric.metric)),
            ("measure", json!(measure)),
        ])
    };
    let values = |(by, values): &(QueryDimension, Vec<String>)| (by.label().to_owned(), json!(values));
    let filter = (!query.filter.is_empty()).then(|| query.filter.iter().map(values).collect());
    let by: Vec<&str> = query.by.iter().map(QueryDimension::label).collect();
    without_nulls([
        ("metrics", query.metrics.iter().map(metric).collect()),
        ("formula", json!(query.formula)),
        ("from", json!(query.from_ms)),
        ("to", json!(query.until_ms)),
        ("last", json!(query.last.map(|last| last.to_string()))),
        ("step", json!(query.step.map(Step::label))),
        ("by", if by.is_empty() { Value::Null } else { json!(by) }),
        ("where", filter.map_or(Value::Null, Value::Object)),
        ("top", json!(query.top)),
        ("tz", json!(query.tz)),
        ("compare", json!(query.compare.map(CompareWith::label))),
    ])
}

fn without_nulls<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let set = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(set.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn parameter(name: &str, text: &str) -> Result<Value, QueryError> {
    match name {
        "by" => Ok(text.split(',').filter(|by| !by.is_empty()).collect()),
        "top" => text.parse::<u64>().map(Value::from).map_err(|_| invalid(name, "a non-negative integer")),
        "metrics" => serde_json::from_str(text)
            .map_err(|error| QueryError::new(name, format!("is not valid JSON: {error}"))),
        // A plus sign that was not encoded is decoded as a space.
        "from" | "to" => Ok(text.replace(' ', "+").into()),
        _ => Ok(text.into()),
    }
}

fn query(fields: &Map<String, Value>, declared: &[NumberedDimension]) -> Result<Query, QueryError> {
    let mut query = Query::default();
    let mut single = MetricQuery::default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match &name[..] {
            "metric" => single.metric = text(name, value)?.to_owned(),
            "measure" => single.measure = Some(measure(name, value)?),
            "metrics" => query.metrics = metrics(value)?,
            "formula" => query.formula = Some(text(name, value)?.to_owned()),
            "from" => query.from_ms = Some(time(name, value)?),
            "to" => query.until_ms = Some(time(name, value)?),
            "last" => {
                query.last =
                    Some(choice(name, value, WindowLength::parse, "a duration such as 60m, 24h, 7d or 4w")?)
            }
            "step" if value == "auto" => query.step = None,
            "step" => {
                query.step = Some(choice(
                    name,
                    value,
                    Step::from_label,
                    "minute, hour, day, week, month, auto or all",
                )?)
            }
            "by" => {
                let by = |value| by(name, value, declared);
                query.by = list(name, value)?.into_iter().map(by).collect::<Result<_, _>>()?
            }
            "where" => query.filter = filter(value, declared)?,
            "top" => query.top = Some(top(name, value)?),
            "tz" => query.tz = Some(text(name, value)?.to_owned()),
            "compare" => {
                query.compare = Some(choice(name, value, CompareWith::from_label, "previous or year")?)
            }
            _ => return Err(unknown(name)),
        }
    }
    let has_single = !single.metric.is_empty() || single.measure.is_some();
    match (query.metrics.is_empty(), has_single) {
        (false, true) => Err(QueryError::new("metrics", "must not be combined with metric and measure")),
        (true, true) => Ok(Query { metrics: vec![single], ..query }),
        (_, false) => Ok(query),
    }
}

fn metrics(value: &Value) -> Result<Vec<MetricQuery>, QueryError> {
    let metrics = value.as_array().ok_or_else(|| invalid("metrics", "a list of objects"))?;
    metrics.iter().enumerate().map(|(index, value)| metric(&format!("metrics[{index}]"), value)).collect()
}

fn metric(field: &str, value: &Value) -> Result<MetricQuery, QueryError> {
    let fields = value.as_object().ok_or_else(|| invalid(field, "an object with metric, measure and as"))?;
    let mut metric = MetricQuery::default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let field = format!("{field}.{name}");
        match &name[..] {
            "as" => metric.as_name = Some(text(&field, value)?.to_owned()),
            "metric" => metric.metric = text(&field, value)?.to_owned(),
            "measure" => metric.measure = Some(measure(&field, value)?),
            _ => return Err(unknown(&field)),
        }
    }
    Ok(metric)
}

fn filter(
    value: &Value,
    declared: &[NumberedDimension],
) -> Result<Vec<(QueryDimension, Vec<String>)>, QueryError> {
    let fields = value
        .as_object()
        .ok_or_else(|| invalid("where", "an object with a list of values for each dimension"))?;
    let one = |(name, value): (&String, &Value)| {
        let field = format!("where.{name}");
        let values = list(&field, value)?.into_iter().map(str::to_owned).collect();
        Ok((by(&field, name, declared)?, values))
    };
    fields.iter().filter(|(_, value)| !value.is_null()).map(one).collect()
}

fn by(field: &str, name: &str, declared: &[NumberedDimension]) -> Result<QueryDimension, QueryError> {
    QueryDimension::from_label(name, declared).ok_or_else(|| {
        let mut known =
            "one of event, country, source, platform, version, level, variant, vars, measure".to_owned();
        declared.iter().for_each(|declared| known.extend([", ", &declared.name]));
        invalid(field, &known)
    })
}

fn measure(field: &str, value: &Value) -> Result<Measure, QueryError> {
    choice(
        field,
        value,
        Measure::from_label,
        "count, sum, min, max, avg, uniques, p10, p50, p90, p99 or last",
    )
}

fn time(field: &str, value: &Value) -> Result<i64, QueryError> {
    let time = value.as_i64().or_else(|| value.as_str().and_then(parse_time));
    time.ok_or_else(|| invalid(field, "a time such as 2026-11-19T00:00:00Z, or milliseconds since 1970"))
}

fn top(field: &str, value: &Value) -> Result<usize, QueryError> {
    let top = value.as_u64().and_then(|top| usize::try_from(top).ok());
    top.ok_or_else(|| invalid(field, "a non-negative integer"))
}

fn choice<T>(
    field: &str,
    value: &Value,
    parse: fn(&str) -> Option<T>,
    expected: &str,
) -> Result<T, QueryError> {
    parse(text(field, value)?).ok_or_else(|| invalid(field, expected))
}

/// Parses a list of strings. A single string stands for a list of one.
fn list<'v>(field: &str, value: &'v Value) -> Result<Vec<&'v str>, QueryError> {
    match value {
        Value::String(text) => Ok(vec![text]),
        Value::Array(values) => values.iter().map(|value| text(field, value)).collect(),
        _ => Err(invalid(field, "a list of strings")),
    }
}

fn text<'v>(field: &str, value: &'v Value) -> Result<&'v str, QueryError> {
    value.as_str().ok_or_else(|| invalid(field, "a string"))
}

fn invalid(field: &str, expected: &str) -> QueryError {
    QueryError::new(field, format!("must be {expected}"))
}

fn unknown(field: &str) -> QueryError {
    QueryError::new(field, "is not a field of a query")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the parsed query, or the field and the reason of the error.
    fn check(parsed: Result<Query, QueryError>, expected: &str) {
        let shown = match parsed {
            Ok(query) => format!("{query:?}"),
            Err(error) => error.to_string(),
        };
        assert!(shown.contains(expected), "{shown}");
    }

    fn json(body: &str) -> Result<Query, QueryError> {
        from_json(body.as_bytes(), &[])
    }

    fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Query, QueryError> {
        super::from_pairs(pairs, &[])
    }

    #[test]
    fn queries_survive_a_round_trip() {
        for body in [
            r#"{"metric": "plays"}"#,
            r#"{"metrics": [{"metric": "a", "as": "x", "measure": "p90"}, {"metric": "b"}], "formula": "x / b"}"#,
            r#"{"metric": "a", "from": 60000, "to": 120000, "step": "minute", "tz": "Europe/Paris"}"#,
            r#"{"metric": "a", "last": "7d", "by": ["country", "event"], "top": 3, "compare": "previous"}"#,
            r#"{"metric": "a", "last": "90m", "where": {"platform": ["web", "ios"]}, "compare": "year"}"#,
        ] {
            let query = json(body).expect("it is a query");
            assert_eq!(json(&to_json(&query).to_string()), Ok(query));
        }
    }

    #[test]
    fn declared_dimensions_are_parsed_by_name() {
        let declared = [NumberedDimension { number: 3, name: "weapon".into() }];
        let body = br#"{"metric": "plays", "by": ["weapon"], "where": {"weapon": "bow"}}"#;
        let weapon = QueryDimension::Declared(declared[0].clone());
        let query = from_json(body, &declared).expect("it is declared");
        assert_eq!(
            (&query.by[..], &query.filter[..]),
            (&[weapon.clone()][..], &[(weapon, vec!["bow".into()])][..])
        );
        let pairs = [("metric", "plays"), ("by", "weapon"), ("where.weapon", "bow")];
        assert_eq!(super::from_pairs(pairs, &declared), Ok(query));
        check(
            from_json(body, &[]),
            "by: must be one of event, country, source, platform, version, level, variant, vars, measure",
        );
        check(from_json(br#"{"by": ["hat"]}"#, &declared), "level, variant, vars, measure, weapon");
    }

    const WHOLE: &str = r#"{"metric": "plays", "measure": "count", "from": "2026-11-19T00:00:00Z",
        "to": 1795132800000, "step": "minute", "by": ["country"], "where": {"platform": ["web", "ios"]}, "top": 20,
        "tz": "Europe/Paris", "compare": "previous", "formula": null}"#;

    #[test]
    fn url_parameters_and_json_give_the_same_query() {
        let parameters = [
            ("metric", "plays"),
            ("measure", "count"),
            ("from", "2026-11-19T01:00:00 01:00"),
            ("to", "2026-11-20T00:00:00Z"),
            ("step", "minute"),
            ("by", "country"),
            ("where.platform", "web"),
            ("where.platform", "ios"),
            ("top", "20"),
            ("tz", "Europe/Paris"),
            ("compare", "previous"),
            ("key", "pk_1"),
        ];
        let query = json(WHOLE).expect("it is the example of the documentation");
        assert_eq!(from_pairs(parameters), Ok(query.clone()));
        assert_eq!(
            query.filter,
            [(QueryDimension::BuiltIn(model::Dimension::Platform), vec!["web".into(), "ios".into()])]
        );
        assert_eq!((query.from_ms, query.until_ms), (Some(1_795_046_400_000), Some(1_795_132_800_000)));
    }

    #[test]
    fn several_metrics_are_parsed_with_their_names() {
        let several = r#"[{"as": "A", "metric": "plays", "measure": "p90"}, {"metric": "views"}]"#;
        let query =
            json(&format!(r#"{{"metrics": {several}, "formula": "A / views"}}"#)).expect("it is well formed");
        assert_eq!(from_pairs([("metrics", several), ("formula", "A / views")]), Ok(query.clone()));
        assert_eq!(query.metrics[0].as_name.as_deref(), Some("A"));
        assert_eq!(query.metrics[0].measure, Some(Measure::P90));
        check(json(&format!(r#"{{"metrics": {several}, "metric": "a"}}"#)), "metrics: must not be combined");
    }

    #[test]
    fn errors_name_the_field_and_the_expected_value() {
        check(json("[]"), "body: is not a JSON object");
        check(json(&" ".repeat(QUERY_BYTES_MAX + 1)), "body: must not be larger than 65536 bytes");
        check(json(r#"{"metric": 1}"#), "metric: must be a string");
        check(json(r#"{"filter": {}}"#), "filter: is not a field of a query");
        check(json(r#"{"measure": "mean"}"#), "measure: must be count, sum,");
        check(json(r#"{"metrics": {}}"#), "metrics: must be a list");
        check(json(r#"{"metrics": [{"metric": "a", "measure": "x"}]}"#), "metrics[0].measure: must be count");
        check(json(r#"{"metrics": [{"metric": "a"}, {"name": "a"}]}"#), "metrics[1].name: is not a field");
        check(json(r#"{"from": "yesterday"}"#), "from: must be a time such as");
        check(json(r#"{"last": "7"}"#), "last: must be a duration such as");
        check(json(r#"{"step": "second"}"#), "step: must be minute,");
        check(json(r#"{"by": ["city"]}"#), "by: must be one of event, country,");
        check(json(r#"{"where": {"city": ["x"]}}"#), "where.city: must be one of");
        check(json(r#"{"where": {"country": [1]}}"#), "where.country: must be a string");
        check(json(r#"{"top": -1}"#), "top: must be a non-negative integer");
        check(json(r#"{"compare": "never"}"#), "compare: must be previous or year");
        check(from_pairs([("top", "x")]), "top: must be a non-negative integer");
        check(from_pairs([("step", "hour"), ("step", "day")]), "step: occurs more than once");
        check(from_pairs([("wher.country", "FR")]), "wher.country: is not a field");
        check(from_pairs([("metrics", "[")]), "metrics: is not valid JSON");
    }

    #[test]
    fn omitted_and_empty_fields_are_unset() {
        assert_eq!(json(r#"{"step": "auto", "where": {}, "by": [], "top": null}"#), Ok(Query::default()));
        assert_eq!(from_pairs([("by", ""), ("game", "letters")]), Ok(Query::default()));
    }
}
