//! Numbers and times in replies.

use serde_json::Value;

use pipeline::time::rfc3339;

/// Returns a JSON number, which is an integer if the value is whole.
pub(super) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { Value::from(value as i64) } else { Value::from(value) }
}

/// Formats the time since an event as the original server did.
pub(super) fn ago(at_ms: i64, now_ms: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    match (now_ms - at_ms) / 1000 {
        ..30 => "just now".to_owned(),
        seconds @ 30..MINUTE => format!("{seconds} seconds ago"),
        MINUTE..120 => "a minute ago".to_owned(),
        seconds @ 120..HOUR => format!("{} minutes ago", seconds / MINUTE),
        HOUR..7_200 => "1 hour ago".to_owned(),
        seconds @ 7_200..DAY => format!("{} hours ago", seconds / HOUR),
        DAY..172_800 => "yesterday".to_owned(),
        _ => rfc3339(at_ms).chars().take(10).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_by_the_original_server() {
        const NOW: i64 = 1_800_000_000_000;
        for (seconds, expected) in [
            (-5, "just now"),
            (29, "just now"),
            (30, "30 seconds ago"),
            (60, "a minute ago"),
            (7 * 60 + 59, "7 minutes ago"),
            (3_600, "1 hour ago"),
            (7_200, "2 hours ago"),
            (86_400, "yesterday"),
            (172_800, "2027-01-13"),
        ] {
            assert_eq!(ago(NOW - seconds * 1000, NOW), expected, "{seconds}");
        }
    }
}
