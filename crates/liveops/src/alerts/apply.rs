//! Deciding the commands that change alerts.

use std::collections::VecDeque;

use serde_json::json;

use super::notification::{
    AlertDelivery, AlertNotification, DeliveryStatus, NotificationKind, ResolveReason,
};
use super::{
    ALERT_SERIES_MAX, ALERTS_MAX, Alert, AlertAttempt, AlertCommand, AlertDefinition, AlertFinding,
    AlertPhase, AlertRule, AlertState, AlertTarget, AlertTransition, Alerts, NOTIFICATIONS_MAX, TargetWrite,
    target,
};
use crate::erased_operands::without_player;
use crate::game::{CommandContext, Game, LogPoint, Touched};
use crate::vars::TimestampMs;
use crate::{Caller, CommandResponse, Refusal, is_key};

/// Characters of the reason of a failed delivery.
const ERROR_CHARS_MAX: usize = 300;

impl Game {
    pub(crate) fn apply_alerts(
        &mut self,
        context: &mut CommandContext<'_>,
        command: AlertCommand,
    ) -> Result<CommandResponse, Refusal> {
        let (at, by) = (context.at, context.by.caller);
        let response = match command {
            AlertCommand::Put { key, rule, targets } => self.alerts.put(at, by, key, rule, targets)?,
            AlertCommand::Delete { key } => self.alerts.delete(&key)?,
            AlertCommand::Mute { key, until } => self.alerts.mute(at, by, &key, until)?,
            AlertCommand::Test { key } => self.alerts.test(at, &key)?,
            AlertCommand::Transition(transition) => self.alerts.transition(at, transition)?,
            AlertCommand::Attempt(attempt) => self.alerts.attempt(at, attempt)?,
        };
        context.touched.push(Touched::Alerts);
        Ok(response)
    }
}

impl Alerts {
    fn put(
        &mut self,
        at: LogPoint,
        by: Caller,
        key: String,
        rule: AlertRule,
        targets: Vec<TargetWrite>,
    ) -> Result<CommandResponse, Refusal> {
        if !is_key(&key) {
            return Err(Refusal::invalid("key", "must have 1 to 100 letters, digits, `.`, `_` or `-`"));
        }
        rule.check()?;
        let before = self.rules.get(&key).map_or(&[][..], |alert| &alert.definition.targets[..]);
        let targets = target::resolve(targets, before)?;
        let new_secrets = new_secrets(&targets, before);
        if before.is_empty() && !self.rules.contains_key(&key) && self.rules.len() >= ALERTS_MAX {
            return Err(Refusal::too_many(format!("a game can have at most {ALERTS_MAX} alert rules")));
        }
        let updated_at = TimestampMs::from_ms(at.ms);
        let (revision, updated_by) = (at.offset, by);
        let definition =
            AlertDefinition { rule, targets, revision, updated_at, updated_by, muted_until: None };
        let is_new = !self.rules.contains_key(&key);
        let alert = self.rules.entry(key.clone()).or_insert_with(|| Alert {
            definition: definition.clone(),
            state: AlertState::new(updated_at),
            notifications: VecDeque::new(),
        });
        let changed = alert.replace(at, definition);
        self.unwritten.note(&key, changed);
        self.unwritten.rules.insert(key.clone());
        self.unwritten.states.insert(key.clone());
        let mut json = self.rules[&key].json(&key);
        for (index, secret) in new_secrets {
            json["targets"][index]["secret"] = secret.into();
        }
        Ok(if is_new { CommandResponse::created(&json) } else { CommandResponse::ok(&json) })
    }

    fn delete(&mut self, key: &str) -> Result<CommandResponse, Refusal> {
        let alert = self.rules.remove(key).ok_or_else(|| not_found(key))?;
        self.unwritten.note(key, alert.notifications.iter().map(|notification| notification.id).collect());
        self.unwritten.rules.insert(key.to_owned());
        self.unwritten.states.insert(key.to_owned());
        Ok(CommandResponse::no_content())
    }

