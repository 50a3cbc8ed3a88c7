//! Evaluates the rules of all games, one after the other, on one thread of low priority.
//!
//! All rules are due once per interval. After each query the rules of the game rest for a multiple of its time, so that
//! they use a bounded share of a core and delay no other game, and a rule whose query is expensive is evaluated less
//! often. A query has the same bounds of time and memory as others.

use std::cell::Cell;
use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use liveops::alerts::{
    Alert, AlertCommand, AlertDefinition, AlertFinding, AlertPhase, AlertState, AlertTransition,
};
use liveops::{Caller, Command, CommandRef, Principal, Touched};
use parking_lot::Mutex;
use pipeline::archiver::Archiver;
use pipeline::catalog::{Catalog, Game};
use pipeline::ingest::{COMMAND, Claims};
use pipeline::query::pool::QueryPool;
use pipeline::time::now_ms;
use pipeline::views::Views;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, watch};
use tracing::warn;
use wal::{Ack, Entry, Wal};

use crate::http_client::HttpClient;
use crate::judge::Judged;
use crate::phase::RuleClock;
use crate::question::{EvaluationError, QueryContext, RuleQuery, first_data};
use crate::turns::Turns;
use crate::{AlertSettings, sender};

/// The time for which a minute is left to be completed by events that are on their way.
const SETTLE: Duration = Duration::from_secs(5);
/// A rule is evaluated again after this many times as long as its query took: it uses a fiftieth of a core at most.
const RULE_FACTOR: u32 = 50;
const NICE: i32 = 15;

/// What alerts work on.
pub struct Start {
    /// The settings.
    pub settings: AlertSettings,
    /// The rules, their state, and the rollups.
    pub views: Arc<Views>,
    /// The games.
    pub catalog: Arc<Catalog>,
    /// Where commands are written.
    pub log: Wal<Claims>,
    /// The raw events.
    pub archiver: Arc<Archiver>,
    /// The bounds of queries.
    pub queries: Arc<QueryPool>,
}

/// Alerts of all games.
pub struct Alerts {
    pub(crate) settings: AlertSettings,
    pub(crate) views: Arc<Views>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) client: HttpClient,
    /// Wakes the sender when there may be something to send.
    pub(crate) to_send: Arc<Notify>,
    /// Wakes the evaluator when rules have changed.
    rules_changed: Arc<Notify>,
    log: Wal<Claims>,
    archiver: Arc<Archiver>,
    queries: Arc<QueryPool>,
    statuses: Mutex<HashMap<(u32, String), RuleStatus>>,
}

/// The result of the last evaluation of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleStatus {
    revision: u64,
    evaluated_ms: i64,
    finding: AlertFinding,
    error: Option<String>,
}

impl RuleStatus {
    /// Returns the status as JSON.
    pub fn json(&self) -> Value {
        let AlertFinding { value, low, high, .. } = &self.finding;
        json!({
            "at": pipeline::time::rfc3339(self.evaluated_ms),
            "value": value,
            "low": low,
            "high": high,
            "error": self.error,
        })
    }
}

/// A rule, copied so that no lock is held while its query runs.
struct RuleCopy {
    key: String,
    definition: AlertDefinition,
    state: AlertState,
}

/// What the evaluator keeps of a rule between evaluations.
struct RuleMemory {
    revision: u64,
    clock: RuleClock,
    evaluated_ms: i64,
    /// How long its last query took, also if it has failed.
    cost: Duration,
    /// An expensive rule is not evaluated before this.
    due: Instant,
    /// The minute of the game's first data, and until when that is assumed.
    history: Option<(u32, Instant)>,
}

type Memories = HashMap<(u32, String), RuleMemory>;

