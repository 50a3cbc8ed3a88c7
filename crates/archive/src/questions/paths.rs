//! What players do before or after an event.
//!
//! # Rules
//! - Every occurrence of the starting event begins a path. An event can be on several paths, at a different distance on
//!   each.
//! - The node at distance n is the nth event after (or before) the starting event.
//! - With `collapse`, an event that repeats directly is one event, which is a starting event if any of the repeats is.
//! - At each distance, the events with the most occurrences have nodes of their own; the others share `(other)`.
//! - `count` is the number of paths through a node or link, `players` the number of players whose paths these are.

use std::collections::BTreeSet;

use model::limits::NAME_BYTES_MAX;
use model::query::QueryError;
use serde_json::{Map, Value, json};

use super::answer::{Answer, RowsTooLarge};
use super::filter::{Condition, ConditionBudget, Test};
use super::groups::{Groups, OTHER};
use super::limits::{PATH_DEPTH_MAX, PATH_EXCLUDED_MAX, PATH_TOP_MAX};
use super::request::{Fields, WindowRequest, days, object};
use super::select::{EventPattern, Selector};
use super::walk::{PlayerQuestion, walk_players};
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Field};

const DEFAULT_DAYS: u32 = 30;
const DEFAULT_DEPTH: usize = 5;
const DEFAULT_TOP: usize = 8;

/// A question about the events before or after another.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    window: WindowRequest,
    filter: Condition,
    start: EventPattern,
    is_before: bool,
    depth: usize,
    top: usize,
    collapse: bool,
}

/// The answer of [`Paths`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PathsAnswer {
    /// By distance, then by count.
    pub nodes: Vec<PathNode>,
    /// From the earlier event to the later one.
    pub links: Vec<PathLink>,
}

/// An event at a distance from the starting event.
#[derive(Clone, Debug, PartialEq)]
pub struct PathNode {
    /// 0 is the starting event.
    pub distance: usize,
    /// The event's name, or `(other)`.
    pub event: String,
    /// Paths through the node.
    pub count: u64,
    /// Players of these paths.
    pub players: u64,
}

/// Two events that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLink {
    /// The index of the earlier node.
    pub from: usize,
    /// The index of the later node.
    pub to: usize,
    /// Paths through the link.
    pub count: u64,
    /// Players of these paths.
    pub players: u64,
}

impl Paths {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<Paths, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a paths question");
        let mut budget = ConditionBudget::default();
        let event = fields.required("event")?.name(NAME_BYTES_MAX)?.to_owned();
        let is_before = |direction: &str| match direction {
            "before" => Some(true),
            "after" => Some(false),
            _ => None,
        };
        let depth = fields.optional("depth").map(|depth| depth.integer(1..=PATH_DEPTH_MAX as u64));
        let top = fields.optional("top").map(|top| top.integer(1..=PATH_TOP_MAX as u64));
        let start = fields.optional("start");
        let start = match start {
            None => Condition::always(),
            Some(start) => {
                let mut fields = start.fields("a start")?;
                let filter = Condition::read(&mut fields, &mut budget)?;
                fields.end()?;
                filter
            }
        };
        let excluded = read_excluded(&mut fields, &event)?;
        let filter = Condition::read(&mut fields, &mut budget)?;
        let paths = Paths {
            window: WindowRequest::read(&mut fields)?,
            filter: Condition::All([filter].into_iter().chain(excluded).collect()),
            start: EventPattern { event: Some(event), filter: start },
            is_before: fields
                .optional("direction")
                .map_or(Ok(false), |item| item.choice(is_before, "after or before"))?,
            depth: depth.transpose()?.map_or(DEFAULT_DEPTH, |depth| depth as usize),
            top: top.transpose()?.map_or(DEFAULT_TOP, |top| top as usize),
            collapse: fields.optional("collapse").map_or(Ok(true), |collapse| collapse.flag())?,
        };
        fields.end()?;
        Ok(paths)
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        [&self.filter, &self.start.filter].into_iter().for_each(|filter| filter.insert_cohorts(&mut names));
        names
    }

    /// Answers the question. The events are read twice: to find the top nodes, and to count what leads to them.
    pub fn run(&self, context: &Context<'_>) -> Result<PathsAnswer, QuestionFailure> {
        let window = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?;
        let counts = self.walk(context, &window.times, NodeCounts::default())?;
        let mut tops = counts.tally.top(&counts.names, self.top);
        tops.truncate(self.depth + 1);
        let linked = self.walk(context, &window.times, LinkCounts::new(tops, self.top))?;
        Ok(linked.tally.answer(self.is_before))
    }

    fn walk<T: Tally>(
        &self,
        context: &Context<'_>,
        times: &std::ops::Range<i64>,
        tally: T,
    ) -> Result<PathsWalk<'_, T>, QuestionFailure> {
        let mut columns = FieldList::default();
        let any = EventPattern { event: None, filter: Condition::always() };
        let patterns = [self.start.clone(), any];
        let selector = Selector::new(&patterns, &self.filter, &mut columns, context.cohorts)?;
        let names = Groups::new(&[Field::Event], &mut columns);
        let mut walk = PathsWalk { question: self, selector, names, tally };
        walk_players(&mut walk, context, columns, times.clone(), None)?;
        Ok(walk)
    }
}

