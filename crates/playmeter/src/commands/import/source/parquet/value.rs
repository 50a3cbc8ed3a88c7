//! Converts one value of a Parquet file to the text of a field or to the JSON of a property.

use std::fmt::Write;

use decode::json::push_string;
use model::Reject;
use parquet::record::Field;
use pipeline::time::rfc3339;
use serde_json::{Map, Value};

use super::{ColumnKind, is_absent};

const DAY_MS: i64 = 86_400_000;
const NEVER_FAILS: &str = "writing to a string does not fail";

/// Appends the text of a field, or nothing if the value is absent. Times are written as milliseconds since 1970.
pub(super) fn push_text(out: &mut String, value: &Field, kind: ColumnKind) -> Result<(), Reject> {
    if is_absent(value) {
        return Ok(());
    }
    match (value, time_ms(value, kind)) {
        (_, Some(ms)) => write!(out, "{ms}").expect(NEVER_FAILS),
        (Field::Date(days), _) => write!(out, "{}", i64::from(*days) * DAY_MS).expect(NEVER_FAILS),
        (Field::Str(text), _) => out.push_str(text),
        (Field::Bytes(bytes), _) => out.push_str(&text_of(bytes.data(), kind)?),
        (Field::Float(number), _) => write!(out, "{number}").expect(NEVER_FAILS),
        (Field::Double(number), _) => write!(out, "{number}").expect(NEVER_FAILS),
        (other, _) => write!(out, "{other}").expect(NEVER_FAILS),
    }
    Ok(())
}

/// Appends a property to an unterminated JSON object, and opens it if it is empty. Skips absent values.
pub(super) fn push_prop(out: &mut String, name: &str, value: &Field, kind: ColumnKind) -> Result<(), Reject> {
    if is_absent(value) {
        return Ok(());
    }
    push_key(out, name);
    match (value, time_ms(value, kind)) {
        (_, Some(ms)) => push_string(out, &rfc3339(ms)),
        (Field::Bytes(bytes), _) => push_string(out, &text_of(bytes.data(), kind)?),
        _ => push_json(out, value)?,
    }
    Ok(())
}

/// Appends all fields of a struct, a map or a JSON object as properties.
pub(super) fn push_props(out: &mut String, value: &Field) -> Result<(), Reject> {
    match value {
        Field::Null => Ok(()),
        Field::Group(row) => {
            row.get_column_iter().try_for_each(|(name, value)| push_prop(out, name, value, ColumnKind::Plain))
        }
        Field::MapInternal(map) => {
            let mut entries = map.entries().iter();
            entries.try_for_each(|(name, value)| push_prop(out, &key(name)?, value, ColumnKind::Plain))
        }
        Field::Str(text) => {
            let object: Map<String, Value> =
                serde_json::from_str(text).map_err(|_| Reject::PropsNotAnObject)?;
            for (name, value) in object {
                push_key(out, &name);
                write!(out, "{value}").expect(NEVER_FAILS);
            }
            Ok(())
        }
        _ => Err(Reject::PropsNotAnObject),
    }
}

fn push_key(out: &mut String, name: &str) {
    out.push(if out.is_empty() { '{' } else { ',' });
    push_string(out, name);
    out.push(':');
}

/// Appends a value as JSON. NaN and infinities become `null`.
fn push_json(out: &mut String, value: &Field) -> Result<(), Reject> {
    match value {
        Field::Str(text) => push_string(out, text),
        Field::Bytes(bytes) => push_string(out, &text_of(bytes.data(), ColumnKind::Plain)?),
        Field::TimestampMillis(ms) => push_string(out, &rfc3339(*ms)),
        Field::TimestampMicros(us) => push_string(out, &rfc3339(us.div_euclid(1_000))),
        Field::Date(_) | Field::TimeMillis(_) | Field::TimeMicros(_) => push_string(out, &value.to_string()),
        Field::Float16(number) => push_number(out, f64::from(*number)),
        // Through its shortest text, so that 0.1 stays 0.1.
        Field::Float(number) => push_number(out, number.to_string().parse().unwrap_or(f64::NAN)),
        Field::Double(number) => push_number(out, *number),
        Field::Group(row) => {
            return push_object(out, row.get_column_iter().map(|(name, value)| Ok((name.clone(), value))));
        }
        Field::MapInternal(map) => {
            return push_object(out, map.entries().iter().map(|(name, value)| Ok((key(name)?, value))));
        }
        Field::ListInternal(list) => return push_array(out, list.elements()),
        other => write!(out, "{other}").expect(NEVER_FAILS),
    }
    Ok(())
}

fn push_number(out: &mut String, number: f64) {
    match number.is_finite() {
        true => write!(out, "{number}").expect(NEVER_FAILS),
        false => out.push_str("null"),
    }
}

fn push_object<'a>(
    out: &mut String,
    fields: impl Iterator<Item = Result<(String, &'a Field), Reject>>,
) -> Result<(), Reject> {
    out.push('{');
    for (index, field) in fields.enumerate() {
        let (name, value) = field?;
        if index > 0 {
            out.push(',');
        }
        push_string(out, &name);
        out.push(':');
        push_json(out, value)?;
    }
    out.push('}');
    Ok(())
}

fn push_array(out: &mut String, elements: &[Field]) -> Result<(), Reject> {
    out.push('[');
    for (index, value) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        push_json(out, value)?;
    }
    out.push(']');
    Ok(())
}

/// Returns the key of a map entry as text.
fn key(name: &Field) -> Result<String, Reject> {
    let mut text = String::new();
    push_text(&mut text, name, ColumnKind::Plain)?;
    Ok(text)
}

/// Returns the value in milliseconds since 1970 if it is a time.
fn time_ms(value: &Field, kind: ColumnKind) -> Option<i64> {
    match (value, kind) {
        (Field::TimestampMillis(ms), _) => Some(*ms),
        (Field::TimestampMicros(us), _) => Some(us.div_euclid(1_000)),
        (Field::Long(time), ColumnKind::Time { per_ms }) => Some(time.div_euclid(per_ms)),
        _ => None,
    }
}

/// Converts bytes that are UTF-8, as some writers leave them without a type, or a UUID.
fn text_of(bytes: &[u8], kind: ColumnKind) -> Result<String, Reject> {
    if kind == ColumnKind::Uuid {
        return Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
    }
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| Reject::NotUtf8)
}
