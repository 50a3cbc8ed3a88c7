//! Submitting scores: authorization, checks and the response to the player.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attributes::RunAttributes;
use super::board::Board;
use super::calendar::BoardWindow;
use super::config::{BoardConfig, KeepRule, ScoreChecks, ScoreOrder, SubmitMode};
use super::decimal::ScoreDecimal;
use super::page::{BoardPage, BoardQuery};
use super::quarantine::{Evidence, FailedCheck, QuarantinedScore};
use super::runs::{Arrival, Run, VERIFIED, WITH_SUBSCORE};
use super::tree::RankKeys;
use super::view::{BoardViewer, is_visible};
use super::{BoardCommand, Boards};
use crate::names::{check_player, check_text};
use crate::players::{NAME_BYTES_MAX, PlayerSession};
use crate::{Caller, Command, Principal, Refusal, RefusalKind, is_key};

/// Fields of a run.
const FIELDS_MAX: usize = 16;
/// Bytes of a field's value, and of a source.
const VALUE_BYTES_MAX: usize = 200;
/// Runs of a player on a board at a time: the first limit if each run is a row, otherwise the second.
const ROWS_PER_PLAYER_MAX: usize = 10_000;
const RUNS_PER_PLAYER_MAX: usize = 1_000;
/// Runs of a board.
const RUNS_MAX: usize = 1 << 30;
/// The greatest sum of a player.
const SUM_MAX: u64 = 1 << 62;

/// A score as it was submitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SubmittedScore {
    /// The player's id.
    pub player: String,
    /// The player's display name; if empty, the known name stays.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The score as a JSON number.
    pub score: String,
    /// The subscore as a JSON number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscore: Option<String>,
    /// Fields to store with the score.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The place where it was played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The session in which it was made, if the request is not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The access code of a private board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// On a board that keeps all scores: it replaces the player's best score, and is not kept if that is as good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
}

/// The response to a submitted score.
#[derive(Serialize)]
pub(super) struct SubmitResponse {
    /// True if the run is the player's row in some window.
    saved: bool,
    /// The player's score in the longest window.
    best: Option<ScoreDecimal>,
    /// The player's rank in the longest window.
    rank: Option<usize>,
    /// The player's rank in each window.
    ranks: BTreeMap<&'static str, usize>,
    /// The improvement of the player's score in the longest window.
    improved_by: Option<ScoreDecimal>,
    /// True if the score waits for a moderator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    quarantined: bool,
    /// The player's score in the longest window if it is a new best.
    #[serde(skip)]
    pub(super) improved: Option<ScoreDecimal>,
}

/// The score whose page a response contains. The page is rendered when a response is sent, because it can be a thousand
/// times larger than the decision about the score. The query is that of the request: a repeated one has the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SubmittedPage {
    table: String,
    /// The player's id; `None` if the score was quarantined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    player: Option<String>,
    arrival: Arrival,
}

impl SubmittedPage {
    pub(super) fn new(table: &str, player: Option<&str>, arrival: Arrival) -> SubmittedPage {
        SubmittedPage { table: table.to_owned(), player: player.map(str::to_owned), arrival }
    }

    /// Returns true if it is the page of this player's score.
    pub(crate) fn names(&self, player: &str) -> bool {
        self.player.as_deref() == Some(player)
    }

    /// Returns the memory that it takes, about.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<SubmittedPage>() + self.table.len() + self.player.as_ref().map_or(0, String::len)
    }

    /// Returns the page as it is at this time, or `None` if the board no longer has it or the sender may not see it any
    /// more.
    pub(crate) fn render(&self, boards: &Boards, request: &PageRequest, now_ms: i64) -> Option<BoardPage> {
        let board = boards.boards.get(&self.table).filter(|board| is_visible(board, request.viewer()))?;
        let now_ms = board.now(now_ms).ms();
        let page = match self.player.as_ref().map(|player| board.roster.find(player)) {
            Some(player) => board.page_of(&request.query, player?, self.arrival, now_ms),
            None => board.page(&request.query, now_ms),
        };
        page.ok()
    }
}

/// The page that a request with a score asks for.
pub(crate) struct PageRequest {
    query: BoardQuery,
    is_public: bool,
    code: Option<String>,
}

