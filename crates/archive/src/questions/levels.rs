//! How players fare in each level, and where on a map things happen.
//!
//! Levels are counted from the events `$level` with the property `state`: start, win, retry, quit or flag. The time of a
//! win is that since the player's last start or retry of the level in the range; a win without one has none, and a win
//! or quit ends the attempt. Heatmaps count the events `$heat` with the properties `map`, `metric`, `x` and `y`.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use model::limits::PROP_STRING_BYTES_MAX;
use model::query::{QueryError, QueryStopped};
use rustc_hash::FxBuildHasher;
use serde_json::{Map, Value, json};

use super::answer::{Answer, RowsTooLarge, number};
use super::filter::{CodeTable, Condition, ConditionBudget, Operand, Test};
use super::groups::Groups;
use super::limits::{HEAT_CELLS_MAX, LEVELS_MAX};
use super::measures::{Distribution, Measured, number_of};
use super::request::{Fields, WindowRequest, days, object};
use super::select::{EventPattern, Selector};
use super::walk::{Metered, PlayerQuestion, walk_players};
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Column, Field, Value as Cell};
use crate::scan::{Order, ScanRequest};

const DEFAULT_DAYS: u32 = 30;
const DEFAULT_TOP: usize = 100;
const DEFAULT_HEAT_CELLS: usize = 64;
/// In the order of [`LevelCounts::states`].
const STATES: [&str; 5] = ["start", "win", "retry", "quit", "flag"];
const START: u8 = 0;
const WIN: u8 = 1;
const RETRY: u8 = 2;
const QUIT: u8 = 3;

/// A question about the levels of a game.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    window: WindowRequest,
    filter: Condition,
    by_version: bool,
    top: usize,
}

/// The answer of [`Levels`].
#[derive(Clone, Debug, PartialEq)]
pub struct LevelsAnswer {
    /// The levels with the most starts, the most started one first.
    pub levels: Vec<LevelCounts>,
    /// How many levels, or levels and versions, there are in all.
    pub found: usize,
}

/// What happened in one level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelCounts {
    /// The level.
    pub level: String,
    /// The version of the game, if the question asks for each.
    pub version: Option<String>,
    /// The number of starts, wins, retries, quits and flags.
    pub states: [u64; 5],
    /// Players with any of these events.
    pub players: u64,
    /// The median time from the start to the win, in seconds.
    pub median_s: Option<f64>,
}

impl Levels {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<Levels, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a levels question");
        let top = fields.optional("top").map(|top| top.integer(1..=LEVELS_MAX as u64)).transpose()?;
        let version = |by: &str| (by == "version").then_some(true);
        let levels = Levels {
            window: WindowRequest::read(&mut fields)?,
            filter: Condition::read(&mut fields, &mut ConditionBudget::default())?,
            by_version: fields.optional("by").map_or(Ok(false), |by| by.choice(version, "version"))?,
            top: top.map_or(DEFAULT_TOP, |top| top as usize),
        };
        fields.end()?;
        Ok(levels)
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.filter.insert_cohorts(&mut names);
        names
    }

    /// Answers the question.
    pub fn run(&self, context: &Context<'_>) -> Result<LevelsAnswer, QuestionFailure> {
        let window = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?;
        let mut columns = FieldList::default();
        let pattern = EventPattern { event: Some("$level".to_owned()), filter: Condition::always() };
        let by = [Field::Level, Field::Version];
        let mut walk = LevelsWalk {
            selector: Selector::new(&[pattern], &self.filter, &mut columns, context.cohorts)?,
            levels: Groups::new(&by[..1], &mut columns),
            groups: Groups::new(if self.by_version { &by } else { &by[..1] }, &mut columns),
            state_column: columns.index(&Field::Property("state".into())),
            states: CodeTable::default(),
            results: Vec::new(),
            started: HashMap::default(),
            seen: HashSet::default(),
        };
        let events = walk.selector.events();
        walk_players(&mut walk, context, columns, window.times, events)?;
        Ok(walk.answer(self))
    }
}

#[derive(Clone, Default)]
struct LevelResult {
    states: [u64; 5],
    players: u64,
    times: Distribution,
}

