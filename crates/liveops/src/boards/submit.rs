//! A score comes: who may, what is checked, and what its player is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attributes::Attributes;
use super::board::Board;
use super::calendar::Window;
use super::config::{Checks, Config, Keep, Mode, Order};
use super::decimal::Decimal;
use super::held::{Evidence, Failed, Held};
use super::list::{Page, Query};
use super::runs::{Arrival, Run, VERIFIED, WITH_SUBSCORE};
use crate::names::{check_player, check_text};
use crate::players::{NAME_BYTES_MAX, Session};
use crate::{By, Caller, Kind, Refusal, is_key};

/// Fields of a run.
const FIELDS_MAX: usize = 16;
/// A field's value, and a source.
const VALUE_BYTES_MAX: usize = 200;
/// Runs of a player that a board has at a time: where each is a row, and else, where a rolling window may need them.
const ROWS_PER_PLAYER_MAX: usize = 10_000;
const RUNS_PER_PLAYER_MAX: usize = 1_000;
/// Runs of a board.
const RUNS_MAX: usize = 1 << 30;
/// A sum beyond it is refused.
const SUM_MAX: u64 = 1 << 62;

/// A score as it was sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Whose.
    pub player: String,
    /// The player's name as others see it; empty: as before.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// As JSON writes numbers.
    pub score: String,
    /// As JSON writes numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscore: Option<String>,
    /// What the game sends along.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// Where it was played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The session in which it was made, where the request is not signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Of a private board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

/// What the player is told.
#[derive(Serialize)]
pub(super) struct Submitted {
    /// Whether it is the player's row in some window.
    saved: bool,
    /// The player's score in the longest window.
    best: Option<Decimal>,
    /// And its rank.
    rank: Option<usize>,
    /// The player's rank in each window.
    ranks: BTreeMap<&'static str, usize>,
    /// How much better the player's score in the longest window is than before.
    improved_by: Option<Decimal>,
    /// It waits for a moderator.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    quarantined: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    page: Option<Page>,
    /// The player's score in the longest window is a new one.
    #[serde(skip)]
    pub(super) improved: Option<Decimal>,
}

/// A score that may be taken.
pub(super) struct Taken {
    run: Run,
    attributes: Attributes,
}

impl Score {
    /// Checks what does not depend on the board.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        check_player("player", &self.player)?;
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        if let Some(source) = &self.source {
            check_value("source", source)?;
        }
        if self.fields.len() > FIELDS_MAX {
            return Err(Refusal::invalid("fields", format!("there are at most {FIELDS_MAX}")));
        }
        for (name, value) in &self.fields {
            if !is_key(name) {
                return Err(Refusal::invalid("fields", format!("`{name}` is no name of a field")));
            }
            check_value(&format!("fields.{name}"), value)?;
        }
        Ok(())
    }

    /// Checks who sends it; tells whether the score is vouched for.
    pub(super) fn check_caller(
        &self,
        mode: Mode,
        by: &By,
        signer: Option<&Session>,
    ) -> Result<bool, Refusal> {
        if by.caller != Caller::Public {
            return Ok(true);
        }
        if mode == Mode::Server {
            return Err(Refusal::forbidden("only servers submit to this board, with a secret key"));
        }
        match signer {
            Some(session) if session.player != self.player => Err(Refusal {
                field: Some("player".to_owned()),
                ..Refusal::forbidden("the session that signed is another player's")
            }),
            Some(_) => Ok(true),
            None if mode == Mode::Open => Ok(false),
            None => Err(Refusal {
                kind: Kind::Unsigned,
                field: None,
                detail: "this board takes scores that a player's session signed".to_owned(),
            }),
        }
    }

    /// The score in the board's units.
    pub(super) fn take(&self, config: &Config, is_verified: bool) -> Result<Taken, Refusal> {
        let read = |field: &str, text: &str| {
            let decimal = Decimal::parse(text, config.decimals).map(|decimal| decimal.units);
            decimal.ok_or_else(|| Refusal::invalid(field, "it is a number of at most 9007199254740991 units"))
        };
        let score = read("score", &self.score)?;
        let subscore = self.subscore.as_ref().map(|text| read("subscore", text)).transpose()?;
        let bound = |units: i64| Decimal { units, decimals: config.decimals };
        if let Some(min) = config.min.filter(|min| score < *min) {
            return Err(Refusal::invalid("score", format!("it is at least {}", bound(min))));
        }
        if let Some(max) = config.max.filter(|max| score > *max) {
            return Err(Refusal::invalid("score", format!("it is at most {}", bound(max))));
        }
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = flag(is_verified, VERIFIED) | flag(subscore.is_some(), WITH_SUBSCORE);
        let run = Run { score, subscore: subscore.unwrap_or(0), flags, ..Run::default() };
        let attributes = Attributes { fields: self.fields.clone(), source: self.source.clone() };
        Ok(Taken { run, attributes })
    }
}

