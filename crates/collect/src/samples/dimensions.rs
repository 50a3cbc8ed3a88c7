//! The dimensions of a game, and their encoding from tags.
//!
//! Encoded are, for each dimension with a value: its number, the length of the value, the value. Built-in dimensions have
//! the numbers of [`Dimension`], declared ones their own number plus [`DECLARED_FROM`]. Two lists are equal if their bytes
//! are equal.

use std::sync::Arc;

use decode::sample::Tag;
use model::limits::DIMENSION_BYTES_MAX;
use model::series::{NONE, OTHER};
use model::{Dimension, Reject};
use pipeline::catalog::{DimensionDeclaration, GameSettings};

const DECLARED_FROM: u8 = 16;

/// The declared dimensions of a game. Cheap to clone.
#[derive(Clone, Default)]
pub struct Dimensions(Arc<[DimensionDeclaration]>);

/// A built-in or a declared dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum DimensionKey {
    BuiltIn(Dimension),
    Declared(u8),
}

impl Dimensions {
    /// Returns the dimensions of a game with these settings.
    pub fn of(settings: &GameSettings) -> Dimensions {
        Dimensions(settings.dimensions.as_slice().into())
    }

    /// Returns true if the game has declared dimensions.
    pub(super) fn has_declared(&self) -> bool {
        !self.0.is_empty()
    }

    /// Appends the values of tags that are dimensions to `list`. Returns the number of tags that are not dimensions. If a
    /// key occurs twice, the last value counts. An empty value counts as no value. A declared dimension without a value
    /// gets `(none)`, so that the rows of a breakdown add up to the total.
    pub(super) fn encode(&self, tags: &[Tag<'_>], list: &mut Vec<u8>) -> Result<u64, Reject> {
        let mut used = 0;
        for dimension in Dimension::ALL {
            if let Some(value) = last_value(tags, dimension.label(), &mut used) {
                put_built_in(dimension, value, list)?;
            }
        }
        for dimension in &*self.0 {
            let value = last_value(tags, &dimension.name, &mut used).unwrap_or(NONE);
            // As in events, a value too long for a declared dimension counts as `(other)`.
            let value = if value.len() <= DIMENSION_BYTES_MAX { value } else { OTHER };
            put(DECLARED_FROM + dimension.number, value.as_bytes(), list);
        }
        Ok(tags.len() as u64 - used)
    }
}

#[inline]
fn last_value<'a>(tags: &[Tag<'a>], key: &str, used: &mut u64) -> Option<&'a str> {
    let mut found = None;
    for tag in tags {
        if tag.key == key {
            found = Some(tag.value);
            *used += 1;
        }
    }
    found.filter(|value| !value.is_empty())
}

fn put_built_in(dimension: Dimension, value: &str, list: &mut Vec<u8>) -> Result<(), Reject> {
    if value.len() > DIMENSION_BYTES_MAX {
        return Err(Reject::DimensionTooLong);
    }
    if dimension != Dimension::Country {
        put(dimension as u8, value.as_bytes(), list);
        return Ok(());
    }
    match value.as_bytes() {
        [first, second] if first.is_ascii_alphabetic() && second.is_ascii_alphabetic() => {
            put(dimension as u8, &[first.to_ascii_uppercase(), second.to_ascii_uppercase()], list);
            Ok(())
        }
        _ => Err(Reject::CountryInvalid),
    }
}

fn put(number: u8, value: &[u8], list: &mut Vec<u8>) {
    list.extend_from_slice(&[number, value.len() as u8]);
    list.extend_from_slice(value);
}

/// Decodes a list that [`Dimensions::encode`] wrote.
pub(super) fn decode_values(mut list: &[u8]) -> impl Iterator<Item = (DimensionKey, &str)> {
    std::iter::from_fn(move || {
        let ([number, length], rest) = list.split_first_chunk()?;
        let (value, rest) = rest.split_at(usize::from(*length));
        list = rest;
        let key = match number.checked_sub(DECLARED_FROM) {
            Some(number) => DimensionKey::Declared(number),
            None => DimensionKey::BuiltIn(Dimension::ALL[usize::from(*number)]),
        };
        Some((key, str::from_utf8(value).expect("a tag's value is UTF-8")))
    })
}