struct LevelsWalk {
    selector: Selector,
    levels: Groups,
    groups: Groups,
    state_column: usize,
    states: CodeTable<u8>,
    results: Vec<LevelResult>,
    /// When each player of the range last started each level.
    started: HashMap<(u64, u32), i64, FxBuildHasher>,
    seen: HashSet<(u64, u32), FxBuildHasher>,
}

/// An event of a level; `state` is the index of its state.
#[derive(Clone, Copy)]
struct LevelRow {
    level: u32,
    group: u32,
    state: u8,
}

impl PlayerQuestion for LevelsWalk {
    type State = ();
    type Row = LevelRow;

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        self.levels.start_chunk(chunk);
        self.groups.start_chunk(chunk);
        std::mem::swap(rows, &mut self.selector.rows);
        let Column::Coded { codes, dictionary } = &chunk.columns[self.state_column] else {
            return rows.clear();
        };
        self.states.of(dictionary, |value| {
            let state = STATES.iter().position(|state| value == Some(Cell::Text(state)));
            state.map_or(u8::MAX, |state| state as u8)
        });
        rows.retain(|row| self.states.item(codes[*row as usize]) != u8::MAX);
    }

    fn read(&mut self, chunk: &Chunk, row: usize) -> LevelRow {
        let state = match &chunk.columns[self.state_column] {
            Column::Coded { codes, .. } => self.states.item(codes[row]),
            _ => unreachable!("only rows with a state are selected"),
        };
        LevelRow { level: self.levels.group_of(chunk, row), group: self.groups.group_of(chunk, row), state }
    }

    fn step(&mut self, (): &mut (), player: u64, time_ms: i64, row: LevelRow) {
        let group = row.group as usize;
        if group >= self.results.len() {
            self.results.resize_with(group + 1, LevelResult::default);
        }
        let result = &mut self.results[group];
        result.states[usize::from(row.state)] += 1;
        result.players += u64::from(self.seen.insert((player, row.group)));
        match row.state {
            START | RETRY => drop(self.started.insert((player, row.level), time_ms)),
            WIN => {
                if let Some(started) = self.started.remove(&(player, row.level)) {
                    result.times.insert((time_ms - started) as f64 / 1_000.0);
                }
            }
            QUIT => drop(self.started.remove(&(player, row.level))),
            _ => {}
        }
    }

    fn finish(&mut self, _: u64, (): &()) {}

    fn end_range(&mut self) {
        self.started.clear();
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        let times: usize = self.results.iter().take(1_000).map(|result| result.times.heap_bytes()).sum();
        self.levels.bytes()
            + self.groups.bytes()
            + self.results.capacity() * size_of::<LevelResult>()
            + times / self.results.len().clamp(1, 1_000) * self.results.len()
            + self.started.capacity() * 25
            + self.seen.capacity() * 17
    }
}

impl LevelsWalk {
    fn answer(self, question: &Levels) -> LevelsAnswer {
        let mut levels: Vec<LevelCounts> = Vec::with_capacity(self.results.len());
        for (group, result) in self.results.into_iter().enumerate().filter(|(_, result)| result.players > 0) {
            let mut key = self.groups.key(group as u32).into_iter();
            levels.push(LevelCounts {
                level: key.next().unwrap_or_default(),
                version: key.next(),
                states: result.states,
                players: result.players,
                median_s: result.times.quantile(0.5),
            });
        }
        let starts = |counts: &LevelCounts| std::cmp::Reverse(counts.states[usize::from(START)]);
        levels.sort_by(|one, other| {
            starts(one)
                .cmp(&starts(other))
                .then_with(|| (&one.level, &one.version).cmp(&(&other.level, &other.version)))
        });
        let found = levels.len();
        levels.truncate(question.top);
        LevelsAnswer { levels, found }
    }
}

