//! From the JSON of a schema to its rules.

use super::{Fault, Kind, Rule, Schema};
use crate::vars::decimal::Decimal;
use crate::vars::json::Node;

impl<'a> Schema<'a> {
    /// Reads a schema; says what is wrong first.
    pub(crate) fn read(node: &Node<'a>) -> Result<Schema<'a>, Fault> {
        read_at(node, "")
    }
}

fn read_at<'a>(node: &Node<'a>, at: &str) -> Result<Schema<'a>, Fault> {
    match node {
        Node::Bool(true) => Ok(Schema(Vec::new())),
        Node::Bool(false) => Ok(Schema(vec![Rule::Nothing])),
        Node::Object(keywords) => {
            let mut rules = Vec::with_capacity(keywords.len() + 1);
            for (keyword, value) in keywords {
                rules.extend(rule(keyword, value, &format!("{at}.{keyword}"))?);
            }
            rules.extend(fields(node, at)?);
            Ok(Schema(rules))
        }
        _ => Err(Fault::new(at, "a schema is an object, `true` or `false`")),
    }
}

fn rule<'a>(keyword: &str, value: &Node<'a>, at: &str) -> Result<Option<Rule<'a>>, Fault> {
    Ok(Some(match keyword {
        "type" => Rule::Kinds(kinds(value, at)?),
        "enum" => Rule::OneOfThese(list(value, at)?.to_vec()),
        "const" => Rule::OneOfThese(vec![value.clone()]),
        "minimum" => Rule::AtLeast { bound: number(value, at)?, exclusive: false },
        "exclusiveMinimum" => Rule::AtLeast { bound: number(value, at)?, exclusive: true },
        "maximum" => Rule::AtMost { bound: number(value, at)?, exclusive: false },
        "exclusiveMaximum" => Rule::AtMost { bound: number(value, at)?, exclusive: true },
        "multipleOf" => Rule::MultipleOf(unit(value, at)?),
        "minLength" => Rule::Count { of: Kind::String, least: count(value, at)?, most: u32::MAX },
        "maxLength" => Rule::Count { of: Kind::String, least: 0, most: count(value, at)? },
        "minItems" => Rule::Count { of: Kind::Array, least: count(value, at)?, most: u32::MAX },
        "maxItems" => Rule::Count { of: Kind::Array, least: 0, most: count(value, at)? },
        "minProperties" => Rule::Count { of: Kind::Object, least: count(value, at)?, most: u32::MAX },
        "maxProperties" => Rule::Count { of: Kind::Object, least: 0, most: count(value, at)? },
        "items" => Rule::Items(read_at(value, at)?),
        "uniqueItems" => return flag(value, at).map(|on| on.then_some(Rule::UniqueItems)),
        "required" => Rule::Required(texts(value, at)?),
        "allOf" => Rule::All(schemas(value, at)?),
        "anyOf" => Rule::Any(schemas(value, at)?),
        "oneOf" => Rule::ExactlyOne(schemas(value, at)?),
        "not" => Rule::Not(read_at(value, at)?),
        // These two are one rule: see `fields`.
        "properties" | "additionalProperties" => return Ok(None),
        "$schema" | "$comment" | "title" | "description" | "default" | "examples" => return Ok(None),
        _ => return Err(Fault::new(at, "this keyword is not known here")),
    }))
}

/// `properties` with `additionalProperties`.
fn fields<'a>(schema: &Node<'a>, at: &str) -> Result<Option<Rule<'a>>, Fault> {
    let (known, others) = (schema.field("properties"), schema.field("additionalProperties"));
    if known.is_none() && others.is_none() {
        return Ok(None);
    }
    let others = others.map(|node| read_at(node, &format!("{at}.additionalProperties"))).transpose()?;
    let at = format!("{at}.properties");
    let known = match known {
        None => Vec::new(),
        Some(Node::Object(fields)) => fields
            .iter()
            .map(|(name, node)| Ok((name.to_string(), read_at(node, &format!("{at}.{name}"))?)))
            .collect::<Result<_, Fault>>()?,
        Some(_) => return Err(Fault::new(&at, "it is an object of schemas")),
    };
    Ok(Some(Rule::Fields { known, others }))
}

fn kinds(value: &Node<'_>, at: &str) -> Result<Vec<Kind>, Fault> {
    let names = if let Node::Text(name) = value { vec![name.to_string()] } else { texts(value, at)? };
    let kind = |name: &String| {
        let known = Kind::ALL.iter().find(|(label, _)| label == name);
        known.map(|(_, kind)| *kind).ok_or_else(|| Fault::new(at, format!("it is not a type: `{name}`")))
    };
    names.iter().map(kind).collect()
}

fn list<'n, 'a>(value: &'n Node<'a>, at: &str) -> Result<&'n [Node<'a>], Fault> {
    let Node::List(items) = value else { return Err(Fault::new(at, "it is a list")) };
    Ok(items)
}

fn texts(value: &Node<'_>, at: &str) -> Result<Vec<String>, Fault> {
    let text = |item: &Node<'_>| if let Node::Text(text) = item { Some(text.to_string()) } else { None };
    let texts = list(value, at)?.iter().map(text).collect::<Option<_>>();
    texts.ok_or_else(|| Fault::new(at, "it is a list of texts"))
}

fn schemas<'a>(value: &Node<'a>, at: &str) -> Result<Vec<Schema<'a>>, Fault> {
    let items = list(value, at)?;
    if items.is_empty() {
        return Err(Fault::new(at, "it is a list of at least one schema"));
    }
    items.iter().enumerate().map(|(index, node)| read_at(node, &format!("{at}[{index}]"))).collect()
}

fn number(value: &Node<'_>, at: &str) -> Result<Decimal, Fault> {
    let Node::Number(number) = value else { return Err(Fault::new(at, "it is a number")) };
    Ok(number.clone())
}

fn unit(value: &Node<'_>, at: &str) -> Result<Decimal, Fault> {
    let unit = number(value, at)?;
    if unit.is_positive() && unit.mantissa().is_some() {
        return Ok(unit);
    }
    Err(Fault::new(at, "it is above 0 and has at most 18 digits"))
}

fn count(value: &Node<'_>, at: &str) -> Result<u32, Fault> {
    let count = if let Node::Number(number) = value { number.as_u32() } else { None };
    count.ok_or_else(|| Fault::new(at, "it is a whole number from 0"))
}

fn flag(value: &Node<'_>, at: &str) -> Result<bool, Fault> {
    let Node::Bool(on) = value else { return Err(Fault::new(at, "it is `true` or `false`")) };
    Ok(*on)
}
