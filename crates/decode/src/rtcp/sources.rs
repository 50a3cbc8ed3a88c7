//! SDES, BYE and APP (RFC 3550, 6.5 to 6.7).

use super::read_u32;

/// Names of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdes<'a> {
    /// One chunk for each source.
    pub chunks: SdesChunks<'a>,
}

impl<'a> Sdes<'a> {
    pub(super) fn read(count: usize, content: &'a [u8]) -> Option<Sdes<'a>> {
        let mut rest = content;
        for _ in 0..count {
            (_, rest) = chunk(rest)?;
        }
        Some(Sdes { chunks: SdesChunks { rest: content, count } })
    }
}

/// Iterates over the chunks of an SDES packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdesChunks<'a> {
    rest: &'a [u8],
    count: usize,
}

impl<'a> Iterator for SdesChunks<'a> {
    type Item = SdesChunk<'a>;

    fn next(&mut self) -> Option<SdesChunk<'a>> {
        self.count = self.count.checked_sub(1)?;
        let (chunk, rest) = chunk(self.rest)?;
        self.rest = rest;
        Some(chunk)
    }
}

/// The names of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdesChunk<'a> {
    /// The source.
    pub ssrc: u32,
    /// Its names.
    pub items: SdesItems<'a>,
}

/// Reads one chunk; returns it and the rest. Its items end with a zero byte and zeros up to a multiple of four bytes.
fn chunk(bytes: &[u8]) -> Option<(SdesChunk<'_>, &[u8])> {
    let (ssrc, text) = read_u32(bytes)?;
    let mut at = 0;
    while *text.get(at)? != 0 {
        at += 2 + usize::from(*text.get(at + 1)?);
    }
    let rest = text.get((at + 1).next_multiple_of(4)..)?;
    Some((SdesChunk { ssrc, items: SdesItems(&text[..at]) }, rest))
}

/// Iterates over the items of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdesItems<'a>(&'a [u8]);

impl<'a> Iterator for SdesItems<'a> {
    type Item = SdesItem<'a>;

    fn next(&mut self) -> Option<SdesItem<'a>> {
        let (&[kind, len], rest) = self.0.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::from(len))?;
        self.0 = rest;
        Some(SdesItem { kind, text })
    }
}

/// One name of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SdesItem<'a> {
    /// 1 CNAME, 2 NAME, 3 EMAIL, 4 PHONE, 5 LOC, 6 TOOL, 7 NOTE, 8 PRIV.
    pub kind: u8,
    /// The name, usually UTF-8.
    pub text: &'a [u8],
}

/// Sources that leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bye<'a> {
    /// The sources.
    pub sources: Ssrcs<'a>,
    /// The reason, usually UTF-8; empty if not given.
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

/// Iterates over a list of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssrcs<'a>(&'a [u8]);

impl Iterator for Ssrcs<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (ssrc, rest) = read_u32(self.0)?;
        self.0 = rest;
        Some(ssrc)
    }
}

/// Data defined by an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct App<'a> {
    /// The sending source.
    pub ssrc: u32,
    /// The kind, as numbered by the application.
    pub subtype: u8,
    /// The application: four ASCII characters.
    pub name: [u8; 4],
    /// The content.
    pub data: &'a [u8],
}

impl<'a> App<'a> {
    pub(super) fn read(subtype: u8, content: &'a [u8]) -> Option<App<'a>> {
        let (ssrc, rest) = read_u32(content)?;
        let (name, data) = rest.split_first_chunk()?;
        Some(App { ssrc, subtype, name: *name, data })
    }
}
