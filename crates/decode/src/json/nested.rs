//! Objects and arrays that are kept as text: their syntax, and the limits of properties.

use super::Malformed;
use super::cursor::{Broken, Cursor};
use super::text::Text;
use model::Reject;
use model::limits::{
    JSON_DEPTH_MAX, PROP_KEY_BYTES_MAX, PROP_STRING_BYTES_MAX, PROPS_DEPTH_MAX, PROPS_KEYS_MAX,
};

/// What is known half-way through a nested value. It takes the place of a recursion.
#[derive(Default)]
struct Walk {
    /// A bit for each open bracket, the innermost lowest: one for an object.
    kinds: u32,
    /// Open brackets.
    open: usize,
    /// Keys of all objects.
    keys: usize,
    /// The first limit that was broken.
    breach: Option<Reject>,
}

const _: () = assert!(JSON_DEPTH_MAX <= u32::BITS as usize);

/// What follows what was read.
#[derive(PartialEq)]
enum Next {
    Value,
    AfterValue,
    Nothing,
}

impl<'a> Cursor<'a> {
    /// Reads an object or array to its end. The answer is the first limit of properties it breaks.
    pub fn nested(&mut self) -> Result<Option<Reject>, Broken> {
        let mut walk = Walk::default();
        let mut next = Next::Value;
        while next != Next::Nothing {
            next = match next {
                Next::Value => self.nested_value(&mut walk)?,
                _ => self.after_value(&mut walk)?,
            };
        }
        Ok(walk.breach)
    }

    /// Reads a scalar, or an opening bracket up to the first value inside.
    #[inline(always)]
    fn nested_value(&mut self, walk: &mut Walk) -> Result<Next, Broken> {
        match self.peek() {
            b'"' => walk.string(self.string()?),
            b'{' | b'[' => return self.enter(walk),
            _ => {
                self.value()?;
            }
        }
        Ok(Next::AfterValue)
    }

    #[inline(always)]
    fn enter(&mut self, walk: &mut Walk) -> Result<Next, Broken> {
        let is_object = self.peek() == b'{';
        if self.depth + walk.open == JSON_DEPTH_MAX {
            return self.fail(Malformed::TooDeep { at: self.at });
        }
        walk.enter(is_object);
        self.at += 1;
        self.skip_space();
        if self.peek() == walk.closing() {
            return Ok(Next::AfterValue);
        }
        if is_object {
            walk.key(self.key()?);
        }
        Ok(Next::Value)
    }

    /// Reads a comma up to the next value, or a closing bracket.
    #[inline(always)]
    fn after_value(&mut self, walk: &mut Walk) -> Result<Next, Broken> {
        let expected = if walk.is_in_object() { "',' or '}'" } else { "',' or ']'" };
        if !self.comma_or(walk.closing(), expected)? {
            return Ok(walk.leave());
        }
        if walk.is_in_object() {
            walk.key(self.key()?);
        }
        Ok(Next::Value)
    }
}

impl Walk {
    fn enter(&mut self, is_object: bool) {
        self.kinds = self.kinds << 1 | u32::from(is_object);
        self.open += 1;
        self.check(self.open <= PROPS_DEPTH_MAX, Reject::PropsTooDeep);
    }

    fn leave(&mut self) -> Next {
        self.kinds >>= 1;
        self.open -= 1;
        if self.open == 0 { Next::Nothing } else { Next::AfterValue }
    }

    fn is_in_object(&self) -> bool {
        self.kinds & 1 == 1
    }

    fn closing(&self) -> u8 {
        if self.is_in_object() { b'}' } else { b']' }
    }

    fn key(&mut self, key: Text<'_>) {
        self.keys += 1;
        self.check(self.keys <= PROPS_KEYS_MAX, Reject::PropsTooManyKeys);
        self.check(key.len <= PROP_KEY_BYTES_MAX, Reject::PropKeyTooLong);
    }

    fn string(&mut self, string: Text<'_>) {
        self.check(string.len <= PROP_STRING_BYTES_MAX, Reject::PropStringTooLong);
    }

    #[inline(always)]
    fn check(&mut self, holds: bool, reject: Reject) {
        if !holds && self.breach.is_none() {
            self.breach = Some(reject);
        }
    }
}
