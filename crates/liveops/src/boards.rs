//! Leaderboards: scores in windows of time, with exact ranks.
//!
//! A score is in every window that holds its time: the day, week, month and season of the game's calendar, all time,
//! and the last 24 hours, 7 and 30 days. Rank, page and a player's surroundings cost one way down a tree each, exact at
//! any number of players. What a command changes is decided in [`submit`], what a page shows in [`list`].

mod attributes;
mod board;
mod calendar;
mod chunked;
mod config;
mod decimal;
mod held;
mod list;
mod lookup;
mod memory;
mod pages;
mod places;
mod recent;
mod roster;
mod runs;
mod store;
mod submit;
mod tree;
mod won;

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};

use model::batch::StoredEvent;

pub use self::attributes::{Filter, SOURCE};
pub use self::board::{Board, Bytes};
pub use self::calendar::Window;
pub use self::config::{Change, Checks, Config, Keep, Mode, Order};
pub use self::decimal::{DECIMALS_MAX, Decimal};
pub use self::held::{Evidence, Failed};
pub use self::list::{FRIENDS_MAX, PER_PAGE_MAX, Page, Query, Row};
pub use self::runs::{Arrival, Run};
pub use self::submit::Score;
use self::submit::{Played, Submitted};
use self::won::Won;
use crate::game::{At, Context, Game, Touched};
use crate::names::{check_player, check_text};
use crate::players::Session;
use crate::subject::{Changes, Damaged, Subject};
use crate::{Answer, Caller, Refusal, is_key};

/// Boards of a game.
const BOARDS_MAX: usize = 10_000;
const REASON_BYTES_MAX: usize = 500;
/// Banned players of a game.
const BANS_MAX: usize = 1_000_000;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Makes a board, or changes its settings.
    Define {
        /// Its name.
        table: String,
        /// What is to be set.
        change: Change,
    },
    /// Closes a board's season and begins the next.
    Reset {
        /// The board.
        table: String,
    },
    /// A score.
    Submit {
        /// The board; made by its first score if there is none.
        table: String,
        /// The score.
        score: Score,
        /// The answer then has the page that holds the score.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        list: Option<Box<Query>>,
    },
    /// Decides about a score that waits.
    Decide {
        /// The board.
        table: String,
        /// Which score.
        id: String,
        /// Whether it is taken.
        accept: bool,
    },
    /// Hides a player everywhere and refuses the player's scores.
    Ban {
        /// Whom.
        player: String,
        /// For the other moderators.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Ends a ban.
    Lift {
        /// Whose.
        player: String,
    },
}

/// The boards of a game.
#[derive(Default)]
pub struct Boards {
    boards: HashMap<String, Board>,
    bans: HashMap<String, Ban>,
    bans_changed: Vec<String>,
    won: Won,
    last_number: u32,
    /// While reading: boards by number.
    read: HashMap<u32, Board>,
}

/// A ban as it is stored and told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ban {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    at_ms: i64,
}

/// A board as it is told.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// Its name.
    pub table: String,
    /// For people.
    pub title: String,
    /// Which scores come first.
    pub order: Order,
    /// What becomes of a player's runs.
    pub keep: Keep,
    /// Its windows.
    pub windows: Vec<Window>,
    /// The lowest score that is taken.
    pub min: Option<Decimal>,
    /// The highest score that is taken.
    pub max: Option<Decimal>,
    /// Decimals of scores.
    pub decimals: u8,
    /// Who may submit.
    pub mode: Mode,
    /// Whether something is at stake.
    pub competitive: bool,
    /// What scores of players are checked against.
    pub checks: Checks,
    /// Fields by which rows can be filtered.
    pub filters: Vec<String>,
    /// Whether only those who know its code see it.
    pub private: bool,
    /// The code, for those who may know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The season that is not closed; 0: the board has none.
    pub season: u32,
    /// Players who are known to it.
    pub players: u32,
}

/// A score that waits, as moderators see it.
#[derive(Clone, Debug, Serialize)]
pub struct Waiting {
    /// By which it is decided.
    pub id: String,
    /// As it would be told; its rank is not known yet.
    pub row: Row,
    /// What did not fit.
    pub evidence: Evidence,
}

/// Who asks about a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks<'a> {
    /// Somebody who may see all.
    All,
    /// Somebody with the public key, who may know a code.
    Public(Option<&'a str>),
}

impl Boards {
    /// A page of a board. Rolling windows have to show this time: [`Boards::advance`] where [`Boards::is_elsewhere`].
    pub fn page(&self, table: &str, asks: Asks<'_>, query: &Query, now_ms: i64) -> Result<Page, Refusal> {
        self.visible(table, asks)?.page(query, now_ms)
    }

