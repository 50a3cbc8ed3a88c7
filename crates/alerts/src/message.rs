//! What is sent: the JSON of a webhook, a message for Slack, a mail.

use liveops::alerts::{
    Alert, AlertComparison, AlertFinding, AlertNotification, AlertSeries, AlertTarget, NotificationKind,
    PreviousComparison,
};
use serde_json::json;

use crate::mail::Mail;

/// A notification to be sent to one target.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) game: String,
    pub(crate) key: String,
    pub(crate) alert: Alert,
    pub(crate) notification: AlertNotification,
    pub(crate) target: AlertTarget,
}

impl Outgoing {
    /// Returns the id of the delivery, which is the same over retries and restarts.
    pub(crate) fn id(&self) -> String {
        let AlertNotification { id, at, .. } = &self.notification;
        format!("{}-{}-{:x}-{id:x}-{}", self.game, self.key, at.ms(), self.target.id)
    }

    /// Returns the body of a webhook. It is the same in every attempt.
    pub(crate) fn webhook(&self) -> Vec<u8> {
        let AlertNotification { kind, at, finding, reason, .. } = &self.notification;
        let rule = &self.alert.definition.rule;
        let body = json!({
            "id": self.id(),
            "kind": kind,
            "game": self.game,
            "rule": self.key,
            "name": rule.name,
            "message": rule.message,
            "at": at,
            "reason": reason,
            "summary": self.summary(),
            "compare": rule.compare,
            "value": finding.value,
            "low": finding.low,
            "high": finding.high,
            "series": finding.series,
        });
        body.to_string().into_bytes()
    }

    /// Returns a message for an incoming webhook of Slack.
    pub(crate) fn slack(&self) -> Vec<u8> {
        let text = self.lines().iter().map(|line| escape_slack(line)).collect::<Vec<_>>().join("\n");
        json!({ "text": text }).to_string().into_bytes()
    }

    /// Returns a mail.
    pub(crate) fn mail(&self) -> Mail {
        let subject = self.headline().chars().filter(|char| !char.is_control()).collect();
        let text = self.lines().join("\n") + "\n";
        Mail { id: self.id(), to: self.target.to.clone(), subject, text }
    }

    /// Returns the lines of a text.
    fn lines(&self) -> Vec<String> {
        let rule = &self.alert.definition.rule;
        let mut lines = vec![self.headline(), self.summary()];
        let named = self.notification.finding.series.iter().filter(|series| !series.key.is_empty());
        lines.extend(named.map(series_text));
        if !rule.message.is_empty() {
            lines.push(rule.message.clone());
        }
        lines.push(format!("Game {}, rule {}, {}", self.game, self.key, self.notification.at));
        lines
    }

    /// Returns `Firing: Errors double`.
    fn headline(&self) -> String {
        let name = &self.alert.definition.rule.name;
        let name = if name.is_empty() { &self.key } else { name };
        let kind = match self.notification.kind {
            NotificationKind::Firing => "Firing",
            NotificationKind::Resolved => "Resolved",
            NotificationKind::Test => "Test",
        };
        format!("{kind}: {name}")
    }

    /// Returns what was found, in one line.
    fn summary(&self) -> String {
        match self.notification.kind {
            NotificationKind::Test => "This is a test notification; nothing has happened.".to_owned(),
            _ => summary(&self.alert.definition.rule.compare, &self.notification.finding),
        }
    }
}

fn summary(compare: &AlertComparison, finding: &AlertFinding) -> String {
    let AlertFinding { value, low, high, .. } = finding;
    let number = |value: &Option<f64>| value.map_or_else(|| "none".to_owned(), number_text);
    let value = number(value);
    if let Some(seconds) = compare.no_data_s {
        return format!("{value} events within {seconds} s");
    }
    match compare {
        AlertComparison { band: Some(_), .. } => {
            format!("value {value}, expected {} to {}", number(low), number(high))
        }
        AlertComparison { previous: Some(PreviousComparison { op, factor, .. }), .. } => {
            format!(
                "value {value}, compared with {} {}: {factor} times the period before",
                op.label(),
                number(high)
            )
        }
        AlertComparison { op: Some(op), .. } => {
            format!("value {value}, compared with {} {}", op.label(), number(&compare.value))
        }
        _ => format!("value {value}"),
    }
}

/// Returns a number with at most three decimals.
fn number_text(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn series_text(series: &AlertSeries) -> String {
    let key: Vec<String> = series.key.iter().map(|(name, value)| format!("{name} {value}")).collect();
    format!("{}: {}", key.join(", "), series.value.map_or_else(|| "none".to_owned(), number_text))
}

/// Escapes what Slack would read as markup: mentions such as `<!channel>` must not be made from the values of events.
fn escape_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use serde_json::Value;

    use super::*;

    fn outgoing(kind: &str) -> Outgoing {
        let definition = json!({
            "rule": {
                "name": "Errors", "message": "See the runbook.", "query": {},
                "compare": { "op": ">", "value": 5.0 },
            },
            "targets": [], "revision": 1, "updated_at": "2027-01-15T08:00:00Z", "updated_by": "server",
        });
        let state = json!({ "phase": "firing", "since": "2027-01-15T08:00:00Z", "finding": {} });
        let key = BTreeMap::from([("version".to_owned(), "<!channel> & co".to_owned())]);
        let notification = json!({
            "kind": kind, "at": "2027-01-15T08:00:00Z", "deliveries": [],
            "finding": { "value": 7.25, "high": 5.0, "series": [AlertSeries { key, value: Some(7.25) }] },
        });
        let read = "it has the form of a record";
        Outgoing {
            game: "demo".to_owned(),
            key: "errors".to_owned(),
            alert: Alert {
                definition: serde_json::from_value(definition).expect(read),
                state: serde_json::from_value(state).expect(read),
                notifications: VecDeque::new(),
            },
            notification: serde_json::from_value(notification).expect(read),
            target: serde_json::from_value(json!({ "id": "1", "kind": "slack", "url": "https://a/" }))
                .expect(read),
        }
    }

    #[test]
    fn webhook_has_what_was_found_and_no_secret() {
        let body: Value = serde_json::from_slice(&outgoing("firing").webhook()).expect("JSON");
        assert_eq!(
            (&body["kind"], &body["rule"], &body["value"]),
            (&json!("firing"), &json!("errors"), &json!(7.25))
        );
        assert_eq!(body["summary"], "value 7.25, compared with > 5");
        assert_eq!(body["id"], format!("demo-errors-{:x}-0-1", 1_800_000_000_000_i64));
    }

    #[test]
    fn values_of_events_are_no_markup_in_slack() {
        let body: Value = serde_json::from_slice(&outgoing("firing").slack()).expect("JSON");
        let text = body["text"].as_str().expect("a text");
        assert!(text.starts_with("Firing: Errors\nvalue 7.25"), "{text}");
        assert!(text.contains("version &lt;!channel&gt; &amp; co: 7.25") && !text.contains('<'), "{text}");
    }

    #[test]
    fn test_notification_says_so() {
        let mail = outgoing("test").mail();
        assert_eq!(mail.subject, "Test: Errors");
        assert!(mail.text.contains("nothing has happened"), "{}", mail.text);
    }
}
