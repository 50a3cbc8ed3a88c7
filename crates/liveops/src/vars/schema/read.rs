//! Parsing a schema into rules.

use super::{Schema, SchemaError, SchemaRule, SchemaType};
use crate::vars::decimal::JsonDecimal;
use crate::vars::json::JsonNode;

impl<'a> Schema<'a> {
    /// Parses a schema. Returns the first error.
    pub(crate) fn read(node: &JsonNode<'a>) -> Result<Schema<'a>, SchemaError> {
        read_at(node, "")
    }
}

fn read_at<'a>(node: &JsonNode<'a>, path: &str) -> Result<Schema<'a>, SchemaError> {
    match node {
        JsonNode::Bool(true) => Ok(Schema(Vec::new())),
        JsonNode::Bool(false) => Ok(Schema(vec![SchemaRule::Never])),
        JsonNode::Object(keywords) => {
            let mut rules = Vec::with_capacity(keywords.len() + 1);
            for (keyword, value) in keywords {
                rules.extend(rule(keyword, value, &format!("{path}.{keyword}"))?);
            }
            rules.extend(fields(node, path)?);
            Ok(Schema(rules))
        }
        _ => Err(SchemaError::new(path, "a schema must be an object, `true` or `false`")),
    }
}

fn rule<'a>(keyword: &str, value: &JsonNode<'a>, path: &str) -> Result<Option<SchemaRule<'a>>, SchemaError> {
    Ok(Some(match keyword {
        "type" => SchemaRule::Types(kinds(value, path)?),
        "enum" => SchemaRule::Enum(list(value, path)?.to_vec()),
        "const" => SchemaRule::Enum(vec![value.clone()]),
        "minimum" => SchemaRule::Minimum { bound: number(value, path)?, exclusive: false },
        "exclusiveMinimum" => SchemaRule::Minimum { bound: number(value, path)?, exclusive: true },
        "maximum" => SchemaRule::Maximum { bound: number(value, path)?, exclusive: false },
        "exclusiveMaximum" => SchemaRule::Maximum { bound: number(value, path)?, exclusive: true },
        "multipleOf" => SchemaRule::MultipleOf(unit(value, path)?),
        "minLength" => {
            SchemaRule::Count { of: SchemaType::String, least: count(value, path)?, most: u32::MAX }
        }
        "maxLength" => SchemaRule::Count { of: SchemaType::String, least: 0, most: count(value, path)? },
        "minItems" => SchemaRule::Count { of: SchemaType::Array, least: count(value, path)?, most: u32::MAX },
        "maxItems" => SchemaRule::Count { of: SchemaType::Array, least: 0, most: count(value, path)? },
        "minProperties" => {
            SchemaRule::Count { of: SchemaType::Object, least: count(value, path)?, most: u32::MAX }
        }
        "maxProperties" => SchemaRule::Count { of: SchemaType::Object, least: 0, most: count(value, path)? },
        "items" => SchemaRule::Items(read_at(value, path)?),
        "uniqueItems" => return flag(value, path).map(|on| on.then_some(SchemaRule::UniqueItems)),
        "required" => SchemaRule::Required(texts(value, path)?),
        "allOf" => SchemaRule::AllOf(schemas(value, path)?),
        "anyOf" => SchemaRule::AnyOf(schemas(value, path)?),
        "oneOf" => SchemaRule::OneOf(schemas(value, path)?),
        "not" => SchemaRule::Not(read_at(value, path)?),
        // These two are one rule: see `fields`.
        "properties" | "additionalProperties" => return Ok(None),
        "$schema" | "$comment" | "title" | "description" | "default" | "examples" => return Ok(None),
        _ => return Err(SchemaError::new(path, "this keyword is not supported")),
    }))
}

/// Parses `properties` together with `additionalProperties`.
fn fields<'a>(schema: &JsonNode<'a>, path: &str) -> Result<Option<SchemaRule<'a>>, SchemaError> {
    let (properties, additional) = (schema.field("properties"), schema.field("additionalProperties"));
    if properties.is_none() && additional.is_none() {
        return Ok(None);
    }
    let additional =
        additional.map(|node| read_at(node, &format!("{path}.additionalProperties"))).transpose()?;
    let path = format!("{path}.properties");
    let properties = match properties {
        None => Vec::new(),
        Some(JsonNode::Object(fields)) => fields
            .iter()
            .map(|(name, node)| Ok((name.to_string(), read_at(node, &format!("{path}.{name}"))?)))
            .collect::<Result<_, SchemaError>>()?,
        Some(_) => return Err(SchemaError::new(&path, "must be an object of schemas")),
    };
    Ok(Some(SchemaRule::Properties { properties, additional }))
}

fn kinds(value: &JsonNode<'_>, path: &str) -> Result<Vec<SchemaType>, SchemaError> {
    let names = if let JsonNode::String(name) = value { vec![name.to_string()] } else { texts(value, path)? };
    let kind = |name: &String| {
        let found = SchemaType::ALL.iter().find(|(label, _)| label == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| SchemaError::new(path, format!("unknown type `{name}`")))
    };
    names.iter().map(kind).collect()
}

fn list<'n, 'a>(value: &'n JsonNode<'a>, path: &str) -> Result<&'n [JsonNode<'a>], SchemaError> {
    let JsonNode::Array(items) = value else { return Err(SchemaError::new(path, "must be an array")) };
    Ok(items)
}

fn texts(value: &JsonNode<'_>, path: &str) -> Result<Vec<String>, SchemaError> {
    let text =
        |item: &JsonNode<'_>| if let JsonNode::String(text) = item { Some(text.to_string()) } else { None };
    let texts = list(value, path)?.iter().map(text).collect::<Option<_>>();
    texts.ok_or_else(|| SchemaError::new(path, "must be an array of strings"))
}

fn schemas<'a>(value: &JsonNode<'a>, path: &str) -> Result<Vec<Schema<'a>>, SchemaError> {
    let items = list(value, path)?;
    if items.is_empty() {
        return Err(SchemaError::new(path, "must be an array of at least one schema"));
    }
    items.iter().enumerate().map(|(index, node)| read_at(node, &format!("{path}[{index}]"))).collect()
}

fn number(value: &JsonNode<'_>, path: &str) -> Result<JsonDecimal, SchemaError> {
    let JsonNode::Number(number) = value else { return Err(SchemaError::new(path, "must be a number")) };
    Ok(number.clone())
}

fn unit(value: &JsonNode<'_>, path: &str) -> Result<JsonDecimal, SchemaError> {
    let unit = number(value, path)?;
    if unit.is_positive() && unit.mantissa().is_some() {
        return Ok(unit);
    }
    Err(SchemaError::new(path, "must be greater than 0 with at most 18 digits"))
}

fn count(value: &JsonNode<'_>, path: &str) -> Result<u32, SchemaError> {
    let count = if let JsonNode::Number(number) = value { number.as_u32() } else { None };
    count.ok_or_else(|| SchemaError::new(path, "must be a whole number from 0"))
}

fn flag(value: &JsonNode<'_>, path: &str) -> Result<bool, SchemaError> {
    let JsonNode::Bool(on) = value else { return Err(SchemaError::new(path, "must be `true` or `false`")) };
    Ok(*on)
}
