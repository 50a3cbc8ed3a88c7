//! Text as JSON writes it.

use std::fmt::Write;

/// Appends a string in its quotes.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(char)).expect("a string takes everything"),
            char => out.push(char),
        }
    }
    out.push('"');
}