impl Taken {
    /// The score.
    pub(super) fn score(&self, decimals: u8) -> Decimal {
        Decimal { units: self.run.score, decimals }
    }
}

fn check_value(field: &str, value: &str) -> Result<(), Refusal> {
    if value.is_empty() {
        return Err(Refusal::invalid(field, "it is not empty"));
    }
    check_text(field, value, VALUE_BYTES_MAX)
}

/// What is known of how a score was made.
pub(super) struct Played<'a> {
    pub session: Option<(&'a str, &'a Session)>,
    /// When the player last won the level that the board asks about.
    pub won_ms: Option<i64>,
    pub now_ms: i64,
}

impl Checks {
    /// What does not fit; `None`: all fits.
    pub(super) fn evidence(&self, score: Decimal, played: &Played<'_>) -> Option<Evidence> {
        if self.is_empty() {
            return None;
        }
        let Some((id, session)) = played.session else {
            let detail = "there is no open session of this player".to_owned();
            let failed = vec![Failed { check: "session".to_owned(), detail }];
            return Some(Evidence { failed, ..Evidence::default() });
        };
        let played_s = (played.now_ms - session.started_ms).max(0) as f64 / 1000.0;
        let won_ms = played.won_ms.filter(|won_ms| *won_ms >= session.started_ms);
        let failed = self.failed(score, played_s, won_ms.is_some());
        let evidence = Evidence { failed, session: Some(id.to_owned()), played_s: Some(played_s) };
        (!evidence.failed.is_empty()).then_some(evidence)
    }

    fn failed(&self, score: Decimal, played_s: f64, has_won: bool) -> Vec<Failed> {
        let mut failed = Vec::new();
        let mut fail = |check: &str, detail| failed.push(Failed { check: check.to_owned(), detail });
        if let Some(least) = self.min_play_s.filter(|least| played_s < f64::from(*least)) {
            fail("min_play_s", format!("at least {least} s of play, found {played_s} s"));
        }
        let points = score.units as f64 / 10_f64.powi(i32::from(score.decimals));
        if let Some(most) = self.points_per_s_max.filter(|most| points > most * played_s) {
            fail(
                "points_per_s_max",
                format!("at most {most} points a second, found {points} in {played_s} s"),
            );
        }
        if let Some(level) = self.level.as_ref().filter(|_| !has_won) {
            fail("level", format!("`{level}` was not won in this session"));
        }
        failed
    }
}

impl Board {
    /// Refuses what there is no room for.
    pub(super) fn check_room(&self, taken: &Taken, player: &str) -> Result<(), Refusal> {
        self.catalogue.check(&taken.attributes, &self.config.filters)?;
        if self.runs.count() >= RUNS_MAX {
            return Err(Refusal::too_many(format!("a board has at most {RUNS_MAX} scores")));
        }
        let Some(player) = self.roster.find(player) else { return Ok(()) };
        let most = if self.config.keep == Keep::All { ROWS_PER_PLAYER_MAX } else { RUNS_PER_PLAYER_MAX };
        if self.runs.of(player).nth(most - 1).is_some() && self.config.keep != Keep::Sum {
            let detail = format!("a board keeps at most {most} scores of a player");
            return Err(Refusal { field: Some("player".to_owned()), ..Refusal::too_many(detail) });
        }
        let sum = self.longest_score(player).unwrap_or(0).saturating_add(taken.run.score);
        if self.config.keep == Keep::Sum && sum.unsigned_abs() > SUM_MAX {
            return Err(Refusal::invalid("score", "the player's sum would be too large"));
        }
        Ok(())
    }

    /// Takes a score.
    pub(super) fn submit(&mut self, score: &Score, taken: Taken, now: Arrival) -> (u32, Submitted) {
        let player = self.player(&score.player, &score.name);
        let before = self.longest_score(player);
        let run = self.take(player, taken, now);
        self.clock = now.next();
        self.stored.meta();
        let row = Some(run).filter(|_| self.config.keep == Keep::All);
        (player, self.submitted(player, row, now, before))
    }

