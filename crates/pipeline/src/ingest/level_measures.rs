//! Measures inside levels: `$level_metric` events get a dimension that names the measure and its level, so that each
//! has rows of its own.

use decode::json::{Prop, props};
use model::Dimension;
use model::batch::{DeclaredValues, StoredEvent};
use model::limits::DIMENSION_BYTES_MAX;
use model::series::{MEASURE, OTHER};

/// The event of a measure.
pub(super) const LEVEL_METRIC: &[u8] = b"$level_metric";

/// Returns the value of the dimension `measure` for a measure of a level.
pub fn level_measure_label(name: &str, level: &str) -> String {
    format!("{name}@{level}")
}

/// Adds the measure to the list, and for a ranged one also the measure with its value.
pub(super) fn annotate(event: &StoredEvent<'_>, object: &str, list: &mut Vec<u8>) {
    let (mut name, mut is_ranged) = (None, false);
    for (key, prop) in props(object) {
        match (&*key, prop) {
            ("name", Prop::Text(text)) => name = Some(text),
            ("kind", Prop::Text(kind)) => is_ranged = kind == "ranged",
            _ => {}
        }
    }
    let Some(name) = name else { return };
    let level = String::from_utf8_lossy(event.dimensions[Dimension::Level as usize]);
    let label = level_measure_label(&name, &level);
    put(list, &label);
    if let (true, Some(value)) = (is_ranged, event.value) {
        put(list, &format!("{label}={value}"));
    }
}

fn put(list: &mut Vec<u8>, value: &str) {
    let value = if value.len() <= DIMENSION_BYTES_MAX { value } else { OTHER };
    DeclaredValues::push(list, MEASURE, value.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(object: &str, value: Option<f64>, expected: &str) {
        let mut dimensions: [&[u8]; Dimension::COUNT] = [&[]; Dimension::COUNT];
        dimensions[Dimension::Level as usize] = b"castle";
        let event = StoredEvent { name: LEVEL_METRIC, value, dimensions, ..StoredEvent::default() };
        let mut list = Vec::new();
        annotate(&event, object, &mut list);
        let values =
            DeclaredValues::from_bytes(&list).map(|(_, value)| String::from_utf8_lossy(value).into_owned());
        assert_eq!(values.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn a_measure_and_each_value_of_a_ranged_measure_have_rows() {
        check(r#"{"name": "coins", "kind": "counter"}"#, None, "coins@castle");
        check(r#"{"name": "coins", "kind": "average"}"#, Some(7.5), "coins@castle");
        check(r#"{"name": "coins", "kind": "ranged"}"#, Some(7.0), "coins@castle coins@castle=7");
        check(r#"{"kind": "ranged"}"#, Some(7.0), "");
        check(&format!(r#"{{"name": "{}"}}"#, "x".repeat(200)), None, OTHER);
    }
}