    fn mute(
        &mut self,
        at: LogPoint,
        by: Caller,
        key: &str,
        until: Option<TimestampMs>,
    ) -> Result<CommandResponse, Refusal> {
        let alert = self.rules.get_mut(key).ok_or_else(|| not_found(key))?;
        alert.definition.muted_until = until.filter(|until| until.ms() > at.ms);
        alert.definition.updated_at = TimestampMs::from_ms(at.ms);
        alert.definition.updated_by = by;
        self.unwritten.rules.insert(key.to_owned());
        Ok(CommandResponse::ok(&alert.json(key)))
    }

    fn test(&mut self, at: LogPoint, key: &str) -> Result<CommandResponse, Refusal> {
        let alert = self.rules.get_mut(key).ok_or_else(|| not_found(key))?;
        if alert.definition.targets.is_empty() {
            let detail = "the rule has no targets";
            return Err(Refusal { field: Some("targets".to_owned()), ..Refusal::conflict(detail) });
        }
        let changed = alert.notify(at, NotificationKind::Test, alert.state.finding.clone(), None, false);
        self.unwritten.note(key, changed);
        self.unwritten.states.insert(key.to_owned());
        Ok(CommandResponse::accepted(&json!({ "notification": format!("{:x}", at.offset) })))
    }

    fn transition(&mut self, at: LogPoint, transition: AlertTransition) -> Result<CommandResponse, Refusal> {
        let AlertTransition { key, revision, from, to, mut finding } = transition;
        let alert = self.rules.get_mut(&key).ok_or_else(|| not_found(&key))?;
        if alert.definition.revision != revision || alert.state.phase != from {
            return Err(Refusal::conflict("the rule has changed since it was evaluated"));
        }
        finding.series.truncate(ALERT_SERIES_MAX);
        let changed = alert.enter(at, to, finding, ResolveReason::Condition);
        self.unwritten.note(&key, changed);
        self.unwritten.states.insert(key);
        Ok(CommandResponse::no_content())
    }

    fn attempt(&mut self, at: LogPoint, attempt: AlertAttempt) -> Result<CommandResponse, Refusal> {
        let AlertAttempt { key, notification, target, delivered, is_last, error } = attempt;
        let alert = self.rules.get_mut(&key).ok_or_else(|| not_found(&key))?;
        let mut all = alert.notifications.iter_mut();
        let delivery = all
            .find(|it| it.id == notification)
            .and_then(|it| it.deliveries.iter_mut().find(|delivery| delivery.target == target))
            .filter(|delivery| delivery.status == DeliveryStatus::Waiting)
            .ok_or_else(|| Refusal::not_found("no such delivery waits"))?;
        delivery.attempts += 1;
        delivery.at = Some(TimestampMs::from_ms(at.ms));
        delivery.error = error.map(|error| error.chars().take(ERROR_CHARS_MAX).collect());
        delivery.status = match (delivered, is_last) {
            (true, _) => DeliveryStatus::Delivered,
            (false, true) => DeliveryStatus::Failed,
            (false, false) => DeliveryStatus::Waiting,
        };
        self.unwritten.notifications.insert((key, notification));
        Ok(CommandResponse::no_content())
    }

    /// Removes a player from conditions about players. Returns false if no rule names them.
    pub(crate) fn erase_player(&mut self, at: LogPoint, player: &str) -> bool {
        let mut is_changed = false;
        for (key, alert) in &mut self.rules {
            let AlertDefinition { rule, revision, .. } = &mut alert.definition;
            let Some(query) = without_player(&rule.query, player) else { continue };
            (rule.query, *revision, is_changed) = (query, at.offset, true);
            self.unwritten.rules.insert(key.clone());
        }
        is_changed
    }
}

impl super::UnwrittenAlerts {
    fn note(&mut self, key: &str, notifications: Vec<u64>) {
        self.notifications.extend(notifications.into_iter().map(|id| (key.to_owned(), id)));
    }
}

