//! Delivers notifications: at least once, those of one target in order, and no target holds up another.
//!
//! What waits is live-ops state, and so is each attempt, so nothing is lost by a restart. In memory are only the
//! deliveries in progress and the times of the next attempts.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use liveops::alerts::{AlertAttempt, AlertCommand, TargetKind};
use pipeline::catalog::Game;
use pipeline::time::now_s;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;

use crate::evaluator::Alerts;
use crate::http_client::{Failure, JsonRequest};
use crate::message::Outgoing;
use crate::{mail, signature};

/// Deliveries in progress.
const IN_PROGRESS_MAX: usize = 64;
/// Deliveries in progress of one game: slow targets of one game leave room for others.
const IN_PROGRESS_PER_GAME_MAX: usize = 8;
/// The pause after the first failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_secs(1_800);
/// Attempts of a delivery: with these pauses, for about a day.
const ATTEMPTS_MAX: u32 = 58;
/// The pause before the outcome of an attempt is written again, for instance on a full disk.
const STORE_RETRY: Duration = Duration::from_secs(5);
/// Threads that resolve names.
const RESOLVERS_MAX: usize = 8;

/// A target of a rule.
type TargetId = (u32, String, String);

/// Where the sender is.
#[derive(Default)]
struct Progress {
    in_progress: HashSet<TargetId>,
    /// When a delivery is tried again, by its target and its notification.
    next: HashMap<(TargetId, u64), Instant>,
}

/// A delivery that has ended.
struct Finished {
    target: TargetId,
    notification: u64,
    /// The pause until the next attempt.
    retry: Option<Duration>,
}

/// Starts the thread.
pub(crate) fn start(alerts: Arc<Alerts>, stopping: watch::Receiver<bool>) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(RESOLVERS_MAX).build()?;
    std::thread::Builder::new().name("alert-sender".into()).spawn(move || {
        runtime.block_on(run(&alerts, stopping));
        // Names that are being resolved are not waited for.
        runtime.shutdown_background();
    })
}

