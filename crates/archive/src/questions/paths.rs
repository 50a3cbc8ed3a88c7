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

use hashbrown::{HashMap, HashSet};
use model::limits::NAME_BYTES_MAX;
use model::query::QueryError;
use rustc_hash::FxBuildHasher;
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
        let mut counts = self.walk(context, &window.times, NodeCounts::default())?;
        let nodes = counts.tally.top(&counts.names, self.top);
        let counts = LinkCounts { nodes, other: OTHER.into(), ..LinkCounts::default() };
        let linked = self.walk(context, &window.times, counts)?;
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
}

/// What is counted while paths are followed. Distances of nodes are those from the starting event.
trait Tally {
    fn add_start(&mut self, player: u64, event: u32, names: &Groups);
    /// Adds an event at a distance, and its neighbour at the distance before.
    fn add_link(&mut self, player: u64, distance: usize, nearer: u32, event: u32, names: &Groups);
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

    fn step(&mut self, state: &mut Recent, player: u64, _: i64, (is_start, event): (bool, u32)) {
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
                    self.tally.add_link(player, distance, state.events[1], event, &self.names);
                }
            }
        }
        if !is_start {
            return;
        }
        self.tally.add_start(player, event, &self.names);
        if self.question.is_before {
            let reach = self.question.depth.min(usize::from(state.count) - 1);
            for distance in 1..=reach {
                let (nearer, further) = (state.events[distance - 1], state.events[distance]);
                self.tally.add_link(player, distance, nearer, further, &self.names);
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

/// The occurrences of each event at each distance.
#[derive(Default)]
struct NodeCounts(HashMap<(usize, u32), u64, FxBuildHasher>);

impl Tally for NodeCounts {
    fn add_start(&mut self, _: u64, event: u32, _: &Groups) {
        *self.0.entry((0, event)).or_default() += 1;
    }

    fn add_link(&mut self, _: u64, distance: usize, _: u32, event: u32, _: &Groups) {
        *self.0.entry((distance, event)).or_default() += 1;
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * 25
    }
}

impl NodeCounts {
    /// Returns the events that get a node, with its number.
    fn top(&mut self, names: &Groups, top: usize) -> HashMap<(usize, String), usize, FxBuildHasher> {
        let mut counts: Vec<(usize, u64, String)> = Vec::with_capacity(self.0.len());
        for ((distance, event), count) in self.0.drain() {
            counts.push((distance, count, names.key(event).swap_remove(0)));
        }
        counts.sort_by(|one, other| (one.0, other.1, &one.2).cmp(&(other.0, one.1, &other.2)));
        let mut nodes = HashMap::default();
        for level in counts.chunk_by(|one, next| one.0 == next.0) {
            for (distance, _, event) in level.iter().take(top) {
                nodes.insert((*distance, event.clone()), nodes.len());
            }
        }
        nodes
    }
}

/// Paths and players of nodes and links. Numbers of nodes are those of the top; `(other)` of each distance follows.
#[derive(Default)]
struct LinkCounts {
    nodes: HashMap<(usize, String), usize, FxBuildHasher>,
    other: Box<str>,
    /// The node of each event at each distance, found by its number.
    known: HashMap<(usize, u32), u32, FxBuildHasher>,
    counts: HashMap<(u32, u32), (u64, u64), FxBuildHasher>,
    /// What players of the range have been counted for.
    seen: HashSet<(u64, u32, u32), FxBuildHasher>,
}

/// In the place of a neighbour: the count is that of the node itself.
const NODE: u32 = u32::MAX;

impl LinkCounts {
    fn node(&mut self, distance: usize, event: u32, names: &Groups) -> u32 {
        if let Some(node) = self.known.get(&(distance, event)) {
            return *node;
        }
        let name = names.key(event).swap_remove(0);
        let top = self.nodes.get(&(distance, name)).copied();
        let others = self.top_count() + distance;
        let node = top.unwrap_or(others) as u32;
        self.known.insert((distance, event), node);
        node
    }

    fn top_count(&self) -> usize {
        self.nodes.len()
    }

    fn add(&mut self, player: u64, nearer: u32, node: u32) {
        let is_new = self.seen.insert((player, nearer, node));
        let (count, players) = self.counts.entry((nearer, node)).or_default();
        *count += 1;
        *players += u64::from(is_new);
    }

    fn answer(self, is_before: bool) -> PathsAnswer {
        let top = self.top_count();
        let mut of_node: Vec<(usize, String)> = vec![Default::default(); top];
        for ((distance, event), node) in &self.nodes {
            of_node[*node] = (*distance, event.clone());
        }
        let mut nodes: Vec<(u32, PathNode)> = Vec::new();
        for ((_, node), (count, players)) in self.counts.iter().filter(|((nearer, _), _)| *nearer == NODE) {
            let (distance, event) = match of_node.get(*node as usize) {
                Some((distance, event)) => (*distance, event.clone()),
                None => (*node as usize - top, self.other.to_string()),
            };
            nodes.push((*node, PathNode { distance, event, count: *count, players: *players }));
        }
        let is_other = |node: &u32| *node as usize >= top;
        nodes.sort_by(|(a, one), (b, other)| {
            let key =
                |number, node: &PathNode| (node.distance, is_other(number), std::cmp::Reverse(node.count));
            key(a, one).cmp(&key(b, other)).then_with(|| one.event.cmp(&other.event))
        });
        let place =
            |number: u32| nodes.iter().position(|(node, _)| *node == number).expect("a link has nodes");
        let mut links: Vec<PathLink> = Vec::new();
        for ((nearer, node), (count, players)) in
            self.counts.iter().filter(|((nearer, _), _)| *nearer != NODE)
        {
            let (nearer, node) = (place(*nearer), place(*node));
            let (from, to) = if is_before { (node, nearer) } else { (nearer, node) };
            links.push(PathLink { from, to, count: *count, players: *players });
        }
        links.sort_by_key(|link| (link.from, link.to));
        PathsAnswer { nodes: nodes.into_iter().map(|(_, node)| node).collect(), links }
    }
}

impl Tally for LinkCounts {
    fn add_start(&mut self, player: u64, event: u32, names: &Groups) {
        let node = self.node(0, event, names);
        self.add(player, NODE, node);
    }

    fn add_link(&mut self, player: u64, distance: usize, nearer: u32, event: u32, names: &Groups) {
        let (nearer, node) = (self.node(distance - 1, nearer, names), self.node(distance, event, names));
        self.add(player, NODE, node);
        self.add(player, nearer, node);
    }

    fn end_range(&mut self) {
        self.seen.clear();
    }

    fn bytes(&self) -> usize {
        (self.seen.capacity() + self.known.capacity()) * 17 + self.counts.capacity() * 25
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
