//! A flow as JSON: in the event of its end, and in answers.

use model::flows::{DirectionStats, Flow, FlowEnd, Quality};
use serde_json::{Value, json};

use crate::time::rfc3339;

/// Everything about a flow. `id` is hexadecimal. Times are RFC 3339.
pub fn describe(flow: &Flow) -> Value {
    let (from, to, [there, back]) = (flow.from(), flow.to(), flow.stats());
    let mut told = json!({
        "id": format!("{:016x}", flow.id),
        "from": end(from),
        "to": end(to),
        "started": rfc3339(flow.opened_ms),
        "last_seen": rfc3339(flow.last_ms),
        "moves": flow.address_changes,
        "sent": direction(&there),
        "received": direction(&back),
        "quality": quality(&flow.quality()),
    });
    match flow.ended {
        None => told["recent"] = quality(&flow.recent_quality()),
        Some((cause, ended_ms)) => {
            told["ended"] = rfc3339(ended_ms).into();
            told["ended_by"] = cause.label().into();
            told["seconds"] = (((ended_ms - flow.opened_ms) as f64 / 1000.0).max(0.0)).into();
        }
    }
    told
}

fn end(end: FlowEnd<'_>) -> Value {
    let address = end.address.map(|address| address.to_string());
    json!({ "id": end.id, "address": address })
}

/// What one end sent to the other.
fn direction(figures: &DirectionStats) -> Value {
    let DirectionStats { highest, received, lost, duplicated, reordered, strays, jitter_ms, is_reported } =
        *figures;
    json!({
        "highest": highest,
        "received": received,
        "lost": lost,
        "duplicated": duplicated,
        "reordered": reordered,
        "strays": strays,
        "jitter_ms": rounded(jitter_ms),
        "reported": is_reported,
    })
}

fn quality(quality: &Quality) -> Value {
    json!({
        "expected": quality.expected,
        "lost": quality.lost,
        "loss": rounded(quality.loss()),
        "jitter_ms": rounded(quality.jitter_ms),
        "rtt_ms": quality.rtt_ms.map(rounded),
        "mos": rounded(quality.mos),
    })
}

/// To a millionth: more digits say nothing.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
