//! A decoded body in words, for tests to compare.

use decode::json::{Form, decode};
use model::{Dimension, RawBatch, RawEvent, Reject};

/// A line for each event, or why there are none.
#[allow(dead_code, reason = "not every test reads JSON")]
pub fn describe(body: &[u8], form: Form) -> String {
    let mut decoded = RawBatch::default();
    if let Err(malformed) = decode(body, form, &mut decoded) {
        return format!("malformed: {malformed}");
    }
    let sent_at = decoded.sent_at_ms.map(|ms| format!("sent at {ms}"));
    sent_at.into_iter().chain(decoded.events.iter().map(line)).collect::<Vec<_>>().join("\n")
}

/// One event, or why it was refused.
pub fn line(event: &Result<RawEvent<'_>, Reject>) -> String {
    match event {
        Ok(event) => words(event).join(" "),
        Err(reject) => format!("refused: {}", reject.label()),
    }
}

fn words(event: &RawEvent<'_>) -> Vec<String> {
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
