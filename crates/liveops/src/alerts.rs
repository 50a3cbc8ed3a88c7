//! Alert rules: their definition, their state, and the notifications that are delivered to their targets.
//!
//! The server evaluates a rule outside of this crate and writes what changed as a command: [`AlertTransition`]. A
//! transition to or from `firing` creates one notification, so a rule fires once and resolves once, whatever happens
//! between evaluation and delivery. The outcome of each delivery is a command, too ([`AlertAttempt`]), so that
//! deliveries continue after a restart.
//!
//! A rule keeps its last [`NOTIFICATIONS_MAX`] notifications: they are its delivery log and, while a target has not
//! confirmed them, its queue.

mod apply;
mod notification;
mod rule;
mod target;

pub use notification::{AlertDelivery, AlertNotification, DeliveryStatus, NotificationKind, ResolveReason};
pub use rule::{
    AlertComparison, AlertRule, BandComparison, ComparisonOperator, NoDataPolicy, PreviousComparison,
};
pub use target::{AlertTarget, TargetKind, TargetWrite};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Caller;
use crate::subject::{RecordError, RecordWriter, Subject};
use crate::vars::TimestampMs;

/// Alert rules of one game.
pub const ALERTS_MAX: usize = 100;
/// Notifications that a rule keeps. When there are more, the oldest is dropped, even if it was not delivered.
pub const NOTIFICATIONS_MAX: usize = 32;
/// Series that a transition lists.
pub const ALERT_SERIES_MAX: usize = 5;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertCommand {
    /// Creates or replaces a rule.
    Put {
        /// The rule's key.
        key: String,
        /// The rule without its targets.
        rule: AlertRule,
        /// The targets. Those that the rule already has keep their secrets.
        targets: Vec<TargetWrite>,
    },
    /// Removes a rule with its notifications.
    Delete {
        /// The rule's key.
        key: String,
    },
    /// Sends no notifications until a time; `None` ends that.
    Mute {
        /// The rule's key.
        key: String,
        /// The end.
        until: Option<TimestampMs>,
    },
    /// Sends a test notification to each target.
    Test {
        /// The rule's key.
        key: String,
    },
    /// Changes the state of a rule, after the server has evaluated it.
    Transition(AlertTransition),
    /// Records an attempt to deliver a notification.
    Attempt(AlertAttempt),
}

/// The state of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertPhase {
    /// The condition is not met.
    #[default]
    Ok,
    /// The condition is met, but not for long enough, or too soon after the last time.
    Pending,
    /// The condition is met, and notifications were sent.
    Firing,
    /// The condition is no longer met after the rule has fired.
    Resolved,
}

/// What the server found when it evaluated a rule.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertFinding {
    /// The value of the first series that meets the condition, or else of the first series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The value below which a rule with a band fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The value above which it fires: the end of a band, or what the value was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Series that meet the condition, [`ALERT_SERIES_MAX`] at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<AlertSeries>,
}

/// A series that meets the condition of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertSeries {
    /// The dimensions and their values.
    pub key: BTreeMap<String, String>,
    /// The value.
    pub value: Option<f64>,
}

/// A change of a rule's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertTransition {
    /// The rule's key.
    pub key: String,
    /// The revision of the rule that was evaluated. A transition of another revision is refused.
    pub revision: u64,
    /// The state in which the rule was evaluated. A transition from another state is refused.
    pub from: AlertPhase,
    /// The new state.
    pub to: AlertPhase,
    /// What was found.
    pub finding: AlertFinding,
}

/// An attempt to deliver a notification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertAttempt {
    /// The rule's key.
    pub key: String,
    /// The id of the notification.
    pub notification: u64,
    /// The id of the target.
    pub target: String,
    /// True if the target has confirmed it.
    pub delivered: bool,
    /// True if there will be no further attempt.
    pub is_last: bool,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The alert rules of a game with their state.
#[derive(Default)]
pub struct Alerts {
    rules: BTreeMap<String, Alert>,
    unwritten: UnwrittenAlerts,
}

/// A rule with its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// The definition.
    pub definition: AlertDefinition,
    /// The state.
    pub state: AlertState,
    /// The last notifications, oldest first.
    pub notifications: VecDeque<AlertNotification>,
}

/// A rule as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertDefinition {
    /// The rule.
    pub rule: AlertRule,
    /// The targets with their secrets.
    pub targets: Vec<AlertTarget>,
    /// Increases when the rule's condition changes.
    pub revision: u64,
    /// The time of the last change.
    pub updated_at: TimestampMs,
    /// The kind of credential that made the last change.
    pub updated_by: Caller,
    /// No notifications are sent until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted_until: Option<TimestampMs>,
}

/// The state of a rule as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertState {
    /// The state.
    pub phase: AlertPhase,
    /// The time since which it is in this state.
    pub since: TimestampMs,
    /// What was found at that time.
    pub finding: AlertFinding,
    /// True if the targets were sent that it fires, so that they are sent when it resolves.
    #[serde(default)]
    pub announced: bool,
    /// The time at which it last resolved, from which its cooldown counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<TimestampMs>,
    /// How often it has fired.
    #[serde(default)]
    pub fired: u64,
    /// Deliveries that were dropped because too many were waiting.
    #[serde(default)]
    pub dropped: u64,
}

