//! A row's value, beside the row itself where it is short: most are, and a row is found without another miss.

/// So much fits beside the row.
const SHORT: usize = 22;

/// A text.
pub(super) enum Value {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Box<str>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Value::Short { length: text.len() as u8, bytes }
            }
            None => Value::Long(text.into()),
        }
    }
}

impl Value {
    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Value::Short { length, bytes } => &bytes[..usize::from(*length)],
            Value::Long(text) => text.as_bytes(),
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
    fn it_takes_three_words() {
        assert_eq!(size_of::<Value>(), 24);
    }

    proptest! {
        #[test]
        fn it_reads_back_as_the_text(text in ".{0,30}") {
            let value = Value::from(&text[..]);
            prop_assert_eq!(value.as_str(), text);
        }
    }
}
