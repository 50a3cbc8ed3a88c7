//! The live-ops of one game: all subjects behind one lock, so that a command reads and changes them together.

use std::sync::Arc;

use model::batch::StoredEvent;
use model::ports::counters::StoreError;
use model::ports::records::{RecordWrite, Records};
use serde_json::{Value, json};

use crate::alerts::Alerts;
use crate::boards::{self, Boards, PageRequest, SubmittedPage};
use crate::cohorts::Cohorts;
use crate::command::{Command, Principal};
use crate::feed::Feed;
use crate::idempotency::IdempotentResponses;
use crate::levels::Levels;
use crate::players::{PlayerCommand, Players};
use crate::saved::SavedItems;
use crate::subject::{RecordError, RecordWriter, Subject};
use crate::surveys::Surveys;
use crate::vars::Vars;
use crate::{CommandRef, CommandResponse, Refusal};

/// The position and time of a log entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPoint {
    /// The entry's offset in the log: later entries have greater ones.
    pub offset: u64,
    /// The time of receipt by the server, in milliseconds since 1970. May go back a little between entries.
    pub ms: i64,
}

/// The input of a decision besides the state.
pub(crate) struct CommandContext<'a> {
    pub at: LogPoint,
    pub by: &'a Principal,
    pub tz: &'a str,
    pub blob: &'a [u8],
    pub touched: &'a mut Vec<Touched>,
    /// Set by the decision if its response contains a page of a board.
    pub page: Option<SubmittedPage>,
}

/// A topic that changed, as subscribers know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Touched {
    /// The game variables.
    Vars,
    /// The board of this name.
    Board(String),
    /// The activities of this player, which followers see.
    Posted(String),
    /// The players that this player follows.
    Follows(String),
    /// The cohorts.
    Cohorts,
    /// The alert rules, their state or their notifications.
    Alerts,
    /// Everything of one player, under these ids, which must be erased.
    Erased(Vec<String>),
}

/// The live-ops state of one game.
#[derive(Default)]
pub struct Game {
    /// Game variables.
    pub vars: Vars,
    /// Boards and scores.
    pub boards: Boards,
    /// Player levels.
    pub levels: Levels,
    /// Achievements, follows and the feed.
    pub feed: Feed,
    /// Surveys.
    pub surveys: Surveys,
    /// Alert rules.
    pub alerts: Alerts,
    /// Player sessions and erasures.
    pub players: Players,
    /// Cohorts.
    pub cohorts: Cohorts,
    /// Saved questions and dashboards.
    pub saved: SavedItems,
    pub(crate) responses: IdempotentResponses,
}

