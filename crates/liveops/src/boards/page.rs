//! Pages of a board.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};

use super::attributes::{Filter, SOURCE};
use super::board::Board;
use super::calendar::{BoardWindow, WindowInstance};
use super::config::{BoardConfig, KeepRule, ScoreOrder};
use super::decimal::ScoreDecimal;
use super::quarantine::QuarantinedScore;
use super::runs::{Arrival, VERIFIED, WITH_SUBSCORE};
use super::tree::{RankKey, RankKeys, Tree};
use crate::Refusal;

/// The limit of `per_page`.
pub const PER_PAGE_MAX: u32 = 1_000;
/// Rows of a page if `per_page` is not given.
pub(super) const PER_PAGE_DEFAULT: u32 = 20;
/// The limit of `friends`.
pub const FRIENDS_MAX: usize = 10_000;
/// Rows that can be read in order of time.
const NEWEST_MAX: usize = 10_000;
/// Up to this size, a list is sorted by time; larger ones use the index of recent runs.
const SORTED_MAX: usize = 20_000;

/// The rows to read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BoardQuery {
    /// The window; `None` means the longest that the board has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<BoardWindow>,
    /// Selects the past calendar window that contains this time, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
    /// Selects a closed season.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub season: Option<u32>,
    /// Only runs with these values.
    #[serde(default, skip_serializing_if = "Filter::is_empty")]
    pub filter: Filter,
    /// The page number from 1 on; 0 means 1.
    #[serde(default)]
    pub page: u32,
    /// Rows per page; 0 means 20.
    #[serde(default)]
    pub per_page: u32,
    /// Newest first instead of best first.
    #[serde(default)]
    pub newest: bool,
    /// True for highest first, false for lowest first, whatever the board's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<bool>,
    /// Selects the page in whose middle this player is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<String>,
    /// Only these players, ranked among each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub friends: Option<Vec<String>>,
    /// Only this player, including the player's quarantined scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub player: Option<String>,
}

/// A page of a board.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoardPage {
    /// The board's name.
    pub table: String,
    /// The window.
    pub window: BoardWindow,
    /// The season's number if the window is a season.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub season: Option<u32>,
    /// The page number from 1 on.
    pub page: u32,
    /// Rows of a full page.
    pub per_page: u32,
    /// Rows of all pages.
    pub total: usize,
    /// The rows in order.
    pub rows: Vec<BoardRow>,
}

/// A row of a board.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoardRow {
    /// The rank from 1 on.
    pub rank: usize,
    /// The player's id.
    pub player: String,
    /// The player's display name.
    pub name: String,
    /// The score.
    pub score: ScoreDecimal,
    /// The subscore of the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscore: Option<ScoreDecimal>,
    /// Fields that the game sent with the score.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// The place where it was played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The time of the run, in milliseconds since 1970.
    #[serde(serialize_with = "rfc3339")]
    pub at: i64,
    /// True if the request was signed or came from a server.
    pub verified: bool,
    /// True if it is the score that was just submitted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub submitted: bool,
    /// True if it is quarantined: only its player and moderators see it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
}

/// Serializes milliseconds since 1970 as RFC 3339.
pub(super) fn rfc3339<S: Serializer>(ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let time = Timestamp::from_millisecond(*ms).map_err(S::Error::custom)?;
    serializer.collect_str(&format_args!("{time:.3}"))
}

/// A list of a window, as one query reads it.
struct RankedList<'a> {
    board: &'a Board,
    window: BoardWindow,
    instance: Option<WindowInstance>,
    /// `None` if no run matches the filter.
    list: Option<u32>,
    tree: Option<&'a Tree>,
    is_reversed: bool,
}

impl Board {
    /// Returns a page. The rolling windows must be up to date ([`Board::needs_advance`]).
    pub fn page(&self, query: &BoardQuery, now_ms: i64) -> Result<BoardPage, Refusal> {
        let per_page = check_per_page(query)?;
        let ranked_list = self.ranked_list(query, now_ms)?;
        if let Some(friends) = &query.friends {
            return ranked_list.friends(friends, query.page.max(1), per_page);
        }
        if let Some(player) = &query.player {
            return Ok(ranked_list.of_player(player, per_page));
        }
        if query.newest {
            return ranked_list.newest(query.page.max(1), per_page);
        }
        let first = match &query.around {
            Some(player) => ranked_list.around(player, per_page as usize),
            None => Some((query.page.max(1) as usize - 1).saturating_mul(per_page as usize)),
        };
        let rows = first
            .map_or_else(Vec::new, |first| ranked_list.rows(first..first.saturating_add(per_page as usize)));
        let page = first.map_or(1, |first| first / per_page as usize + 1);
        Ok(ranked_list.page(page as u32, per_page, ranked_list.total(), rows))
    }

