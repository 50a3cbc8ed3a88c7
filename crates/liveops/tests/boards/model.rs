//! A board that keeps every run and sorts for each query.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use liveops::boards::{BoardCommand, BoardPage, BoardQuery, BoardUpdate, BoardWindow, SubmittedScore};

use crate::world::{Random, TZ, World};

pub(crate) use liveops::boards::KeepRule;

const DAY_MS: i64 = 86_400_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub keep: KeepRule,
    pub ascending: bool,
    pub decimals: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub player: String,
    units: i64,
    subscore: Option<i64>,
    car: Option<String>,
    source: Option<String>,
    /// Its number among all runs.
    turn: usize,
    ms: i64,
}

/// A kind of window that the board has.
#[derive(Clone, Default)]
struct WindowKind {
    /// Runs before this turn are not in it.
    since: usize,
    /// The starts of the retained calendar windows, newest first.
    begun: Vec<i64>,
    /// The first turn of each season.
    seasons: Vec<usize>,
}

pub(crate) struct Model {
    pub shape: Shape,
    table: String,
    pub runs: Vec<Run>,
    pub banned: BTreeSet<String>,
    kinds: BTreeMap<BoardWindow, WindowKind>,
    turns: usize,
    clock_ms: i64,
}

/// A row for comparison: rank, player, score, subscore, time.
type ModelRow = (usize, String, String, Option<String>, i64);

impl Model {
    pub(crate) fn new(number: usize, shape: Shape) -> Model {
        Model {
            shape,
            table: format!("board-{number}"),
            runs: Vec::new(),
            banned: BTreeSet::new(),
            kinds: BTreeMap::new(),
            turns: 0,
            clock_ms: 0,
        }
    }

    pub(crate) fn define(&mut self, world: &mut World, now_ms: i64) {
        let order = if self.shape.ascending { "asc" } else { "desc" };
        let change = serde_json::json!({
            "order": order, "keep": self.shape.keep, "decimals": self.shape.decimals, "filters": ["car"],
        });
        self.declare(world, change, &BoardWindow::ALL, now_ms);
    }

    /// Removes some windows, which may be declared again later, empty.
    pub(crate) fn redeclare(&mut self, world: &mut World, random: &mut Random, now_ms: i64) {
        let mut windows = BoardWindow::ALL.to_vec();
        for _ in 0..random.below(3) {
            windows.remove(random.below(windows.len() as u64) as usize);
        }
        self.declare(world, serde_json::json!({ "windows": windows }), &windows, now_ms);
    }

    fn declare(
        &mut self,
        world: &mut World,
        change: serde_json::Value,
        windows: &[BoardWindow],
        now_ms: i64,
    ) {
        let change: BoardUpdate = serde_json::from_value(change).expect("settings");
        world
            .send(BoardCommand::Define { table: self.table.clone(), change }, now_ms)
            .expect("settings are taken");
        self.begin(now_ms);
        self.kinds.retain(|window, _| windows.contains(window));
        for window in windows {
            let new = || WindowKind { since: self.turns, seasons: vec![self.turns], ..WindowKind::default() };
            self.kinds.entry(*window).or_insert_with(new);
        }
        self.begin(now_ms);
    }

    fn begin(&mut self, now_ms: i64) {
        self.clock_ms = self.clock_ms.max(now_ms);
        for (window, kind) in &mut self.kinds {
            let begins = start(*window, self.clock_ms);
            if kind.begun.first() != Some(&begins) {
                kind.begun.insert(0, begins);
                kind.begun.truncate(1 + window.retained());
            }
        }
    }

    pub(crate) fn reset(&mut self, world: &mut World, now_ms: i64, case: &str) {
        let response = world.send(BoardCommand::Reset { table: self.table.clone() }, now_ms);
        self.begin(now_ms);
        match self.kinds.get_mut(&BoardWindow::Season) {
            None => assert!(response.is_err(), "{case}"),
            Some(kind) => {
                kind.seasons.push(self.turns);
                assert_eq!(response.expect("a reset")["season"], kind.seasons.len(), "{case}");
            }
        }
    }

