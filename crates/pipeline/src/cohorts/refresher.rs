//! The thread that renews the players of cohorts.
//!
//! It evaluates one cohort at a time and then pauses for a multiple of the time that it took, so that it uses at most a
//! twentieth of a core. A cohort is due a minute after its last evaluation, or later if it is expensive.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use archive::questions::players::PlayerLinks;
use archive::questions::{Cohorts, Context, Progress};
use tokio::sync::watch;
use tracing::{error, warn};
use wal::Wal;

use super::CohortState;
use crate::applier::lower_priority;
use crate::archiver::Archiver;
use crate::catalog::Catalog;
use crate::ingest::Claims;
use crate::query::pool::QueryPool;
use crate::time::now_ms;
use crate::views::Views;

/// The age at which players are found again.
const INTERVAL_MS: i64 = 60_000;
/// The age at which they are, as a multiple of the time that it takes.
const INTERVAL_FACTOR: i64 = 200;
/// The pause after an evaluation, as a multiple of the time that it took.
const PAUSE_FACTOR: u32 = 19;
/// The longest pause after an evaluation.
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What the thread needs.
pub struct RefreshContext {
    /// The games.
    pub catalog: Arc<Catalog>,
    /// The definitions, and where the players are kept.
    pub views: Arc<Views>,
    /// The events.
    pub archiver: Arc<Archiver>,
    /// The bounds of an evaluation.
    pub queries: Arc<QueryPool>,
    /// The log.
    pub log: Wal<Claims>,
    /// True once the server is stopping.
    pub stopping: watch::Receiver<bool>,
}

/// A cohort to evaluate.
struct Due {
    at_ms: i64,
    game: u32,
    tz: String,
    name: String,
}

/// Starts the thread. It ends when the server stops.
pub fn start(context: RefreshContext) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    context.views.follow_cohorts();
    let run = move || {
        lower_priority();
        let mut stopping = context.stopping.clone();
        runtime.block_on(async {
            tokio::select! {
                () = context.run() => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
        });
    };
    std::thread::Builder::new().name("cohorts".into()).spawn(run)
}

impl RefreshContext {
    async fn run(&self) {
        loop {
            let changed = self.views.cohorts.changed.notified();
            let Some(due) = self.next() else {
                changed.await;
                continue;
            };
            let wait = due.at_ms - now_ms();
            if wait > 0 {
                // Ends early if a cohort changes.
                let _ = tokio::time::timeout(Duration::from_millis(wait as u64), changed).await;
                continue;
            }
            let begun = Instant::now();
            self.refresh(&due).await;
            tokio::time::sleep((begun.elapsed() * PAUSE_FACTOR).min(PAUSE_MAX)).await;
        }
    }

    /// Returns the cohort that is due first.
    fn next(&self) -> Option<Due> {
        let mut first: Option<Due> = None;
        for game in self.catalog.games() {
            let state = self.views.liveops.game(game.number);
            for (name, cohort) in state.read().cohorts.iter() {
                let known = self.views.cohorts.state(game.number, name);
                let at_ms = known.filter(|state| state.revision == cohort.revision).map_or(0, due_ms);
                if first.as_ref().is_none_or(|first| at_ms < first.at_ms) {
                    let (tz, name) = (game.tz.clone(), name.to_owned());
                    first = Some(Due { at_ms, game: game.number, tz, name });
                }
            }
        }
        first
    }

    async fn refresh(&self, due: &Due) {
        let position = self.log.durable_until();
        let caught_up = self.views.caught_up(position).await;
        let snapshot = match caught_up {
            Ok(()) => self.archiver.snapshot(due.game, position).await,
            Err(behind) => Err(behind),
        };
        let Ok(snapshot) = snapshot else {
            warn!(game = due.game, "cohorts wait: the views are behind the log");
            tokio::time::sleep(Duration::from_millis(INTERVAL_MS as u64)).await;
            return;
        };
        let Some(cohort) = self.views.liveops.game(due.game).read().cohorts.get(&due.name).cloned() else {
            return;
        };
        let links = self.views.identities.game(due.game);
        let control = self.queries.control();
        let context = Context {
            source: &snapshot,
            control: &control,
            progress: &Progress::default(),
            links: &links.map_or_else(PlayerLinks::default, |links| PlayerLinks::new(&links)),
            cohorts: &Cohorts::default(),
            now_ms: now_ms(),
            tz: &due.tz,
        };
        let refresh = || self.views.refresh_cohort(due.game, &cohort, &context, position);
        match catch_unwind(AssertUnwindSafe(refresh)) {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => {
                warn!(game = due.game, cohort = due.name, %failure, "the players of a cohort could not be found");
            }
            Err(_) => {
                error!(game = due.game, cohort = due.name, "the evaluation of a cohort has panicked");
                self.views.fail_cohort(due.game, &cohort, position, context.now_ms);
            }
        }
    }
}

fn due_ms(state: CohortState) -> i64 {
    state.evaluated_ms + INTERVAL_MS.max(INTERVAL_FACTOR * state.took.as_millis() as i64)
}