/// Reads `exclude`: the names of events that paths ignore.
fn read_excluded(fields: &mut Fields, event: &str) -> Result<Option<Condition>, QueryError> {
    let Some(item) = fields.optional("exclude") else { return Ok(None) };
    let names = item.list("a list of event names")?;
    if names.len() > PATH_EXCLUDED_MAX {
        return Err(item.must_be(&format!("at most {PATH_EXCLUDED_MAX} event names")));
    }
    let mut operands = Vec::with_capacity(names.len());
    for name in names {
        if name.name(NAME_BYTES_MAX)? == event {
            return Err(QueryError::new(name.path, "must not be the event that paths start from"));
        }
        operands.push(super::filter::Operand::of_text(name.text()?));
    }
    let excluded = Condition::Compare { field: Field::Event, test: Test::In(operands) };
    Ok(Some(Condition::Not(Box::new(excluded))))
}

/// The last events of a player, the latest first.
#[derive(Clone, Copy, Default)]
struct Recent {
    events: [u32; PATH_DEPTH_MAX + 1],
    /// A bit for each of them that is a starting event.
    starts: u16,
    count: u8,
    /// What the tally keeps of the player; 0 if nothing yet.
    slot: u32,
}

/// What is counted while paths are followed. Distances of nodes are those from the starting event.
trait Tally {
    /// Adds a starting event. `slot` is the player's.
    fn add_start(&mut self, slot: &mut u32, event: u32, names: &Groups);
    /// Adds an event at a distance, and its neighbour at the distance before.
    fn add_link(&mut self, slot: &mut u32, distance: usize, nearer: u32, event: u32, names: &Groups);
    fn end_range(&mut self) {}
    fn bytes(&self) -> usize;
}

struct PathsWalk<'a, T> {
    question: &'a Paths,
    selector: Selector,
    names: Groups,
    tally: T,
}

impl<T: Tally> PlayerQuestion for PathsWalk<'_, T> {
    type State = Recent;
    type Row = (bool, u32);

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        self.names.start_chunk(chunk);
        std::mem::swap(rows, &mut self.selector.rows);
    }

    fn read(&mut self, chunk: &Chunk, row: usize) -> (bool, u32) {
        (self.selector.bits[row] & 1 == 1, self.names.group_of(chunk, row))
    }

    fn step(&mut self, state: &mut Recent, _: u64, _: i64, (is_start, event): (bool, u32)) {
        let repeats = self.question.collapse && state.count > 0 && state.events[0] == event;
        if repeats && (!is_start || state.starts & 1 == 1) {
            return;
        }
        if repeats {
            state.starts |= 1;
        } else {
            state.events.copy_within(..PATH_DEPTH_MAX, 1);
            state.events[0] = event;
            state.starts = state.starts << 1 | u16::from(is_start);
            state.count = (state.count + 1).min(PATH_DEPTH_MAX as u8 + 1);
            if !self.question.is_before {
                for distance in (1..=self.question.depth).filter(|distance| state.starts >> distance & 1 == 1)
                {
                    self.tally.add_link(&mut state.slot, distance, state.events[1], event, &self.names);
                }
            }
        }
        if !is_start {
            return;
        }
        self.tally.add_start(&mut state.slot, event, &self.names);
        if self.question.is_before {
            let reach = self.question.depth.min(usize::from(state.count) - 1);
            for distance in 1..=reach {
                let (nearer, further) = (state.events[distance - 1], state.events[distance]);
                self.tally.add_link(&mut state.slot, distance, nearer, further, &self.names);
            }
        }
    }

    fn finish(&mut self, _: u64, _: &Recent) {}

    fn end_range(&mut self) {
        self.tally.end_range();
    }

    fn bytes(&self) -> usize {
        self.names.bytes() + self.tally.bytes()
    }
}