    pub(crate) fn submit(&mut self, world: &mut World, random: &mut Random, now_ms: i64, case: &str) {
        let run = self.random_run(random, now_ms);
        let decimal = |units: i64| self.text(units);
        let score = SubmittedScore {
            player: run.player.clone(),
            name: format!("{} the {}th", run.player, random.below(3)),
            score: decimal(run.units),
            subscore: run.subscore.map(decimal),
            fields: run.car.iter().map(|car| ("car".to_owned(), car.clone())).collect(),
            source: run.source.clone(),
            replace: random.below(3) == 0,
            ..SubmittedScore::default()
        };
        let replaces = score.replace && self.shape.keep == KeepRule::All;
        let list =
            (random.below(10) == 0).then(|| Box::new(BoardQuery { per_page: 3, ..BoardQuery::default() }));
        let is_listed = list.is_some();
        let response = world.send(BoardCommand::Submit { table: self.table.clone(), score, list }, now_ms);
        if self.banned.contains(&run.player) {
            assert!(response.is_err(), "{case}");
            return;
        }
        let response = response.unwrap_or_else(|refusal| panic!("{case}: {refusal}"));
        self.begin(now_ms);
        let before = self.own(&run.player);
        let run = Run { ms: self.clock_ms, ..run };
        let best = self.rows(&BoardQuery::default(), self.clock_ms).into_iter();
        if let Some(best) = best.into_iter().find(|row| replaces && row.player == run.player) {
            if self.key(&best) < self.key(&run) {
                assert_eq!(
                    (&response["saved"], &response["improved_by"]),
                    (&false.into(), &().into()),
                    "{case}"
                );
                assert_eq!(response["best"].to_string(), self.text(best.units), "{case}: {response}");
                return;
            }
            self.runs.retain(|other| other.turn != best.turn);
        }
        self.turns += 1;
        self.runs.push(run.clone());
        self.check_response(&run, before, &response, case);
        if is_listed {
            let rows = response["rows"].as_array().expect("rows");
            let marked: Vec<_> = rows.iter().filter(|row| row["submitted"] == true).collect();
            assert!(marked.len() == 1 && marked[0]["rank"] == response["rank"], "{case}: {response}");
        }
    }

    fn random_run(&self, random: &mut Random, now_ms: i64) -> Run {
        let value = |random: &mut Random, names: [&str; 3]| match random.below(4) {
            3 => None,
            at => Some(names[at as usize].to_owned()),
        };
        Run {
            player: random.player(),
            units: random.below(60) as i64 - 20,
            subscore: (random.below(3) == 0).then(|| random.below(5) as i64 - 2),
            car: value(random, ["red", "blue", "green"]),
            source: value(random, ["web", "shop", "disc"]),
            turn: self.turns,
            ms: now_ms,
        }
    }

    /// Returns the player's best row in the longest window.
    fn own(&self, player: &str) -> Option<i64> {
        let rows = self.rows(&BoardQuery::default(), self.clock_ms);
        rows.iter().find(|row| row.player == player).map(|row| row.units)
    }

    fn check_response(&self, run: &Run, before: Option<i64>, response: &serde_json::Value, case: &str) {
        let best = self.own(&run.player);
        assert_eq!(
            response["best"].to_string(),
            best.map_or("null".to_owned(), |best| self.text(best)),
            "{case}: {response}"
        );
        let gain = best
            .zip(before)
            .map(|(best, before)| if self.shape.ascending { before - best } else { best - before });
        let gain = gain.filter(|gain| *gain > 0).map_or("null".to_owned(), |gain| self.text(gain));
        assert_eq!(response["improved_by"].to_string(), gain, "{case}: {response}");
        let mut saved = false;
        for window in self.kinds.keys() {
            let rows =
                self.rows(&BoardQuery { window: Some(*window), ..BoardQuery::default() }, self.clock_ms);
            let is_own = |row: &&Run| match self.shape.keep {
                KeepRule::All => row.turn == run.turn,
                _ => row.player == run.player,
            };
            let place = rows.iter().position(|row| is_own(&row));
            let rank = &response["ranks"][window.label()];
            assert_eq!(
                rank.as_u64(),
                place.map(|place| place as u64 + 1),
                "{case}: {} {response}",
                window.label()
            );
            saved |= place.is_some_and(|place| rows[place].turn == run.turn);
        }
        assert_eq!(response["saved"], saved, "{case}: {response}");
    }

