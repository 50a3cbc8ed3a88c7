//! The rules of admission: what an event must be before it may enter the log.
//!
//! A decoder has checked types and lengths; here are the rules that need to know the game and the time.

use crate::event::{Dimension, RawEvent};
use crate::limits::{FUTURE_MS_MAX, NAME_BYTES_MAX};
use crate::record::{Declared, Stored};
use crate::reject::Reject;

/// Names that start with `$` and mean something to the server. Any other such name is refused.
pub const RESERVED: [&str; 13] = [
    "$view",
    "$session_start",
    "$ping",
    "$session_end",
    "$play",
    "$level",
    "$level_metric",
    "$heat",
    "$link",
    "$resource",
    "$business",
    "$error",
    "$identify",
];

/// Names of the server's own: what it tells itself. From anybody else they are refused like any other such name.
pub const OWN: [&str; 7] =
    ["$flow", "$flow.mos", "$flow.loss", "$flow.jitter_ms", "$flow.rtt_ms", "$flow.expected", "$flow.lost"];

/// What the names of the server's own begin with that tell of its requests. They go on with a method, a route and an outcome.
pub const OWN_REQUESTS: &str = "$load.http.";

/// What is known about a request, the same for all of its events.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// When the server received it, milliseconds since 1970-01-01 UTC.
    pub received_ms: i64,
    /// The client's clock at the time of sending, if it said so.
    pub sent_at_ms: Option<i64>,
    /// The key may send events of any age.
    pub import: bool,
    /// The game's lateness bound.
    pub late_ms: i64,
    /// From the address; an event's own country wins.
    pub country: &'a str,
    /// From the user agent; an event's own platform wins.
    pub platform: &'a str,
    /// The user agent is a known bot.
    pub bot: bool,
    /// The server itself sends it.
    pub own: bool,
}

/// Checks one event and fills in what the door knows. The result borrows from both. Properties are not looked into:
/// who can read them fills in the declared dimensions and the ids of `$identify`.
pub fn admit<'a>(raw: &'a RawEvent<'_>, door: &Door<'a>) -> Result<Stored<'a>, Reject> {
    let name = admit_name(raw.name.as_deref(), door.own)?;
    let (ts_ms, time_replaced) = admit_time(raw.ts_ms, door)?;
    let mut dimensions = raw.dimensions.each_ref().map(|value| value.as_deref().unwrap_or("").as_bytes());
    or_else(&mut dimensions[Dimension::Country as usize], door.country);
    or_else(&mut dimensions[Dimension::Platform as usize], door.platform);
    Ok(Stored {
        id: raw.id,
        ts_ms,
        name,
        player: raw.player.as_deref().unwrap_or("").as_bytes(),
        session: raw.session.as_deref().unwrap_or("").as_bytes(),
        value: raw.value,
        dimensions,
        declared: Declared::default(),
        anonymous: &[],
        samples: raw.samples,
        props: raw.props.unwrap_or("").as_bytes(),
        bot: door.bot,
        time_replaced,
        erased: false,
    })
}

fn admit_name(name: Option<&str>, own: bool) -> Result<&[u8], Reject> {
    let name = name.ok_or(Reject::EventNameMissing)?;
    if name.is_empty() {
        return Err(Reject::EventNameEmpty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Reject::EventNameTooLong);
    }
    let is_own = || OWN.contains(&name) || name.starts_with(OWN_REQUESTS);
    if name.starts_with('$') && !RESERVED.contains(&name) && !(own && is_own()) {
        return Err(Reject::EventNameReserved);
    }
    Ok(name.as_bytes())
}

/// The time to count the event at, and whether the client's own was thrown away.
fn admit_time(ts_ms: Option<i64>, door: &Door<'_>) -> Result<(i64, bool), Reject> {
    let Some(ts_ms) = ts_ms else { return Ok((door.received_ms, false)) };
    let skew_ms = door.sent_at_ms.map_or(0, |sent_at_ms| door.received_ms.saturating_sub(sent_at_ms));
    let ts_ms = ts_ms.saturating_add(skew_ms);
    if ts_ms > door.received_ms.saturating_add(FUTURE_MS_MAX) {
        return Ok((door.received_ms, true));
    }
    if !door.import && ts_ms < door.received_ms - door.late_ms {
        return Err(Reject::TooOld);
    }
    if ts_ms < 0 {
        return Err(Reject::TimestampInvalid);
    }
    Ok((ts_ms, false))
}