/// The changes that the next checkpoint writes.
#[derive(Default)]
struct UnwrittenAlerts {
    rules: BTreeSet<String>,
    states: BTreeSet<String>,
    notifications: BTreeSet<(String, u64)>,
}

impl AlertPhase {
    /// Returns the name in JSON.
    pub fn label(self) -> &'static str {
        ["ok", "pending", "firing", "resolved"][self as usize]
    }
}

impl AlertState {
    fn new(since: TimestampMs) -> AlertState {
        AlertState {
            phase: AlertPhase::Ok,
            since,
            finding: AlertFinding::default(),
            announced: false,
            resolved_at: None,
            fired: 0,
            dropped: 0,
        }
    }
}

impl Alert {
    /// Returns the rule as the game's developers see it: without secrets.
    pub fn json(&self, key: &str) -> Value {
        let AlertDefinition { rule, targets, updated_at, updated_by, muted_until, .. } = &self.definition;
        let AlertState { phase, since, finding, resolved_at, fired, dropped, .. } = &self.state;
        let waiting = self.notifications.iter().flat_map(|notification| &notification.deliveries);
        let waiting = waiting.filter(|delivery| delivery.status == DeliveryStatus::Waiting).count();
        let mut json = json!({ "key": key });
        merge(&mut json, json!(rule));
        merge(
            &mut json,
            json!({
                "targets": targets.iter().map(AlertTarget::json).collect::<Value>(),
                "muted_until": muted_until,
                "state": phase,
                "since": since,
                "value": finding.value,
                "low": finding.low,
                "high": finding.high,
                "series": finding.series,
                "resolved_at": resolved_at,
                "fired": fired,
                "deliveries": { "waiting": waiting, "dropped": dropped },
                "updated_at": updated_at,
                "updated_by": updated_by,
            }),
        );
        json
    }

    /// Returns true if no notifications are sent at this time.
    pub fn is_muted(&self, now_ms: i64) -> bool {
        self.definition.muted_until.is_some_and(|until| now_ms < until.ms())
    }

    /// Returns the target with this id.
    pub fn target(&self, id: &str) -> Option<&AlertTarget> {
        self.definition.targets.iter().find(|target| target.id == id)
    }
}

/// Adds the fields of one object to another.
fn merge(object: &mut Value, more: Value) {
    if let (Some(fields), Value::Object(more)) = (object.as_object_mut(), more) {
        fields.extend(more);
    }
}

impl Alerts {
    /// Returns the rules by key.
    pub fn rules(&self) -> impl Iterator<Item = (&str, &Alert)> {
        self.rules.iter().map(|(key, alert)| (key.as_str(), alert))
    }

    /// Returns a rule.
    pub fn rule(&self, key: &str) -> Option<&Alert> {
        self.rules.get(key)
    }

    /// Returns true if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns all rules without secrets, for the export of a game.
    pub(crate) fn export(&self) -> Vec<Value> {
        self.rules.iter().map(|(key, alert)| alert.json(key)).collect()
    }
}

/// The kinds of records. Stored, never reused. Rules come first in key order: the others belong to one.
const RULE: u8 = b'a';
const NOTIFICATION: u8 = b'n';
const STATE: u8 = b's';

fn notification_key(key: &str, id: u64) -> Vec<u8> {
    [&[NOTIFICATION], key.as_bytes(), b"\0", id.to_be_bytes().as_slice()].concat()
}

impl Subject for Alerts {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let damaged = || RecordError("unknown record key of alerts".to_owned());
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| damaged());
        match key.split_first() {
            Some((&RULE, name)) => {
                let definition: AlertDefinition = serde_json::from_slice(value)?;
                let state = AlertState::new(definition.updated_at);
                let alert = Alert { definition, state, notifications: VecDeque::new() };
                self.rules.insert(text(name)?, alert);
            }
            Some((&NOTIFICATION, rest)) => {
                let (name, id) = rest.split_last_chunk::<8>().ok_or_else(damaged)?;
                let name = text(name.strip_suffix(b"\0").ok_or_else(damaged)?)?;
                let mut notification: AlertNotification = serde_json::from_slice(value)?;
                notification.id = u64::from_be_bytes(*id);
                let alert = self.rules.get_mut(&name).ok_or_else(damaged)?;
                alert.notifications.push_back(notification);
            }
            Some((&STATE, name)) => {
                let alert = self.rules.get_mut(&text(name)?).ok_or_else(damaged)?;
                alert.state = serde_json::from_slice(value)?;
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        let json = |value: Result<Vec<u8>, _>| value.expect("records have text keys");
        for name in std::mem::take(&mut self.unwritten.rules) {
            let key = [&[RULE], name.as_bytes()].concat();
            match self.rules.get(&name) {
                Some(alert) => writer.put(&key, json(serde_json::to_vec(&alert.definition))),
                None => writer.remove(&key),
            }
        }
        for name in std::mem::take(&mut self.unwritten.states) {
            let key = [&[STATE], name.as_bytes()].concat();
            match self.rules.get(&name) {
                Some(alert) => writer.put(&key, json(serde_json::to_vec(&alert.state))),
                None => writer.remove(&key),
            }
        }
        for (name, id) in std::mem::take(&mut self.unwritten.notifications) {
            let kept = self.rules.get(&name).and_then(|alert| alert.notification(id));
            match kept {
                Some(it) => writer.put(&notification_key(&name, id), json(serde_json::to_vec(it))),
                None => writer.remove(&notification_key(&name, id)),
            }
        }
    }
}
