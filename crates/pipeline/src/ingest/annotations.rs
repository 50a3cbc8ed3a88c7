//! What the line takes from an event's properties and stamps on it: the values of declared dimensions, and who
//! `$identify` is about.

use std::borrow::Cow;

use decode::json::{Prop, props};
use model::batch::DeclaredValues;
use model::identity::Identities;
use model::limits::{DIMENSION_BYTES_MAX, PLAYER_BYTES_MAX};
use model::placeholder_id::is_placeholder_id;
use model::rollup::hash_player;
use model::series::OTHER;
use model::{RawEvent, Reject};

use crate::catalog::DeclaredDimension;
use crate::views::Views;

/// The event that links an anonymous id to a player.
const IDENTIFY: &str = "$identify";

/// Whether the event links an anonymous id to a player.
pub(super) fn is_identify(raw: &RawEvent<'_>) -> bool {
    raw.name.as_deref() == Some(IDENTIFY)
}

/// Adds the values of an event's declared dimensions to a list.
///
/// A value that is longer than a dimension's may be is counted in `(other)`. Of a key that comes twice the last value
/// counts; of a key whose value is `null`, empty, an object or an array, none.
pub(super) fn declared(dimensions: &[DeclaredDimension], object: &str, list: &mut Vec<u8>) {
    let mut seen = 0u32;
    for (key, prop) in props(object) {
        let Some(place) = dimensions.iter().position(|dimension| dimension.name == key) else { continue };
        let number = dimensions[place].number;
        if seen & 1 << place != 0 {
            forget(list, number);
        }
        seen |= 1 << place;
        match &prop {
            Prop::Text(text) => put(list, number, text),
            Prop::Literal(word) => put(list, number, word),
            Prop::Other => {}
        }
    }
}

fn put(list: &mut Vec<u8>, number: u8, value: &str) {
    match value.len() {
        0 => {}
        1..=DIMENSION_BYTES_MAX => DeclaredValues::push(list, number, value.as_bytes()),
        _ => DeclaredValues::push(list, number, OTHER.as_bytes()),
    }
}

#[cold]
fn forget(list: &mut Vec<u8>, number: u8) {
    let mut kept = Vec::with_capacity(list.len());
    let others = DeclaredValues::from_bytes(list).filter(|(other, _)| *other != number);
    others.for_each(|(number, value)| DeclaredValues::push(&mut kept, number, value));
    *list = kept;
}

/// The two ids of an `$identify`.
pub(super) struct Identified<'a> {
    pub(super) player: Cow<'a, str>,
    /// Empty: it is the player's id itself.
    pub(super) anonymous: Cow<'a, str>,
}

/// Decides about the `$identify`s of one request, each after those before it.
pub(super) struct Identifying<'a> {
    views: &'a Views,
    game: u32,
    /// What the request itself has linked so far.
    own: Identities,
}

impl<'a> Identifying<'a> {
    pub(super) fn new(views: &'a Views, game: u32) -> Identifying<'a> {
        Identifying { views, game, own: Identities::default() }
    }

    /// Reads who the event is about and refuses what is known to be refused when it is applied. Of two requests at the
    /// same time that link an id to different players both may pass here; then the first in the log's order counts.
    pub(super) fn admit<'e>(&mut self, raw: &'e RawEvent<'_>) -> Result<Identified<'e>, Reject> {
        let identified = read(raw)?;
        if identified.anonymous.is_empty() {
            return Ok(identified);
        }
        let seed = self.views.seeds.of(self.game);
        let id = |text: &str| hash_player(seed, text.as_bytes());
        let (anonymous, mut player) = (id(&identified.anonymous), id(&identified.player));
        if let Some(links) = self.views.identities.game(self.game) {
            links.check(anonymous, player)?;
            player = links.player(player);
        }
        self.own.link(self.game, anonymous, player, 0)?;
        Ok(identified)
    }
}

/// `{"event": "$identify", "player": "p", "props": {"anonymous": "a"}}`. A player in `props` goes before the one beside
/// it, which some clients still send as they knew themselves until then.
fn read<'e>(raw: &'e RawEvent<'_>) -> Result<Identified<'e>, Reject> {
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
    Ok(Identified { player, anonymous })
}

/// An id as players have them. One that many share by accident would make them all one player.
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