fn or_else<'a>(value: &mut &'a [u8], default: &'a str) {
    if value.is_empty() {
        *value = default.as_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LATE_MS_MAX;
    use std::borrow::Cow;

    const NOW: i64 = 1_800_000_000_000;
    const HOUR: i64 = 3_600_000;

    fn door() -> Door<'static> {
        Door {
            received_ms: NOW,
            sent_at_ms: None,
            import: false,
            late_ms: LATE_MS_MAX,
            country: "FR",
            platform: "web",
            bot: false,
            own: false,
        }
    }

    fn named(name: &str) -> RawEvent<'_> {
        RawEvent { name: Some(Cow::Borrowed(name)), ..RawEvent::default() }
    }

    fn at(ts_ms: i64) -> RawEvent<'static> {
        RawEvent { ts_ms: Some(ts_ms), ..named("score") }
    }

    #[test]
    fn a_name_is_required_bounded_and_not_reserved() {
        let check = |name: &str| admit(&named(name), &door()).map(|_| ());
        assert_eq!(admit(&RawEvent::default(), &door()), Err(Reject::EventNameMissing));
        assert_eq!(check(""), Err(Reject::EventNameEmpty));
        assert_eq!(check(&"x".repeat(200)), Ok(()));
        assert_eq!(check(&"x".repeat(201)), Err(Reject::EventNameTooLong));
        assert_eq!(check("$play"), Ok(()));
        assert_eq!(check("$plays"), Err(Reject::EventNameReserved));
    }

    #[test]
    fn names_of_the_servers_own_come_from_the_server_alone() {
        let own = Door { own: true, ..door() };
        for name in OWN.into_iter().chain(["$load.http.GET /.ok"]) {
            assert!(!RESERVED.contains(&name));
            assert_eq!(admit(&named(name), &door()), Err(Reject::EventNameReserved));
            assert!(admit(&named(name), &own).is_ok());
        }
        assert_eq!(admit(&named("$else"), &own), Err(Reject::EventNameReserved));
    }

    #[test]
    fn the_clients_clock_is_corrected_by_its_skew() {
        let slow_by_an_hour = Door { sent_at_ms: Some(NOW - HOUR), ..door() };
        assert_eq!(admit(&at(NOW - HOUR - 5), &slow_by_an_hour).unwrap().ts_ms, NOW - 5);
    }

    #[test]
    fn a_time_more_than_a_day_ahead_becomes_the_time_of_receipt() {
        let time = |ts_ms| admit(&at(ts_ms), &door()).map(|event| (event.ts_ms, event.time_replaced));
        assert_eq!(time(NOW + 24 * HOUR), Ok((NOW + 24 * HOUR, false)));
        assert_eq!(time(NOW + 24 * HOUR + 1), Ok((NOW, true)));
    }

    #[test]
    fn an_event_older_than_thirty_days_is_late_unless_it_is_imported() {
        let oldest = NOW - 30 * 24 * HOUR;
        let import = Door { import: true, ..door() };
        assert_eq!(admit(&at(oldest), &door()).unwrap().ts_ms, oldest);
        assert_eq!(admit(&at(oldest - 1), &door()), Err(Reject::TooOld));
        assert_eq!(admit(&at(oldest - 1), &import).unwrap().ts_ms, oldest - 1);
        assert_eq!(admit(&at(-1), &import), Err(Reject::TimestampInvalid));
        let strict = Door { late_ms: HOUR, ..door() };
        assert_eq!(admit(&at(NOW - HOUR - 1), &strict), Err(Reject::TooOld));
        assert_eq!(admit(&at(NOW - HOUR), &strict).unwrap().ts_ms, NOW - HOUR);
    }

    #[test]
    fn an_event_says_its_own_country_or_gets_the_doors() {
        let mut own = named("score");
        own.dimensions[Dimension::Country as usize] = Some(Cow::Borrowed("BR"));
        assert_eq!(admit(&own, &door()).unwrap().dimensions[0], b"BR");
        assert_eq!(admit(&named("score"), &door()).unwrap().dimensions[0], b"FR");
    }
}
