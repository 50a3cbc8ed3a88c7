//! SDES, BYE and APP (RFC 3550, 6.5 to 6.7).

use super::word;

/// What sources are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdes<'a> {
    /// One for each source.
    pub chunks: Chunks<'a>,
}

impl<'a> Sdes<'a> {
    pub(super) fn read(count: usize, content: &'a [u8]) -> Option<Sdes<'a>> {
        let mut rest = content;
        for _ in 0..count {
            (_, rest) = chunk(rest)?;
        }
        Some(Sdes { chunks: Chunks { rest: content, count } })
    }
}

/// The chunks of an SDES packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks<'a> {
    rest: &'a [u8],
    count: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Chunk<'a>;

    fn next(&mut self) -> Option<Chunk<'a>> {
        self.count = self.count.checked_sub(1)?;
        let (chunk, rest) = chunk(self.rest)?;
        self.rest = rest;
        Some(chunk)
    }
}

/// What one source is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The source.
    pub ssrc: u32,
    /// Its names.
    pub items: Items<'a>,
}

/// One chunk, and what follows it. Its items end with a zero byte and zeros up to a multiple of four bytes.
fn chunk(bytes: &[u8]) -> Option<(Chunk<'_>, &[u8])> {
    let (ssrc, text) = word(bytes)?;
    let mut at = 0;
    while *text.get(at)? != 0 {
        at += 2 + usize::from(*text.get(at + 1)?);
    }
    let rest = text.get((at + 1).next_multiple_of(4)..)?;
    Some((Chunk { ssrc, items: Items(&text[..at]) }, rest))
}

/// The items of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'a>(&'a [u8]);

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let (&[kind, len], rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some(Item { kind, text })
    }
}

/// One name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// 1 CNAME, 2 NAME, 3 EMAIL, 4 PHONE, 5 LOC, 6 TOOL, 7 NOTE, 8 PRIV.
    pub kind: u8,
    /// It should be UTF-8.
    pub text: &'a [u8],
}

/// Sources leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bye<'a> {
    /// Which.
    pub sources: Ssrcs<'a>,
    /// Why; it should be UTF-8. Empty: not said.
    pub reason: &'a [u8],
}

impl<'a> Bye<'a> {
    pub(super) fn read(count: usize, content: &'a [u8]) -> Option<Bye<'a>> {
        let (sources, rest) = content.split_at_checked(4 * count)?;
        let reason = match rest.split_first() {
            Some((len, text)) => text.get(..usize::from(*len))?,
            None => &[],
        };
        Some(Bye { sources: Ssrcs(sources), reason })
    }
}

/// A list of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssrcs<'a>(&'a [u8]);

impl Iterator for Ssrcs<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (ssrc, rest) = word(self.0)?;
        self.0 = rest;
        Some(ssrc)
    }
}

/// Something of an application's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct App<'a> {
    /// Who sent it.
    pub ssrc: u32,
    /// Which kind, by the application's own numbers.
    pub subtype: u8,
    /// Which application: four ASCII characters.
    pub name: [u8; 4],
    /// Anything.
    pub data: &'a [u8],
}

impl<'a> App<'a> {
    pub(super) fn read(subtype: u8, content: &'a [u8]) -> Option<App<'a>> {
        let (ssrc, rest) = word(content)?;
        let (name, data) = rest.split_first_chunk()?;
        Some(App { ssrc, subtype, name: *name, data })
    }
}
