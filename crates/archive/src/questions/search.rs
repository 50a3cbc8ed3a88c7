//! Finding players.
//!
//! A player is found if one of the events in the range meets `where` and has an id that contains (or starts with)
//! `search`. A player with linked anonymous ids is found by each of them, and shown under the player's own id as long as
//! an event in the range has it. All events of the player in the range count in the totals.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use model::limits::PLAYER_BYTES_MAX;
use model::query::QueryError;
use rustc_hash::FxBuildHasher;
use serde_json::{Map, Value, json};

use super::answer::{Answer, RowsTooLarge, utc};
use super::filter::{Condition, ConditionBudget, Test};
use super::groups::Groups;
use super::limits::PAGE_MAX;
use super::players::PlayerSet;
use super::request::{Fields, WindowRequest, days, object};
use super::select::{EventPattern, Selector};
use super::walk::{PlayerQuestion, walk_players};
use super::{Cohorts, Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Field};

const DEFAULT_DAYS: u32 = 30;
const DEFAULT_LIMIT: usize = 50;
/// What the latest event that has a value says about a player, beside the id.
const LATEST: [(Field, &str); 3] =
    [(Field::Country, "country"), (Field::Platform, "platform"), (Field::Version, "version")];

/// A search for players.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayerSearch {
    window: WindowRequest,
    filter: Condition,
    id: Option<Test>,
    limit: usize,
}

/// The answer of [`PlayerSearch`].
#[derive(Clone, Debug, PartialEq)]
pub struct PlayerPage {
    /// How many players were found.
    pub found: u64,
    /// Those seen last, the latest first.
    pub players: Vec<FoundPlayer>,
}

/// A player and the totals of its events in the range.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPlayer {
    /// The id.
    pub player: String,
    /// The time of the first event, milliseconds since 1970.
    pub first_ms: i64,
    /// The time of the last event.
    pub last_ms: i64,
    /// The number of events.
    pub events: u64,
    /// The latest country, platform and version; empty if no event has one.
    pub latest: [String; 3],
}

impl PlayerSearch {
    /// Parses a request.
    pub fn from_json(body: &[u8]) -> Result<PlayerSearch, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a search for players");
        let search = fields.optional("search").map(|search| search.name(PLAYER_BYTES_MAX)).transpose()?;
        let test: fn(String) -> Test = fields.optional("match").map_or(Ok(Test::Contains as _), |item| {
            let parse = |name: &str| match name {
                "contains" => Some(Test::Contains as fn(String) -> Test),
                "prefix" => Some(Test::StartsWith as _),
                _ => None,
            };
            item.choice(parse, "contains or prefix")
        })?;
        let limit = fields.optional("limit").map(|limit| limit.integer(1..=PAGE_MAX as u64)).transpose()?;
        let search = PlayerSearch {
            window: WindowRequest::read(&mut fields)?,
            filter: Condition::read(&mut fields, &mut ConditionBudget::default())?,
            id: search.map(|search| test(search.to_owned())),
            limit: limit.map_or(DEFAULT_LIMIT, |limit| limit as usize),
        };
        fields.end()?;
        Ok(search)
    }

    /// Returns the names of the cohorts that the question needs.
    pub fn cohorts(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.filter.insert_cohorts(&mut names);
        names
    }

    /// Answers the question. The events are read twice: to find the players, and to read their ids.
    pub fn run(&self, context: &Context<'_>) -> Result<PlayerPage, QuestionFailure> {
        let window = self.window.resolve(context.now_ms, context.tz, days(DEFAULT_DAYS))?;
        let id = self.id.iter().map(|test| Condition::Compare { field: Field::Player, test: test.clone() });
        let wanted = Condition::All(id.chain([self.filter.clone()]).collect());
        let any = EventPattern { event: None, filter: Condition::always() };
        let patterns = [EventPattern { event: None, filter: wanted }, any.clone()];
        let mut columns = FieldList::default();
        let selector = Selector::new(&patterns, &Condition::always(), &mut columns, context.cohorts)?;
        let mut walk = SearchWalk { selector, limit: self.limit, found: 0, players: Vec::new() };
        walk_players(&mut walk, context, columns, window.times.clone(), None)?;
        walk.keep_latest();

        let hashes: PlayerSet = walk.players.iter().map(|(_, player, _)| *player).collect();
        let cohorts = Cohorts::from([("found".to_owned(), Arc::new(hashes))]);
        let found = Condition::Cohort { path: String::new(), name: "found".to_owned() };
        let mut columns = FieldList::default();
        let selector = Selector::new(&[any], &found, &mut columns, &cohorts)?;
        let mut group = |field: &Field| Groups::new(std::slice::from_ref(field), &mut columns);
        let mut details = DetailsWalk {
            selector,
            id: group(&Field::Player),
            latest: LATEST.map(|(field, _)| group(&field)),
            details: HashMap::default(),
        };
        if !walk.players.is_empty() {
            walk_players(&mut details, context, columns, window.times, None)?;
        }
        let player = |(_, player, totals): &(i64, u64, Totals)| details.player(*player, totals);
        Ok(PlayerPage { found: walk.found, players: walk.players.iter().map(player).collect() })
    }
}

