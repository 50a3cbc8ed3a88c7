//! Pages of a board.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::Timestamp;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};

use super::attributes::{Filter, SOURCE};
use super::board::Board;
use super::calendar::{Instance, Window};
use super::config::{Config, Keep, Order};
use super::decimal::Decimal;
use super::held::Held;
use super::runs::{Arrival, VERIFIED, WITH_SUBSCORE};
use super::tree::{Key, Keys, Tree};
use crate::Refusal;

/// Rows of a page.
pub const PER_PAGE_MAX: u32 = 1_000;
/// Rows of a page that does not say.
pub const PER_PAGE: u32 = 20;
/// Friends in one question.
pub const FRIENDS_MAX: usize = 10_000;
/// By time, no more rows than these are reached.
const NEWEST_MAX: usize = 10_000;
/// Up to here, rows are sorted by time; above, the newest are looked up.
const SORTED_MAX: usize = 20_000;

/// Which rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Query {
    /// The window; none: the longest that the board has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// An earlier calendar window: the one that holds this time, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<i64>,
    /// A closed season.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub season: Option<u32>,
    /// Only runs with these values.
    #[serde(default, skip_serializing_if = "Filter::is_empty")]
    pub filter: Filter,
    /// From 1 on; 0: the first.
    #[serde(default)]
    pub page: u32,
    /// Rows of a page; 0: 20.
    #[serde(default)]
    pub per_page: u32,
    /// Newest first instead of best first.
    #[serde(default)]
    pub newest: bool,
    /// Highest first, or lowest first, whatever the board's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<bool>,
    /// The page in whose middle this player is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<String>,
    /// Only these, ranked among each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub friends: Option<Vec<String>>,
    /// Only this player, who also sees the own scores that wait for a moderator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub player: Option<String>,
}

/// A page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Page {
    /// The board.
    pub table: String,
    /// The window.
    pub window: Window,
    /// Its season, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub season: Option<u32>,
    /// Which page it is, from 1 on.
    pub page: u32,
    /// Rows of a full page.
    pub per_page: u32,
    /// Rows of all pages.
    pub total: usize,
    /// In their order.
    pub rows: Vec<Row>,
}

/// A row as it is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// From 1 on.
    pub rank: usize,
    /// Whose.
    pub player: String,
    /// The player's name as others see it.
    pub name: String,
    /// The score.
    pub score: Decimal,
    /// The subscore of the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscore: Option<Decimal>,
    /// What the game sent along.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, String>,
    /// Where it was played.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When it came.
    #[serde(serialize_with = "rfc3339")]
    pub at: i64,
    /// Whether it was signed or came from a server.
    pub verified: bool,
    /// It is the one that was just submitted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub submitted: bool,
    /// It waits for a moderator; nobody else sees it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub quarantined: bool,
}

/// Milliseconds since 1970 as text.
pub fn rfc3339<S: Serializer>(ms: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let time = Timestamp::from_millisecond(*ms).map_err(S::Error::custom)?;
    serializer.collect_str(&format_args!("{time:.3}"))
}

/// A list of a window, as one question sees it.
struct View<'a> {
    board: &'a Board,
    window: Window,
    instance: Option<Instance>,
    /// `None`: no run answers to the filter.
    list: Option<u32>,
    tree: Option<&'a Tree>,
    is_turned: bool,
}

impl Board {
    /// A page. Rolling windows have to show this time ([`Board::is_elsewhere`]).
    pub fn page(&self, query: &Query, now_ms: i64) -> Result<Page, Refusal> {
        let per_page = check_per_page(query)?;
        let view = self.view(query, now_ms)?;
        if let Some(friends) = &query.friends {
            return view.friends(friends, query.page.max(1), per_page);
        }
        if let Some(player) = &query.player {
            return Ok(view.of_player(player, per_page));
        }
        if query.newest {
            return view.newest(query.page.max(1), per_page);
        }
        let first = match &query.around {
            Some(player) => view.around(player, per_page as usize),
            None => Some((query.page.max(1) as usize - 1).saturating_mul(per_page as usize)),
        };
        let rows =
            first.map_or_else(Vec::new, |first| view.rows(first..first.saturating_add(per_page as usize)));
        let page = first.map_or(1, |first| first / per_page as usize + 1);
        Ok(view.page(page as u32, per_page, view.total(), rows))
    }

