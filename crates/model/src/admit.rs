//! Admission: validates an event before it enters the log.
//!
//! A decoder has already checked types and lengths. The rules here are those that depend on the game and the
//! time.

use crate::batch::{DeclaredValues, StoredEvent};
use crate::event::{Dimension, RawEvent};
use crate::limits::{FUTURE_MS_MAX, NAME_BYTES_MAX};
use crate::reject::Reject;

/// Names starting with `$` that clients may send. Any other such name is rejected.
pub(crate) const RESERVED_NAMES: [&str; 13] = [
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

/// Names that only the server itself may send. From a client they are rejected like any other name starting with
/// `$`.
pub const INTERNAL_NAMES: [&str; 7] =
    ["$flow", "$flow.mos", "$flow.loss", "$flow.jitter_ms", "$flow.rtt_ms", "$flow.expected", "$flow.lost"];

/// The prefix of the metrics in which the server counts its own requests, followed by a method, a route and an
/// outcome.
pub const REQUEST_METRIC_PREFIX: &str = "$load.http.";

/// The facts about a request that are the same for all of its events.
#[derive(Clone, Copy, Debug)]
pub struct AdmissionContext<'a> {
    /// Time of receipt, milliseconds since 1970-01-01 UTC.
    pub received_ms: i64,
    /// The client's clock when it sent the request, if the client reported it.
    pub sent_at_ms: Option<i64>,
    /// True if the key may send events of any age.
    pub import: bool,
    /// The game's lateness bound, milliseconds.
    pub late_ms: i64,
    /// The country of the client's address; a country in the event takes precedence.
    pub country: &'a str,
    /// The platform from the user agent; a platform in the event takes precedence.
    pub platform: &'a str,
    /// True if the user agent is a known bot.
    pub bot: bool,
    /// True if the server itself sends the request.
    pub is_internal: bool,
}

/// Validates one event and completes it from the context. The result borrows from both. Properties are not
/// parsed: a caller that parses them fills in the declared dimensions and the ids of `$identify`.
pub fn admit<'a>(raw: &'a RawEvent<'_>, context: &AdmissionContext<'a>) -> Result<StoredEvent<'a>, Reject> {
    let name = admit_name(raw.name.as_deref(), context.is_internal)?;
    let (ts_ms, time_replaced) = admit_time(raw.ts_ms, context)?;
    let mut dimensions = raw.dimensions.each_ref().map(|value| value.as_deref().unwrap_or("").as_bytes());
    set_if_empty(&mut dimensions[Dimension::Country as usize], context.country);
    set_if_empty(&mut dimensions[Dimension::Platform as usize], context.platform);
    Ok(StoredEvent {
        id: raw.id,
        ts_ms,
        name,
        player: raw.player.as_deref().unwrap_or("").as_bytes(),
        session: raw.session.as_deref().unwrap_or("").as_bytes(),
        value: raw.value,
        dimensions,
        declared: DeclaredValues::default(),
        anonymous: &[],
        samples: raw.samples,
        props: raw.props.unwrap_or("").as_bytes(),
        bot: context.bot,
        time_replaced,
        erased: false,
    })
}

fn admit_name(name: Option<&str>, is_internal: bool) -> Result<&[u8], Reject> {
    let name = name.ok_or(Reject::EventNameMissing)?;
    if name.is_empty() {
        return Err(Reject::EventNameEmpty);
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Reject::EventNameTooLong);
    }
    let is_internal_name = || INTERNAL_NAMES.contains(&name) || name.starts_with(REQUEST_METRIC_PREFIX);
    if name.starts_with('$') && !RESERVED_NAMES.contains(&name) && !(is_internal && is_internal_name()) {
        return Err(Reject::EventNameReserved);
    }
    Ok(name.as_bytes())
}

/// Returns the time at which the event counts, and true if it replaces a client time that is too far ahead.
fn admit_time(ts_ms: Option<i64>, context: &AdmissionContext<'_>) -> Result<(i64, bool), Reject> {
    let Some(ts_ms) = ts_ms else { return Ok((context.received_ms, false)) };
    let skew_ms = context.sent_at_ms.map_or(0, |sent_at_ms| context.received_ms.saturating_sub(sent_at_ms));
    let ts_ms = ts_ms.saturating_add(skew_ms);
    if ts_ms > context.received_ms.saturating_add(FUTURE_MS_MAX) {
        return Ok((context.received_ms, true));
    }
    if !context.import && ts_ms < context.received_ms - context.late_ms {
        return Err(Reject::TooOld);
    }
    if ts_ms < 0 {
        return Err(Reject::TimestampInvalid);
    }
    Ok((ts_ms, false))
}