    /// Whether rolling windows of a board show something else than at this time.
    pub fn is_elsewhere(&self, table: &str, now_ms: i64) -> bool {
        self.boards.get(table).is_some_and(|board| board.is_elsewhere(now_ms))
    }

    /// Lets rolling windows of a board show this time. Changes nothing that is decided or stored.
    pub fn advance(&mut self, table: &str, now_ms: i64) {
        if let Some(board) = self.boards.get_mut(table) {
            let now = board.now(now_ms);
            board.slide(now);
        }
    }

    /// A board.
    pub fn board(&self, table: &str, asks: Asks<'_>) -> Result<Told, Refusal> {
        self.visible(table, asks).map(|board| told(board, asks))
    }

    /// All boards that are seen without a code, or all, by name.
    pub fn boards(&self, asks: Asks<'_>) -> Vec<Told> {
        let visible = self.boards.values().filter(|board| asks == Asks::All || board.config.code.is_none());
        let mut boards: Vec<Told> = visible.map(|board| told(board, asks)).collect();
        boards.sort_unstable_by(|a, b| a.table.cmp(&b.table));
        boards
    }

    /// The scores of a board that wait, oldest first.
    pub fn quarantine(&self, table: &str) -> Result<Vec<Waiting>, Refusal> {
        let board = self.visible(table, Asks::All)?;
        let waiting = board.held.iter().map(|(id, held)| Waiting {
            id: id.to_string(),
            row: board.held_row(0, runs::Arrival(*id), held),
            evidence: held.evidence.clone(),
        });
        Ok(waiting.collect())
    }

    /// Whether a player is banned.
    pub fn is_banned(&self, player: &str) -> bool {
        self.bans.contains_key(player)
    }

    /// Forgets a player on all boards. A ban stays.
    pub fn erase_player(&mut self, player: &str) {
        for board in self.boards.values_mut() {
            if let Some(number) = board.roster.find(player) {
                board.erase(number);
            }
            let own = board.held.iter().filter(|(_, held)| held.player == player).map(|(id, _)| *id);
            let own: Vec<u64> = own.collect();
            own.into_iter().for_each(|id| drop(board.take_held(id)));
        }
        self.won.erase_player(player);
    }

    /// All that boards know of a player, as JSON.
    pub fn export_player(&self, player: &str, now_ms: i64) -> serde_json::Value {
        let mut boards: Vec<(&String, Vec<Page>)> =
            self.boards.values().map(|board| (&board.table, board.pages_of(player, now_ms))).collect();
        boards.retain(|(_, pages)| !pages.is_empty());
        boards.sort_unstable_by_key(|(table, _)| *table);
        let rows: serde_json::Map<String, serde_json::Value> =
            boards.into_iter().map(|(table, pages)| (table.clone(), serde_json::json!(pages))).collect();
        serde_json::json!({ "boards": rows, "ban": self.bans.get(player) })
    }

    pub(crate) fn event(&mut self, at: At, event: &StoredEvent<'_>) {
        self.won.event(at, event);
    }

    fn visible(&self, table: &str, asks: Asks<'_>) -> Result<&Board, Refusal> {
        let found = self.boards.get(table).filter(|board| sees(board, asks));
        found.ok_or_else(|| no_board(table))
    }

    fn define(&mut self, context: &Context<'_>, table: &str, change: Change) -> Result<Answer, Refusal> {
        if let Some(board) = self.boards.get_mut(table) {
            let now = board.now(context.at.ms);
            let config = change.of(&board.config, false, board.has_rows())?;
            self.won.watch(config.checks.level.as_deref());
            board.begin(now, context.tz);
            board.declare(config, now, context.tz);
            return Ok(Answer::ok(&told(board, Asks::All)));
        }
        let config = change.of(&Config::new(Mode::Session), true, false)?;
        let board = self.make(context, table, config)?;
        Ok(Answer::created(&told(board, Asks::All)))
    }

    fn make(&mut self, context: &Context<'_>, table: &str, config: Config) -> Result<&mut Board, Refusal> {
        if !is_key(table) {
            return Err(Refusal::invalid("table", "it has 1 to 100 letters, digits, `.`, `_` and `-`"));
        }
        if self.boards.len() >= BOARDS_MAX {
            return Err(Refusal::too_many(format!("a game has at most {BOARDS_MAX} boards")));
        }
        self.won.watch(config.checks.level.as_deref());
        self.last_number += 1;
        let now = runs::Arrival::first_of(context.at.ms);
        let board = Board::new(self.last_number, table, config, now, context.tz);
        Ok(self.boards.entry(table.to_owned()).or_insert(board))
    }

