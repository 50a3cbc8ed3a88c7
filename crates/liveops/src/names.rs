//! The limits that names and texts of all subjects have in common.

use crate::Refusal;

/// Bytes of a player's id, as in events.
const PLAYER_BYTES_MAX: usize = 128;
/// Bytes of the keys that a game's makers choose: of variables, boards, achievements, surveys, fields.
const KEY_BYTES_MAX: usize = 100;

/// Whether this may name a variable, a board, an achievement, a survey or a field: letters, digits, `.`, `_`, `-`.
pub fn is_key(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
}

/// A player's id: 1 to 128 bytes without control characters, and none of the ids that stand for nobody.
pub fn check_player(field: &str, id: &str) -> Result<(), Refusal> {
    if id.is_empty() || id.len() > PLAYER_BYTES_MAX || id.chars().any(char::is_control) {
        return Err(Refusal::invalid(field, format!("it has 1 to {PLAYER_BYTES_MAX} bytes")));
    }
    if model::placeholder_id::is_placeholder_id(id) {
        return Err(Refusal::invalid(field, "this id stands for nobody in particular"));
    }
    Ok(())
}

/// A text for people of at most so many bytes.
pub fn check_text(field: &str, text: &str, bytes_max: usize) -> Result<(), Refusal> {
    if text.len() > bytes_max {
        return Err(Refusal::invalid(field, format!("it has at most {bytes_max} bytes")));
    }
    if text.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\t')) {
        return Err(Refusal::invalid(field, "it has no control characters"));
    }
    Ok(())
}