impl PageRequest {
    /// Returns the page that a command asks for, if it does.
    pub(crate) fn of(by: &Principal, command: &Command) -> Option<PageRequest> {
        let Command::Boards(BoardCommand::Submit { list: Some(query), score, .. }) = command else {
            return None;
        };
        let is_public = by.caller == Caller::Public;
        Some(PageRequest { query: (**query).clone(), is_public, code: score.code.clone() })
    }

    fn viewer(&self) -> BoardViewer<'_> {
        if self.is_public { BoardViewer::Public(self.code.as_deref()) } else { BoardViewer::All }
    }
}

/// A score in the board's units.
pub(super) struct ParsedScore {
    run: Run,
    attributes: RunAttributes,
}

impl SubmittedScore {
    /// Checks the fields that do not depend on the board.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        check_player("player", &self.player)?;
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        if let Some(source) = &self.source {
            check_value("source", source)?;
        }
        if self.fields.len() > FIELDS_MAX {
            return Err(Refusal::invalid("fields", format!("must have at most {FIELDS_MAX} entries")));
        }
        for (name, value) in &self.fields {
            if !is_key(name) {
                return Err(Refusal::invalid("fields", format!("`{name}` is not a valid field name")));
            }
            check_value(&format!("fields.{name}"), value)?;
        }
        Ok(())
    }

    /// Checks whether the sender may submit. Returns true if the score counts as verified.
    pub(super) fn check_caller(
        &self,
        mode: SubmitMode,
        by: &Principal,
        signer: Option<&PlayerSession>,
    ) -> Result<bool, Refusal> {
        if by.caller != Caller::Public {
            return Ok(true);
        }
        if mode == SubmitMode::Server {
            return Err(Refusal::forbidden("only servers with a secret key can submit to this board"));
        }
        match signer {
            Some(session) if session.player != self.player => Err(Refusal {
                field: Some("player".to_owned()),
                ..Refusal::forbidden("the request is signed by another player")
            }),
            Some(_) => Ok(true),
            None if mode == SubmitMode::Open => Ok(false),
            None => Err(Refusal {
                kind: RefusalKind::Unsigned,
                field: None,
                detail: "this board requires requests signed in a player session".to_owned(),
            }),
        }
    }

    /// Returns the score in the board's units.
    pub(super) fn parse(&self, config: &BoardConfig, is_verified: bool) -> Result<ParsedScore, Refusal> {
        let read = |field: &str, text: &str| {
            let decimal = ScoreDecimal::parse(text, config.decimals).map(|decimal| decimal.units);
            decimal.map_err(|invalid| Refusal::invalid(field, invalid.to_string()))
        };
        let score = read("score", &self.score)?;
        let subscore = self.subscore.as_ref().map(|text| read("subscore", text)).transpose()?;
        let bound = |units: i64| ScoreDecimal { units, decimals: config.decimals };
        if let Some(min) = config.min.filter(|min| score < *min) {
            return Err(Refusal::invalid("score", format!("must be at least {}", bound(min))));
        }
        if let Some(max) = config.max.filter(|max| score > *max) {
            return Err(Refusal::invalid("score", format!("must be at most {}", bound(max))));
        }
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(is_verified, VERIFIED) | flag(subscore.is_some(), WITH_SUBSCORE);
        let run = Run { score, subscore: subscore.unwrap_or(0), flags, ..Run::default() };
        let attributes = RunAttributes { fields: self.fields.clone(), source: self.source.clone() };
        Ok(ParsedScore { run, attributes })
    }
}

impl ParsedScore {
    pub(super) fn score(&self, decimals: u8) -> ScoreDecimal {
        ScoreDecimal { units: self.run.score, decimals }
    }
}

fn check_value(field: &str, value: &str) -> Result<(), Refusal> {
    if value.is_empty() {
        return Err(Refusal::invalid(field, "must not be empty"));
    }
    check_text(field, value, VALUE_BYTES_MAX)
}

/// The facts that checks compare a score with.
pub(super) struct ScoreContext<'a> {
    pub session: Option<(&'a str, &'a PlayerSession)>,
    /// The last time the player won the level that the board's checks require.
    pub won_ms: Option<i64>,
    pub now_ms: i64,
}

