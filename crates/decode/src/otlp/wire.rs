//! The wire format of protobuf, read in place.
//!
//! <https://protobuf.dev/programming-guides/encoding/>

/// A field's value, typed as far as the wire format does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> WireValue<'a> {
    /// Returns the bits of a number; 0 for anything else.
    pub(crate) fn number(self) -> u64 {
        match self {
            WireValue::Varint(number) | WireValue::Fixed64(number) => number,
            WireValue::Fixed32 | WireValue::Bytes(_) => 0,
        }
    }

    /// Returns the bytes; empty for a number.
    pub(crate) fn bytes(self) -> &'a [u8] {
        if let WireValue::Bytes(bytes) = self { bytes } else { &[] }
    }

    pub(crate) fn text(self) -> &'a str {
        str::from_utf8(self.bytes()).expect("the text was checked with the body")
    }
}

/// Iterates over the fields of a message. An error ends the iteration.
pub(crate) struct FieldReader<'a> {
    rest: &'a [u8],
}

/// The bytes are not a message.
#[derive(Debug, PartialEq)]
pub(crate) struct InvalidField;

impl<'a> Iterator for FieldReader<'a> {
    type Item = Result<(u32, WireValue<'a>), InvalidField>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(InvalidField))
    }
}

impl<'a> FieldReader<'a> {
    pub(crate) fn new(message: &'a [u8]) -> FieldReader<'a> {
        FieldReader { rest: message }
    }

    fn field(&mut self) -> Option<(u32, WireValue<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number != 0)?;
        let value = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(*self.read_bytes(8)?.first_chunk()?)),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                WireValue::Bytes(self.read_bytes(len)?)
            }
            5 => self.read_bytes(4).map(|_| WireValue::Fixed32)?,
            // Groups were deprecated before this protocol existed.
            _ => return None,
        };
        Some((number, value))
    }

    /// Reads a number of seven bits per byte, the lowest first; at most ten bytes.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for place in 0..10 {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return (place < 9 || *byte <= 1).then_some(number);
            }
        }
        None
    }

    fn read_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }
}

/// Iterates over the fields of a checked message.
pub(crate) fn fields(message: &[u8]) -> impl Iterator<Item = (u32, WireValue<'_>)> {
    FieldReader::new(message).flatten()
}

/// Returns the value of a singular field; if it occurs several times, the last one.
pub(crate) fn last(message: &[u8], number: u32) -> Option<WireValue<'_>> {
    fields(message).filter(|(own, _)| *own == number).last().map(|(_, value)| value)
}

/// Returns the bits of a number, 0 if it is absent.
pub(crate) fn number(message: &[u8], number: u32) -> u64 {
    last(message, number).map_or(0, WireValue::number)
}

/// Returns a double, if it is present.
pub(crate) fn double(message: &[u8], number: u32) -> Option<f64> {
    last(message, number).map(|value| f64::from_bits(value.number()))
}

/// Returns a text, empty if it is absent.
pub(crate) fn text(message: &[u8], number: u32) -> &str {
    last(message, number).map_or("", WireValue::text)
}

/// Iterates over the messages of a repeated field.
pub(crate) fn messages(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    fields(message).filter(move |(own, _)| *own == number).map(|(_, value)| value.bytes())
}

/// Iterates over the bits of a repeated field of eight-byte numbers, packed or not.
pub(crate) fn fixed(message: &[u8], number: u32) -> impl Iterator<Item = u64> {
    let values = fields(message).filter(move |(own, _)| *own == number);
    values.flat_map(|(_, value)| {
        let single = matches!(value, WireValue::Fixed64(_)).then_some(value.number());
        let packed = value.bytes().chunks_exact(8);
        single
            .into_iter()
            .chain(packed.map(|chunk| u64::from_le_bytes(*chunk.first_chunk().expect("eight bytes"))))
    })
}

/// Iterates over the numbers of a repeated varint field, packed or not.
pub(crate) fn varints(message: &[u8], number: u32) -> impl Iterator<Item = u64> {
    let values = fields(message).filter(move |(own, _)| *own == number);
    values.flat_map(|(_, value)| {
        let single = matches!(value, WireValue::Varint(_)).then_some(value.number());
        let mut packed = FieldReader::new(value.bytes());
        single.into_iter().chain(std::iter::from_fn(move || packed.varint()))
    })
}

/// Decodes `sint32` and `sint64`, where small numbers of either sign are short.
pub(crate) fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