/// The numbers under which subjects are stored. Never reused.
const RESPONSES: u8 = 0;
const VARS: u8 = 1;
const BOARDS: u8 = 2;
const LEVELS: u8 = 3;
const FEED: u8 = 4;
const SURVEYS: u8 = 5;
const PLAYERS: u8 = 6;
const COHORTS: u8 = 8;
const SAVED: u8 = 9;
const ALERTS: u8 = 7;
/// Blobs, which are not read at start, have these numbers and greater ones.
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

    /// Returns true if records of this subject are read at start.
    pub(crate) fn is_restored(subject: u8) -> bool {
        subject < LEVEL_BLOBS
    }

    pub(crate) fn restore(&mut self, subject: u8, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        match subject {
            RESPONSES => self.responses.restore(key, value),
            VARS => self.vars.restore(key, value),
            BOARDS => self.boards.restore(key, value),
            LEVELS => self.levels.restore(key, value),
            FEED => self.feed.restore(key, value),
            SURVEYS => self.surveys.restore(key, value),
            PLAYERS => self.players.restore(key, value),
            COHORTS => self.cohorts.restore(key, value),
            SAVED => self.saved.restore(key, value),
            ALERTS => self.alerts.restore(key, value),
            other => Err(RecordError(format!("unknown subject {other}"))),
        }
    }

    pub(crate) fn finish_restore(&mut self) {
        self.responses.finish_restore();
        self.vars.finish_restore();
        self.boards.finish_restore();
        self.levels.finish_restore();
        self.feed.finish_restore();
        self.surveys.finish_restore();
        self.players.finish_restore();
        self.cohorts.finish_restore();
        self.saved.finish_restore();
        self.alerts.finish_restore();
    }

    pub(crate) fn changes(&mut self, number: u32, writes: &mut Vec<RecordWrite>) {
        self.responses.write_changes(&mut RecordWriter::new(number, RESPONSES, writes));
        self.vars.write_changes(&mut RecordWriter::new(number, VARS, writes));
        self.boards.write_changes(&mut RecordWriter::new(number, BOARDS, writes));
        self.levels.write_changes(&mut RecordWriter::new(number, LEVELS, writes));
        self.feed.write_changes(&mut RecordWriter::new(number, FEED, writes));
        self.surveys.write_changes(&mut RecordWriter::new(number, SURVEYS, writes));
        self.players.write_changes(&mut RecordWriter::new(number, PLAYERS, writes));
        self.cohorts.write_changes(&mut RecordWriter::new(number, COHORTS, writes));
        self.saved.write_changes(&mut RecordWriter::new(number, SAVED, writes));
        self.alerts.write_changes(&mut RecordWriter::new(number, ALERTS, writes));
        self.levels.blobs().write_changes(writes);
        self.feed.blobs().write_changes(writes);
        self.players.blobs().write_changes(writes);
    }

    /// Decides a command. A refused command changes nothing.
    pub(crate) fn apply(
        &mut self,
        at: LogPoint,
        entry: CommandRef<'_>,
        touched: &mut Vec<Touched>,
    ) -> Result<CommandResponse, Refusal> {
        let CommandRef { by, tz, idempotency, command, blob, .. } = entry;
        let page_request = PageRequest::of(&by, &command);
        let mut context = CommandContext { at, by: &by, tz: &tz, blob, touched, page: None };
        if let Some(stored) = idempotency.as_ref().and_then(|request| self.responses.get(request, at.ms)) {
            let (outcome, page) = stored;
            if let (Command::Players(PlayerCommand::Erase { player, links, .. }), Ok(first)) =
                (&command, &outcome)
            {
                self.extend_erasure(&mut context, first, player, links);
            }
            return self.with_page(at, outcome, page.zip(page_request));
        }
        let outcome = self.decide(&mut context, command);
        let page = context.page.take().filter(|_| outcome.is_ok());
        if let Some(request) = idempotency {
            self.responses.insert(request, &outcome, page.as_ref(), at.ms);
        }
        self.with_page(at, outcome, page.zip(page_request))
    }

    /// Appends the fields of a page to those of a decision.
    fn with_page(
        &self,
        at: LogPoint,
        outcome: Result<CommandResponse, Refusal>,
        page: Option<(SubmittedPage, PageRequest)>,
    ) -> Result<CommandResponse, Refusal> {
        match page.and_then(|(page, request)| page.render(&self.boards, &request, at.ms)) {
            Some(page) => outcome.map(|decision| decision.with_fields(&page)),
            None => outcome,
        }
    }

    fn decide(
        &mut self,
        context: &mut CommandContext<'_>,
        command: Command,
    ) -> Result<CommandResponse, Refusal> {
        if let Some(signed) = &context.by.signed {
            self.players.check_nonce(context.at, signed)?;
        }
        match command {
            Command::Vars(command) => self.apply_vars(context, command),
            Command::Boards(command) => self.apply_boards(context, command),
            Command::Levels(command) => self.apply_levels(context, command),
            Command::Feed(command) => self.apply_feed(context, command),
            Command::Surveys(command) => self.apply_surveys(context, command),
            Command::Alerts(command) => self.apply_alerts(context, command),
            Command::Players(command) => self.apply_players(context, command),
            Command::Cohorts(command) => self.apply_cohorts(context, command),
            Command::Saved(command) => self.apply_saved(context, command),
        }
    }

    /// Erases a player, including a ban. Rollups keep their counts.
    pub(crate) fn erase_player(&mut self, context: &mut CommandContext<'_>, player: &str) {
        self.touch_everything_of(context, player);
        // Fails if the player is not banned.
        let _ = self.apply_boards(context, boards::BoardCommand::Lift { player: player.to_owned() });
        self.boards.erase_player(player);
        self.levels.erase_player(player);
        self.feed.erase_player(player);
        self.surveys.erase_player(player);
        self.players.erase_player(player);
        self.cohorts.erase_player(player);
        self.saved.erase_player(player);
        if self.alerts.erase_player(context.at, player) {
            context.touched.push(Touched::Alerts);
        }
        self.responses.erase_player(player);
    }

    /// Reports every board and feed that shows the player as changed.
    fn touch_everything_of(&self, context: &mut CommandContext<'_>, player: &str) {
        let rows = self.boards.export_player(player, context.at.ms);
        let tables = rows["boards"].as_object().into_iter().flat_map(|rows| rows.keys());
        context.touched.extend(tables.map(|table| Touched::Board(table.clone())));
        context.touched.push(Touched::Posted(player.to_owned()));
    }

    /// Returns everything that is stored about a player under one id, by subject.
    pub fn export_player(&self, player: &str, now_ms: i64) -> Result<Value, StoreError> {
        Ok(json!({
            "scores": self.boards.export_player(player, now_ms),
            "levels": self.levels.export_player(player)?,
            "feed": self.feed.export_player(player)?,
            "surveys": self.surveys.export_player(player),
            "sessions": self.players.export_player(player),
            "cohorts": self.cohorts.export_player(player),
        }))
    }

    pub(crate) fn apply_link(&mut self, anonymous: &str, player: &str) {
        self.players.add_link(anonymous, player);
    }

    /// Applies an accepted event that [`crate::LiveOps::is_relevant_event`] selected.
    pub(crate) fn apply_event(&mut self, at: LogPoint, event: &StoredEvent<'_>) {
        self.levels.apply_event(at, event);
        self.boards.apply_event(at, event);
    }
}
