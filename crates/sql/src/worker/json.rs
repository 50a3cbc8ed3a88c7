//! Values as JSON.

use std::fmt::Write;

use serde::de::IgnoredAny;

use super::text::{Scalar, push_scalar};
use super::types::Type;
use super::vector::Values;

/// Appends a value as JSON.
pub(crate) fn push_value(out: &mut String, values: &Values<'_>, row: usize) {
    if values.is_null(row) {
        return out.push_str("null");
    }
    match values.of {
        Type::Text => push_text(out, &values.text(row)),
        Type::Json => push_json(out, &values.text(row)),
        Type::List(_) | Type::Array(..) => {
            let items = values.child(0);
            push_joined(out, ['[', ']'], values.items(row), |out, item| push_value(out, items, item));
        }
        Type::Struct(fields) => push_joined(out, ['{', '}'], 0..fields.len(), |out, field| {
            push_text(out, &fields[field].0);
            out.push(':');
            push_value(out, values.child(field), row);
        }),
        Type::Map(key, _) => push_map(out, values, row, matches!(**key, Type::Text | Type::Enum { .. })),
        Type::Union(variants) => {
            let tag = values.child(0).integer(row, 1, false) as usize;
            out.push('{');
            push_text(out, &variants[tag].0);
            out.push(':');
            push_value(out, values.child(tag + 1), row);
            out.push('}');
        }
        Type::Float | Type::Double => {
            let start = out.len();
            if let Scalar::Text = push_scalar(out, values, row) {
                out.truncate(start);
                out.push_str("null");
            }
        }
        _ => {
            let start = out.len();
            if let Scalar::Text = push_scalar(out, values, row) {
                let text = out.split_off(start);
                push_text(out, &text);
            }
        }
    }
}

/// Appends a map: an object if its keys are texts, otherwise a list of pairs.
fn push_map(out: &mut String, values: &Values<'_>, row: usize, is_object: bool) {
    let (keys, items) = (values.child(0), values.child(1));
    let brackets = if is_object { ['{', '}'] } else { ['[', ']'] };
    push_joined(out, brackets, values.items(row), |out, item| {
        if !is_object {
            out.push('[');
        }
        push_value(out, keys, item);
        out.push(if is_object { ':' } else { ',' });
        push_value(out, items, item);
        if !is_object {
            out.push(']');
        }
    });
}

fn push_joined(
    out: &mut String,
    [open, close]: [char; 2],
    items: std::ops::Range<usize>,
    mut push: impl FnMut(&mut String, usize),
) {
    out.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(close);
}

/// Appends a value of the type JSON as it is, on one line; as a text if it is no JSON.
fn push_json(out: &mut String, text: &str) {
    match serde_json::from_str::<IgnoredAny>(text) {
        // Inside the texts of JSON, the end of a line is always escaped.
        Ok(_) => out.extend(text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c })),
        Err(_) => push_text(out, text),
    }
}

/// Appends a text in quotes.
pub(crate) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    let mut start = 0;
    for (index, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1F => "",
            _ => continue,
        };
        out.push_str(&text[start..index]);
        out.push_str(escape);
        if escape.is_empty() {
            write!(out, "\\u{byte:04x}").expect("writing to memory cannot fail");
        }
        start = index + 1;
    }
    out.push_str(&text[start..]);
    out.push('"');
}