    /// Returns the page with a player's run and marks its row. If the run is not a row, uses the player's row.
    pub(super) fn page_of(
        &self,
        query: &BoardQuery,
        player: u32,
        arrival: Arrival,
        now_ms: i64,
    ) -> Result<BoardPage, Refusal> {
        let ranked_list = self.ranked_list(query, now_ms)?;
        let run = ranked_list.runs_of(player).find(|run| self.runs.arrival(*run) == arrival);
        let own = run.or_else(|| ranked_list.row_of(player));
        let position = own.and_then(|run| ranked_list.position(run));
        let place = match &query.friends {
            Some(friends) => ranked_list.ranked(friends).iter().position(|(_, run)| Some(*run) == own),
            None if query.newest => Some(0),
            None => position,
        };
        let per_page = check_per_page(query)?;
        let number = place.map_or(1, |place| place as u32 / per_page + 1);
        let mut page = self.page(&BoardQuery { page: number, ..query.clone() }, now_ms)?;
        let rank = if query.newest { position } else { place };
        let id = self.roster.get(player).id;
        let is_own = |row: &&mut BoardRow| row.player == id && Some(row.rank - 1) == rank;
        page.rows.iter_mut().filter(is_own).for_each(|row| row.submitted = true);
        Ok(page)
    }

    fn ranked_list(&self, query: &BoardQuery, now_ms: i64) -> Result<RankedList<'_>, Refusal> {
        query.check(&self.config)?;
        let (window, instance) = self.instance(query, now_ms)?;
        let list = self.catalogue.list(&query.filter);
        let tree = instance.zip(list).and_then(|(instance, list)| self.trees.get(&(list, instance.id)));
        let is_highest_first = self.config.order == ScoreOrder::Desc;
        let is_reversed = query.highest.is_some_and(|highest| highest != is_highest_first);
        Ok(RankedList { board: self, window, instance, list, tree, is_reversed })
    }

    fn instance(
        &self,
        query: &BoardQuery,
        now_ms: i64,
    ) -> Result<(BoardWindow, Option<WindowInstance>), Refusal> {
        let longest =
            if query.season.is_some() { Some(BoardWindow::Season) } else { self.calendar.longest() };
        let window = query.window.or(longest).expect("a board has a window");
        if let Some(season) = query.season {
            let found = self.calendar.season(season).filter(|_| window == BoardWindow::Season);
            let missing =
                || Refusal::not_found(format!("season {season} does not exist or is no longer kept"));
            return found.map(|found| (window, Some(found))).ok_or_else(missing);
        }
        let Some(at_ms) = query.at_ms else {
            return Ok((window, self.calendar.current(window, self.now_of_read(now_ms))));
        };
        if window.rolling_ms().is_some() {
            return Err(Refusal::invalid(
                "at",
                "a rolling window has no past windows; choose day, week or month",
            ));
        }
        Ok((window, self.calendar.current(window, Arrival::first_of(at_ms))))
    }
}

fn check_per_page(query: &BoardQuery) -> Result<u32, Refusal> {
    match query.per_page {
        0 => Ok(PER_PAGE_DEFAULT),
        per_page if per_page <= PER_PAGE_MAX => Ok(per_page),
        _ => Err(Refusal::invalid("per_page", format!("must be at most {PER_PAGE_MAX}"))),
    }
}

impl<'a> RankedList<'a> {
    fn total(&self) -> usize {
        self.tree.map_or(0, Tree::len)
    }

    fn page(&self, page: u32, per_page: u32, total: usize, rows: Vec<BoardRow>) -> BoardPage {
        let season = self.instance.map(|it| it.season).filter(|_| self.window == BoardWindow::Season);
        BoardPage {
            table: self.board.table.clone(),
            window: self.window,
            season,
            page,
            per_page,
            total,
            rows,
        }
    }

    /// Returns the rows at these positions, in the order of the query.
    fn rows(&self, places: Range<usize>) -> Vec<BoardRow> {
        let Some(tree) = self.tree else { return Vec::new() };
        let runs =
            if self.is_reversed { self.reversed(tree, places.clone()) } else { tree.rows(places.clone()) };
        (places.start + 1..).zip(runs).map(|(rank, run)| self.row(rank, run)).collect()
    }

    /// Returns rows in reverse order. Runs with equal scores keep theirs: the earlier one comes first.
    fn reversed(&self, tree: &Tree, places: Range<usize>) -> Vec<u32> {
        let (mut at, end) = (places.start, places.end.min(tree.len()));
        let mut runs = Vec::new();
        while at < end {
            let equals = self.equals(tree, tree.len() - 1 - at);
            let begun = tree.len() - equals.end;
            let from = equals.start + (at - begun);
            let part = tree.rows(from..equals.end.min(from + (end - at)));
            at += part.len();
            runs.extend(part);
        }
        runs
    }