impl Alerts {
    /// Prepares alerts without starting their threads.
    ///
    /// # Errors
    /// If the file with trusted certificates cannot be read.
    pub fn open(start: Start) -> anyhow::Result<Arc<Alerts>> {
        let Start { settings, views, catalog, log, archiver, queries } = start;
        let client = HttpClient::new(&settings)?;
        let (to_send, rules_changed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let wake = [Arc::clone(&to_send), Arc::clone(&rules_changed)];
        views.on_command(move |_, touched| {
            if touched.contains(&Touched::Alerts) {
                wake.iter().for_each(|notify| notify.notify_one());
            }
        });
        let statuses = Mutex::default();
        Ok(Arc::new(Alerts {
            settings,
            views,
            catalog,
            client,
            to_send,
            rules_changed,
            log,
            archiver,
            queries,
            statuses,
        }))
    }

    /// Starts the threads, which end when the server stops.
    ///
    /// # Errors
    /// If a thread or a runtime cannot be started.
    pub fn start(self: &Arc<Alerts>, stopping: &watch::Receiver<bool>) -> io::Result<Vec<JoinHandle<()>>> {
        let (alerts, stop) = (Arc::clone(self), stopping.clone());
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let evaluate = std::thread::Builder::new().name("alerts".into());
        let evaluate = evaluate.spawn(move || alerts.evaluate_until_stopped(&runtime, stop))?;
        let send = sender::start(Arc::clone(self), stopping.clone())?;
        Ok(vec![evaluate, send])
    }

    /// Returns the settings.
    pub fn settings(&self) -> &AlertSettings {
        &self.settings
    }

    /// Returns the result of the last evaluation of a rule, if this revision of it was evaluated.
    pub fn status(&self, game: u32, key: &str, revision: u64) -> Option<RuleStatus> {
        let statuses = self.statuses.lock();
        statuses.get(&(game, key.to_owned())).filter(|status| status.revision == revision).cloned()
    }

    fn settle_ms(&self) -> i64 {
        SETTLE.min(self.settings.interval / 2).as_millis() as i64
    }

    fn interval_ms(&self) -> i64 {
        self.settings.interval.as_millis().max(1) as i64
    }

    fn evaluate_until_stopped(&self, runtime: &Runtime, mut stopping: watch::Receiver<bool>) {
        // Affects this thread only. If it fails the server still works, with less even latencies.
        let _ = rustix::process::nice(NICE);
        let (mut memories, mut turns) = (Memories::new(), Turns::default());
        let (mut last_slot, mut is_changed) = (None, true);
        while !*stopping.borrow() {
            let settled_ms = now_ms() - self.settle_ms();
            let slot = settled_ms.div_euclid(self.interval_ms());
            let is_due = last_slot.replace(slot) != Some(slot);
            if is_due || std::mem::take(&mut is_changed) {
                self.add_rules(&mut memories, &mut turns, is_due);
            }
            if let Some((game, key)) = turns.next(Instant::now()) {
                self.take_turn(runtime, &mut memories, &mut turns, game, key);
                continue;
            }
            let next_ms = (slot + 1) * self.interval_ms() - settled_ms;
            let next = Duration::from_millis(next_ms.clamp(1, self.interval_ms()) as u64);
            let pause = turns.pause(Instant::now()).map_or(next, |rest| rest.min(next));
            let has_rules = !self.views.liveops.games_with_alerts().is_empty();
            let is_stopping = runtime.block_on(async {
                tokio::select! {
                    _ = stopping.wait_for(|stopping| *stopping) => return true,
                    () = self.rules_changed.notified() => is_changed = true,
                    () = tokio::time::sleep(pause), if has_rules => {}
                }
                false
            });
            if is_stopping {
                return;
            }
        }
    }

    /// Adds every rule to those that are to be evaluated, or only the new ones. Forgets what was deleted.
    fn add_rules(&self, memories: &mut Memories, turns: &mut Turns, is_due: bool) {
        let mut known: Vec<(u32, String)> = Vec::new();
        for number in self.views.liveops.games_with_alerts() {
            if self.catalog.game_by_number(number).is_none_or(|game| game.is_archived()) {
                continue;
            }
            let game = self.views.liveops.game(number);
            for (key, alert) in game.read().alerts.rules() {
                let id = (number, key.to_owned());
                let revision = alert.definition.revision;
                let is_known = memories.get(&id).is_some_and(|memory| memory.revision == revision);
                if !is_known {
                    memories.insert(id.clone(), memory_of(alert));
                }
                if is_due || !is_known {
                    turns.add(number, key);
                }
                known.push(id);
            }
        }
        known.sort_unstable();
        memories.retain(|id, _| known.binary_search(id).is_ok());
        turns.retain(|game| known.iter().any(|(number, _)| *number == game));
        self.statuses.lock().retain(|id, _| known.binary_search(id).is_ok());
    }

    /// Evaluates a rule unless it is expensive and not due yet.
    fn take_turn(
        &self,
        runtime: &Runtime,
        memories: &mut Memories,
        turns: &mut Turns,
        number: u32,
        key: String,
    ) {
        let Some(game) = self.catalog.game_by_number(number).filter(|game| !game.is_archived()) else {
            return;
        };
        let Some(rule) = self.rule(number, &key) else { return };
        let Some(memory) = memories.get_mut(&(number, key)) else { return };
        let begun = Instant::now();
        // Another revision is about to be added.
        if begun < memory.due || memory.revision != rule.definition.revision {
            return;
        }
        self.evaluate(runtime, &game, &rule, memory);
        memory.due = begun + memory.cost * RULE_FACTOR;
        turns.spend(number, memory.cost, Instant::now());
    }

    fn rule(&self, game: u32, key: &str) -> Option<RuleCopy> {
        let game = self.views.liveops.game(game);
        let game = game.read();
        let alert = game.alerts.rule(key)?;
        let (definition, state) = (alert.definition.clone(), alert.state.clone());
        Some(RuleCopy { key: key.to_owned(), definition, state })
    }

    fn evaluate(&self, runtime: &Runtime, game: &Game, copy: &RuleCopy, memory: &mut RuleMemory) {
        let rule = &copy.definition.rule;
        let evaluated_ms = now_ms();
        let begun = Cell::new(None);
        let judged = AssertUnwindSafe(|| self.judge(runtime, game, copy, memory, evaluated_ms, &begun));
        // A panic ends one evaluation, not the thread.
        let judged = catch_unwind(judged).unwrap_or_else(|_| {
            Err(EvaluationError("the query failed; the log of the server says why".to_owned()))
        });
        memory.cost = begun.get().map_or(Duration::ZERO, |begun: Instant| begun.elapsed());
        let (finding, error) = match &judged {
            Ok(judged) => (judged.finding.clone(), None),
            Err(error) => (AlertFinding::default(), Some(error.to_string())),
        };
        let status = RuleStatus { revision: copy.definition.revision, evaluated_ms, finding, error };
        self.statuses.lock().insert((game.number, copy.key.clone()), status);
        let Ok(Judged { verdict, finding }) = judged else { return };
        let step_max_ms = 2 * (self.interval_ms() + (memory.cost * RULE_FACTOR).as_millis() as i64);
        let elapsed_ms = (evaluated_ms - memory.evaluated_ms).clamp(0, step_max_ms);
        memory.evaluated_ms = evaluated_ms;
        let from = copy.state.phase;
        memory.clock.pass(from, elapsed_ms as u64);
        let Some(to) = memory.clock.next(rule, from, verdict) else { return };
        let revision = copy.definition.revision;
        let transition = AlertTransition { key: copy.key.clone(), revision, from, to, finding };
        match self.submit(runtime, game, AlertCommand::Transition(transition)) {
            Ok(()) if self.phase(game.number, &copy.key) == Some(to) => memory.clock.entered(rule, from),
            // Another command changed the rule first.
            Ok(()) => {}
            Err(failure) => {
                let (game, rule, failure) = (&game.id, &copy.key, format!("{failure:#}"));
                warn!(game, rule, failure, "a change of an alert could not be stored; trying again");
            }
        }
    }

    fn phase(&self, game: u32, key: &str) -> Option<AlertPhase> {
        let game = self.views.liveops.game(game);
        let game = game.read();
        game.alerts.rule(key).map(|alert| alert.state.phase)
    }

    fn judge(
        &self,
        runtime: &Runtime,
        game: &Game,
        copy: &RuleCopy,
        memory: &mut RuleMemory,
        now_ms: i64,
        begun: &Cell<Option<Instant>>,
    ) -> Result<Judged, EvaluationError> {
        let failed = |error: &dyn std::fmt::Display| EvaluationError(error.to_string());
        // Each time, because the declared dimensions of the game may have changed.
        let rule = &copy.definition.rule;
        let query = RuleQuery::parse(rule.query.text(), &game.settings.declared());
        let query =
            query.and_then(|query| query.for_condition(&rule.compare)).map_err(|error| failed(&error))?;
        let offset = self.log.durable_until();
        runtime.block_on(self.views.caught_up(offset)).map_err(|error| failed(&error))?;
        let events = match query.reads_events() {
            true => {
                let events = runtime.block_on(self.archiver.snapshot(game.number, offset));
                Some(events.map_err(|error| failed(&error))?)
            }
            false => None,
        };
        let control = self.queries.control();
        let context = QueryContext { views: &self.views, game, control: &control, events: events.as_ref() };
        let minute = (now_ms - self.settle_ms()).div_euclid(60_000).max(0) as u32;
        begun.set(Some(Instant::now()));
        let compare = &rule.compare;
        let history_from = match (compare.band, memory.history) {
            (None, _) => 0,
            (Some(_), Some((from, until))) if Instant::now() < until => from,
            (Some(band), _) => {
                let from = first_data(context, minute, band.weeks)?;
                memory.history = Some((from, Instant::now() + Duration::from_secs(600)));
                from
            }
        };
        query.judge(compare, context, minute, history_from)
    }

    /// Writes a command of the server itself and returns when it is applied.
    fn submit(&self, runtime: &Runtime, game: &Game, command: AlertCommand) -> anyhow::Result<()> {
        let committed = self.log.append(server_command(game, command))?.wait()?;
        let until = committed.context("the log did not confirm the command")?.offsets.end;
        runtime.block_on(self.views.caught_up(until))?;
        Ok(())
    }

    /// Writes a command of the server itself and returns when it is durable.
    pub(crate) async fn submit_async(&self, game: &Game, command: AlertCommand) -> anyhow::Result<()> {
        let committed = self.log.append(server_command(game, command))?.await?;
        let until = committed.context("the log did not confirm the command")?.offsets.end;
        self.views.caught_up(until).await?;
        Ok(())
    }
}

/// Returns what is kept of a rule before its first evaluation since the start or since its condition was changed.
fn memory_of(alert: &Alert) -> RuleMemory {
    let AlertDefinition { rule, revision, .. } = &alert.definition;
    let now_ms = now_ms();
    let elapsed = |since_ms: i64| now_ms.saturating_sub(since_ms).max(0) as u64;
    let resolved = alert.state.resolved_at.map(|at| elapsed(at.ms()));
    RuleMemory {
        revision: *revision,
        clock: RuleClock::restored(rule, alert.state.phase, elapsed(alert.state.since.ms()), resolved),
        evaluated_ms: now_ms,
        cost: Duration::ZERO,
        due: Instant::now(),
        history: None,
    }
}

/// Returns the log entry of a command of the server itself.
fn server_command(game: &Game, command: AlertCommand) -> Entry<Claims> {
    let by = Principal { caller: Caller::Server, signed: None };
    let (tz, command) = (game.tz.clone(), Command::Alerts(command));
    let command = CommandRef {
        game: game.number,
        received_ms: now_ms(),
        by,
        tz,
        idempotency: None,
        command,
        blob: &[],
    };
    let bytes = liveops::encode(&command);
    Entry { kind: COMMAND, events: 0, bytes, ack: Ack::Disk, extra: Claims::default() }
}
