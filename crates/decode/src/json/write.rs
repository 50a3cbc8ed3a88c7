//! Writes texts and events as JSON.

use std::fmt::Write;

use model::{Dimension, RawEvent};

/// Appends an event as an object that decodes to the same event. Fields that clients cannot send
/// ([`RawEvent::declared`], [`RawEvent::samples`]) are left out.
pub fn write_event(out: &mut String, event: &RawEvent<'_>) {
    out.push('{');
    let from = out.len();
    let texts = [("event", &event.name), ("player", &event.player), ("session", &event.session)];
    let dimensions = Dimension::ALL.iter().zip(&event.dimensions);
    let dimensions = dimensions.map(|(dimension, value)| (dimension.label(), value));
    for (name, text) in texts.into_iter().chain(dimensions) {
        if let Some(text) = text {
            push_key(out, from, name);
            push_string(out, text);
        }
    }
    if let Some(id) = event.id {
        push_key(out, from, "id");
        write!(out, "\"{id:032x}\"").expect(WRITE_TO_STRING);
    }
    if let Some(ts_ms) = event.ts_ms {
        push_key(out, from, "ts");
        write!(out, "{ts_ms}").expect(WRITE_TO_STRING);
    }
    if let Some(value) = event.value {
        push_key(out, from, "value");
        write!(out, "{value:e}").expect(WRITE_TO_STRING);
    }
    if let Some(props) = event.props {
        push_key(out, from, "props");
        out.push_str(props);
    }
    out.push('}');
}

const WRITE_TO_STRING: &str = "writing to a string does not fail";

/// Appends the key of a field of the object whose first field is at `from`.
fn push_key(out: &mut String, from: usize, name: &str) {
    if out.len() > from {
        out.push(',');
    }
    for part in ["\"", name, "\":"] {
        out.push_str(part);
    }
}

/// Appends a quoted string.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(char)).expect(WRITE_TO_STRING),
            char => out.push(char),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{BodyFormat, EPOCH_MS, decode};
    use model::RawBatch;
    use proptest::prelude::*;

    fn check(event: &RawEvent<'_>) {
        let mut text = String::new();
        write_event(&mut text, event);
        let mut decoded = RawBatch::default();
        decode(text.as_bytes(), BodyFormat::Lines, &mut decoded)
            .unwrap_or_else(|failure| panic!("{failure}: {text}"));
        assert_eq!(decoded.events, [Ok(event.clone())], "{text}");
    }

    #[test]
    fn empty_event_round_trips() {
        check(&RawEvent::default());
    }

    proptest! {
        #[test]
        fn event_round_trips(
            name in prop::option::of(any::<String>()),
            id in prop::option::of(1u128..),
            ts_ms in prop::option::of(EPOCH_MS),
            player in prop::option::of("[a-z\"\\\\\n\u{e9}]{1,30}p"),
            value in prop::option::of(any::<f64>().prop_filter("finite", |value| value.is_finite())),
            level in prop::option::of("\\PC{1,20}"),
            country in prop::option::of("[A-Z]{2}"),
            has_props in any::<bool>(),
        ) {
            let mut dimensions = [const { None }; Dimension::COUNT];
            dimensions[Dimension::Level as usize] = level.map(Into::into);
            dimensions[Dimension::Country as usize] = country.map(Into::into);
            let props = has_props.then_some(r#"{"a":[1,{"b":"\u00e9"}]}"#);
            let (name, player) = (name.map(Into::into), player.map(Into::into));
            check(&RawEvent { name, id, ts_ms, player, value, dimensions, props, ..RawEvent::default() });
        }
    }
}
