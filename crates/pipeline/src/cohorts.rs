//! The players of cohorts: found from raw events, kept in memory, renewed in the background and when a question needs them.
//!
//! Definitions are live-ops state; sets of players are derived and not stored. All sets together are bounded in bytes, and
//! a game may use half of that. A cohort that does not fit has no set, and its state says so.

mod refresher;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use archive::questions::cohort::CohortDefinition as Evaluation;
use archive::questions::players::PlayerSet;
use archive::questions::{Context, QuestionFailure};
use hashbrown::{HashMap, HashSet};
use liveops::Touched;
use liveops::cohorts::{Cohort, CohortDefinition};
use model::rollup::hash_player;
use parking_lot::RwLock;
use serde_json::json;
use tokio::sync::Notify;

use crate::views::Views;

pub use refresher::{RefreshContext, start};

/// The memory of all sets, unless the settings say otherwise.
pub const SETS_BYTES_MAX: usize = 64 << 20;
/// The part of it that one game may use.
const GAME_SHARE: usize = 2;
/// A set of this age is renewed before a question is answered with it.
const FRESH_MS: i64 = 5_000;

/// The sets of all games.
pub struct CohortSets {
    games: RwLock<HashMap<u32, GameSets>>,
    bytes_max: AtomicUsize,
    /// Wakes the thread that renews sets.
    changed: Notify,
}

#[derive(Default)]
struct GameSets {
    cohorts: BTreeMap<String, CohortState>,
    /// Another number after each change of a set.
    generation: u64,
}

/// The last evaluation of a cohort.
#[derive(Clone, Debug)]
pub struct CohortState {
    /// The revision of the definition.
    pub revision: u64,
    /// The position of the log up to which events were read.
    pub position: u64,
    /// The time, milliseconds since 1970.
    pub evaluated_ms: i64,
    /// How long it took.
    pub took: Duration,
    /// The number of players found; `None` if the evaluation failed.
    pub size: Option<usize>,
    /// The players; `None` if they were never found or do not fit into memory.
    pub players: Option<Arc<PlayerSet>>,
    /// Why the last evaluation failed, or why the players are not kept.
    pub failure: Option<String>,
}

/// A cohort whose players a question cannot use.
#[derive(Debug, thiserror::Error)]
pub enum CohortFailure {
    /// The evaluation failed.
    #[error(transparent)]
    Evaluation(#[from] QuestionFailure),
    /// The players do not fit into memory.
    #[error("the cohort `{name}` cannot be used: {reason}")]
    TooLarge {
        /// The cohort.
        name: String,
        /// How large it is and how large it may be.
        reason: String,
    },
}

impl Default for CohortSets {
    fn default() -> CohortSets {
        let bytes_max = AtomicUsize::new(SETS_BYTES_MAX);
        CohortSets { games: RwLock::default(), bytes_max, changed: Notify::new() }
    }
}

impl CohortSets {
    /// Sets the memory of all sets.
    pub fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Forgets the sets of a deleted game.
    pub(crate) fn remove_game(&self, game: u32) {
        self.games.write().remove(&game);
    }

    fn remove(&self, game: u32, name: &str) {
        if let Some(sets) = self.games.write().get_mut(&game) {
            sets.cohorts.remove(name);
        }
    }

    /// Returns the last evaluation of a cohort.
    pub fn state(&self, game: u32, name: &str) -> Option<CohortState> {
        self.games.read().get(&game)?.cohorts.get(name).cloned()
    }

    /// Returns a number that changes with the sets of a game.
    pub fn generation(&self, game: u32) -> u64 {
        self.games.read().get(&game).map_or(0, |sets| sets.generation)
    }

    /// Applies the changes of a command: sets of deleted cohorts are removed, and erased players from all sets.
    fn apply(&self, views: &Views, game: u32, touched: &[Touched]) {
        for touched in touched {
            match touched {
                Touched::Cohorts => {
                    let state = views.liveops.game(game);
                    let state = state.read();
                    if let Some(sets) = self.games.write().get_mut(&game) {
                        sets.cohorts.retain(|name, _| state.cohorts.get(name).is_some());
                    }
                    self.changed.notify_one();
                }
                Touched::Erased(ids) => {
                    let seed = views.seeds.of(game);
                    self.erase(game, &ids.iter().map(|id| hash_player(seed, id.as_bytes())).collect());
                    // Definitions that named the player have changed.
                    self.changed.notify_one();
                }
                _ => {}
            }
        }
    }

