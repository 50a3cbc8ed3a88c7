//! Declared dimensions: values that are read from an event's properties.

use decode::json::{Prop, props};
use model::batch::DeclaredValues;
use model::limits::DIMENSION_BYTES_MAX;
use model::series::OTHER;

use crate::catalog::DimensionDeclaration;

/// Adds the values of an event's declared dimensions to a list.
///
/// A value longer than [`DIMENSION_BYTES_MAX`] is counted in `(other)`. If a key occurs twice, its last value counts. A
/// key whose value is `null`, empty, an object or an array has no value.
pub(super) fn declared_dimensions(dimensions: &[DimensionDeclaration], object: &str, list: &mut Vec<u8>) {
    let mut seen = 0u32;
    for (key, prop) in props(object) {
        let Some(place) = dimensions.iter().position(|dimension| dimension.name == key) else { continue };
        let number = dimensions[place].number;
        if seen & 1 << place != 0 {
            remove(list, number);
        }
        seen |= 1 << place;
        match &prop {
            Prop::Text(text) => put(list, number, text),
            Prop::Literal(word) => put(list, number, word),
            Prop::Other => {}
        }
    }
}

fn put(list: &mut Vec<u8>, number: u8, value: &str) {
    match value.len() {
        0 => {}
        1..=DIMENSION_BYTES_MAX => DeclaredValues::push(list, number, value.as_bytes()),
        _ => DeclaredValues::push(list, number, OTHER.as_bytes()),
    }
}

#[cold]
fn remove(list: &mut Vec<u8>, number: u8) {
    let mut kept = Vec::with_capacity(list.len());
    let others = DeclaredValues::from_bytes(list).filter(|(other, _)| *other != number);
    others.for_each(|(number, value)| DeclaredValues::push(&mut kept, number, value));
    *list = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(object: &str, expected: &str) {
        let dimension = |(number, name): (u8, &str)| DimensionDeclaration { name: name.into(), number };
        let dimensions: Vec<_> = [(1, "weapon"), (7, "mode"), (2, "hard")].map(dimension).into();
        let mut list = Vec::new();
        declared_dimensions(&dimensions, object, &mut list);
        let values = DeclaredValues::from_bytes(&list)
            .map(|(number, value)| format!("{number}={}", String::from_utf8_lossy(value)));
        assert_eq!(values.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn strings_numbers_and_booleans_are_dimension_values() {
        check("", "");
        check(r#"{"weapon":"bow","other":"x","mode":3,"hard":true}"#, "1=bow 7=3 2=true");
        check(r#"{"weapon":null,"mode":{},"hard":[1]}"#, "");
        check(r#"{"weapon":"","inner":{"weapon":"bow"}}"#, "");
        check(r#"{"weapon":"\u0062ow"}"#, "1=bow");
    }

    #[test]
    fn the_last_value_of_a_repeated_key_counts() {
        check(r#"{"weapon":"bow","mode":1,"weapon":"axe"}"#, "7=1 1=axe");
        check(r#"{"weapon":"bow","weapon":null}"#, "");
    }

    #[test]
    fn a_value_that_is_too_long_is_counted_in_other() {
        check(&format!(r#"{{"weapon":"{}"}}"#, "x".repeat(128)), &format!("1={}", "x".repeat(128)));
        check(&format!(r#"{{"weapon":"{}"}}"#, "x".repeat(129)), "1=(other)");
    }
}
