//! Which tags are dimensions of a game, and their values as bytes.
//!
//! For each dimension that has a value: its number, the value's length, the value. Built-in dimensions have the numbers
//! of [`Dimension`], declared ones their own behind [`DECLARED_FROM`]; so two lists are the same if their bytes are.

use std::sync::Arc;

use decode::sample::Tag;
use model::limits::DIMENSION_BYTES_MAX;
use model::series::OTHER;
use model::{Dimension, Reject};

use pipeline::catalog::{DimensionDeclaration, GameSettings};

const DECLARED_FROM: u8 = 16;

/// The dimensions of a game. Cheap to clone.
#[derive(Clone, Default)]
pub struct Dimensions(Arc<[DimensionDeclaration]>);

/// A dimension of either kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Slot {
    BuiltIn(Dimension),
    Declared(u8),
}

impl Dimensions {
    /// Those of a game with these settings.
    pub fn of(settings: &GameSettings) -> Dimensions {
        Dimensions(settings.dimensions.as_slice().into())
    }

    /// Whether a game with these settings has other dimensions.
    pub fn differ(&self, settings: &GameSettings) -> bool {
        *self.0 != *settings.dimensions
    }

    /// Adds the values of dimensions among the tags to a list, and says how many tags were none. Of a key that comes
    /// twice the last value counts; an empty value is none.
    pub(super) fn encode(&self, tags: &[Tag<'_>], list: &mut Vec<u8>) -> Result<u64, Reject> {
        let mut used = 0;
        for dimension in Dimension::ALL {
            if let Some(value) = last(tags, dimension.label(), &mut used) {
                put_built_in(dimension, value, list)?;
            }
        }
        for dimension in &*self.0 {
            if let Some(value) = last(tags, &dimension.name, &mut used) {
                // As in events: what is too long for a declared dimension is one of the others.
                let value = if value.len() <= DIMENSION_BYTES_MAX { value } else { OTHER };
                put(DECLARED_FROM + dimension.number, value.as_bytes(), list);
            }
        }
        Ok(tags.len() as u64 - used)
    }
}

#[inline]
fn last<'a>(tags: &[Tag<'a>], key: &str, used: &mut u64) -> Option<&'a str> {
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

/// The values in a list that [`Dimensions::encode`] wrote.
pub(super) fn values(mut list: &[u8]) -> impl Iterator<Item = (Slot, &str)> {
    std::iter::from_fn(move || {
        let ([number, length], rest) = list.split_first_chunk()?;
        let (value, rest) = rest.split_at(usize::from(*length));
        list = rest;
        let slot = match number.checked_sub(DECLARED_FROM) {
            Some(number) => Slot::Declared(number),
            None => Slot::BuiltIn(Dimension::ALL[usize::from(*number)]),
        };
        Some((slot, str::from_utf8(value).expect("a tag's value is text")))
    })
}