    /// The page that holds a run of a player, with its row marked. Where the run is no row, that of the player's row.
    pub fn page_of(
        &self,
        query: &Query,
        player: u32,
        arrival: Arrival,
        now_ms: i64,
    ) -> Result<Page, Refusal> {
        let view = self.view(query, now_ms)?;
        let run = view.runs_of(player).find(|run| self.runs.arrival(*run) == arrival);
        let own = run.or_else(|| view.row_of(player));
        let position = own.and_then(|run| view.position(run));
        let place = match &query.friends {
            Some(friends) => view.ranked(friends).iter().position(|(_, run)| Some(*run) == own),
            None if query.newest => Some(0),
            None => position,
        };
        let per_page = check_per_page(query)?;
        let number = place.map_or(1, |place| place as u32 / per_page + 1);
        let mut page = self.page(&Query { page: number, ..query.clone() }, now_ms)?;
        let rank = if query.newest { position } else { place };
        let id = self.roster.get(player).id;
        let is_own = |row: &&mut Row| row.player == id && Some(row.rank - 1) == rank;
        page.rows.iter_mut().filter(is_own).for_each(|row| row.submitted = true);
        Ok(page)
    }

    fn view(&self, query: &Query, now_ms: i64) -> Result<View<'_>, Refusal> {
        query.check(&self.config)?;
        let (window, instance) = self.instance(query, now_ms)?;
        let list = self.catalogue.list(&query.filter);
        let tree = instance.zip(list).and_then(|(instance, list)| self.trees.get(&(list, instance.id)));
        let is_highest_first = self.config.order == Order::Desc;
        let is_turned = query.highest.is_some_and(|highest| highest != is_highest_first);
        Ok(View { board: self, window, instance, list, tree, is_turned })
    }

    fn instance(&self, query: &Query, now_ms: i64) -> Result<(Window, Option<Instance>), Refusal> {
        let longest = if query.season.is_some() { Some(Window::Season) } else { self.calendar.longest() };
        let window = query.window.or(longest).expect("a board has a window");
        if let Some(season) = query.season {
            let found = self.calendar.season(season).filter(|_| window == Window::Season);
            let missing = || Refusal::not_found(format!("there is no season {season}, or not any more"));
            return found.map(|found| (window, Some(found))).ok_or_else(missing);
        }
        let Some(at_ms) = query.at_ms else {
            return Ok((window, self.calendar.current(window, self.now(now_ms))));
        };
        if window.rolling_ms().is_some() {
            return Err(Refusal::invalid("at", "a rolling window has no earlier ones"));
        }
        Ok((window, self.calendar.current(window, Arrival::first_of(at_ms))))
    }
}

fn check_per_page(query: &Query) -> Result<u32, Refusal> {
    match query.per_page {
        0 => Ok(PER_PAGE),
        per_page if per_page <= PER_PAGE_MAX => Ok(per_page),
        _ => Err(Refusal::invalid("per_page", format!("it is at most {PER_PAGE_MAX}"))),
    }
}

impl<'a> View<'a> {
    fn total(&self) -> usize {
        self.tree.map_or(0, Tree::len)
    }

    fn page(&self, page: u32, per_page: u32, total: usize, rows: Vec<Row>) -> Page {
        let season = self.instance.map(|it| it.season).filter(|_| self.window == Window::Season);
        Page { table: self.board.table.clone(), window: self.window, season, page, per_page, total, rows }
    }

    /// The rows at these places of the list as it is asked for.
    fn rows(&self, places: Range<usize>) -> Vec<Row> {
        let Some(tree) = self.tree else { return Vec::new() };
        let runs = if self.is_turned { self.turned(tree, places.clone()) } else { tree.rows(places.clone()) };
        (places.start + 1..).zip(runs).map(|(rank, run)| self.row(rank, run)).collect()
    }