    /// Compares the page of a random query.
    pub(crate) fn read(&self, world: &World, random: &mut Random, now_ms: i64, case: &str) {
        let query = self.random_query(random, now_ms);
        let now_ms = self.moment(random, now_ms);
        let page = world.page(&self.table, &query, now_ms);
        let case = format!("{case}, {query:?}");
        if !self.has(&query) {
            assert!(page.is_err(), "{case}: {page:?}");
            return;
        }
        let page = page.unwrap_or_else(|refusal| panic!("{case}: {refusal}"));
        let (total, rows) = self.page(&query, self.clock_ms.max(now_ms));
        let found: Vec<ModelRow> = model_rows(&page);
        assert_eq!((page.total, found), (total, rows), "{case}");
    }

    /// Returns now, or the time at which a run leaves a rolling window, or the millisecond before.
    fn moment(&self, random: &mut Random, now_ms: i64) -> i64 {
        let length_ms = BoardWindow::ALL[5 + random.below(3) as usize].rolling_ms().expect("a rolling one");
        let run = self.runs.get(random.below(1 + self.runs.len() as u64) as usize);
        let leaves_ms = run.map_or(0, |run| run.ms + length_ms) - random.below(2) as i64;
        if leaves_ms < now_ms || random.below(2) == 0 { now_ms } else { leaves_ms }
    }

    fn random_query(&self, random: &mut Random, now_ms: i64) -> BoardQuery {
        let mut query = BoardQuery {
            per_page: 1 + random.below(6) as u32,
            page: random.below(4) as u32,
            ..BoardQuery::default()
        };
        if random.below(8) > 0 {
            query.window = Some(BoardWindow::ALL[random.below(8) as usize]);
        }
        if random.below(3) == 0 {
            query
                .filter
                .insert("car".to_owned(), ["red", "blue", "black"][random.below(3) as usize].to_owned());
        }
        if random.below(4) == 0 {
            query.filter.insert(":source".to_owned(), ["web", "shop"][random.below(2) as usize].to_owned());
        }
        match random.below(9) {
            0 => query.newest = true,
            1 | 2 => query.highest = Some(random.below(2) == 0),
            3 => query.around = Some(random.player()),
            4 => query.friends = Some((0..random.below(9)).map(|_| random.player()).collect()),
            5 => query.player = Some(random.player()),
            6 => {
                query.window =
                    Some([BoardWindow::Day, BoardWindow::Week, BoardWindow::Month][random.below(3) as usize]);
                query.at_ms = Some(now_ms - random.below(90 * DAY_MS as u64) as i64);
            }
            7 => query.season = Some(1 + random.below(20) as u32),
            _ => {}
        }
        query
    }

    /// Returns true if the board has the window of a query.
    fn has(&self, query: &BoardQuery) -> bool {
        let window = self.window(query);
        let Some(kind) = self.kinds.get(&window) else { return false };
        let newest = kind.seasons.len() as u32;
        query
            .season
            .is_none_or(|season| window == BoardWindow::Season && season <= newest && season + 12 >= newest)
    }

    fn window(&self, query: &BoardQuery) -> BoardWindow {
        let longest = BoardWindow::BY_LENGTH.into_iter().find(|window| self.kinds.contains_key(window));
        let unsaid = if query.season.is_some() { Some(BoardWindow::Season) } else { longest };
        query.window.or(unsaid).expect("a window")
    }

    fn page(&self, query: &BoardQuery, now_ms: i64) -> (usize, Vec<ModelRow>) {
        let mut rows = self.rows(query, now_ms);
        if query.highest.is_some_and(|highest| highest == self.shape.ascending) {
            rows.sort_by_key(|row| {
                let key = self.key(row);
                (Reverse(key.0), Reverse(key.1), key.2)
            });
        }
        let mut rows: Vec<(usize, Run)> =
            rows.into_iter().enumerate().map(|(at, row)| (at + 1, row)).collect();
        let (mut first, size) =
            ((query.page.max(1) as usize - 1) * query.per_page as usize, query.per_page as usize);
        if let Some(friends) = &query.friends {
            rows.retain(|(_, row)| friends.contains(&row.player));
            rows.iter_mut().enumerate().for_each(|(at, row)| row.0 = at + 1);
        } else if let Some(player) = &query.player {
            rows.retain(|(_, row)| row.player == *player);
            first = 0;
        } else if query.newest {
            rows.sort_by_key(|(_, row)| Reverse(row.turn));
        } else if let Some(player) = &query.around {
            // Of several rows the best one, whichever order the query has.
            let own = rows.iter().filter(|(_, row)| row.player == *player);
            let best = own.min_by_key(|(_, row)| self.key(row)).map(|(rank, _)| rank - 1);
            let Some(place) = best else { return (rows.len(), Vec::new()) };
            first = place.saturating_sub(size / 2).min(rows.len().saturating_sub(size));
        }
        let total = rows.len();
        let model_row = |(rank, row): (usize, Run)| {
            (rank, row.player, self.text(row.units), row.subscore.map(|units| self.text(units)), row.ms)
        };
        (total, rows.into_iter().skip(first).take(size).map(model_row).collect())
    }