    /// Removes players from all sets of a game.
    fn erase(&self, game: u32, erased: &HashSet<u64>) {
        if !erased.is_empty()
            && let Some(sets) = self.games.write().get_mut(&game)
        {
            sets.erase(erased);
        }
    }

    /// Keeps the outcome of an evaluation. Returns true if the players are others than before.
    fn store(
        &self,
        (game, name): (u32, &str),
        mut state: CohortState,
        found: Result<PlayerSet, String>,
    ) -> bool {
        let mut games = self.games.write();
        let is_newer = |kept: &CohortState| (kept.revision, kept.position) > (state.revision, state.position);
        if games.get(&game).and_then(|sets| sets.cohorts.get(name)).is_some_and(is_newer) {
            // Another evaluation began later and has ended earlier.
            return false;
        }
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let bytes_of = |sets: &GameSets| {
            let others = sets.cohorts.iter().filter(|(other, _)| *other != name);
            others.map(|(_, state)| state.bytes()).sum::<usize>()
        };
        let own = games.get(&game).map_or(0, bytes_of);
        let all = own
            + games.iter().filter(|(other, _)| **other != game).map(|(_, sets)| sets.bytes()).sum::<usize>();
        let sets = games.entry(game).or_default();
        let before = sets.cohorts.get(name);
        match found {
            Ok(players) => {
                let bytes = players.len() * size_of::<u64>();
                state.size = Some(players.len());
                if all + bytes <= bytes_max && own + bytes <= bytes_max / GAME_SHARE {
                    state.players = Some(Arc::new(players));
                } else {
                    state.failure = Some(format!(
                        "its {} players take {bytes} bytes; the cohorts of a game may take {}, and those of all games {bytes_max}",
                        players.len(),
                        bytes_max / GAME_SHARE,
                    ));
                }
            }
            Err(failure) => {
                // The players found before are better than none, as long as the definition is the same.
                let before = before.filter(|before| before.revision == state.revision);
                state.players = before.and_then(|before| before.players.clone());
                state.failure = Some(failure);
            }
        }
        let is_changed = before.and_then(|before| before.players.as_deref()) != state.players.as_deref();
        sets.generation += u64::from(is_changed);
        sets.cohorts.insert(name.to_owned(), state);
        is_changed
    }
}

impl GameSets {
    fn bytes(&self) -> usize {
        self.cohorts.values().map(CohortState::bytes).sum()
    }

    fn erase(&mut self, erased: &HashSet<u64>) {
        for state in self.cohorts.values_mut() {
            let Some(left) = state.players.as_ref().and_then(|players| without(players, erased)) else {
                continue;
            };
            state.size = Some(left.len());
            state.players = Some(Arc::new(left));
            self.generation += 1;
        }
    }
}

impl CohortState {
    fn bytes(&self) -> usize {
        self.players.as_ref().map_or(0, |players| players.len() * size_of::<u64>())
    }
}

/// Returns the set without some players; `None` if it has none of them.
fn without(players: &PlayerSet, removed: &HashSet<u64>) -> Option<PlayerSet> {
    let has_some = removed.iter().any(|player| players.contains(*player));
    has_some.then(|| players.hashes().iter().copied().filter(|player| !removed.contains(player)).collect())
}

/// Returns the hashes of the players whose erasure is in progress.
fn being_erased(views: &Views, game: u32) -> HashSet<u64> {
    let seed = views.seeds.of(game);
    let state = views.liveops.game(game);
    let state = state.read();
    let ids = state.players.erasures().flat_map(|(_, erasure)| &erasure.ids);
    ids.map(|id| hash_player(seed, id.as_bytes())).collect()
}

/// Finds the players of a cohort.
pub fn evaluate(
    definition: &CohortDefinition,
    context: &Context<'_>,
    seed: u64,
) -> Result<PlayerSet, QuestionFailure> {
    if definition.players.as_ref().is_some_and(Vec::is_empty) {
        // All players of the list were erased.
        return Ok(PlayerSet::default());
    }
    Evaluation::from_json(&evaluation_json(definition))?.evaluate(context, seed)
}

/// Returns the part of a definition that says who belongs to the cohort.
pub fn evaluation_json(definition: &CohortDefinition) -> Vec<u8> {
    let CohortDefinition { name, condition, seen_within_days, players, .. } = definition;
    let json = json!({
        "name": name, "condition": condition, "seen_within_days": seen_within_days, "players": players,
    });
    json.to_string().into_bytes()
}

impl Views {
    /// Starts to follow the commands that change sets of players.
    pub fn follow_cohorts(self: &Arc<Views>) {
        let views = Arc::downgrade(self);
        self.on_command(move |game, touched| {
            if let Some(views) = views.upgrade() {
                views.cohorts.apply(&views, game, touched);
            }
        });
    }