fn set_if_empty<'a>(value: &mut &'a [u8], default: &'a str) {
    if value.is_empty() {
        *value = default.as_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::LATE_DAYS_MAX;
    use std::borrow::Cow;

    const NOW: i64 = 1_800_000_000_000;
    const HOUR: i64 = 3_600_000;

    fn context() -> AdmissionContext<'static> {
        AdmissionContext {
            received_ms: NOW,
            sent_at_ms: None,
            import: false,
            late_ms: i64::from(LATE_DAYS_MAX) * 24 * HOUR,
            country: "FR",
            platform: "web",
            bot: false,
            is_internal: false,
        }
    }

    fn named(name: &str) -> RawEvent<'_> {
        RawEvent { name: Some(Cow::Borrowed(name)), ..RawEvent::default() }
    }

    fn at(ts_ms: i64) -> RawEvent<'static> {
        RawEvent { ts_ms: Some(ts_ms), ..named("score") }
    }

    #[test]
    fn name_must_be_present_within_bounds_and_not_reserved() {
        let check = |name: &str| admit(&named(name), &context()).map(|_| ());
        assert_eq!(admit(&RawEvent::default(), &context()), Err(Reject::EventNameMissing));
        assert_eq!(check(""), Err(Reject::EventNameEmpty));
        assert_eq!(check(&"x".repeat(200)), Ok(()));
        assert_eq!(check(&"x".repeat(201)), Err(Reject::EventNameTooLong));
        assert_eq!(check("$play"), Ok(()));
        assert_eq!(check("$plays"), Err(Reject::EventNameReserved));
    }

    #[test]
    fn internal_names_are_accepted_only_from_the_server() {
        let internal = AdmissionContext { is_internal: true, ..context() };
        for name in INTERNAL_NAMES.into_iter().chain(["$load.http.GET /.ok"]) {
            assert!(!RESERVED_NAMES.contains(&name));
            assert_eq!(admit(&named(name), &context()), Err(Reject::EventNameReserved));
            assert!(admit(&named(name), &internal).is_ok());
        }
        assert_eq!(admit(&named("$else"), &internal), Err(Reject::EventNameReserved));
    }

    #[test]
    fn client_clock_skew_is_corrected() {
        let slow_by_an_hour = AdmissionContext { sent_at_ms: Some(NOW - HOUR), ..context() };
        assert_eq!(admit(&at(NOW - HOUR - 5), &slow_by_an_hour).unwrap().ts_ms, NOW - 5);
    }

    #[test]
    fn time_more_than_a_day_ahead_is_replaced_by_receipt_time() {
        let time = |ts_ms| admit(&at(ts_ms), &context()).map(|event| (event.ts_ms, event.time_replaced));
        assert_eq!(time(NOW + 24 * HOUR), Ok((NOW + 24 * HOUR, false)));
        assert_eq!(time(NOW + 24 * HOUR + 1), Ok((NOW, true)));
    }

    #[test]
    fn event_beyond_the_lateness_bound_is_rejected_unless_imported() {
        let oldest = NOW - 30 * 24 * HOUR;
        let import = AdmissionContext { import: true, ..context() };
        assert_eq!(admit(&at(oldest), &context()).unwrap().ts_ms, oldest);
        assert_eq!(admit(&at(oldest - 1), &context()), Err(Reject::TooOld));
        assert_eq!(admit(&at(oldest - 1), &import).unwrap().ts_ms, oldest - 1);
        assert_eq!(admit(&at(-1), &import), Err(Reject::TimestampInvalid));
        let strict = AdmissionContext { late_ms: HOUR, ..context() };
        assert_eq!(admit(&at(NOW - HOUR - 1), &strict), Err(Reject::TooOld));
        assert_eq!(admit(&at(NOW - HOUR), &strict).unwrap().ts_ms, NOW - HOUR);
    }

    #[test]
    fn country_of_the_event_overrides_that_of_the_request() {
        let mut own = named("score");
        own.dimensions[Dimension::Country as usize] = Some(Cow::Borrowed("BR"));
        assert_eq!(admit(&own, &context()).unwrap().dimensions[0], b"BR");
        assert_eq!(admit(&named("score"), &context()).unwrap().dimensions[0], b"FR");
    }
}