    /// Returns the positions of all rows with the same score and subscore as the row at `position`.
    fn equals(&self, tree: &Tree, position: usize) -> Range<usize> {
        let runs = &self.board.runs;
        let key = runs.key(tree.row(position).expect("the position exists"));
        let first = tree.rank(&RankKey { arrival: 0, ..key }, runs);
        first..tree.rank(&RankKey { arrival: u64::MAX, ..key }, runs)
    }

    /// Returns the position of a run in the order of the query.
    fn position(&self, run: u32) -> Option<usize> {
        let tree = self.tree?;
        let position = tree.position(run, &self.board.runs.key(run))?;
        if !self.is_reversed {
            return Some(position);
        }
        let equals = self.equals(tree, position);
        Some(tree.len() - equals.end + (position - equals.start))
    }

    /// Returns all rows of a player in the list.
    fn runs_of(&self, player: u32) -> impl Iterator<Item = u32> {
        let best = self.row_of(player);
        let is_all = self.board.config.keep == KeepRule::All;
        let all = best.is_some() && is_all;
        let rows = self.board.runs.of_player(player).filter(move |run| all && self.is_listed(*run));
        rows.chain(best.filter(|_| !is_all))
    }

    fn is_listed(&self, run: u32) -> bool {
        self.tree.is_some_and(|tree| tree.position(run, &self.board.runs.key(run)).is_some())
    }

    fn row_of(&self, player: u32) -> Option<u32> {
        let mut range = self.instance?;
        if let Some(rolling) = self.board.rolling.iter().find(|it| it.id == range.id) {
            range.from = rolling.floor;
        }
        self.board.row_of(player, self.list?, &range)
    }

    fn around(&self, player: &str, per_page: usize) -> Option<usize> {
        let run = self.row_of(self.board.roster.find(player)?)?;
        let position = self.position(run)?;
        let last = self.total().saturating_sub(per_page);
        Some(position.saturating_sub(per_page / 2).min(last))
    }

    fn friends(&self, friends: &[String], page: u32, per_page: u32) -> Result<BoardPage, Refusal> {
        if friends.len() > FRIENDS_MAX {
            return Err(Refusal::invalid("friends", format!("must have at most {FRIENDS_MAX} entries")));
        }
        let runs = self.ranked(friends);
        let first = (page as usize - 1).saturating_mul(per_page as usize);
        let part = runs.iter().enumerate().skip(first).take(per_page as usize);
        let rows = part.map(|(at, (_, run))| self.row(at + 1, *run)).collect();
        Ok(self.page(page, per_page, runs.len(), rows))
    }

    /// Returns the rows of these players with their positions, best first.
    fn ranked(&self, players: &[String]) -> Vec<(usize, u32)> {
        let players = players.iter().filter_map(|player| self.board.roster.find(player));
        let runs = players.flat_map(|player| self.runs_of(player));
        let mut runs: Vec<(usize, u32)> = runs.filter_map(|run| Some((self.position(run)?, run))).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    fn of_player(&self, player: &str, per_page: u32) -> BoardPage {
        let runs = self.ranked(&[player.to_owned()]);
        let mut rows: Vec<BoardRow> =
            runs.iter().take(per_page as usize).map(|(at, run)| self.row(at + 1, *run)).collect();
        let quarantined =
            self.board.quarantine.iter().filter(|(_, quarantined)| quarantined.player == player);
        let instance = self.instance;
        let in_window = quarantined.filter(|(id, _)| instance.is_some_and(|it| it.contains(Arrival(**id))));
        rows.extend(in_window.map(|(id, quarantined)| self.quarantined_row(Arrival(*id), quarantined)));
        self.page(1, per_page, runs.len(), rows)
    }

    /// Returns a quarantined row with the rank that it would have.
    fn quarantined_row(&self, arrival: Arrival, quarantined: &QuarantinedScore) -> BoardRow {
        let key = self.board.runs.key_of(quarantined.score, quarantined.subscore.unwrap_or(0), arrival);
        let before = self.tree.map_or(0, |tree| tree.rank(&key, &self.board.runs));
        self.board.quarantined_row(before + 1, arrival, quarantined)
    }

    fn newest(&self, page: u32, per_page: u32) -> Result<BoardPage, Refusal> {
        let first = (page as usize - 1).saturating_mul(per_page as usize);
        let end = first.saturating_add(per_page as usize);
        if first > 0 && end > NEWEST_MAX {
            return Err(Refusal::invalid(
                "page",
                format!("in order of time, only the newest {NEWEST_MAX} rows can be read"),
            ));
        }
        let runs = match self.tree {
            None => Vec::new(),
            Some(tree) if tree.len() <= SORTED_MAX => self.sorted_by_time(tree),
            Some(tree) => {
                let found = self.newest_from_index(end);
                if found.len() < end.min(tree.len()) { self.sorted_by_time(tree) } else { found }
            }
        };
        let part = runs.into_iter().skip(first).take(per_page as usize);
        let rows = part.filter_map(|run| Some(self.row(self.position(run)? + 1, run))).collect();
        Ok(self.page(page, per_page, self.total(), rows))
    }

    fn sorted_by_time(&self, tree: &Tree) -> Vec<u32> {
        let mut runs = tree.rows(0..tree.len());
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(self.board.runs.arrival(*run)));
        runs
    }