/// The occurrences of each event at each distance, by the event's number.
#[derive(Default)]
struct NodeCounts([Vec<u64>; PATH_DEPTH_MAX + 1]);

impl NodeCounts {
    #[inline]
    fn add(&mut self, distance: usize, event: u32) {
        let counts = &mut self.0[distance];
        if event as usize >= counts.len() {
            counts.resize(event as usize + 1, 0);
        }
        counts[event as usize] += 1;
    }

    /// Returns the names of the events that get a node at each distance, the most frequent first.
    fn top(&self, names: &Groups, top: usize) -> Vec<Vec<String>> {
        let of_distance = |counts: &Vec<u64>| {
            let used = counts.iter().zip(0u32..).filter(|(count, _)| **count > 0);
            let mut ranked: Vec<(u64, String)> =
                used.map(|(count, event)| (*count, names.key(event).swap_remove(0))).collect();
            ranked.sort_by(|one, other| (other.0, &one.1).cmp(&(one.0, &other.1)));
            ranked.into_iter().take(top).map(|(_, event)| event).collect()
        };
        self.0.iter().map(of_distance).collect()
    }
}

impl Tally for NodeCounts {
    fn add_start(&mut self, _: &mut u32, event: u32, _: &Groups) {
        self.add(0, event);
    }

    fn add_link(&mut self, _: &mut u32, distance: usize, _: u32, event: u32, _: &Groups) {
        self.add(distance, event);
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|counts| counts.capacity() * size_of::<u64>()).sum()
    }
}

/// Paths and players of nodes and links. At each distance, a node is numbered by its rank; the last is `(other)`.
struct LinkCounts {
    /// The events with a node of their own.
    tops: Vec<Vec<String>>,
    /// Nodes at each distance.
    width: usize,
    /// The rank of each event at each distance, by its number.
    ranks: Vec<Vec<u32>>,
    /// By distance and rank.
    nodes: Vec<PathCount>,
    /// By distance and rank, and the rank of the neighbour at the distance before.
    links: Vec<PathCount>,
    /// What each player of the range has been counted for: a bit for each node, then for each link. A set of hashes would
    /// take ten times the memory.
    seen: Vec<u64>,
    words: usize,
}

#[derive(Clone, Copy, Default)]
struct PathCount {
    count: u64,
    players: u64,
}

const UNRANKED: u32 = u32::MAX;

impl LinkCounts {
    fn new(tops: Vec<Vec<String>>, top: usize) -> LinkCounts {
        let (width, distances) = (top + 1, tops.len());
        LinkCounts {
            ranks: vec![Vec::new(); distances],
            nodes: vec![PathCount::default(); distances * width],
            links: vec![PathCount::default(); distances * width * width],
            words: (distances * width * (1 + width)).div_ceil(64),
            tops,
            width,
            seen: Vec::new(),
        }
    }