async fn run(alerts: &Arc<Alerts>, mut stopping: watch::Receiver<bool>) {
    let mut progress = Progress::default();
    let mut tasks: JoinSet<Finished> = JoinSet::new();
    loop {
        let pause = start_due(alerts, &mut progress, &mut tasks);
        tokio::select! {
            _ = stopping.wait_for(|stopping| *stopping) => return,
            () = alerts.to_send.notified() => {}
            Some(finished) = tasks.join_next(), if !tasks.is_empty() => match finished {
                Ok(finished) => progress.finish(finished),
                // The target stays in progress until the next start: a panic would only be repeated.
                Err(failure) => warn!(%failure, "the delivery of an alert has panicked"),
            },
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }
}

impl Progress {
    fn finish(&mut self, finished: Finished) {
        let Finished { target, notification, retry } = finished;
        self.in_progress.remove(&target);
        match retry {
            Some(pause) => self.next.insert((target, notification), Instant::now() + pause),
            None => self.next.remove(&(target, notification)),
        };
    }

    fn has_room(&self, game: u32) -> bool {
        let of_game = self.in_progress.iter().filter(|(number, ..)| *number == game).count();
        self.in_progress.len() < IN_PROGRESS_MAX && of_game < IN_PROGRESS_PER_GAME_MAX
    }
}

/// Starts the deliveries that are due. Returns the time until the next one is.
fn start_due(
    alerts: &Arc<Alerts>,
    progress: &mut Progress,
    tasks: &mut JoinSet<Finished>,
) -> Option<Duration> {
    let now = Instant::now();
    let mut next_due: Option<Instant> = None;
    let mut known = HashSet::new();
    for number in alerts.views.liveops.games_with_alerts() {
        let Some(game) = alerts.catalog.game_by_number(number) else { continue };
        let state = alerts.views.liveops.game(number);
        let state = state.read();
        for (key, alert) in state.alerts.rules() {
            for target in &alert.definition.targets {
                let Some(notification) = alert.next_for(&target.id) else { continue };
                let id = (number, key.to_owned(), target.id.clone());
                let delivery = (id.clone(), notification.id);
                let due = progress.next.get(&delivery).copied();
                known.insert(delivery);
                if progress.in_progress.contains(&id) || game.is_archived() {
                    continue;
                }
                if let Some(due) = due.filter(|due| *due > now) {
                    next_due = Some(next_due.map_or(due, |next| next.min(due)));
                    continue;
                }
                // If there is no room, the end of a delivery makes some.
                if progress.has_room(number) {
                    progress.in_progress.insert(id.clone());
                    let outgoing = Outgoing {
                        game: game.id.clone(),
                        key: key.to_owned(),
                        alert: alert.clone(),
                        notification: notification.clone(),
                        target: target.clone(),
                    };
                    tasks.spawn(deliver(Arc::clone(alerts), Arc::clone(&game), id, outgoing));
                }
            }
        }
    }
    progress.next.retain(|delivery, _| known.contains(delivery));
    next_due.map(|due| due.saturating_duration_since(now))
}

/// Makes one attempt and stores its outcome.
async fn deliver(alerts: Arc<Alerts>, game: Arc<Game>, target: TargetId, outgoing: Outgoing) -> Finished {
    let notification = outgoing.notification.id;
    let attempts = outgoing.notification.waiting(&target.2).map_or(0, |delivery| delivery.attempts) + 1;
    let sent = send(&alerts, &outgoing).await;
    let is_last = match &sent {
        Ok(()) => true,
        Err(failure) => failure.is_final || attempts >= ATTEMPTS_MAX,
    };
    if let Err(Failure { reason, .. }) = &sent {
        let (game, rule, target) = (&game.id, &outgoing.key, &target.2);
        warn!(game, rule, target, attempts, is_last, reason, "an alert was not delivered");
    }
    let attempt = AlertAttempt {
        key: outgoing.key.clone(),
        notification,
        target: target.2.clone(),
        delivered: sent.is_ok(),
        is_last,
        error: sent.err().map(|failure| failure.reason),
    };
    // Until the outcome is stored the target stays in progress, so that the notification is not sent again.
    while let Err(failure) = alerts.submit_async(&game, AlertCommand::Attempt(attempt.clone())).await {
        // Nothing of a deleted game enters the log any more.
        if alerts.views.deleted_games.contains(game.number) {
            break;
        }
        let failure = format!("{failure:#}");
        warn!(failure, "the outcome of the delivery of an alert could not be stored; trying again");
        tokio::time::sleep(STORE_RETRY).await;
    }
    Finished { target, notification, retry: (!is_last).then(|| pause(attempts)) }
}

async fn send(alerts: &Alerts, outgoing: &Outgoing) -> Result<(), Failure> {
    let target = &outgoing.target;
    match target.kind {
        TargetKind::Email => mail::send(&alerts.settings, outgoing.mail()).await,
        TargetKind::Slack => {
            let request = JsonRequest { url: &target.url, headers: Vec::new(), body: outgoing.slack() };
            alerts.client.post(request).await
        }
        TargetKind::Webhook => {
            let (id, seconds, body) = (outgoing.id(), now_s(), outgoing.webhook());
            let signature = signature::sign(&target.secret, &id, seconds, &body);
            let signature =
                signature.ok_or_else(|| Failure::last("the secret of the target is not valid"))?;
            let headers = vec![
                ("webhook-id", id),
                ("webhook-timestamp", seconds.to_string()),
                ("webhook-signature", signature),
            ];
            alerts.client.post(JsonRequest { url: &target.url, headers, body }).await
        }
    }
}

/// Returns the pause after this many attempts, up to a fifth longer or shorter so that retries do not come together.
fn pause(attempts: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << attempts.saturating_sub(1).min(16)).min(PAUSE_MAX);
    let mut random = [0; 1];
    // Without random bytes, there is no jitter.
    let _ = getrandom::fill(&mut random);
    pause.mul_f64(0.8 + 0.4 * f64::from(random[0]) / 255.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_their_maximum() {
        for (attempts, seconds) in
            [(1, 2.0), (2, 4.0), (5, 32.0), (11, 1_800.0), (58, 1_800.0), (u32::MAX, 1_800.0)]
        {
            let pause = pause(attempts).as_secs_f64();
            assert!((0.79..=1.21).contains(&(pause / seconds)), "{attempts}: {pause}");
        }
    }

    #[test]
    fn all_attempts_together_take_about_a_day() {
        let hours: f64 = (1..ATTEMPTS_MAX).map(|attempts| pause(attempts).as_secs_f64() / 3_600.0).sum();
        assert!((19.0..=29.0).contains(&hours), "{hours}");
    }
}