impl ScoreChecks {
    /// Returns the failed checks; `None` if all pass.
    pub(super) fn evidence(&self, score: ScoreDecimal, context: &ScoreContext<'_>) -> Option<Evidence> {
        if self.is_empty() {
            return None;
        }
        let Some((id, session)) = context.session else {
            let detail = "the player has no open session".to_owned();
            let failed = vec![FailedCheck { check: "session".to_owned(), detail }];
            return Some(Evidence { failed, ..Evidence::default() });
        };
        let played_s = (context.now_ms - session.started_ms).max(0) as f64 / 1000.0;
        let won_ms = context.won_ms.filter(|won_ms| *won_ms >= session.started_ms);
        let failed = self.failed(score, played_s, won_ms.is_some());
        let evidence = Evidence { failed, session: Some(id.to_owned()), played_s: Some(played_s) };
        (!evidence.failed.is_empty()).then_some(evidence)
    }

    fn failed(&self, score: ScoreDecimal, played_s: f64, has_won: bool) -> Vec<FailedCheck> {
        let mut failed = Vec::new();
        let mut fail = |check: &str, detail| failed.push(FailedCheck { check: check.to_owned(), detail });
        if let Some(least) = self.min_play_s.filter(|least| played_s < f64::from(*least)) {
            fail("min_play_s", format!("requires at least {least} s of play; it was {played_s} s"));
        }
        let points = score.units as f64 / 10_f64.powi(i32::from(score.decimals));
        if let Some(most) = self.points_per_s_max.filter(|most| points > most * played_s) {
            fail(
                "points_per_s_max",
                format!("allows at most {most} points per second; it was {points} in {played_s} s"),
            );
        }
        if let Some(level) = self.level.as_ref().filter(|_| !has_won) {
            fail("level", format!("`{level}` was not won in this session"));
        }
        failed
    }
}

impl Board {
    /// Refuses a score that would exceed a limit.
    pub(super) fn check_capacity(&self, parsed: &ParsedScore, player: &str) -> Result<(), Refusal> {
        self.catalogue.check(&parsed.attributes, &self.config.filters)?;
        if self.runs.count() >= RUNS_MAX {
            return Err(Refusal::too_many(format!("a board can have at most {RUNS_MAX} scores")));
        }
        let Some(player) = self.roster.find(player) else { return Ok(()) };
        let most = if self.config.keep == KeepRule::All { ROWS_PER_PLAYER_MAX } else { RUNS_PER_PLAYER_MAX };
        if self.runs.of_player(player).nth(most - 1).is_some() && self.config.keep != KeepRule::Sum {
            let detail = format!("a board can keep at most {most} scores of a player");
            return Err(Refusal { field: Some("player".to_owned()), ..Refusal::too_many(detail) });
        }
        let sum = self.longest_score(player).unwrap_or(0).saturating_add(parsed.run.score);
        if self.config.keep == KeepRule::Sum && sum.unsigned_abs() > SUM_MAX {
            return Err(Refusal::invalid("score", "the player's sum would be too large"));
        }
        Ok(())
    }

    /// Adds a score. Returns the player's number and the response; no number if the score is not kept because it does not
    /// beat the one that it would replace.
    pub(super) fn submit(
        &mut self,
        score: &SubmittedScore,
        parsed: ParsedScore,
        now: Arrival,
    ) -> (Option<u32>, SubmitResponse) {
        let player = self.find_or_add_player(&score.player, &score.name);
        let before = self.longest_score(player);
        if let Some(best) = self.row_to_replace(score, player) {
            let run = &parsed.run;
            if self.runs.key(best) < self.runs.key_of(run.score, run.subscore, now) {
                return (None, self.submit_response(player, Some(best), now, before));
            }
            self.remove_row(player, best);
        }
        let run = self.add_score(player, parsed, now);
        self.clock = now.next();
        self.stored.mark_meta_changed();
        let row = Some(run).filter(|_| self.config.keep == KeepRule::All);
        (Some(player), self.submit_response(player, row, now, before))
    }

    /// Returns the player's best row in the longest window if the score is to replace it.
    fn row_to_replace(&self, score: &SubmittedScore, player: u32) -> Option<u32> {
        let replaces = score.replace && self.config.keep == KeepRule::All;
        let window = self.calendar.longest().filter(|_| replaces)?;
        self.current_row(player, window)
    }