impl LevelCounts {
    fn cells(&self) -> Vec<Value> {
        let [starts, wins, retries, quits, flags] = self.states;
        let win_rate = (starts + retries > 0).then(|| wins as f64 / (starts + retries) as f64);
        vec![
            json!(self.level),
            json!(self.version),
            json!(starts),
            json!(wins),
            json!(retries),
            json!(quits),
            json!(flags),
            json!(self.players),
            number(win_rate),
            number(self.median_s),
        ]
    }
}

impl Answer for LevelsAnswer {
    fn fields(&self) -> Map<String, Value> {
        let columns = self.columns();
        let level = |level: &LevelCounts| columns.iter().cloned().zip(level.cells()).collect::<Map<_, _>>();
        let mut fields = Map::new();
        fields.insert("found".to_owned(), self.found.into());
        fields.insert("levels".to_owned(), self.levels.iter().map(|one| Value::from(level(one))).collect());
        fields
    }

    fn columns(&self) -> Vec<String> {
        let columns = [
            "level", "version", "starts", "wins", "retries", "quits", "flags", "players", "win_rate",
            "median_s",
        ];
        columns.map(str::to_owned).to_vec()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        self.levels.iter().try_for_each(|level| put(level.cells()))
    }
}

/// A question about points on a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap {
    window: WindowRequest,
    filter: Condition,
    columns: usize,
    rows: usize,
    bounds: Option<HeatBounds>,
}

/// The part of a map that a heatmap shows. Points on its edges are inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeatBounds {
    /// The left edge.
    pub x_min: f64,
    /// The right edge.
    pub x_max: f64,
    /// One edge in the direction of y.
    pub y_min: f64,
    /// The other edge in the direction of y.
    pub y_max: f64,
}

/// The answer of [`Heatmap`].
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapAnswer {
    /// What the cells cover; `None` if there are no points.
    pub bounds: Option<HeatBounds>,
    /// Cells in the direction of x.
    pub columns: usize,
    /// Row by row, from the smallest y on.
    pub cells: Vec<u64>,
    /// Points outside of the bounds.
    pub outside: u64,
}

impl Heatmap {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<Heatmap, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a heatmap");
        let mut equal = |name: &str| -> Result<Condition, QueryError> {
            let text = fields.required(name)?.name(PROP_STRING_BYTES_MAX)?.to_owned();
            let test = Test::Equal(Operand::of_text(&text));
            Ok(Condition::Compare { field: Field::Property(name.into()), test })
        };
        let (on_map, metric) = (equal("map")?, equal("metric")?);
        let mut cells = |name: &str| {
            let cells = fields.optional(name).map(|cells| cells.integer(1..=HEAT_CELLS_MAX as u64));
            cells.transpose().map(|cells| cells.map_or(DEFAULT_HEAT_CELLS, |cells| cells as usize))
        };
        let (columns, rows) = (cells("columns")?, cells("rows")?);
        let filter = Condition::read(&mut fields, &mut ConditionBudget::default())?;
        let heatmap = Heatmap {
            window: WindowRequest::read(&mut fields)?,
            filter: Condition::All(vec![on_map, metric, filter]),
            columns,
            rows,
            bounds: read_bounds(&mut fields)?,
        };
        fields.end()?;
        Ok(heatmap)
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.filter.insert_cohorts(&mut names);
        names
    }

    /// Answers the question. Without bounds, the events are read twice: the bounds are those of the points.
    pub fn run(&self, context: &Context<'_>) -> Result<HeatmapAnswer, QuestionFailure> {
        let window = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?;
        let mut found: Option<HeatBounds> = None;
        if self.bounds.is_none() {
            self.each_point(context, &window.times, &mut |x, y| {
                let bounds = found.get_or_insert(HeatBounds { x_min: x, x_max: x, y_min: y, y_max: y });
                (bounds.x_min, bounds.x_max) = (bounds.x_min.min(x), bounds.x_max.max(x));
                (bounds.y_min, bounds.y_max) = (bounds.y_min.min(y), bounds.y_max.max(y));
            })?;
        }
        let bounds = self.bounds.or(found);
        let mut answer = HeatmapAnswer {
            bounds,
            columns: self.columns,
            cells: vec![0; self.columns * self.rows],
            outside: 0,
        };
        if let Some(bounds) = bounds {
            self.each_point(context, &window.times, &mut |x, y| match (
                place(x, bounds.x_min, bounds.x_max, self.columns),
                place(y, bounds.y_min, bounds.y_max, self.rows),
            ) {
                (Some(column), Some(row)) => answer.cells[row * self.columns + column] += 1,
                _ => answer.outside += 1,
            })?;
        }
        Ok(answer)
    }

    fn each_point(
        &self,
        context: &Context<'_>,
        times: &std::ops::Range<i64>,
        point: &mut dyn FnMut(f64, f64),
    ) -> Result<(), QuestionFailure> {
        let mut columns = FieldList::default();
        let pattern = EventPattern { event: Some("$heat".to_owned()), filter: Condition::always() };
        let mut selector = Selector::new(&[pattern], &self.filter, &mut columns, context.cohorts)?;
        let [x, y] = ["x", "y"].map(|name| columns.index(&Field::Property(name.into())));
        let request = ScanRequest {
            times: times.clone(),
            fields: columns.fields().to_vec(),
            events: selector.events(),
            players: 0..=u64::MAX,
            order: Order::Any,
        };
        let control = Metered::new(context.control);
        context.progress.start(1);
        context.source.scan(&request, &control, &mut |chunk| -> Result<(), QueryStopped> {
            selector.select(chunk, context.links);
            for row in selector.rows.iter().map(|row| *row as usize) {
                let (x, y) = (number_of(&chunk.columns[x], row), number_of(&chunk.columns[y], row));
                if let (Some(x), Some(y)) = (x, y) {
                    point(x, y);
                }
            }
            context.progress.add_rows(chunk.rows());
            control.set(self.columns * self.rows * size_of::<u64>())
        })?;
        context.progress.end_range();
        Ok(())
    }
}

