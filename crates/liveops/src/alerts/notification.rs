//! Notifications: what a rule reports, and how far each target has received it.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Alert, AlertFinding};
use crate::vars::TimestampMs;

/// What a notification reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotificationKind {
    /// The rule fires.
    Firing,
    /// The rule has resolved.
    Resolved,
    /// Nothing: the target is tested.
    Test,
}

/// Why a rule has resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolveReason {
    /// The condition is no longer met.
    Condition,
    /// The condition of the rule was changed.
    RuleChanged,
}

/// A notification with its deliveries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertNotification {
    /// The offset of the command that created it.
    #[serde(skip)]
    pub id: u64,
    /// What it reports.
    pub kind: NotificationKind,
    /// The time of creation.
    pub at: TimestampMs,
    /// What was found.
    pub finding: AlertFinding,
    /// Why the rule has resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ResolveReason>,
    /// True if it was not sent because the rule was muted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub muted: bool,
    /// One for each target.
    pub deliveries: Vec<AlertDelivery>,
}

/// The delivery of a notification to a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertDelivery {
    /// The id of the target.
    pub target: String,
    /// How far it is.
    pub status: DeliveryStatus,
    /// The number of attempts.
    #[serde(default)]
    pub attempts: u32,
    /// The time of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<TimestampMs>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How far a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It is sent until the target confirms it.
    Waiting,
    /// The target has confirmed it.
    Delivered,
    /// The target has not confirmed it, and there are no further attempts.
    Failed,
    /// The target was removed before it has confirmed it.
    Removed,
}

impl NotificationKind {
    /// Returns the name in JSON.
    pub fn label(self) -> &'static str {
        ["firing", "resolved", "test"][self as usize]
    }
}

impl AlertNotification {
    /// Returns the notification as the game's developers see it.
    pub fn json(&self) -> Value {
        let mut json = json!(self);
        json["id"] = format!("{:x}", self.id).into();
        json
    }

    /// Returns the delivery to a target, if it waits.
    pub fn waiting(&self, target: &str) -> Option<&AlertDelivery> {
        let mut deliveries = self.deliveries.iter();
        deliveries.find(|delivery| delivery.target == target && delivery.status == DeliveryStatus::Waiting)
    }
}

impl Alert {
    /// Returns the notification with this id.
    pub fn notification(&self, id: u64) -> Option<&AlertNotification> {
        self.notifications.iter().find(|notification| notification.id == id)
    }

    /// Returns the oldest notification that a target has not confirmed: they are delivered in order.
    pub fn next_for(&self, target: &str) -> Option<&AlertNotification> {
        self.notifications.iter().find(|notification| notification.waiting(target).is_some())
    }
}
