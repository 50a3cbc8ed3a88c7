//! `$identify`: an event that links an anonymous id to a player.

use std::borrow::Cow;

use decode::json::{Prop, props};
use model::identity::Identities;
use model::limits::PLAYER_BYTES_MAX;
use model::placeholder_id::is_placeholder_id;
use model::rollup::hash_player;
use model::{RawEvent, Reject};

use crate::views::Views;

/// The name of the event.
const IDENTIFY: &str = "$identify";

/// Returns true if the event links an anonymous id to a player.
pub(super) fn is_identify(raw: &RawEvent<'_>) -> bool {
    raw.name.as_deref() == Some(IDENTIFY)
}

/// The two ids of an `$identify`.
pub(super) struct IdentifyLink<'a> {
    pub(super) player: Cow<'a, str>,
    /// Empty if it equals the player's id.
    pub(super) anonymous: Cow<'a, str>,
}

/// Validates the `$identify` events of one batch, each against the links before it.
pub(super) struct IdentifyValidator<'a> {
    views: &'a Views,
    game: u32,
    /// The links that the batch itself has made so far.
    own: Identities,
}

impl<'a> IdentifyValidator<'a> {
    pub(super) fn new(views: &'a Views, game: u32) -> IdentifyValidator<'a> {
        IdentifyValidator { views, game, own: Identities::default() }
    }

    /// Reads the two ids and rejects a link that would be rejected when it is applied. Two simultaneous batches that
    /// link an id to different players may both pass here; then the first one in log order counts.
    pub(super) fn admit<'e>(&mut self, raw: &'e RawEvent<'_>) -> Result<IdentifyLink<'e>, Reject> {
        let link = read(raw)?;
        if link.anonymous.is_empty() {
            return Ok(link);
        }
        let seed = self.views.seeds.of(self.game);
        let id = |text: &str| hash_player(seed, text.as_bytes());
        let (anonymous, mut player) = (id(&link.anonymous), id(&link.player));
        if let Some(links) = self.views.identities.game(self.game) {
            links.check(anonymous, player)?;
            player = links.player(player);
        }
        self.own.link(self.game, anonymous, player, 0)?;
        Ok(link)
    }
}

/// Reads `{"event": "$identify", "player": "p", "props": {"anonymous": "a"}}`. A player in `props` takes precedence
/// over the one beside it, where some clients still send the anonymous id.
fn read<'e>(raw: &'e RawEvent<'_>) -> Result<IdentifyLink<'e>, Reject> {
    let mut player = raw.player.as_deref().map(Cow::Borrowed);
    let mut anonymous = None;
    for (key, prop) in props(raw.props.unwrap_or_default()) {
        match &*key {
            "player" => player = Some(id(prop)?),
            "anonymous" => anonymous = Some(id(prop)?),
            _ => {}
        }
    }
    let (Some(player), Some(anonymous)) = (player, anonymous) else {
        return Err(Reject::ReservedPropsInvalid);
    };
    let anonymous = if anonymous == player { Cow::Borrowed("") } else { anonymous };
    Ok(IdentifyLink { player, anonymous })
}

/// Reads a player id. A placeholder such as `null` is rejected: it would link all clients that send it to one player.
fn id(prop: Prop<'_>) -> Result<Cow<'_, str>, Reject> {
    let is_whole = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let id = match prop {
        Prop::Text(text) => text,
        Prop::Literal(word) if is_whole(word) => Cow::Borrowed(word),
        _ => return Err(Reject::ReservedPropsInvalid),
    };
    match id.len() <= PLAYER_BYTES_MAX && !is_placeholder_id(&id) {
        true => Ok(id),
        false => Err(Reject::ReservedPropsInvalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(player: Option<&str>, object: &str, expected: Result<(&str, &str), Reject>) {
        let raw = RawEvent {
            name: Some(IDENTIFY.into()),
            player: player.map(Cow::Borrowed),
            props: Some(object),
            ..RawEvent::default()
        };
        let link = read(&raw);
        let ids = link.as_ref().map(|link| (&*link.player, &*link.anonymous)).map_err(|reject| *reject);
        assert_eq!(ids, expected, "{object}");
    }

    #[test]
    fn ids_are_read_from_the_event_or_its_properties() {
        check(Some("ann"), r#"{"anonymous":"a1"}"#, Ok(("ann", "a1")));
        check(None, r#"{"player":"ann","anonymous":"a1"}"#, Ok(("ann", "a1")));
        check(Some("a1"), r#"{"player":"ann","anonymous":"a1"}"#, Ok(("ann", "a1")));
        check(Some("ann"), r#"{"anonymous":17,"plan":"free"}"#, Ok(("ann", "17")));
        check(Some("ann"), r#"{"anonymous":"ann"}"#, Ok(("ann", "")));
    }

    #[test]
    fn missing_and_placeholder_ids_are_rejected() {
        let rejected = Err(Reject::ReservedPropsInvalid);
        check(None, r#"{"anonymous":"a1"}"#, rejected);
        check(Some("ann"), "{}", rejected);
        check(Some("ann"), "", rejected);
        for anonymous in
            ["null", "true", "1.5", "{}", r#""""#, r#""null""#, r#""0""#, &format!("\"{}\"", "x".repeat(129))]
        {
            check(Some("ann"), &format!(r#"{{"anonymous":{anonymous}}}"#), rejected);
            check(Some("ann"), &format!(r#"{{"anonymous":"a1","player":{anonymous}}}"#), rejected);
        }
    }
}