impl Alert {
    /// Replaces the definition. If the condition is another one, the state begins anew. Returns the notifications that
    /// changed.
    fn replace(&mut self, at: LogPoint, definition: AlertDefinition) -> Vec<u64> {
        let mut changed = Vec::new();
        let is_same = self.definition.rule.is_same_condition(&definition.rule);
        if !is_same && self.state.phase == AlertPhase::Firing {
            let finding = self.state.finding.clone();
            changed = self.enter(at, AlertPhase::Resolved, finding, ResolveReason::RuleChanged);
        }
        if !is_same {
            let AlertState { fired, dropped, .. } = self.state;
            self.state = AlertState { fired, dropped, ..AlertState::new(definition.updated_at) };
        }
        let revision = if is_same { self.definition.revision } else { definition.revision };
        let muted_until = self.definition.muted_until;
        self.definition = AlertDefinition { revision, muted_until, ..definition };
        for notification in &mut self.notifications {
            let targets = &self.definition.targets;
            let waiting = notification.deliveries.iter_mut();
            let waiting = waiting.filter(|delivery| delivery.status == DeliveryStatus::Waiting);
            for delivery in waiting.filter(|delivery| targets.iter().all(|it| it.id != delivery.target)) {
                delivery.status = DeliveryStatus::Removed;
                changed.push(notification.id);
            }
        }
        changed
    }

    /// Enters another state. Returns the notifications that changed.
    fn enter(
        &mut self,
        at: LogPoint,
        to: AlertPhase,
        finding: AlertFinding,
        reason: ResolveReason,
    ) -> Vec<u64> {
        let now = TimestampMs::from_ms(at.ms);
        let from = std::mem::replace(&mut self.state.phase, to);
        (self.state.since, self.state.finding) = (now, finding.clone());
        match (from, to) {
            (_, AlertPhase::Firing) => {
                self.state.fired += 1;
                self.state.announced = !self.is_muted(at.ms);
                self.notify(at, NotificationKind::Firing, finding, None, !self.state.announced)
            }
            (AlertPhase::Firing, _) => {
                self.state.resolved_at = Some(now);
                // A target that was not sent that the rule fires is not sent that it resolves.
                let is_sent = std::mem::take(&mut self.state.announced) && !self.is_muted(at.ms);
                self.notify(at, NotificationKind::Resolved, finding, Some(reason), !is_sent)
            }
            _ => Vec::new(),
        }
    }

    /// Adds a notification for every target, and drops the oldest one if there are too many. Returns the notifications
    /// that changed.
    fn notify(
        &mut self,
        at: LogPoint,
        kind: NotificationKind,
        finding: AlertFinding,
        reason: Option<ResolveReason>,
        muted: bool,
    ) -> Vec<u64> {
        let delivery = |target: &AlertTarget| AlertDelivery {
            target: target.id.clone(),
            status: DeliveryStatus::Waiting,
            attempts: 0,
            at: None,
            error: None,
        };
        let targets = self.definition.targets.iter().filter(|_| !muted);
        let deliveries = targets.map(delivery).collect();
        let (id, now) = (at.offset, TimestampMs::from_ms(at.ms));
        self.notifications.push_back(AlertNotification {
            id,
            kind,
            at: now,
            finding,
            reason,
            muted,
            deliveries,
        });
        let mut changed = vec![id];
        if self.notifications.len() > NOTIFICATIONS_MAX
            && let Some(oldest) = self.notifications.pop_front()
        {
            let waiting = oldest.deliveries.iter().filter(|it| it.status == DeliveryStatus::Waiting);
            self.state.dropped += waiting.count() as u64;
            changed.push(oldest.id);
        }
        changed
    }
}

/// Returns the secrets that the response shows, by the number of their target: those that the server has drawn or that
/// replace an earlier one.
fn new_secrets(targets: &[AlertTarget], before: &[AlertTarget]) -> Vec<(usize, String)> {
    let is_known = |target: &AlertTarget| before.iter().any(|known| known.secret == target.secret);
    let numbered = targets.iter().enumerate();
    let new = numbered.filter(|(_, target)| !target.secret.is_empty() && !is_known(target));
    new.map(|(index, target)| (index, target.secret.clone())).collect()
}

fn not_found(key: &str) -> Refusal {
    Refusal { field: Some("key".to_owned()), ..Refusal::not_found(format!("there is no alert rule `{key}`")) }
}