    /// Returns the rows of a list, best first.
    fn rows(&self, query: &BoardQuery, now_ms: i64) -> Vec<Run> {
        let window = self.window(query);
        let Some(kind) = self.kinds.get(&window) else { return Vec::new() };
        let turns = self.turns_of(kind, query, window);
        let is_in_time = |run: &Run| match (window.rolling_ms(), query.at_ms) {
            (Some(length_ms), _) => now_ms - run.ms < length_ms,
            (None, at_ms) => {
                let begins = start(window, at_ms.unwrap_or(now_ms));
                query.season.is_some() || (kind.begun.contains(&begins) && start(window, run.ms) == begins)
            }
        };
        let here = self
            .runs
            .iter()
            .filter(|run| turns.contains(&run.turn) && is_in_time(run) && answers(run, query));
        let mut rows = self.kept(here.filter(|run| !self.banned.contains(&run.player)));
        rows.sort_by_key(|row| self.key(row));
        rows
    }

    fn turns_of(&self, kind: &WindowKind, query: &BoardQuery, window: BoardWindow) -> std::ops::Range<usize> {
        if window != BoardWindow::Season {
            return kind.since..usize::MAX;
        }
        let newest = kind.seasons.len();
        let season = query.season.map_or(newest, |season| season as usize);
        let end = kind.seasons.get(season).copied().unwrap_or(usize::MAX);
        kind.seasons[season - 1]..end
    }

    fn kept<'a>(&self, runs: impl Iterator<Item = &'a Run>) -> Vec<Run> {
        let mut rows: Vec<Run> = Vec::new();
        for run in runs {
            let own =
                rows.iter_mut().find(|row| row.player == run.player && self.shape.keep != KeepRule::All);
            match (own, self.shape.keep) {
                (None, _) | (_, KeepRule::All) => rows.push(run.clone()),
                (Some(row), KeepRule::Best) if self.key(run) >= self.key(row) => {}
                (Some(row), KeepRule::Best | KeepRule::Last) => *row = run.clone(),
                (Some(row), KeepRule::Sum) => *row = Run { units: row.units + run.units, ..run.clone() },
            }
        }
        rows
    }

    fn key(&self, run: &Run) -> (i64, i64, usize) {
        let turn = if self.shape.ascending { 1 } else { -1 };
        (turn * run.units, turn * run.subscore.unwrap_or(0), run.turn)
    }

    fn text(&self, units: i64) -> String {
        let scale = 10_i64.pow(u32::from(self.shape.decimals));
        let text = format!(
            "{}.{:0width$}",
            units.abs() / scale,
            units.abs() % scale,
            width = self.shape.decimals as usize
        );
        let text = match self.shape.decimals {
            0 => (units.abs()).to_string(),
            _ => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        };
        if units < 0 { format!("-{text}") } else { text }
    }
}

fn model_rows(page: &BoardPage) -> Vec<ModelRow> {
    let rows = page.rows.iter().map(|row| {
        let subscore = row.subscore.map(|it| it.to_string());
        (row.rank, row.player.clone(), row.score.to_string(), subscore, row.at)
    });
    rows.collect()
}

fn answers(run: &Run, query: &BoardQuery) -> bool {
    query.filter.iter().all(|(name, value)| match name.as_str() {
        "car" => run.car.as_ref() == Some(value),
        _ => run.source.as_ref() == Some(value),
    })
}

/// Returns the start of the calendar window that contains a time; 0 for other kinds.
fn start(window: BoardWindow, ms: i64) -> i64 {
    let zone = TimeZone::get(TZ).expect("a zone");
    let date = Timestamp::from_millisecond(ms).expect("a time").to_zoned(zone.clone()).date();
    let date = match window {
        BoardWindow::Day => date,
        BoardWindow::Week => date - i64::from(date.weekday().to_monday_zero_offset()).days(),
        BoardWindow::Month => date.first_of_month(),
        _ => return 0,
    };
    date.to_zoned(zone).expect("in range").timestamp().as_millisecond()
}
