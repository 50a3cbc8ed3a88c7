//! A flow as JSON, for the event of its end and for responses.

use model::flows::{DirectionStats, Flow, FlowEnd, Quality};
use serde_json::{Value, json};

use crate::time::rfc3339;

/// Returns a flow as JSON. `id` is hexadecimal; times are RFC 3339.
pub fn flow_json(flow: &Flow) -> Value {
    let (from, to, [there, back]) = (flow.from(), flow.to(), flow.stats());
    let mut json = json!({
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
        None => json["recent"] = quality(&flow.recent_quality()),
        Some((cause, ended_ms)) => {
            json["ended"] = rfc3339(ended_ms).into();
            json["ended_by"] = cause.label().into();
            json["seconds"] = (((ended_ms - flow.opened_ms) as f64 / 1000.0).max(0.0)).into();
        }
    }
    json
}

fn end(end: FlowEnd<'_>) -> Value {
    let address = end.address.map(|address| address.to_string());
    json!({ "id": end.id, "address": address })
}

/// Returns the figures of the packets that one end sent to the other.
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

/// Rounds to a millionth; more digits are noise.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}