fn read_bounds(fields: &mut Fields) -> Result<Option<HeatBounds>, QueryError> {
    let Some(item) = fields.optional("bounds") else { return Ok(None) };
    let mut fields = item.fields("bounds")?;
    let mut edge = |name: &str| fields.required(name)?.number();
    let bounds = HeatBounds {
        x_min: edge("x_min")?,
        x_max: edge("x_max")?,
        y_min: edge("y_min")?,
        y_max: edge("y_max")?,
    };
    fields.end()?;
    match bounds {
        HeatBounds { x_min, x_max, .. } if x_min >= x_max => {
            Err(QueryError::new("bounds.x_min", "must be less than x_max"))
        }
        HeatBounds { y_min, y_max, .. } if y_min >= y_max => {
            Err(QueryError::new("bounds.y_min", "must be less than y_max"))
        }
        bounds => Ok(Some(bounds)),
    }
}

/// Returns the cell of a coordinate, if it is within the edges.
fn place(at: f64, min: f64, max: f64, cells: usize) -> Option<usize> {
    if !(min..=max).contains(&at) {
        return None;
    }
    // Halves first, so that no difference is beyond the range of f64.
    let share = (at / 2.0 - min / 2.0) / (max / 2.0 - min / 2.0);
    Some(if share.is_nan() { 0 } else { ((share * cells as f64) as usize).min(cells - 1) })
}

impl Answer for HeatmapAnswer {
    fn fields(&self) -> Map<String, Value> {
        let bounds = self.bounds.map(|bounds| {
            json!({
                "x_min": number(Some(bounds.x_min)), "x_max": number(Some(bounds.x_max)),
                "y_min": number(Some(bounds.y_min)), "y_max": number(Some(bounds.y_max)),
            })
        });
        let rows: Vec<&[u64]> = self.cells.chunks(self.columns).collect();
        let mut fields = Map::new();
        fields.insert("bounds".to_owned(), json!(bounds));
        fields.insert("cells".to_owned(), json!(rows));
        fields.insert("outside".to_owned(), self.outside.into());
        fields
    }

    fn columns(&self) -> Vec<String> {
        ["column", "row", "count"].map(str::to_owned).to_vec()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        let used = self.cells.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(at, count)| vec![json!(at % self.columns), json!(at / self.columns), json!(count)])
            .try_for_each(put)
    }
}