/// The totals of a player.
#[derive(Clone, Copy, Default)]
struct Totals {
    first_ms: i64,
    last_ms: i64,
    events: u64,
    is_found: bool,
}

struct SearchWalk {
    selector: Selector,
    limit: usize,
    found: u64,
    /// By the time of the last event.
    players: Vec<(i64, u64, Totals)>,
}

impl SearchWalk {
    fn keep_latest(&mut self) {
        self.players.sort_unstable_by_key(|(last_ms, player, _)| (std::cmp::Reverse(*last_ms), *player));
        self.players.truncate(self.limit);
    }
}

impl PlayerQuestion for SearchWalk {
    type State = Totals;
    type Row = bool;

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        std::mem::swap(rows, &mut self.selector.rows);
    }

    fn read(&mut self, _: &Chunk, row: usize) -> bool {
        self.selector.bits[row] & 1 == 1
    }

    fn step(&mut self, state: &mut Totals, _: u64, time_ms: i64, is_found: bool) {
        if state.events == 0 {
            state.first_ms = time_ms;
        }
        state.last_ms = time_ms;
        state.events += 1;
        state.is_found |= is_found;
    }

    fn finish(&mut self, player: u64, state: &Totals) {
        if state.is_found {
            self.found += 1;
            self.players.push((state.last_ms, player, *state));
            if self.players.len() > 4 * self.limit {
                self.keep_latest();
            }
        }
    }

    fn bytes(&self) -> usize {
        self.players.capacity() * size_of::<(i64, u64, Totals)>()
    }
}

/// Numbers of texts: 0 for none yet, else the number of the group plus 1.
#[derive(Clone, Copy, Default)]
struct Details {
    id: u32,
    is_own_id: bool,
    latest: [u32; 3],
}

struct DetailsWalk {
    selector: Selector,
    id: Groups,
    latest: [Groups; 3],
    details: HashMap<u64, Details, FxBuildHasher>,
}

impl DetailsWalk {
    fn player(&self, player: u64, totals: &Totals) -> FoundPlayer {
        let details = self.details.get(&player).copied().unwrap_or_default();
        let text = |groups: &Groups, number: u32| {
            number.checked_sub(1).map_or(String::new(), |group| groups.key(group).swap_remove(0))
        };
        FoundPlayer {
            player: text(&self.id, details.id),
            first_ms: totals.first_ms,
            last_ms: totals.last_ms,
            events: totals.events,
            latest: std::array::from_fn(|index| text(&self.latest[index], details.latest[index])),
        }
    }
}

impl PlayerQuestion for DetailsWalk {
    type State = Details;
    /// The hash of the event's own id, and the numbers of the values.
    type Row = (u64, Details);

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        self.id.start_chunk(chunk);
        self.latest.iter_mut().for_each(|groups| groups.start_chunk(chunk));
        std::mem::swap(rows, &mut self.selector.rows);
    }

    fn read(&mut self, chunk: &Chunk, row: usize) -> (u64, Details) {
        let mut latest = [0; 3];
        for (groups, number) in self.latest.iter_mut().zip(&mut latest) {
            let group = groups.group_of(chunk, row);
            *number = if groups.is_empty_key(group) { 0 } else { group + 1 };
        }
        let details = Details { id: self.id.group_of(chunk, row) + 1, is_own_id: false, latest };
        (chunk.players[row], details)
    }

    fn step(&mut self, state: &mut Details, player: u64, _: i64, (id, row): (u64, Details)) {
        if id == player || !state.is_own_id {
            (state.id, state.is_own_id) = (row.id, id == player);
        }
        for (own, latest) in state.latest.iter_mut().zip(row.latest) {
            *own = if latest == 0 { *own } else { latest };
        }
    }

    fn finish(&mut self, player: u64, state: &Details) {
        self.details.insert(player, *state);
    }

    fn bytes(&self) -> usize {
        self.id.bytes() + self.latest.iter().map(Groups::bytes).sum::<usize>() + self.details.capacity() * 40
    }
}

impl FoundPlayer {
    fn cells(&self) -> Vec<Value> {
        let known = |text: &String| if text.is_empty() { Value::Null } else { Value::from(&**text) };
        let own =
            [json!(self.player), json!(utc(self.first_ms)), json!(utc(self.last_ms)), json!(self.events)];
        own.into_iter().chain(self.latest.iter().map(known)).collect()
    }
}

impl Answer for PlayerPage {
    fn fields(&self) -> Map<String, Value> {
        let columns = self.columns();
        let player =
            |player: &FoundPlayer| columns.iter().cloned().zip(player.cells()).collect::<Map<_, _>>();
        let mut fields = Map::new();
        fields.insert("found".to_owned(), self.found.into());
        fields
            .insert("players".to_owned(), self.players.iter().map(|one| Value::from(player(one))).collect());
        fields
    }

    fn columns(&self) -> Vec<String> {
        let own = ["player", "first_seen", "last_seen", "events"];
        own.into_iter().chain(LATEST.map(|(_, name)| name)).map(str::to_owned).collect()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        self.players.iter().try_for_each(|player| put(player.cells()))
    }
}