    fn reset(&mut self, context: &Context<'_>, table: &str) -> Result<Answer, Refusal> {
        let board = self.boards.get_mut(table).ok_or_else(|| no_board(table))?;
        let now = board.now(context.at.ms);
        board.begin(now, context.tz);
        let season = board.reset(now);
        let season = season.ok_or_else(|| Refusal::invalid("table", "the board has no window `season`"))?;
        Ok(Answer::ok(&serde_json::json!({ "table": table, "season": season })))
    }

    fn decide(
        &mut self,
        context: &Context<'_>,
        table: &str,
        id: &str,
        accept: bool,
    ) -> Result<Answer, Refusal> {
        let board = self.boards.get_mut(table).ok_or_else(|| no_board(table))?;
        let missing = || Refusal::not_found("no score of this id waits");
        let id: u64 = id.parse().map_err(|_| missing())?;
        let held = board.held.get(&id).ok_or_else(missing)?;
        if accept {
            board.catalogue.check(&held.attributes, &board.config.filters)?;
        }
        let now = board.now(context.at.ms);
        board.begin(now, context.tz);
        let held = board.take_held(id).ok_or_else(missing)?;
        let decision = if accept { "accept" } else { "reject" };
        if accept {
            let player = held.player.clone();
            board.accept(id, held);
            self.bans.get(&player).is_some().then(|| hide(board, &player, true));
        }
        Ok(Answer::ok(&serde_json::json!({ "id": id.to_string(), "decision": decision })))
    }

    fn ban(&mut self, context: &mut Context<'_>, player: &str, reason: String) -> Result<Answer, Refusal> {
        check_player("player", player)?;
        check_text("reason", &reason, REASON_BYTES_MAX)?;
        if self.bans.len() >= BANS_MAX && !self.is_banned(player) {
            return Err(Refusal::too_many(format!("a game has at most {BANS_MAX} banned players")));
        }
        self.bans.insert(player.to_owned(), Ban { reason, at_ms: context.at.ms });
        self.bans_changed.push(player.to_owned());
        self.hide(context, player, true);
        Ok(Answer::nothing())
    }

    fn lift(&mut self, context: &mut Context<'_>, player: &str) -> Result<Answer, Refusal> {
        self.bans.remove(player).ok_or_else(|| Refusal::not_found("this player is not banned"))?;
        self.bans_changed.push(player.to_owned());
        self.hide(context, player, false);
        Ok(Answer::nothing())
    }

    fn hide(&mut self, context: &mut Context<'_>, player: &str, is_hidden: bool) {
        for board in self.boards.values_mut() {
            if hide(board, player, is_hidden) {
                context.touched.push(Touched::Board(board.table.clone()));
            }
        }
    }
}

fn hide(board: &mut Board, player: &str, is_hidden: bool) -> bool {
    let Some(number) = board.roster.find(player) else { return false };
    board.hide(number, is_hidden);
    true
}

fn sees(board: &Board, asks: Asks<'_>) -> bool {
    match asks {
        Asks::All => true,
        Asks::Public(code) => board.config.code.is_none() || board.config.code.as_deref() == code,
    }
}

fn no_board(table: &str) -> Refusal {
    Refusal::not_found(format!("there is no board `{table}`"))
}

fn told(board: &Board, asks: Asks<'_>) -> Told {
    let config = board.config.clone();
    let decimal = |units: i64| Decimal { units, decimals: config.decimals };
    Told {
        table: board.table.clone(),
        title: config.title,
        order: config.order,
        keep: config.keep,
        windows: config.windows,
        min: config.min.map(decimal),
        max: config.max.map(decimal),
        decimals: config.decimals,
        mode: config.mode,
        competitive: config.competitive,
        checks: config.checks,
        filters: config.filters,
        private: config.code.is_some(),
        code: config.code.filter(|_| asks == Asks::All),
        season: board.calendar.current_season(),
        players: board.roster.len(),
    }
}

impl Game {
    pub(crate) fn apply_boards(
        &mut self,
        context: &mut Context<'_>,
        command: Command,
    ) -> Result<Answer, Refusal> {
        let (table, answer) = match command {
            Command::Define { table, change } => {
                let answer = self.boards.define(context, &table, change)?;
                (table, answer)
            }
            Command::Reset { table } => {
                let answer = self.boards.reset(context, &table)?;
                (table, answer)
            }
            Command::Decide { table, id, accept } => {
                let answer = self.boards.decide(context, &table, &id, accept)?;
                (table, answer)
            }
            Command::Submit { table, score, list } => {
                let answer = self.submit_score(context, &table, &score, list.as_deref())?;
                (table, answer)
            }
            Command::Ban { player, reason } => return self.boards.ban(context, &player, reason),
            Command::Lift { player } => return self.boards.lift(context, &player),
        };
        context.touched.push(Touched::Board(table));
        Ok(answer)
    }

