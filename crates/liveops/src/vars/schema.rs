//! JSON Schema, as much of it as variables need, and nothing unchecked.
//!
//! Known are `type`, `enum`, `const`, `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`,
//! `minLength`, `maxLength`, `items`, `minItems`, `maxItems`, `uniqueItems`, `properties`, `required`,
//! `additionalProperties`, `minProperties`, `maxProperties`, `allOf`, `anyOf`, `oneOf`, `not`, and the annotations
//! `$schema`, `$comment`, `title`, `description`, `default` and `examples`. Any other keyword is refused: a rule that
//! nobody checks would be believed. They mean what they mean in the draft of 2020-12.

use std::cell::Cell;
use std::fmt::Write as _;

use super::decimal::Decimal;
use super::json::Node;

mod read;

/// Rules that one check may look at; a schema of nested choices over a long list would otherwise take minutes.
pub(crate) const STEPS_MAX: u32 = 200_000;

/// What is wrong, and where in the value or the schema: `""` is all of it, `.speed[2]` a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) at: String,
    pub(crate) why: String,
}

/// A schema, read.
#[derive(Debug)]
pub(crate) struct Schema<'a>(Vec<Rule<'a>>);

#[derive(Debug)]
enum Rule<'a> {
    Nothing,
    Kinds(Vec<Kind>),
    OneOfThese(Vec<Node<'a>>),
    AtLeast {
        bound: Decimal,
        exclusive: bool,
    },
    AtMost {
        bound: Decimal,
        exclusive: bool,
    },
    MultipleOf(Decimal),
    /// Characters of a text, items of a list, keys of an object.
    Count {
        of: Kind,
        least: u32,
        most: u32,
    },
    Items(Schema<'a>),
    UniqueItems,
    Fields {
        known: Vec<(String, Schema<'a>)>,
        others: Option<Schema<'a>>,
    },
    Required(Vec<String>),
    All(Vec<Schema<'a>>),
    Any(Vec<Schema<'a>>),
    ExactlyOne(Vec<Schema<'a>>),
    Not(Schema<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    const ALL: [(&'static str, Kind); 7] = [
        ("null", Kind::Null),
        ("boolean", Kind::Boolean),
        ("integer", Kind::Integer),
        ("number", Kind::Number),
        ("string", Kind::String),
        ("array", Kind::Array),
        ("object", Kind::Object),
    ];

    fn label(self) -> &'static str {
        Kind::ALL[self as usize].0
    }

    fn has(self, node: &Node<'_>) -> bool {
        match node {
            Node::Null => self == Kind::Null,
            Node::Bool(_) => self == Kind::Boolean,
            Node::Number(number) => self == Kind::Number || (self == Kind::Integer && number.is_integer()),
            Node::Text(_) => self == Kind::String,
            Node::List(_) => self == Kind::Array,
            Node::Object(_) => self == Kind::Object,
        }
    }
}

/// Counts what a check costs. One budget may serve several checks.
pub(crate) struct Budget(Cell<u32>);

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget(Cell::new(STEPS_MAX))
    }

    fn step(&self, at: &str) -> Result<(), Fault> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.unwrap_or_default());
        left.map(drop).ok_or_else(|| Fault::new(at, "the schema takes too long to check this"))
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

impl Fault {
    fn new(at: &str, why: impl Into<String>) -> Fault {
        Fault { at: at.to_owned(), why: why.into() }
    }
}

impl Schema<'_> {
    /// Checks a value; says what is wrong first.
    pub(crate) fn check(&self, value: &Node<'_>, budget: &Budget) -> Result<(), Fault> {
        self.check_at(value, &mut String::new(), budget)
    }

    fn check_at(&self, value: &Node<'_>, at: &mut String, budget: &Budget) -> Result<(), Fault> {
        self.0.iter().try_for_each(|rule| {
            budget.step(at)?;
            rule.check(value, at, budget)
        })
    }

    fn allows(&self, value: &Node<'_>, at: &mut String, budget: &Budget) -> bool {
        self.check_at(value, at, budget).is_ok()
    }
}

impl Rule<'_> {
    fn check(&self, value: &Node<'_>, at: &mut String, budget: &Budget) -> Result<(), Fault> {
        match self {
            Rule::Items(schema) => check_items(schema, value, at, budget),
            Rule::Fields { known, others } => check_fields(known, others.as_ref(), value, at, budget),
            Rule::All(schemas) => schemas.iter().try_for_each(|schema| schema.check_at(value, at, budget)),
            Rule::Any(schemas) => {
                let fits = schemas.iter().any(|schema| schema.allows(value, at, budget));
                choice(fits, "it fits none of `anyOf`", at, budget)
            }
            Rule::ExactlyOne(schemas) => {
                let fitting = schemas.iter().filter(|schema| schema.allows(value, at, budget)).count();
                choice(fitting == 1, format!("it fits {fitting} of `oneOf`, not one"), at, budget)
            }
            Rule::Not(schema) => {
                choice(!schema.allows(value, at, budget), "it fits what `not` excludes", at, budget)
            }
            Rule::Kinds(kinds) if !kinds.iter().any(|kind| kind.has(value)) => {
                let wanted: Vec<_> = kinds.iter().map(|kind| kind.label()).collect();
                Err(Fault::new(at, format!("it is of type {}, not {}", value.kind(), wanted.join(" or "))))
            }
            plain => plain.complaint(value).map_or(Ok(()), |why| Err(Fault::new(at, why))),
        }
    }

    /// What a rule without inner schemas has against a value.
    fn complaint(&self, value: &Node<'_>) -> Option<String> {
        match (self, value) {
            (Rule::Nothing, _) => Some("nothing is allowed here".into()),
            (Rule::OneOfThese(values), _) => {
                (!values.contains(value)).then(|| "it is not one of the values allowed".into())
            }
            (Rule::AtLeast { bound, exclusive }, Node::Number(number)) => {
                (number < bound || (*exclusive && number == bound)).then(|| "it is too small".into())
            }
            (Rule::AtMost { bound, exclusive }, Node::Number(number)) => {
                (number > bound || (*exclusive && number == bound)).then(|| "it is too large".into())
            }
            (Rule::MultipleOf(unit), Node::Number(number)) => {
                (!number.is_multiple_of(unit)).then(|| "it is not a multiple of `multipleOf`".into())
            }
            (Rule::Count { of, least, most }, value) if of.has(value) => {
                (!(*least..=*most).contains(&count(value))).then(|| too_many_or_few(*of, *least, *most))
            }
            (Rule::UniqueItems, Node::List(items)) => {
                let mut sorted: Vec<_> = items.iter().collect();
                sorted.sort_unstable();
                sorted.windows(2).any(|pair| pair[0] == pair[1]).then(|| "it has equal items".into())
            }
            (Rule::Required(names), object @ Node::Object(_)) => {
                let missing = names.iter().find(|name| object.field(name).is_none())?;
                Some(format!("`{missing}` is missing"))
            }
            _ => None,
        }
    }
}

fn choice(fits: bool, why: impl Into<String>, at: &str, budget: &Budget) -> Result<(), Fault> {
    if budget.is_spent() {
        return budget.step(at);
    }
    if fits { Ok(()) } else { Err(Fault::new(at, why)) }
}

fn check_items(schema: &Schema<'_>, value: &Node<'_>, at: &mut String, budget: &Budget) -> Result<(), Fault> {
    let Node::List(items) = value else { return Ok(()) };
    items.iter().enumerate().try_for_each(|(index, item)| {
        inside(at, format_args!("[{index}]"), |at| schema.check_at(item, at, budget))
    })
}

fn check_fields(
    known: &[(String, Schema<'_>)],
    others: Option<&Schema<'_>>,
    value: &Node<'_>,
    at: &mut String,
    budget: &Budget,
) -> Result<(), Fault> {
    let Node::Object(fields) = value else { return Ok(()) };
    fields.iter().try_for_each(|(name, field)| {
        let at_name = known.binary_search_by(|(key, _)| key.as_str().cmp(name));
        let schema = at_name.ok().map(|index| &known[index].1).or(others);
        let check = |at: &mut String| schema.map_or(Ok(()), |schema| schema.check_at(field, at, budget));
        inside(at, format_args!(".{name}"), check)
    })
}

fn inside<T>(at: &mut String, part: std::fmt::Arguments<'_>, then: impl FnOnce(&mut String) -> T) -> T {
    let length = at.len();
    at.write_fmt(part).expect("a String takes all");
    let outcome = then(at);
    at.truncate(length);
    outcome
}

fn count(value: &Node<'_>) -> u32 {
    let count = match value {
        Node::Text(text) => text.chars().count(),
        Node::List(items) => items.len(),
        Node::Object(fields) => fields.len(),
        _ => 0,
    };
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn too_many_or_few(of: Kind, least: u32, most: u32) -> String {
    let what = match of {
        Kind::String => "characters",
        Kind::Array => "items",
        _ => "keys",
    };
    match (least, most) {
        (least, u32::MAX) => format!("it has fewer than {least} {what}"),
        (0, most) => format!("it has more than {most} {what}"),
        (least, most) => format!("it does not have {least} to {most} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Json;
    use super::*;

    /// `ok`, or the fault's place and words.
    fn check(schema: &str, value: &str) -> String {
        let (schema, value) = (Json::parse(schema).expect("JSON"), Json::parse(value).expect("JSON"));
        let node = schema.node().expect("a tree");
        let outcome = Schema::read(&node)
            .and_then(|schema| schema.check(&value.node().expect("a tree"), &Budget::new()));
        outcome.map_or_else(|fault| format!("{}: {}", fault.at, fault.why), |()| "ok".into())
    }

    #[test]
    fn types_are_those_of_json_schema() {
        for (kind, fitting, others) in [
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
            assert!(others.iter().all(|value| check(&schema, value) != "ok"), "{kind}");
        }
        assert_eq!(check(r#"{"type":["string","null"]}"#, "1"), ": it is of type number, not string or null");
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
        assert_eq!(check("false", "0"), ": nothing is allowed here");
    }

    #[test]
    fn rules_for_other_types_say_nothing() {
        assert_eq!(check(r#"{"minimum":5,"minLength":5,"minItems":5,"required":["a"]}"#, "true"), "ok");
    }

    #[test]
    fn a_fault_names_its_place() {
        let schema = r#"{"properties":{"waves":{"items":{"required":["size"]}}}}"#;
        assert_eq!(check(schema, r#"{"waves":[{"size":1},{}]}"#), ".waves[1]: `size` is missing");
    }

    #[test]
    fn what_would_stay_unchecked_is_refused() {
        for (schema, fault) in [
            (r#"{"pattern":"^a"}"#, ".pattern: this keyword is not known here"),
            (r##"{"properties":{"a":{"$ref":"#"}}}"##, ".properties.a.$ref: this keyword is not known here"),
            (r#"{"type":"float"}"#, ".type: it is not a type: `float`"),
            (r#"{"minimum":"1"}"#, ".minimum: it is a number"),
            (r#"{"multipleOf":0}"#, ".multipleOf: it is above 0 and has at most 18 digits"),
            (r#"{"maxLength":-1}"#, ".maxLength: it is a whole number from 0"),
            (r#"{"anyOf":[]}"#, ".anyOf: it is a list of at least one schema"),
            (r#"{"required":[1]}"#, ".required: it is a list of texts"),
            (r#"{"items":[{}]}"#, ".items: a schema is an object, `true` or `false`"),
            ("7", ": a schema is an object, `true` or `false`"),
        ] {
            assert_eq!(check(schema, "0"), fault);
        }
    }

    #[test]
    fn a_schema_that_takes_too_long_is_cut_off() {
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