    fn newest_from_index(&self, most: usize) -> Vec<u32> {
        let run_of = |(arrival, player): (Arrival, u32)| {
            let mut runs = self
                .board
                .runs
                .of_player(player)
                .take_while(move |run| self.board.runs.arrival(*run) >= arrival);
            runs.find(|run| self.board.runs.arrival(*run) == arrival && self.is_listed(*run))
        };
        self.board.recent.newest().filter_map(run_of).take(most).collect()
    }

    fn row(&self, rank: usize, run: u32) -> BoardRow {
        let board = self.board;
        let player = board.roster.get(board.runs.player(run));
        let run = board.runs.get(run);
        let attributes = board.catalogue.get(run.attributes);
        let decimal = |units: i64| ScoreDecimal { units, decimals: board.config.decimals };
        BoardRow {
            rank,
            player: player.id.to_owned(),
            name: player.display_name().to_owned(),
            score: decimal(run.score),
            subscore: (run.flags & WITH_SUBSCORE != 0).then(|| decimal(run.subscore)),
            fields: attributes.map(|it| it.fields.clone()).unwrap_or_default(),
            source: attributes.and_then(|it| it.source.clone()),
            at: run.arrival.ms(),
            verified: run.flags & VERIFIED != 0,
            submitted: false,
            quarantined: false,
        }
    }
}

impl Board {
    /// Returns a quarantined score as its player and moderators see it.
    pub(super) fn quarantined_row(
        &self,
        rank: usize,
        arrival: Arrival,
        quarantined: &QuarantinedScore,
    ) -> BoardRow {
        let decimal = |units: i64| ScoreDecimal { units, decimals: self.config.decimals };
        let name = if quarantined.name.is_empty() { &quarantined.player } else { &quarantined.name };
        BoardRow {
            rank,
            player: quarantined.player.clone(),
            name: name.clone(),
            score: decimal(quarantined.score),
            subscore: quarantined.subscore.map(decimal),
            fields: quarantined.attributes.fields.clone(),
            source: quarantined.attributes.source.clone(),
            at: arrival.ms(),
            verified: false,
            submitted: false,
            quarantined: true,
        }
    }
}

impl Board {
    /// Returns all rows of a player by window.
    pub(super) fn pages_of(&self, player: &str, now_ms: i64) -> Vec<BoardPage> {
        let page = |window| {
            let player = Some(player.to_owned());
            let query =
                BoardQuery { window: Some(window), player, per_page: PER_PAGE_MAX, ..BoardQuery::default() };
            self.page(&query, now_ms).ok().filter(|page| !page.rows.is_empty())
        };
        self.config.windows.iter().filter_map(|window| page(*window)).collect()
    }
}

impl BoardQuery {
    /// Checks a query that is sent with a score: the page must be in a current window.
    pub(super) fn check_with_score(&self, config: &BoardConfig) -> Result<(), Refusal> {
        check_per_page(self)?;
        let is_current = self.at_ms.is_none() && self.season.is_none();
        if !is_current || self.around.is_some() || self.player.is_some() {
            return Err(Refusal::invalid(
                "window",
                "a page that is returned with a score must be of a current window",
            ));
        }
        self.check(config)
    }

    fn check(&self, config: &BoardConfig) -> Result<(), Refusal> {
        if let Some(window) = self.window.filter(|window| !config.windows.contains(window)) {
            return Err(Refusal::invalid("window", format!("the board has no window `{}`", window.label())));
        }
        let is_declared =
            |name: &str| name == SOURCE || config.filters.iter().any(|declared| declared == name);
        match self.filter.keys().find(|name| !is_declared(name)) {
            Some(name) => {
                Err(Refusal::invalid(format!("filter.{name}"), "the board does not declare this field"))
            }
            None => Ok(()),
        }
    }
}