    /// Returns those of some cohorts that a player belongs to, as far as their players are known.
    pub fn cohorts_of<'n>(
        &self,
        game: u32,
        player: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Vec<String> {
        let mut names = names.peekable();
        if player.is_empty() || names.peek().is_none() {
            return Vec::new();
        }
        let id = hash_player(self.seeds.of(game), player.as_bytes());
        let player = self.identities.game(game).map_or(id, |links| links.player(id));
        let games = self.cohorts.games.read();
        let Some(sets) = games.get(&game) else { return Vec::new() };
        let contains = |name: &&str| {
            let players = sets.cohorts.get(*name).and_then(|state| state.players.as_ref());
            players.is_some_and(|players| players.contains(player))
        };
        names.filter(contains).map(str::to_owned).collect()
    }

    /// Returns the players of a cohort for a question, renewed if they are older than some seconds. `None` if there is no
    /// such cohort. The events of `context` are those up to `position`.
    ///
    /// # Errors
    /// If the evaluation fails or its players do not fit into memory.
    pub fn cohort_players(
        &self,
        game: u32,
        name: &str,
        context: &Context<'_>,
        position: u64,
    ) -> Result<Option<Arc<PlayerSet>>, CohortFailure> {
        let Some(cohort) = self.liveops.game(game).read().cohorts.get(name).cloned() else { return Ok(None) };
        let is_fresh = |state: &CohortState| {
            let is_young = (0..FRESH_MS).contains(&(context.now_ms - state.evaluated_ms));
            state.revision == cohort.revision && (state.position == position || is_young)
        };
        let mut state = self.cohorts.state(game, name).filter(is_fresh);
        if state.as_ref().is_none_or(|state| state.size.is_none()) {
            self.refresh_cohort(game, &cohort, context, position)?;
            state = self.cohorts.state(game, name).filter(|state| state.revision == cohort.revision);
        }
        // A cohort that was deleted meanwhile is treated as one that never was.
        let Some(state) = state else { return Ok(None) };
        match state.players {
            Some(players) => Ok(Some(players)),
            None => {
                let reason = state.failure.unwrap_or_else(|| "its players are not known".to_owned());
                Err(CohortFailure::TooLarge { name: name.to_owned(), reason })
            }
        }
    }

    /// Keeps the failure of an evaluation that panicked, so that others are evaluated before it is tried again.
    pub(crate) fn fail_cohort(&self, game: u32, cohort: &Cohort, position: u64, now_ms: i64) {
        let state = CohortState {
            revision: cohort.revision,
            position,
            evaluated_ms: now_ms,
            took: Duration::ZERO,
            size: None,
            players: None,
            failure: None,
        };
        let failure = "the evaluation has failed; the log of the server says more".to_owned();
        self.cohorts.store((game, &cohort.definition.name), state, Err(failure));
    }

    /// Evaluates a cohort and keeps its players. The state of a cohort contains the failure, too.
    pub(crate) fn refresh_cohort(
        &self,
        game: u32,
        cohort: &Cohort,
        context: &Context<'_>,
        position: u64,
    ) -> Result<(), QuestionFailure> {
        let begun = Instant::now();
        let found = evaluate(&cohort.definition, context, self.seeds.of(game));
        let state = CohortState {
            revision: cohort.revision,
            position,
            evaluated_ms: context.now_ms,
            took: begun.elapsed(),
            size: None,
            players: None,
            failure: None,
        };
        let (found, outcome) = match found {
            Ok(players) => (Ok(players), Ok(())),
            Err(failure) => (Err(failure.to_string()), Err(failure)),
        };
        let name = &*cohort.definition.name;
        let is_changed = self.cohorts.store((game, name), state, found);
        // A player whose erasure began meanwhile was still among the events. The sets are not locked while the state of
        // live-ops is read, because others lock them in the other order.
        self.cohorts.erase(game, &being_erased(self, game));
        let exists = self.liveops.game(game).read().cohorts.get(name).is_some();
        if !exists {
            // The cohort, or the whole game, was deleted meanwhile.
            self.cohorts.remove(game, name);
        }
        let is_audience = || self.liveops.game(game).read().vars.cohorts().any(|named| named == name);
        if is_changed && is_audience() {
            self.publish_command(game, &[Touched::Vars]);
        }
        outcome
    }
}
