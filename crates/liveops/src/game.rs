//! One game's live-ops: all its subjects behind one lock, so that a command sees and changes them together.

use std::sync::Arc;

use model::batch::StoredEvent;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};
use serde_json::{Value, json};

use crate::boards::{self, Boards};
use crate::command::{By, Command};
use crate::feed::Feed;
use crate::idempotency::Answers;
use crate::levels::Levels;
use crate::players::Players;
use crate::subject::{Changes, Damaged, Subject};
use crate::surveys::Surveys;
use crate::vars::Vars;
use crate::{Answer, CommandRef, Refusal};

/// Where and when a command is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The entry's offset in the log: later ones are greater.
    pub offset: u64,
    /// When the server received it, milliseconds since 1970. May step back a little between entries.
    pub ms: i64,
}

/// What a command is decided with, beside the state.
pub struct Context<'a> {
    /// Where and when.
    pub at: At,
    /// On whose behalf.
    pub by: &'a By,
    /// The game's time zone, an IANA name.
    pub tz: &'a str,
    /// What is too large for JSON.
    pub blob: &'a [u8],
    /// What watchers are to be told about.
    pub touched: &'a mut Vec<Touched>,
}

/// What a command changed, as watchers know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// Game variables.
    Vars,
    /// A board of this name.
    Board(String),
    /// Something this player did, which followers see.
    Posted(String),
    /// Whom this player follows.
    Follows(String),
    /// All of one player, under these ids, is to be forgotten.
    Erased(Vec<String>),
}

/// All of one game.
#[derive(Default)]
pub struct Game {
    /// Game variables.
    pub vars: Vars,
    /// Boards and scores.
    pub boards: Boards,
    /// Player levels.
    pub levels: Levels,
    /// Achievements, follows, the feed.
    pub feed: Feed,
    /// Surveys.
    pub surveys: Surveys,
    /// Sessions of players, erasures.
    pub players: Players,
    pub(crate) answers: Answers,
}

/// The numbers under which subjects are stored. Never reused.
const ANSWERS: u8 = 0;
const VARS: u8 = 1;
const BOARDS: u8 = 2;
const LEVELS: u8 = 3;
const FEED: u8 = 4;
const SURVEYS: u8 = 5;
const PLAYERS: u8 = 6;
/// From here on: blobs, which are not read at start.
const LEVEL_BLOBS: u8 = 128;
const FEED_BLOBS: u8 = 129;
const PLAYER_BLOBS: u8 = 130;

impl Game {
    pub(crate) fn new(number: u32, records: &Arc<dyn Records>) -> Game {
        let mut game = Game::default();
        game.levels.blobs().open(number, LEVEL_BLOBS, Arc::clone(records));
        game.feed.blobs().open(number, FEED_BLOBS, Arc::clone(records));
        game.players.blobs().open(number, PLAYER_BLOBS, Arc::clone(records));
        game
    }

    /// Whether records of this number are read at start.
    pub(crate) fn is_restored(subject: u8) -> bool {
        subject < LEVEL_BLOBS
    }

    pub(crate) fn restore(&mut self, subject: u8, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        match subject {
            ANSWERS => self.answers.restore(key, value),
            VARS => self.vars.restore(key, value),
            BOARDS => self.boards.restore(key, value),
            LEVELS => self.levels.restore(key, value),
            FEED => self.feed.restore(key, value),
            SURVEYS => self.surveys.restore(key, value),
            PLAYERS => self.players.restore(key, value),
            other => Err(Damaged(format!("there is no subject {other}"))),
        }
    }

    pub(crate) fn restored(&mut self) {
        self.answers.restored();
        self.vars.restored();
        self.boards.restored();
        self.levels.restored();
        self.feed.restored();
        self.surveys.restored();
        self.players.restored();
    }

    pub(crate) fn changes(&mut self, number: u32, writes: &mut Vec<RecordWrite>) {
        self.answers.changes(&mut Changes::new(number, ANSWERS, writes));
        self.vars.changes(&mut Changes::new(number, VARS, writes));
        self.boards.changes(&mut Changes::new(number, BOARDS, writes));
        self.levels.changes(&mut Changes::new(number, LEVELS, writes));
        self.feed.changes(&mut Changes::new(number, FEED, writes));
        self.surveys.changes(&mut Changes::new(number, SURVEYS, writes));
        self.players.changes(&mut Changes::new(number, PLAYERS, writes));
        self.levels.blobs().changes(writes);
        self.feed.blobs().changes(writes);
        self.players.blobs().changes(writes);
    }

    /// Decides a command. Refused, it changes nothing.
    pub(crate) fn apply(
        &mut self,
        at: At,
        entry: CommandRef<'_>,
        touched: &mut Vec<Touched>,
    ) -> Result<Answer, Refusal> {
        let CommandRef { by, tz, idempotency, command, blob, .. } = entry;
        if let Some(known) = idempotency.as_ref().and_then(|asked| self.answers.known(asked, at.ms)) {
            return known;
        }
        let mut context = Context { at, by: &by, tz: &tz, blob, touched };
        let outcome = self.decide(&mut context, command);
        if let Some(asked) = idempotency {
            self.answers.remember(asked, &outcome, at.ms);
        }
        outcome
    }

    fn decide(&mut self, context: &mut Context<'_>, command: Command) -> Result<Answer, Refusal> {
        if let Some(signed) = &context.by.signed {
            self.players.check_nonce(context.at, signed)?;
        }
        match command {
            Command::Vars(command) => self.apply_vars(context, command),
            Command::Boards(command) => self.apply_boards(context, command),
            Command::Levels(command) => self.apply_levels(context, command),
            Command::Feed(command) => self.apply_feed(context, command),
            Command::Surveys(command) => self.apply_surveys(context, command),
            Command::Players(command) => self.apply_players(context, command),
        }
    }

    /// Forgets a player, a ban included. What rollups count stays counted.
    pub(crate) fn erase_player(&mut self, context: &mut Context<'_>, player: &str) {
        self.touch_all_of(context, player);
        // Refused when there is none.
        let _ = self.apply_boards(context, boards::Command::Lift { player: player.to_owned() });
        self.boards.erase_player(player);
        self.levels.erase_player(player);
        self.feed.erase_player(player);
        self.surveys.erase_player(player);
        self.players.erase_player(player);
        self.answers.erase_player(player);
    }

    /// Tells those who watch something that the player stands in.
    fn touch_all_of(&self, context: &mut Context<'_>, player: &str) {
        let rows = self.boards.export_player(player, context.at.ms);
        let tables = rows["boards"].as_object().into_iter().flat_map(|rows| rows.keys());
        context.touched.extend(tables.map(|table| Touched::Board(table.clone())));
        context.touched.push(Touched::Posted(player.to_owned()));
    }

    /// All that is known of a player under one id, by subject.
    pub fn export_player(&self, player: &str, now_ms: i64) -> Result<Value, StoreError> {
        Ok(json!({
            "scores": self.boards.export_player(player, now_ms),
            "levels": self.levels.export_player(player)?,
            "feed": self.feed.export_player(player)?,
            "surveys": self.surveys.export_player(player),
            "sessions": self.players.export_player(player),
        }))
    }

    /// Takes note that an anonymous id was found to be a player's.
    pub(crate) fn linked(&mut self, anonymous: &str, player: &str) {
        self.players.linked(anonymous, player);
    }

    /// Takes note of an accepted event of those in [`crate::LiveOps::is_wanted`].
    pub(crate) fn event(&mut self, at: At, event: &StoredEvent<'_>) {
        self.levels.event(at, event);
        self.boards.event(at, event);
    }
}
