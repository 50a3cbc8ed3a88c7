//! A row's value, stored inline if it is short: most are, and finding a row then costs no further cache miss.

/// Maximum bytes of an inline value.
const INLINE_BYTES_MAX: usize = 22;

/// A row's value.
pub(super) enum RowValue {
    Inline { length: u8, bytes: [u8; INLINE_BYTES_MAX] },
    Boxed(Box<str>),
}

impl From<&str> for RowValue {
    fn from(text: &str) -> RowValue {
        let mut bytes = [0; INLINE_BYTES_MAX];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                RowValue::Inline { length: text.len() as u8, bytes }
            }
            None => RowValue::Boxed(text.into()),
        }
    }
}

impl RowValue {
    /// Returns the heap memory in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            RowValue::Inline { .. } => 0,
            RowValue::Boxed(text) => text.len(),
        }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            RowValue::Inline { length, bytes } => &bytes[..usize::from(*length)],
            RowValue::Boxed(text) => text.as_bytes(),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("it was made of a text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn row_value_takes_24_bytes() {
        assert_eq!(size_of::<RowValue>(), 24);
    }

    proptest! {
        #[test]
        fn row_value_round_trips(text in ".{0,30}") {
            let value = RowValue::from(&text[..]);
            prop_assert_eq!(value.as_str(), text);
        }
    }
}
