//! A subset of JSON Schema that is checked completely.
//!
//! The keywords are `type`, `enum`, `const`, `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`,
//! `multipleOf`, `minLength`, `maxLength`, `items`, `minItems`, `maxItems`, `uniqueItems`, `properties`, `required`,
//! `additionalProperties`, `minProperties`, `maxProperties`, `allOf`, `anyOf`, `oneOf`, `not`, and the annotations
//! `$schema`, `$comment`, `title`, `description`, `default` and `examples`, as in draft 2020-12. Any other keyword is
//! refused, because users would rely on a rule that is not checked.

use std::cell::Cell;
use std::fmt::Write as _;

use super::decimal::JsonDecimal;
use super::json::JsonNode;

mod read;

/// Rules that one check may evaluate. Otherwise a schema of nested choices over a long list could take minutes.
pub(crate) const STEPS_MAX: u32 = 200_000;

/// An error and its path in the value or schema: `""` for the root, `.speed[2]` for a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaError {
    pub(crate) path: String,
    pub(crate) message: String,
}

/// A parsed schema.
#[derive(Debug)]
pub(crate) struct Schema<'a>(Vec<SchemaRule<'a>>);

#[derive(Debug)]
enum SchemaRule<'a> {
    Never,
    Types(Vec<SchemaType>),
    Enum(Vec<JsonNode<'a>>),
    Minimum {
        bound: JsonDecimal,
        exclusive: bool,
    },
    Maximum {
        bound: JsonDecimal,
        exclusive: bool,
    },
    MultipleOf(JsonDecimal),
    /// The number of characters of a string, items of an array or keys of an object.
    Count {
        of: SchemaType,
        least: u32,
        most: u32,
    },
    Items(Schema<'a>),
    UniqueItems,
    Properties {
        properties: Vec<(String, Schema<'a>)>,
        additional: Option<Schema<'a>>,
    },
    Required(Vec<String>),
    AllOf(Vec<Schema<'a>>),
    AnyOf(Vec<Schema<'a>>),
    OneOf(Vec<Schema<'a>>),
    Not(Schema<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SchemaType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl SchemaType {
    const ALL: [(&'static str, SchemaType); 7] = [
        ("null", SchemaType::Null),
        ("boolean", SchemaType::Boolean),
        ("integer", SchemaType::Integer),
        ("number", SchemaType::Number),
        ("string", SchemaType::String),
        ("array", SchemaType::Array),
        ("object", SchemaType::Object),
    ];

    fn label(self) -> &'static str {
        SchemaType::ALL[self as usize].0
    }

    fn has(self, node: &JsonNode<'_>) -> bool {
        match node {
            JsonNode::Null => self == SchemaType::Null,
            JsonNode::Bool(_) => self == SchemaType::Boolean,
            JsonNode::Number(number) => {
                self == SchemaType::Number || (self == SchemaType::Integer && number.is_integer())
            }
            JsonNode::String(_) => self == SchemaType::String,
            JsonNode::Array(_) => self == SchemaType::Array,
            JsonNode::Object(_) => self == SchemaType::Object,
        }
    }
}

/// Limits the cost of checks. One budget may cover several checks.
pub(crate) struct CheckBudget(Cell<u32>);

impl CheckBudget {
    pub(crate) fn new() -> CheckBudget {
        CheckBudget(Cell::new(STEPS_MAX))
    }

    fn step(&self, path: &str) -> Result<(), SchemaError> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.unwrap_or_default());
        left.map(drop).ok_or_else(|| SchemaError::new(path, "the schema takes too long to check this"))
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

impl SchemaError {
    fn new(path: &str, message: impl Into<String>) -> SchemaError {
        SchemaError { path: path.to_owned(), message: message.into() }
    }
}

impl Schema<'_> {
    /// Checks a value. Returns the first error.
    pub(crate) fn check(&self, value: &JsonNode<'_>, budget: &CheckBudget) -> Result<(), SchemaError> {
        self.check_at(value, &mut String::new(), budget)
    }

    fn check_at(
        &self,
        value: &JsonNode<'_>,
        path: &mut String,
        budget: &CheckBudget,
    ) -> Result<(), SchemaError> {
        self.0.iter().try_for_each(|rule| {
            budget.step(path)?;
            rule.check(value, path, budget)
        })
    }

    fn allows(&self, value: &JsonNode<'_>, path: &mut String, budget: &CheckBudget) -> bool {
        self.check_at(value, path, budget).is_ok()
    }
}

impl SchemaRule<'_> {
    fn check(
        &self,
        value: &JsonNode<'_>,
        path: &mut String,
        budget: &CheckBudget,
    ) -> Result<(), SchemaError> {
        match self {
            SchemaRule::Items(schema) => check_items(schema, value, path, budget),
            SchemaRule::Properties { properties, additional } => {
                check_fields(properties, additional.as_ref(), value, path, budget)
            }
            SchemaRule::AllOf(schemas) => {
                schemas.iter().try_for_each(|schema| schema.check_at(value, path, budget))
            }
            SchemaRule::AnyOf(schemas) => {
                let fits = schemas.iter().any(|schema| schema.allows(value, path, budget));
                choice(fits, "does not match any schema of `anyOf`", path, budget)
            }
            SchemaRule::OneOf(schemas) => {
                let fitting = schemas.iter().filter(|schema| schema.allows(value, path, budget)).count();
                choice(
                    fitting == 1,
                    format!("matches {fitting} schemas of `oneOf` instead of one"),
                    path,
                    budget,
                )
            }
            SchemaRule::Not(schema) => choice(
                !schema.allows(value, path, budget),
                "matches the schema that `not` excludes",
                path,
                budget,
            ),
            SchemaRule::Types(kinds) if !kinds.iter().any(|kind| kind.has(value)) => {
                let wanted: Vec<_> = kinds.iter().map(|kind| kind.label()).collect();
                Err(SchemaError::new(
                    path,
                    format!("is of type {}, not {}", value.kind(), wanted.join(" or ")),
                ))
            }
            plain => plain.violation(value).map_or(Ok(()), |message| Err(SchemaError::new(path, message))),
        }
    }

    /// Returns the violation of a rule that has no inner schemas.
    fn violation(&self, value: &JsonNode<'_>) -> Option<String> {
        match (self, value) {
            (SchemaRule::Never, _) => Some("no value is allowed here".into()),
            (SchemaRule::Enum(values), _) => {
                (!values.contains(value)).then(|| "is not one of the allowed values".into())
            }
            (SchemaRule::Minimum { bound, exclusive }, JsonNode::Number(number)) => {
                (number < bound || (*exclusive && number == bound)).then(|| "is too small".into())
            }
            (SchemaRule::Maximum { bound, exclusive }, JsonNode::Number(number)) => {
                (number > bound || (*exclusive && number == bound)).then(|| "is too large".into())
            }
            (SchemaRule::MultipleOf(unit), JsonNode::Number(number)) => {
                (!number.is_multiple_of(unit)).then(|| "is not a multiple of `multipleOf`".into())
            }
            (SchemaRule::Count { of, least, most }, value) if of.has(value) => {
                (!(*least..=*most).contains(&count(value))).then(|| count_violation(*of, *least, *most))
            }
            (SchemaRule::UniqueItems, JsonNode::Array(items)) => {
                let mut sorted: Vec<_> = items.iter().collect();
                sorted.sort_unstable();
                sorted.windows(2).any(|pair| pair[0] == pair[1]).then(|| "has equal items".into())
            }
            (SchemaRule::Required(names), object @ JsonNode::Object(_)) => {
                let missing = names.iter().find(|name| object.field(name).is_none())?;
                Some(format!("`{missing}` is missing"))
            }
            _ => None,
        }
    }
}

fn choice(
    fits: bool,
    message: impl Into<String>,
    path: &str,
    budget: &CheckBudget,
) -> Result<(), SchemaError> {
    if budget.is_spent() {
        return budget.step(path);
    }
    if fits { Ok(()) } else { Err(SchemaError::new(path, message)) }
}

fn check_items(
    schema: &Schema<'_>,
    value: &JsonNode<'_>,
    path: &mut String,
    budget: &CheckBudget,
) -> Result<(), SchemaError> {
    let JsonNode::Array(items) = value else { return Ok(()) };
    items.iter().enumerate().try_for_each(|(index, item)| {
        at_path(path, format_args!("[{index}]"), |path| schema.check_at(item, path, budget))
    })
}

fn check_fields(
    properties: &[(String, Schema<'_>)],
    additional: Option<&Schema<'_>>,
    value: &JsonNode<'_>,
    path: &mut String,
    budget: &CheckBudget,
) -> Result<(), SchemaError> {
    let JsonNode::Object(fields) = value else { return Ok(()) };
    fields.iter().try_for_each(|(name, field)| {
        let index = properties.binary_search_by(|(key, _)| key.as_str().cmp(name));
        let schema = index.ok().map(|index| &properties[index].1).or(additional);
        let check = |path: &mut String| schema.map_or(Ok(()), |schema| schema.check_at(field, path, budget));
        at_path(path, format_args!(".{name}"), check)
    })
}

fn at_path<T>(path: &mut String, part: std::fmt::Arguments<'_>, then: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.write_fmt(part).expect("writing to a String cannot fail");
    let outcome = then(path);
    path.truncate(length);
    outcome
}

fn count(value: &JsonNode<'_>) -> u32 {
    let count = match value {
        JsonNode::String(text) => text.chars().count(),
        JsonNode::Array(items) => items.len(),
        JsonNode::Object(fields) => fields.len(),
        _ => 0,
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn count_violation(of: SchemaType, least: u32, most: u32) -> String {
    let what = match of {
        SchemaType::String => "characters",
        SchemaType::Array => "items",
        _ => "keys",
    };
    match (least, most) {
        (least, u32::MAX) => format!("has fewer than {least} {what}"),
        (0, most) => format!("has more than {most} {what}"),
        (least, most) => format!("does not have {least} to {most} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Json;
    use super::*;

    /// Returns `ok`, or the path and message of the error.
    fn check(schema: &str, value: &str) -> String {
        let (schema, value) = (Json::parse(schema).expect("JSON"), Json::parse(value).expect("JSON"));
        let node = schema.node().expect("a tree");
        let outcome = Schema::read(&node)
            .and_then(|schema| schema.check(&value.node().expect("a tree"), &CheckBudget::new()));
        outcome.map_or_else(|error| format!("{}: {}", error.path, error.message), |()| "ok".into())
    }

    #[test]
    fn types_are_those_of_json_schema() {
        for (kind, fitting, additional) in [
            ("integer", vec!["1", "1.0", "1e3"], vec!["1.5", "\"1\"", "null"]),
            ("number", vec!["1", "1.5"], vec!["true"]),
            ("string", vec!["\"\""], vec!["1"]),
            ("boolean", vec!["true"], vec!["0"]),
            ("null", vec!["null"], vec!["false"]),
            ("array", vec!["[]"], vec!["{}"]),
            ("object", vec!["{}"], vec!["[]"]),
        ] {
            let schema = format!(r#"{{"type":"{kind}"}}"#);
            assert!(fitting.iter().all(|value| check(&schema, value) == "ok"), "{kind}");
            assert!(additional.iter().all(|value| check(&schema, value) != "ok"), "{kind}");
        }
        assert_eq!(check(r#"{"type":["string","null"]}"#, "1"), ": is of type number, not string or null");
    }

    #[test]
    fn each_rule_allows_and_refuses() {
        for (schema, fitting, other) in [
            (r#"{"enum":[1,"a",{"b":[1.0]}]}"#, r#"{"b":[1]}"#, "2"),
            (r#"{"const":null}"#, "null", "0"),
            (r#"{"minimum":0.1}"#, "0.10", "0.0999999999999999999999"),
            (r#"{"maximum":10}"#, "10.0", "10.00000000000000000001"),
            (r#"{"exclusiveMinimum":0}"#, "1e-300", "0"),
            (r#"{"exclusiveMaximum":1}"#, "0.9", "1.0"),
            (r#"{"multipleOf":0.01}"#, "19.99", "19.999"),
            (r#"{"minLength":2,"maxLength":3}"#, "\"äöü\"", "\"ä\""),
            (r#"{"items":{"type":"integer"}}"#, "[1,2]", "[1,2.5]"),
            (r#"{"minItems":1,"maxItems":2}"#, "[1]", "[]"),
            (r#"{"uniqueItems":true}"#, r#"[1,"1"]"#, "[1,2,1.0]"),
            (r#"{"uniqueItems":false}"#, "[1,1]", ""),
            (r#"{"properties":{"a":{"type":"string"}}}"#, r#"{"a":"x","b":1}"#, r#"{"a":1}"#),
            (r#"{"required":["a"]}"#, r#"{"a":null}"#, "{}"),
            (r#"{"properties":{"a":true},"additionalProperties":false}"#, r#"{"a":1}"#, r#"{"b":1}"#),
            (r#"{"additionalProperties":{"type":"number"}}"#, r#"{"b":1}"#, r#"{"b":""}"#),
            (r#"{"minProperties":1,"maxProperties":1}"#, r#"{"a":1}"#, r#"{"a":1,"b":2}"#),
            (r#"{"allOf":[{"minimum":1},{"maximum":2}]}"#, "2", "3"),
            (r#"{"anyOf":[{"type":"string"},{"minimum":5}]}"#, "6", "4"),
            (r#"{"oneOf":[{"minimum":1},{"maximum":2}]}"#, "0", "1"),
            (r#"{"not":{"type":"null"}}"#, "0", "null"),
            (r#"true"#, "0", ""),
            (
                r#"{"title":"t","description":"d","default":0,"examples":[1],"$comment":"c","$schema":"s"}"#,
                "0",
                "",
            ),
        ] {
            assert_eq!(check(schema, fitting), "ok", "{schema} {fitting}");
            assert!(
                other.is_empty() || check(schema, other).starts_with(['.', '[', ':']),
                "{schema} {other}"
            );
        }
        assert_eq!(check("false", "0"), ": no value is allowed here");
    }

    #[test]
    fn rules_for_other_types_are_ignored() {
        assert_eq!(check(r#"{"minimum":5,"minLength":5,"minItems":5,"required":["a"]}"#, "true"), "ok");
    }

    #[test]
    fn error_has_the_path_of_the_value() {
        let schema = r#"{"properties":{"waves":{"items":{"required":["size"]}}}}"#;
        assert_eq!(check(schema, r#"{"waves":[{"size":1},{}]}"#), ".waves[1]: `size` is missing");
    }

    #[test]
    fn unsupported_schema_is_refused() {
        for (schema, error) in [
            (r#"{"pattern":"^a"}"#, ".pattern: this keyword is not supported"),
            (r##"{"properties":{"a":{"$ref":"#"}}}"##, ".properties.a.$ref: this keyword is not supported"),
            (r#"{"type":"float"}"#, ".type: unknown type `float`"),
            (r#"{"minimum":"1"}"#, ".minimum: must be a number"),
            (r#"{"multipleOf":0}"#, ".multipleOf: must be greater than 0 with at most 18 digits"),
            (r#"{"maxLength":-1}"#, ".maxLength: must be a whole number from 0"),
            (r#"{"anyOf":[]}"#, ".anyOf: must be an array of at least one schema"),
            (r#"{"required":[1]}"#, ".required: must be an array of strings"),
            (r#"{"items":[{}]}"#, ".items: a schema must be an object, `true` or `false`"),
            ("7", ": a schema must be an object, `true` or `false`"),
        ] {
            assert_eq!(check(schema, "0"), error);
        }
    }

    #[test]
    fn expensive_check_is_aborted() {
        let mut schema = r#"{"minimum":1}"#.to_owned();
        for _ in 0..6 {
            schema = format!(r#"{{"anyOf":[{0},{0},{0},{0},{0},{0},{0},{0}]}}"#, schema);
        }
        let outcome = check(&schema, "0");
        assert!(outcome.ends_with("too long to check this"), "{outcome}");
        let not = format!(r#"{{"not":{schema}}}"#);
        assert!(check(&not, "0").ends_with("too long to check this"));
    }
}
