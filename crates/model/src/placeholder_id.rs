//! Detection of placeholder ids: values that programs send when they have no id.

/// Length of the longest entry of [`PLACEHOLDERS`].
const PLACEHOLDER_BYTES_MAX: usize = 15;

/// Grouped by length, so that almost every real id is checked with one comparison. Sources: templates,
/// `String(undefined)`, printed null pointers, and SDKs before login.
const PLACEHOLDERS: [&[&str]; PLACEHOLDER_BYTES_MAX + 1] = [
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

/// Returns true if an id of a player or session identifies no one. Ignores surrounding white space, case, and the
/// format of an all-zero UUID.
#[inline(always)]
pub fn is_placeholder_id(id: &str) -> bool {
    match id.as_bytes() {
        [b'!'..=b'~', .., b'!'..=b'~'] => is_placeholder(id),
        _ => is_placeholder(id.trim()),
    }
}

#[inline(always)]
fn is_placeholder(id: &str) -> bool {
    match PLACEHOLDERS.get(id.len()) {
        Some(placeholders) => placeholders.iter().any(|placeholder| placeholder.eq_ignore_ascii_case(id)),
        None => is_zero_uuid(id.as_bytes()),
    }
}

fn is_zero_uuid(id: &[u8]) -> bool {
    id.starts_with(b"00000000") && crate::uuid::parse(id) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::{PLACEHOLDERS, is_placeholder_id};

    #[test]
    fn placeholders_are_listed_by_length() {
        for (len, placeholders) in PLACEHOLDERS.iter().enumerate() {
            assert!(
                placeholders
                    .iter()
                    .all(|placeholder| placeholder.len() == len && is_placeholder_id(placeholder)),
                "{len}"
            );
        }
    }

    #[test]
    fn case_and_white_space_are_ignored() {
        for id in ["", "  ", "NULL", " Undefined\t", "[object Object]", "NaN", "\u{a0}None\u{2003}", "0 "] {
            assert!(is_placeholder_id(id), "{id:?}");
        }
        assert!(is_placeholder_id("00000000-0000-0000-0000-000000000000"));
        assert!(is_placeholder_id(" 00000000000000000000000000000000"));
    }

    #[test]
    fn real_ids_are_not_placeholders() {
        for id in
            ["1", "-2", "p-1", "nobody", "nulla", "guest1", "é", "00", "00000000-0000-0000-0000-000000000001"]
        {
            assert!(!is_placeholder_id(id), "{id:?}");
        }
    }
}
