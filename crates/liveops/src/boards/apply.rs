//! Deciding the commands that change boards.

use super::config::{BoardConfig, BoardUpdate, SubmitMode};
use super::page::BoardQuery;
use super::runs::Arrival;
use super::submit::{ScoreContext, SubmitResponse, SubmittedPage, SubmittedScore};
use super::view::{BoardViewer, board_not_found, is_visible, view};
use super::{Board, BoardCommand, Boards};
use crate::game::{CommandContext, Game, Touched};
use crate::players::PlayerSession;
use crate::{Caller, CommandResponse, Refusal, is_key};

/// Boards of a game.
const BOARDS_MAX: usize = 10_000;
/// Boards up to which clients with a public key create new ones. The rest is left to servers and moderators.
const PUBLIC_BOARDS_MAX: usize = BOARDS_MAX / 2;

impl Game {
    pub(crate) fn apply_boards(
        &mut self,
        context: &mut CommandContext<'_>,
        command: BoardCommand,
    ) -> Result<CommandResponse, Refusal> {
        let (table, answer) = match command {
            BoardCommand::Define { table, change } => {
                let answer = self.boards.define(context, &table, change)?;
                (table, answer)
            }
            BoardCommand::Reset { table } => {
                let answer = self.boards.reset(context, &table)?;
                (table, answer)
            }
            BoardCommand::Decide { table, id, accept } => {
                let answer = self.boards.decide(context, &table, &id, accept)?;
                (table, answer)
            }
            BoardCommand::Submit { table, score, list } => {
                let answer = self.submit_score(context, &table, &score, list.as_deref())?;
                (table, answer)
            }
            BoardCommand::Ban { player, reason } => return self.boards.ban(context, &player, reason),
            BoardCommand::Lift { player } => return self.boards.lift_ban(context, &player),
        };
        context.touched.push(Touched::Board(table));
        Ok(answer)
    }

    fn submit_score(
        &mut self,
        context: &mut CommandContext<'_>,
        table: &str,
        score: &SubmittedScore,
        list: Option<&BoardQuery>,
    ) -> Result<CommandResponse, Refusal> {
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
        Ok(CommandResponse::ok(&submitted))
    }
}

impl Boards {
    fn define(
        &mut self,
        context: &CommandContext<'_>,
        table: &str,
        change: BoardUpdate,
    ) -> Result<CommandResponse, Refusal> {
        if let Some(board) = self.boards.get_mut(table) {
            let config = change.apply_to(&board.config, false, board.has_rows())?;
            self.wins.watch(config.checks.level.as_deref());
            let now = board.advance(context.at.ms, context.tz);
            board.declare(config, now, context.tz);
            return Ok(CommandResponse::ok(&view(board, BoardViewer::All)));
        }
        let config = change.apply_to(&BoardConfig::new(SubmitMode::Session), true, false)?;
        let board = self.create_board(context, table, config)?;
        Ok(CommandResponse::created(&view(board, BoardViewer::All)))
    }

    fn create_board(
        &mut self,
        context: &CommandContext<'_>,
        table: &str,
        config: BoardConfig,
    ) -> Result<&mut Board, Refusal> {
        if !is_key(table) {
            return Err(Refusal::invalid("table", "must have 1 to 100 letters, digits, `.`, `_` or `-`"));
        }
        if self.boards.len() >= BOARDS_MAX {
            return Err(Refusal::too_many(format!("a game can have at most {BOARDS_MAX} boards")));
        }
        let is_for_client = matches!(context.by.caller, Caller::Public | Caller::Compat);
        if is_for_client && self.boards.len() >= PUBLIC_BOARDS_MAX {
            return Err(Refusal::too_many(format!(
                "the game has {PUBLIC_BOARDS_MAX} boards: create further ones with a secret key"
            )));
        }
        self.wins.watch(config.checks.level.as_deref());
        self.last_number += 1;
        let now = Arrival::first_of(context.at.ms);
        let board = Board::new(self.last_number, table, config, now, context.tz);
        Ok(self.boards.entry(table.to_owned()).or_insert(board))
    }

    fn reset(&mut self, context: &CommandContext<'_>, table: &str) -> Result<CommandResponse, Refusal> {
        let board = self.boards.get_mut(table).ok_or_else(|| board_not_found(table))?;
        let now = board.advance(context.at.ms, context.tz);
        let season = board.reset(now);
        let season = season.ok_or_else(|| Refusal::invalid("table", "the board has no window `season`"))?;
        Ok(CommandResponse::ok(&serde_json::json!({ "table": table, "season": season })))
    }
}

/// The session in which a score was made, with its id, and the session that signed the request.
type Sessions<'a> = (Option<(&'a str, &'a PlayerSession)>, Option<&'a PlayerSession>);

impl Boards {
    fn submit(
        &mut self,
        context: &mut CommandContext<'_>,
        table: &str,
        score: &SubmittedScore,
        list: Option<&BoardQuery>,
        (session, signer): Sessions<'_>,
        is_public: bool,
    ) -> Result<SubmitResponse, Refusal> {
        score.check()?;
        if self.is_banned(&score.player) {
            let refusal = Refusal::forbidden("this player is banned");
            return Err(Refusal { field: Some("player".to_owned()), ..refusal });
        }
        let new = BoardConfig::new(if is_public { SubmitMode::Session } else { SubmitMode::Server });
        let existing = self.boards.get(table);
        let config = existing.map_or(&new, |board| &board.config);
        let viewer = if is_public { BoardViewer::Public(score.code.as_deref()) } else { BoardViewer::All };
        if existing.is_some_and(|board| !is_visible(board, viewer)) {
            return Err(board_not_found(table));
        }
        let is_verified = score.check_caller(config.mode, context.by, signer)?;
        let parsed = score.parse(config, is_verified)?;
        if let Some(board) = existing {
            board.check_capacity(&parsed, &score.player)?;
        }
        list.map(|query| query.check_with_score(config)).transpose()?;
        let decimal = parsed.score(config.decimals);
        let won_ms =
            config.checks.level.as_ref().and_then(|level| self.wins.last_win_ms(&score.player, level));
        let score_context = ScoreContext { session, won_ms, now_ms: context.at.ms };
        let evidence = if is_public { config.checks.evidence(decimal, &score_context) } else { None };
        let board = match self.boards.contains_key(table) {
            true => self.boards.get_mut(table).expect("it exists"),
            false => self.create_board(context, table, new)?,
        };
        let now = board.advance(context.at.ms, context.tz);
        let (player, submitted) = match evidence {
            Some(evidence) => (None, board.submit_to_quarantine(score, parsed, now, evidence)),
            None => board.submit(score, parsed, now),
        };
        let submitter = player.map(|_| score.player.as_str());
        context.page = list.map(|_| SubmittedPage::new(table, submitter, now));
        Ok(submitted)
    }
}
