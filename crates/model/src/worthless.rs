//! Ids that programs send when they have none.

/// The longest word of [`WORDS`].
const WORD_BYTES_MAX: usize = 15;

/// By length, so that almost every real id is done after one look. They come out of templates,
/// of `String(undefined)`, of printing an empty pointer and of SDKs before the login.
const WORDS: [&[&str]; WORD_BYTES_MAX + 1] = [
    &[""],
    &["0"],
    &["-1"],
    &["nil", "nan", "n/a"],
    &["null", "none", "true", "anon"],
    &["guest", "false"],
    &["(null)", "<null>"],
    &["unknown"],
    &[],
    &["undefined", "anonymous"],
    &[],
    &[],
    &[],
    &[],
    &[],
    &["[object object]"],
];

/// Whether an id of a player or a session names nobody. White space around it and its case do not
/// matter; neither does how an all-zero UUID is written.
#[inline(always)]
pub fn is_worthless(id: &str) -> bool {
    match id.as_bytes() {
        [b'!'..=b'~', .., b'!'..=b'~'] => is_worthless_word(id),
        _ => is_worthless_word(id.trim()),
    }
}

#[inline(always)]
fn is_worthless_word(id: &str) -> bool {
    match WORDS.get(id.len()) {
        Some(words) => words.iter().any(|word| word.eq_ignore_ascii_case(id)),
        None => is_zero_uuid(id.as_bytes()),
    }
}

fn is_zero_uuid(id: &[u8]) -> bool {
    id.starts_with(b"00000000") && crate::uuid::parse(id) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::{WORDS, is_worthless};

    #[test]
    fn every_word_stands_under_its_length() {
        for (len, words) in WORDS.iter().enumerate() {
            assert!(words.iter().all(|word| word.len() == len && is_worthless(word)), "{len}");
        }
    }

    #[test]
    fn case_and_white_space_do_not_matter() {
        for id in ["", "  ", "NULL", " Undefined\t", "[object Object]", "NaN", "\u{a0}None\u{2003}", "0 "] {
            assert!(is_worthless(id), "{id:?}");
        }
        assert!(is_worthless("00000000-0000-0000-0000-000000000000"));
        assert!(is_worthless(" 00000000000000000000000000000000"));
    }

    #[test]
    fn real_ids_are_worth_something() {
        for id in
            ["1", "-2", "p-1", "nobody", "nulla", "guest1", "é", "00", "00000000-0000-0000-0000-000000000001"]
        {
            assert!(!is_worthless(id), "{id:?}");
        }
    }
}