    /// The list turned around, but among equals the first one stays first.
    fn turned(&self, tree: &Tree, places: Range<usize>) -> Vec<u32> {
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

    /// The positions of all rows with the same score and subscore as the one at a position.
    fn equals(&self, tree: &Tree, position: usize) -> Range<usize> {
        let runs = &self.board.runs;
        let key = runs.key(tree.row(position).expect("a position that there is"));
        let first = tree.rank(&Key { arrival: 0, ..key }, runs);
        first..tree.rank(&Key { arrival: u64::MAX, ..key }, runs)
    }

    /// Where a run of the list is, in the order that is asked for.
    fn position(&self, run: u32) -> Option<usize> {
        let tree = self.tree?;
        let position = tree.position(run, &self.board.runs.key(run))?;
        if !self.is_turned {
            return Some(position);
        }
        let equals = self.equals(tree, position);
        Some(tree.len() - equals.end + (position - equals.start))
    }

    /// All runs of a player in the list.
    fn runs_of(&self, player: u32) -> impl Iterator<Item = u32> {
        let best = self.row_of(player);
        let is_all = self.board.config.keep == Keep::All;
        let all = best.is_some() && is_all;
        let rows = self.board.runs.of(player).filter(move |run| all && self.is_here(*run));
        rows.chain(best.filter(|_| !is_all))
    }

    fn is_here(&self, run: u32) -> bool {
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

    fn friends(&self, friends: &[String], page: u32, per_page: u32) -> Result<Page, Refusal> {
        if friends.len() > FRIENDS_MAX {
            return Err(Refusal::invalid("friends", format!("there are at most {FRIENDS_MAX}")));
        }
        let runs = self.ranked(friends);
        let first = (page as usize - 1).saturating_mul(per_page as usize);
        let part = runs.iter().enumerate().skip(first).take(per_page as usize);
        let rows = part.map(|(at, (_, run))| self.row(at + 1, *run)).collect();
        Ok(self.page(page, per_page, runs.len(), rows))
    }

    /// The rows of these players with their positions, best first.
    fn ranked(&self, players: &[String]) -> Vec<(usize, u32)> {
        let players = players.iter().filter_map(|player| self.board.roster.find(player));
        let runs = players.flat_map(|player| self.runs_of(player));
        let mut runs: Vec<(usize, u32)> = runs.filter_map(|run| Some((self.position(run)?, run))).collect();
        runs.sort_unstable();
        runs.dedup();
        runs
    }

    fn of_player(&self, player: &str, per_page: u32) -> Page {
        let runs = self.ranked(&[player.to_owned()]);
        let mut rows: Vec<Row> =
            runs.iter().take(per_page as usize).map(|(at, run)| self.row(at + 1, *run)).collect();
        let held = self.board.held.iter().filter(|(_, held)| held.player == player);
        let instance = self.instance;
        let here = held.filter(|(id, _)| instance.is_some_and(|it| it.holds(Arrival(**id))));
        rows.extend(here.map(|(id, held)| self.held_row(Arrival(*id), held)));
        self.page(1, per_page, runs.len(), rows)
    }

    /// A row that waits for a moderator, with the rank that it would have.
    fn held_row(&self, arrival: Arrival, held: &Held) -> Row {
        let key = self.board.runs.key_of(held.score, held.subscore.unwrap_or(0), arrival);
        let before = self.tree.map_or(0, |tree| tree.rank(&key, &self.board.runs));
        self.board.held_row(before + 1, arrival, held)
    }

    fn newest(&self, page: u32, per_page: u32) -> Result<Page, Refusal> {
        let first = (page as usize - 1).saturating_mul(per_page as usize);
        let end = first.saturating_add(per_page as usize);
        if first > 0 && end > NEWEST_MAX {
            return Err(Refusal::invalid(
                "page",
                format!("by time, the newest {NEWEST_MAX} rows can be read"),
            ));
        }
        let runs = match self.tree {
            None => Vec::new(),
            Some(tree) if tree.len() <= SORTED_MAX => self.sorted_by_time(tree),
            Some(tree) => {
                let found = self.looked_up_by_time(end);
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

    fn looked_up_by_time(&self, most: usize) -> Vec<u32> {
        let run_of = |(arrival, player): (Arrival, u32)| {
            let mut runs =
                self.board.runs.of(player).take_while(move |run| self.board.runs.arrival(*run) >= arrival);
            runs.find(|run| self.board.runs.arrival(*run) == arrival && self.is_here(*run))
        };
        self.board.recent.newest().filter_map(run_of).take(most).collect()
    }

    fn row(&self, rank: usize, run: u32) -> Row {
        let board = self.board;
        let known = board.roster.get(board.runs.player(run));
        let run = board.runs.get(run);
        let attributes = board.catalogue.get(run.attributes);
        let decimal = |units: i64| Decimal { units, decimals: board.config.decimals };
        Row {
            rank,
            player: known.id.to_owned(),
            name: known.shown().to_owned(),
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
    /// A score that waits, as its player and moderators see it.
    pub fn held_row(&self, rank: usize, arrival: Arrival, held: &Held) -> Row {
        let decimal = |units: i64| Decimal { units, decimals: self.config.decimals };
        let name = if held.name.is_empty() { &held.player } else { &held.name };
        Row {
            rank,
            player: held.player.clone(),
            name: name.clone(),
            score: decimal(held.score),
            subscore: held.subscore.map(decimal),
            fields: held.attributes.fields.clone(),
            source: held.attributes.source.clone(),
            at: arrival.ms(),
            verified: false,
            submitted: false,
            quarantined: true,
        }
    }
}

impl Board {
    /// All rows of a player, by window.
    pub fn pages_of(&self, player: &str, now_ms: i64) -> Vec<Page> {
        let page = |window| {
            let player = Some(player.to_owned());
            let query = Query { window: Some(window), player, per_page: PER_PAGE_MAX, ..Query::default() };
            self.page(&query, now_ms).ok().filter(|page| !page.rows.is_empty())
        };
        self.config.windows.iter().filter_map(|window| page(*window)).collect()
    }
}

impl Query {
    /// Refuses what cannot be asked of a board together with a score: its page is in a current window.
    pub(super) fn check_with_score(&self, config: &Config) -> Result<(), Refusal> {
        check_per_page(self)?;
        let is_current = self.at_ms.is_none() && self.season.is_none();
        if !is_current || self.around.is_some() || self.player.is_some() {
            return Err(Refusal::invalid("window", "with a score, a page of a current window is listed"));
        }
        self.check(config)
    }

    fn check(&self, config: &Config) -> Result<(), Refusal> {
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