    fn check(object: &str, expected: &str) {
        let dimension = |(number, name): (u8, &str)| DeclaredDimension { name: name.into(), number };
        let dimensions: Vec<_> = [(1, "weapon"), (7, "mode"), (2, "hard")].map(dimension).into();
        let mut list = Vec::new();
        declared(&dimensions, object, &mut list);
        let told = DeclaredValues::from_bytes(&list)
            .map(|(number, value)| format!("{number}={}", String::from_utf8_lossy(value)));
        assert_eq!(told.collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn texts_numbers_and_truth_values_are_values_of_dimensions() {
        check("", "");
        check(r#"{"weapon":"bow","other":"x","mode":3,"hard":true}"#, "1=bow 7=3 2=true");
        check(r#"{"weapon":null,"mode":{},"hard":[1]}"#, "");
        check(r#"{"weapon":"","inner":{"weapon":"bow"}}"#, "");
        check(r#"{"weapon":"\u0062ow"}"#, "1=bow");
    }

    #[test]
    fn the_last_of_several_values_counts() {
        check(r#"{"weapon":"bow","mode":1,"weapon":"axe"}"#, "7=1 1=axe");
        check(r#"{"weapon":"bow","weapon":null}"#, "");
    }

    #[test]
    fn a_value_that_is_too_long_is_one_of_the_others() {
        check(&format!(r#"{{"weapon":"{}"}}"#, "x".repeat(128)), &format!("1={}", "x".repeat(128)));
        check(&format!(r#"{{"weapon":"{}"}}"#, "x".repeat(129)), "1=(other)");
    }

    fn check_read(player: Option<&str>, object: &str, expected: Result<(&str, &str), Reject>) {
        let raw = RawEvent {
            name: Some(IDENTIFY.into()),
            player: player.map(Cow::Borrowed),
            props: Some(object),
            ..RawEvent::default()
        };
        let identified = read(&raw);
        let read =
            identified.as_ref().map(|found| (&*found.player, &*found.anonymous)).map_err(|reject| *reject);
        assert_eq!(read, expected, "{object}");
    }

    #[test]
    fn the_ids_stand_in_the_event_or_in_its_properties() {
        check_read(Some("ann"), r#"{"anonymous":"a1"}"#, Ok(("ann", "a1")));
        check_read(None, r#"{"player":"ann","anonymous":"a1"}"#, Ok(("ann", "a1")));
        check_read(Some("a1"), r#"{"player":"ann","anonymous":"a1"}"#, Ok(("ann", "a1")));
        check_read(Some("ann"), r#"{"anonymous":17,"plan":"free"}"#, Ok(("ann", "17")));
        check_read(Some("ann"), r#"{"anonymous":"ann"}"#, Ok(("ann", "")));
    }

    #[test]
    fn an_id_that_is_missing_or_worthless_is_refused() {
        let refused = Err(Reject::ReservedPropsInvalid);
        check_read(None, r#"{"anonymous":"a1"}"#, refused);
        check_read(Some("ann"), "{}", refused);
        check_read(Some("ann"), "", refused);
        for anonymous in
            ["null", "true", "1.5", "{}", r#""""#, r#""null""#, r#""0""#, &format!("\"{}\"", "x".repeat(129))]
        {
            check_read(Some("ann"), &format!(r#"{{"anonymous":{anonymous}}}"#), refused);
            check_read(Some("ann"), &format!(r#"{{"anonymous":"a1","player":{anonymous}}}"#), refused);
        }
    }
}