    fn take(&mut self, player: u32, taken: Taken, arrival: Arrival) -> u32 {
        let attributes = self.catalogue.hold(&taken.attributes, &self.config.filters);
        self.add(player, &Run { arrival, attributes, ..taken.run })
    }

    fn longest_score(&self, player: u32) -> Option<i64> {
        let window = self.calendar.longest()?;
        let run = self.current_row(player, window)?;
        Some(self.runs.score(run))
    }

    pub(super) fn current_row(&self, player: u32, window: Window) -> Option<u32> {
        let mut instance = self.calendar.current(window, self.clock)?;
        if let Some(rolling) = self.rolling.iter().find(|it| it.id == instance.id) {
            instance.from = rolling.floor;
        }
        self.row_of(player, 0, &instance)
    }

    /// What a player is told. Where each run is a row, ranks are those of the new `row`.
    fn submitted(&self, player: u32, row: Option<u32>, arrival: Arrival, before: Option<i64>) -> Submitted {
        let (mut ranks, mut saved) = (BTreeMap::new(), false);
        for window in self.calendar.windows() {
            let Some(run) = row.or_else(|| self.current_row(player, window)) else { continue };
            saved |= self.runs.arrival(run) == arrival;
            if let Some(rank) = self.rank(run, window) {
                ranks.insert(window.label(), rank);
            }
        }
        let decimal = |units: i64| Decimal { units, decimals: self.config.decimals };
        let longest = self.calendar.longest().expect("a board has a window");
        let best = self.longest_score(player);
        let gain = |(best, before): (i64, i64)| match self.config.order {
            Order::Desc => best.saturating_sub(before),
            Order::Asc => before.saturating_sub(best),
        };
        let improved_by = best.zip(before).map(gain).filter(|gain| *gain > 0);
        Submitted {
            saved,
            best: best.map(decimal),
            rank: ranks.get(longest.label()).copied(),
            ranks,
            improved_by: improved_by.map(decimal),
            quarantined: false,
            page: None,
            improved: best.filter(|_| before.is_none() || improved_by.is_some()).map(decimal),
        }
    }

    pub(super) fn rank(&self, run: u32, window: Window) -> Option<usize> {
        let instance = self.calendar.current(window, self.clock)?;
        let tree = self.trees.get(&(0, instance.id))?;
        tree.position(run, &super::tree::Keys::key(&self.runs, run)).map(|position| position + 1)
    }

    /// Holds a score back for a moderator.
    pub(super) fn quarantine(
        &mut self,
        score: &Score,
        taken: Taken,
        now: Arrival,
        evidence: Evidence,
    ) -> Submitted {
        let held = Held {
            player: score.player.clone(),
            name: score.name.clone(),
            score: taken.run.score,
            subscore: (taken.run.flags & WITH_SUBSCORE != 0).then_some(taken.run.subscore),
            attributes: taken.attributes,
            evidence,
        };
        self.hold(now, held);
        self.clock = now.next();
        self.stored.meta();
        let known = self.roster.find(&score.player);
        let submitted = known.map(|player| self.submitted(player, None, now, None));
        let nothing = Submitted {
            saved: false,
            best: None,
            rank: None,
            ranks: BTreeMap::new(),
            improved_by: None,
            quarantined: true,
            page: None,
            improved: None,
        };
        submitted.map_or(nothing, |it| Submitted { saved: false, quarantined: true, improved: None, ..it })
    }

    /// Takes a score that waited, as of when it came.
    pub(super) fn accept(&mut self, id: u64, held: Held) {
        let arrival = Arrival(id);
        // Since then the player may have another name.
        let name = if self.roster.find(&held.player).is_some() { "" } else { &held.name };
        let player = self.player(&held.player, name);
        let taken = Taken { run: held.run(arrival, VERIFIED), attributes: held.attributes };
        self.take(player, taken, arrival);
    }

    /// Adds the page that holds the score; `query` was checked.
    pub(super) fn with_page(
        &self,
        submitted: Submitted,
        player: Option<u32>,
        query: &Query,
        now: Arrival,
    ) -> Submitted {
        let page = match player {
            Some(player) => self.page_of(query, player, now, now.ms()),
            None => self.page(query, now.ms()),
        };
        Submitted { page: page.ok(), ..submitted }
    }
}
