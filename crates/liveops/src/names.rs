//! Limits of names and texts that all subjects share.

use crate::Refusal;

/// Bytes of a player's id, as in events.
const PLAYER_BYTES_MAX: usize = 128;
/// Bytes of a key that the game's developers choose: of variables, boards, achievements, surveys and fields.
const KEY_BYTES_MAX: usize = 100;

/// Returns true if the text is a valid key of a variable, board, achievement, survey or field: 1 to 100 letters,
/// digits, `.`, `_` or `-`.
pub fn is_key(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// Refuses a player id that is not 1 to 128 bytes long, has control characters, or is a placeholder such as `null`.
pub fn check_player(field: &str, id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > PLAYER_BYTES_MAX || id.chars().any(char::is_control) {
        return Err(Refusal::invalid(
            field,
            format!("must have 1 to {PLAYER_BYTES_MAX} bytes and no control characters"),
        ));
    }
    if model::placeholder_id::is_placeholder_id(id) {
        return Err(Refusal::invalid(field, "is a placeholder, not the id of a player"));
    }
    Ok(())
}

/// Refuses a text that is longer than `bytes_max` or has control characters other than line breaks and tabs.
pub(crate) fn check_text(field: &str, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    if text.len() > bytes_max {
        return Err(Refusal::invalid(field, format!("must have at most {bytes_max} bytes")));
    }
    if text.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\t')) {
        return Err(Refusal::invalid(field, "must not have control characters"));
    }
    Ok(())
}
