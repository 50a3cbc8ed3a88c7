//! Describes a decoded body as text, for tests to compare.

use decode::json::{BodyFormat, decode};
use model::{Dimension, RawBatch, RawEvent, Reject};

/// Describes each event on one line, or the error of the body.
#[allow(dead_code, reason = "not every test reads JSON")]
pub(crate) fn describe(body: &[u8], form: BodyFormat) -> String {
    let mut decoded = RawBatch::default();
    if let Err(malformed) = decode(body, form, &mut decoded) {
        return format!("malformed: {malformed}");
    }
    let sent_at = decoded.sent_at_ms.map(|ms| format!("sent at {ms}"));
    sent_at.into_iter().chain(decoded.events.iter().map(line)).collect::<Vec<_>>().join("\n")
}

/// Describes one event, or its reason of rejection.
pub(crate) fn line(event: &Result<RawEvent<'_>, Reject>) -> String {
    match event {
        Ok(event) => describe_fields(event).join(" "),
        Err(reject) => format!("rejected: {}", reject.label()),
    }
}

fn describe_fields(event: &RawEvent<'_>) -> Vec<String> {
    let mut words =
        vec![event.name.as_ref().map_or("event absent".to_string(), |name| format!("event={name}"))];
    words.extend(event.id.map(|id| format!("id={id:032x}")));
    words.extend(event.ts_ms.map(|ts_ms| format!("ts={ts_ms}")));
    words.extend(event.player.as_ref().map(|player| format!("player={player}")));
    words.extend(event.session.as_ref().map(|session| format!("session={session}")));
    words.extend(event.value.map(|value| format!("value={value:?}")));
    for dimension in Dimension::ALL {
        let text = &event.dimensions[dimension as usize];
        words.extend(text.as_ref().map(|text| format!("{}={text}", dimension.label())));
    }
    words.extend(event.props.map(|props| format!("props={props}")));
    words
}
