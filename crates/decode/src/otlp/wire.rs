//! The wire format of protobuf, read from where it lies.
//!
//! <https://protobuf.dev/programming-guides/encoding/>

/// A field's value, as far as the wire knows its type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bits of a number; 0 for anything else.
    pub fn number(self) -> u64 {
        match self {
            Value::Varint(number) | Value::Fixed64(number) => number,
            Value::Fixed32 | Value::Bytes(_) => 0,
        }
    }

    /// Nothing for a number.
    pub fn bytes(self) -> &'a [u8] {
        if let Value::Bytes(bytes) = self { bytes } else { &[] }
    }

    pub fn text(self) -> &'a str {
        str::from_utf8(self.bytes()).expect("it was checked with the body")
    }
}

/// Reads the fields of a message one after the other. After an error nothing more comes.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

/// The bytes are no message.
#[derive(Debug, PartialEq)]
pub(super) struct Broken;

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u32, Value<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Broken))
    }
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Reader<'a> {
        Reader { rest: message }
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number != 0)?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(*self.take(8)?.first_chunk()?)),
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Fixed32)?,
            // Groups went out of use before the protocol was made.
            _ => return None,
        };
        Some((number, value))
    }

    /// Seven bits a byte, the lowest first; at most ten bytes.
    pub fn varint(&mut self) -> Option<u64> {
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

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }
}

/// The fields of a message that was checked.
pub(super) fn fields(message: &[u8]) -> impl Iterator<Item = (u32, Value<'_>)> {
    Reader::new(message).flatten()
}

/// The value of a field that comes once: of several the last one counts.
pub(super) fn last(message: &[u8], number: u32) -> Option<Value<'_>> {
    fields(message).filter(|(own, _)| *own == number).last().map(|(_, value)| value)
}

/// The bits of a number, 0 if it is not there.
pub(super) fn number(message: &[u8], number: u32) -> u64 {
    last(message, number).map_or(0, Value::number)
}

/// A double, if it is there.
pub(super) fn double(message: &[u8], number: u32) -> Option<f64> {
    last(message, number).map(|value| f64::from_bits(value.number()))
}

/// A text, empty if it is not there.
pub(super) fn text(message: &[u8], number: u32) -> &str {
    last(message, number).map_or("", Value::text)
}

/// The messages of a repeated field.
pub(super) fn messages(message: &[u8], number: u32) -> impl Iterator<Item = &[u8]> {
    fields(message).filter(move |(own, _)| *own == number).map(|(_, value)| value.bytes())
}

/// The bits of the numbers of a repeated field of eight bytes each, one by one or packed.
pub(super) fn fixed(message: &[u8], number: u32) -> impl Iterator<Item = u64> {
    let values = fields(message).filter(move |(own, _)| *own == number);
    values.flat_map(|(_, value)| {
        let single = matches!(value, Value::Fixed64(_)).then_some(value.number());
        let packed = value.bytes().chunks_exact(8);
        single
            .into_iter()
            .chain(packed.map(|chunk| u64::from_le_bytes(*chunk.first_chunk().expect("eight bytes"))))
    })
}

/// The numbers of a repeated field of varints, one by one or packed.
pub(super) fn varints(message: &[u8], number: u32) -> impl Iterator<Item = u64> {
    let values = fields(message).filter(move |(own, _)| *own == number);
    values.flat_map(|(_, value)| {
        let single = matches!(value, Value::Varint(_)).then_some(value.number());
        let mut packed = Reader::new(value.bytes());
        single.into_iter().chain(std::iter::from_fn(move || packed.varint()))
    })
}

/// `sint32` and `sint64`: small numbers of either sign are short.
pub(super) fn zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