    fn add_score(&mut self, player: u32, parsed: ParsedScore, arrival: Arrival) -> u32 {
        let attributes = self.catalogue.intern(&parsed.attributes, &self.config.filters);
        self.add_run(player, &Run { arrival, attributes, ..parsed.run })
    }

    fn longest_score(&self, player: u32) -> Option<i64> {
        let window = self.calendar.longest()?;
        let run = self.current_row(player, window)?;
        Some(self.runs.score(run))
    }

    pub(super) fn current_row(&self, player: u32, window: BoardWindow) -> Option<u32> {
        let mut instance = self.calendar.current(window, self.clock)?;
        if let Some(rolling) = self.rolling.iter().find(|it| it.id == instance.id) {
            instance.from = rolling.floor;
        }
        self.row_of(player, 0, &instance)
    }

    /// Returns the response. If each run is a row, ranks are those of the new `row`.
    fn submit_response(
        &self,
        player: u32,
        row: Option<u32>,
        arrival: Arrival,
        before: Option<i64>,
    ) -> SubmitResponse {
        let (mut ranks, mut saved) = (BTreeMap::new(), false);
        for window in self.calendar.windows() {
            let Some(run) = row.or_else(|| self.current_row(player, window)) else { continue };
            saved |= self.runs.arrival(run) == arrival;
            if let Some(rank) = self.rank(run, window) {
                ranks.insert(window.label(), rank);
            }
        }
        let decimal = |units: i64| ScoreDecimal { units, decimals: self.config.decimals };
        let longest = self.calendar.longest().expect("a board has a window");
        let best = self.longest_score(player);
        let gain = |(best, before): (i64, i64)| match self.config.order {
            ScoreOrder::Desc => best.saturating_sub(before),
            ScoreOrder::Asc => before.saturating_sub(best),
        };
        let improved_by = best.zip(before).map(gain).filter(|gain| *gain > 0);
        SubmitResponse {
            saved,
            best: best.map(decimal),
            rank: ranks.get(longest.label()).copied(),
            ranks,
            improved_by: improved_by.map(decimal),
            quarantined: false,
            improved: best.filter(|_| before.is_none() || improved_by.is_some()).map(decimal),
        }
    }

    pub(super) fn rank(&self, run: u32, window: BoardWindow) -> Option<usize> {
        let instance = self.calendar.current(window, self.clock)?;
        let tree = self.trees.get(&(0, instance.id))?;
        tree.position(run, &self.runs.key(run)).map(|position| position + 1)
    }

    /// Quarantines a score for a moderator.
    pub(super) fn submit_to_quarantine(
        &mut self,
        score: &SubmittedScore,
        parsed: ParsedScore,
        now: Arrival,
        evidence: Evidence,
    ) -> SubmitResponse {
        let quarantined = QuarantinedScore {
            player: score.player.clone(),
            name: score.name.clone(),
            score: parsed.run.score,
            subscore: (parsed.run.flags & WITH_SUBSCORE != 0).then_some(parsed.run.subscore),
            attributes: parsed.attributes,
            evidence,
        };
        self.put_quarantined(now, quarantined);
        self.clock = now.next();
        self.stored.mark_meta_changed();
        let player = self.roster.find(&score.player);
        let submitted = player.map(|player| self.submit_response(player, None, now, None));
        let nothing = SubmitResponse {
            saved: false,
            best: None,
            rank: None,
            ranks: BTreeMap::new(),
            improved_by: None,
            quarantined: true,
            improved: None,
        };
        submitted.map_or(nothing, |it| SubmitResponse {
            saved: false,
            quarantined: true,
            improved: None,
            ..it
        })
    }

    /// Adds a quarantined score with its original arrival.
    pub(super) fn accept(&mut self, id: u64, quarantined: QuarantinedScore) {
        // It is later than now if the clock was ahead when the score arrived.
        let arrival = Arrival(id).min(self.clock);
        self.clock = self.clock.max(arrival.next());
        // The player's name may have changed since then.
        let name = if self.roster.find(&quarantined.player).is_some() { "" } else { &quarantined.name };
        let player = self.find_or_add_player(&quarantined.player, name);
        let parsed =
            ParsedScore { run: quarantined.run(arrival, VERIFIED), attributes: quarantined.attributes };
        self.add_score(player, parsed, arrival);
    }
}