    /// Returns 1 if the player was not counted for this number yet, else 0.
    #[inline]
    fn mark(&mut self, slot: &mut u32, number: usize) -> u64 {
        if *slot == 0 {
            self.seen.resize(self.seen.len() + self.words, 0);
            *slot = (self.seen.len() / self.words) as u32;
        }
        let word = &mut self.seen[(*slot as usize - 1) * self.words + number / 64];
        let bit = 1 << (number % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        u64::from(is_new)
    }

    #[inline]
    fn rank(&mut self, distance: usize, event: u32, names: &Groups) -> usize {
        match self.ranks[distance].get(event as usize) {
            Some(rank) if *rank != UNRANKED => *rank as usize,
            _ => self.find_rank(distance, event, names),
        }
    }

    #[cold]
    fn find_rank(&mut self, distance: usize, event: u32, names: &Groups) -> usize {
        let name = names.key(event).swap_remove(0);
        let rank = self.tops[distance].iter().position(|top| *top == name).unwrap_or(self.width - 1);
        let ranks = &mut self.ranks[distance];
        if event as usize >= ranks.len() {
            ranks.resize(event as usize + 1, UNRANKED);
        }
        ranks[event as usize] = rank as u32;
        rank
    }

    #[inline]
    fn add_node(&mut self, slot: &mut u32, node: usize) {
        let is_new = self.mark(slot, node);
        self.nodes[node].add(is_new);
    }

    fn answer(&self, is_before: bool) -> PathsAnswer {
        let mut places = vec![None; self.nodes.len()];
        let mut nodes = Vec::new();
        for (node, count) in self.nodes.iter().enumerate().filter(|(_, count)| count.count > 0) {
            let (distance, rank) = (node / self.width, node % self.width);
            let event = self.tops[distance].get(rank).map_or(OTHER, |event| event);
            places[node] = Some(nodes.len());
            let (count, players) = (count.count, count.players);
            nodes.push(PathNode { distance, event: event.to_owned(), count, players });
        }
        let mut links = Vec::new();
        for (link, count) in self.links.iter().enumerate().filter(|(_, count)| count.count > 0) {
            let (node, rank) = (link / self.width, link % self.width);
            let place = |node: usize| places[node].expect("a link has nodes");
            let (nearer, further) = (place((node / self.width - 1) * self.width + rank), place(node));
            let (from, to) = if is_before { (further, nearer) } else { (nearer, further) };
            links.push(PathLink { from, to, count: count.count, players: count.players });
        }
        links.sort_by_key(|link| (link.from, link.to));
        PathsAnswer { nodes, links }
    }
}

impl PathCount {
    #[inline]
    fn add(&mut self, new_players: u64) {
        self.count += 1;
        self.players += new_players;
    }
}

impl Tally for LinkCounts {
    fn add_start(&mut self, slot: &mut u32, event: u32, names: &Groups) {
        let rank = self.rank(0, event, names);
        self.add_node(slot, rank);
    }

    fn add_link(&mut self, slot: &mut u32, distance: usize, nearer: u32, event: u32, names: &Groups) {
        let (nearer, rank) = (self.rank(distance - 1, nearer, names), self.rank(distance, event, names));
        let node = distance * self.width + rank;
        self.add_node(slot, node);
        let link = node * self.width + nearer;
        let is_new = self.mark(slot, self.nodes.len() + link);
        self.links[link].add(is_new);
    }

    fn end_range(&mut self) {
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        self.seen.capacity() * size_of::<u64>()
            + (self.nodes.len() + self.links.len()) * size_of::<PathCount>()
    }
}

impl Answer for PathsAnswer {
    fn fields(&self) -> Map<String, Value> {
        let node = |node: &PathNode| json!({"distance": node.distance, "event": node.event, "count": node.count, "players": node.players});
        let link = |link: &PathLink| json!({"from": link.from, "to": link.to, "count": link.count, "players": link.players});
        let mut fields = Map::new();
        fields.insert("nodes".to_owned(), self.nodes.iter().map(node).collect());
        fields.insert("links".to_owned(), self.links.iter().map(link).collect());
        fields
    }

    fn columns(&self) -> Vec<String> {
        ["distance", "from", "to", "count", "players"].map(str::to_owned).to_vec()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        self.links.iter().try_for_each(|link| {
            let (from, to) = (&self.nodes[link.from], &self.nodes[link.to]);
            let distance = from.distance.max(to.distance);
            put(vec![
                json!(distance),
                json!(from.event),
                json!(to.event),
                json!(link.count),
                json!(link.players),
            ])
        })
    }
}