    fn submit_score(
        &mut self,
        context: &mut Context<'_>,
        table: &str,
        score: &Score,
        list: Option<&Query>,
    ) -> Result<Answer, Refusal> {
        let is_public = context.by.caller == Caller::Public;
        let at = context.at;
        let signed = context.by.signed.as_ref().map(|signed| signed.session.as_str());
        let session_id = signed.or(score.session.as_deref());
        let session = session_id.and_then(|id| Some((id, self.players.session(id, at.ms)?)));
        let session = session.filter(|(_, session)| session.player == score.player || signed.is_some());
        let signer = session.map(|(_, session)| session).filter(|_| signed.is_some());
        let submitted = self.boards.submit(context, table, score, list, (session, signer), is_public)?;
        if let Some(improved) = submitted.improved {
            self.feed.post_score(at, &score.player, &score.name, table, &improved.to_string());
            context.touched.push(Touched::Posted(score.player.clone()));
        }
        Ok(Answer::ok(&submitted))
    }
}

/// The session in which a score was made, with its id, and the one that signed.
type Sessions<'a> = (Option<(&'a str, &'a Session)>, Option<&'a Session>);

impl Boards {
    fn submit(
        &mut self,
        context: &Context<'_>,
        table: &str,
        score: &Score,
        list: Option<&Query>,
        (session, signer): Sessions<'_>,
        is_public: bool,
    ) -> Result<Submitted, Refusal> {
        score.check()?;
        if self.is_banned(&score.player) {
            let refusal = Refusal::forbidden("this player is banned");
            return Err(Refusal { field: Some("player".to_owned()), ..refusal });
        }
        let new = Config::new(if is_public { Mode::Session } else { Mode::Server });
        let known = self.boards.get(table);
        let config = known.map_or(&new, |board| &board.config);
        let asks = if is_public { Asks::Public(score.code.as_deref()) } else { Asks::All };
        if known.is_some_and(|board| !sees(board, asks)) {
            return Err(no_board(table));
        }
        let is_verified = score.check_caller(config.mode, context.by, signer)?;
        let taken = score.take(config, is_verified)?;
        if let Some(board) = known {
            board.check_room(&taken, &score.player)?;
        }
        list.map(|query| query.check_with_score(config)).transpose()?;
        let decimal = taken.score(config.decimals);
        let won_ms = config.checks.level.as_ref().and_then(|level| self.won.at(&score.player, level));
        let played = Played { session, won_ms, now_ms: context.at.ms };
        let evidence = if is_public { config.checks.evidence(decimal, &played) } else { None };
        let board = match self.boards.contains_key(table) {
            true => self.boards.get_mut(table).expect("it was just there"),
            false => self.make(context, table, new)?,
        };
        let now = board.now(context.at.ms);
        board.begin(now, context.tz);
        let (player, submitted) = match evidence {
            Some(evidence) => (None, board.quarantine(score, taken, now, evidence)),
            None => {
                let (player, submitted) = board.submit(score, taken, now);
                (Some(player), submitted)
            }
        };
        Ok(match list {
            Some(query) => board.with_page(submitted, player, query, now),
            None => submitted,
        })
    }
}

impl Subject for Boards {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let (kind, rest) = key.split_first().ok_or_else(|| Damaged("a key is empty".to_owned()))?;
        match *kind {
            store::BAN => {
                let player = String::from_utf8_lossy(rest).into_owned();
                self.bans.insert(player, serde_json::from_slice(value)?);
                return Ok(());
            }
            store::WON => return self.won.restore(rest, value),
            _ => {}
        }
        let (number, rest) =
            rest.split_first_chunk().ok_or_else(|| Damaged("a key is too short".to_owned()))?;
        let number = u32::from_be_bytes(*number);
        if *kind == store::BOARD {
            self.read.insert(number, Board::restore(number, value)?);
            return Ok(());
        }
        let board = self.read.get_mut(&number);
        board
            .ok_or_else(|| Damaged(format!("there is no board {number}")))?
            .restore_record(*kind, rest, value)
    }

    fn restored(&mut self) {
        self.last_number = self.read.keys().copied().max().unwrap_or(0);
        for (_, mut board) in std::mem::take(&mut self.read) {
            board.restored(self.bans.keys());
            self.won.watch(board.config.checks.level.as_deref());
            self.boards.insert(board.table.clone(), board);
        }
        self.won.restored();
    }

    fn changes(&mut self, changes: &mut Changes<'_>) {
        for player in self.bans_changed.drain(..) {
            let key = [&[store::BAN], player.as_bytes()].concat();
            match self.bans.get(&player) {
                Some(ban) => changes.put(&key, serde_json::to_vec(ban).expect("text and a number are JSON")),
                None => changes.remove(&key),
            }
        }
        self.won.changes(changes);
        self.boards.values_mut().for_each(|board| board.changes(changes));
    }
}
