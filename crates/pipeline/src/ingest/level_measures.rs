//! Measures inside levels: the line stamps on `$level_metric` which measure of which level it is, so that each has rows.

use decode::json::{Prop, props};
use model::Dimension;
use model::batch::{DeclaredValues, StoredEvent};
use model::limits::DIMENSION_BYTES_MAX;
use model::series::{MEASURE, OTHER};

/// The event of a measure.
pub(super) const LEVEL_METRIC: &[u8] = b"$level_metric";

/// How a measure of a level is called in the dimension `measure`.
pub fn measure(name: &str, level: &str) -> String {
    format!("{name}@{level}")
}

/// Adds the measure, and of a ranged one the measure with its value.
pub(super) fn stamp(event: &StoredEvent<'_>, object: &str, list: &mut Vec<u8>) {
    let (mut name, mut is_ranged) = (None, false);
    for (key, prop) in props(object) {
        match (&*key, prop) {
            ("name", Prop::Text(text)) => name = Some(text),
            ("kind", Prop::Text(kind)) => is_ranged = kind == "ranged",
            _ => {}
        }
    }
    let Some(name) = name else { return };
    let measure = measure(&name, &String::from_utf8_lossy(event.dimensions[Dimension::Level as usize]));
    put(list, &measure);
    if let (true, Some(value)) = (is_ranged, event.value) {
        put(list, &format!("{measure}={value}"));
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
        stamp(&event, object, &mut list);
        let told =
            DeclaredValues::from_bytes(&list).map(|(_, value)| String::from_utf8_lossy(value).into_owned());
        assert_eq!(told.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn a_measure_has_a_row_and_each_value_of_a_ranged_one_too() {
        check(r#"{"name": "coins", "kind": "counter"}"#, None, "coins@castle");
        check(r#"{"name": "coins", "kind": "average"}"#, Some(7.5), "coins@castle");
        check(r#"{"name": "coins", "kind": "ranged"}"#, Some(7.0), "coins@castle coins@castle=7");
        check(r#"{"kind": "ranged"}"#, Some(7.0), "");
        check(&format!(r#"{{"name": "{}"}}"#, "x".repeat(200)), None, OTHER);
    }
}
