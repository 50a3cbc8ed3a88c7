//! Converts the JSON mapping of the protocol's messages to protobuf.
//!
//! Names are in lower camel case, 64-bit numbers may be strings, doubles may be `"NaN"` and `"Infinity"`, enumerations
//! are numbers; `null` is an absent field, and unknown fields are ignored.
//!
//! <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>

use super::MalformedRequest;
use super::schema::{FieldSchema, FieldType, MessageSchema};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Bytes reserved for a length that is written before it is known.
const LENGTH_BYTES: usize = 5;

/// Converts a request in JSON to protobuf in `out`, which is emptied first.
pub(super) fn encode(
    body: &[u8],
    message: &'static MessageSchema,
    out: &mut Vec<u8>,
) -> Result<(), MalformedRequest> {
    out.clear();
    let mut json = serde_json::Deserializer::from_slice(body);
    let encoded = MessageEncoder { message, out }.deserialize(&mut json).and_then(|()| json.end());
    encoded.map_err(|error| MalformedRequest::Json(error.to_string()))
}

/// Encodes an object as a message.
struct MessageEncoder<'a> {
    message: &'static MessageSchema,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for MessageEncoder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for MessageEncoder<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match self.message.0.iter().find(|field| field.name == name) {
                Some(field) => {
                    map.next_value_seed(FieldEncoder { field, is_element: false, out: self.out })?
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Encodes the value of a field, or one of its elements.
struct FieldEncoder<'a> {
    field: &'static FieldSchema,
    is_element: bool,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for FieldEncoder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        let is_list = self.field.is_repeated && !self.is_element;
        if is_list || matches!(self.field.field_type, FieldType::Message(_)) {
            return json.deserialize_any(self);
        }
        let text = <&RawValue>::deserialize(json)?.get();
        if text == "null" {
            return Ok(());
        }
        scalar(self.field, text, self.out)
            .ok_or_else(|| Error::custom(format_args!("`{}` cannot be {text:.40}", self.field.name)))
    }
}

impl<'de> Visitor<'de> for FieldEncoder<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let form = if self.field.is_repeated && !self.is_element { "a list" } else { "an object" };
        write!(formatter, "{form} as `{}`", self.field.name)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut list: S) -> Result<(), S::Error> {
        if !self.field.is_repeated || self.is_element {
            return Err(Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let (field, out) = (self.field, self.out);
        while list.next_element_seed(FieldEncoder { field, is_element: true, out })?.is_some() {}
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<(), M::Error> {
        let (FieldType::Message(message), false) =
            (self.field.field_type, self.field.is_repeated && !self.is_element)
        else {
            return Err(Error::invalid_type(serde::de::Unexpected::Map, &self));
        };
        tag(self.field.number, 2, self.out);
        let from = self.out.len() + LENGTH_BYTES;
        self.out.extend([0; LENGTH_BYTES]);
        MessageEncoder { message, out: self.out }.visit_map(map)?;
        let length = u32::try_from(self.out.len() - from).map_err(|_| Error::custom("more than 4 GiB"))?;
        for place in 0..LENGTH_BYTES {
            let more = if place + 1 < LENGTH_BYTES { 0x80 } else { 0 };
            self.out[from - LENGTH_BYTES + place] = (length >> (7 * place)) as u8 & 0x7f | more;
        }
        Ok(())
    }
}

/// Encodes a JSON text, number or boolean; returns `None` if it has the wrong type.
fn scalar(field: &FieldSchema, json: &str, out: &mut Vec<u8>) -> Option<()> {
    // Every number may be a string as well.
    let plain = json.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(json);
    match field.field_type {
        FieldType::Text => {
            let text: Cow<'_, str> = serde_json::from_str(json).ok()?;
            tag(field.number, 2, out);
            varint(text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
        FieldType::Bool => put_varint(field.number, json.parse::<bool>().ok()?.into(), out),
        FieldType::Varint => put_varint(field.number, whole(plain)?, out),
        FieldType::Zigzag => {
            let number = plain.parse::<i32>().ok()?;
            put_varint(field.number, ((number << 1) ^ (number >> 31)) as u32 as u64, out);
        }
        FieldType::Fixed => put_fixed(field.number, plain.parse().ok()?, out),
        FieldType::SignedFixed => put_fixed(field.number, plain.parse::<i64>().ok()? as u64, out),
        FieldType::Double => put_fixed(field.number, plain.parse::<f64>().ok()?.to_bits(), out),
        FieldType::Hex => {
            let digits = plain.as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            let bytes = digits.chunks(2).map(|pair| byte(pair).filter(|_| pair.len() == 2));
            let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
            tag(field.number, 2, out);
            varint(bytes.len() as u64, out);
            out.extend_from_slice(&bytes);
        }
        FieldType::Message(_) => return None,
    }
    Some(())
}

fn whole(text: &str) -> Option<u64> {
    text.parse::<i64>().map(|number| number as u64).or_else(|_| text.parse()).ok()
}

fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    tag(number, 0, out);
    varint(value, out);
}

fn put_fixed(number: u32, bits: u64, out: &mut Vec<u8>) {
    tag(number, 1, out);
    out.extend_from_slice(&bits.to_le_bytes());
}

fn tag(number: u32, wire_type: u64, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | wire_type, out);
}

/// Appends a number, seven bits per byte, the lowest first.
pub(super) fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
