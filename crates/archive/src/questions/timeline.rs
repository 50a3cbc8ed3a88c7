//! The events of one player, newest first.
//!
//! A page ends with a cursor: the time of its last event, and how many events of that time were shown. Events that
//! arrive late, before the cursor, are on the page to which they belong by time. Events of erased players have no id any
//! more, and are on no page.

use std::collections::VecDeque;
use std::ops::Range;

use model::query::QueryError;
use serde_json::{Map, Value as Json, json};

use super::answer::{Answer, RowsTooLarge, number, utc};
use super::filter::label;
use super::limits::PAGE_MAX;
use super::measures::number_of;
use super::request::{Fields, object};
use super::walk::Metered;
use super::{Context, QuestionFailure};
use crate::columns::{Chunk, Field, Value};
use crate::scan::{Order, ScanFailure, ScanRequest};

const DAY_MS: i64 = 86_400_000;
const DEFAULT_LIMIT: usize = 100;
/// Events of one time that a cursor can be behind.
const SHOWN_MAX: usize = 100_000;

/// A question about the events of one player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    before: Option<TimelineCursor>,
    limit: usize,
}

/// Where a page of a timeline ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineCursor {
    time_ms: i64,
    /// Events of this time that were shown.
    shown: usize,
}

/// A page of events: the answer of [`Timeline`].
#[derive(Clone, Debug, PartialEq)]
pub struct TimelinePage {
    /// Newest first.
    pub events: Vec<TimelineEvent>,
    /// Where the next page starts; `None` if there are no older events.
    pub next: Option<TimelineCursor>,
}

/// An event of a timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct TimelineEvent {
    /// Its time, milliseconds since 1970.
    pub time_ms: i64,
    /// The names and values of what it has.
    pub values: Vec<(String, Json)>,
}

impl TimelineCursor {
    /// Parses `MILLISECONDS` or `MILLISECONDS-SHOWN`.
    pub fn parse(text: &str) -> Option<TimelineCursor> {
        let (time, shown) = text.split_once('-').unwrap_or((text, "0"));
        let shown = shown.parse().ok().filter(|shown| *shown <= SHOWN_MAX)?;
        let time_ms = time.parse().ok().filter(|time| (0..=i64::MAX / 2).contains(time))?;
        Some(TimelineCursor { time_ms, shown })
    }
}

impl std::fmt::Display for TimelineCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.time_ms, self.shown)
    }
}

impl Timeline {
    /// Parses a request with `before` and `limit`.
    pub fn from_json(body: &[u8]) -> Result<Timeline, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a timeline");
        let before = fields.optional("before");
        let limit = fields.optional("limit").map(|limit| limit.integer(1..=PAGE_MAX as u64)).transpose()?;
        let timeline = Timeline {
            before: before
                .map(|before| before.choice(TimelineCursor::parse, "the cursor `next` of another page"))
                .transpose()?,
            limit: limit.map_or(DEFAULT_LIMIT, |limit| limit as usize),
        };
        fields.end()?;
        Ok(timeline)
    }

    /// Returns the question about the newest event.
    pub fn newest() -> Timeline {
        Timeline { before: None, limit: 1 }
    }

    /// Answers the question about the player with this hash and all ids that are linked to it. `properties` returns the
    /// names of properties that an id's events in a range of time may have; those that an event carries are shown.
    /// `oldest_ms` is the time of the first event of the game, or before.
    pub fn run(
        &self,
        context: &Context<'_>,
        player: u64,
        properties: &PropertyNames<'_>,
        oldest_ms: i64,
    ) -> Result<TimelinePage, QuestionFailure> {
        let player = context.links.player(player);
        let newest = TimelineCursor { time_ms: context.now_ms + 366 * DAY_MS, shown: 0 };
        let before = self.before.unwrap_or(newest);
        let reader = PlayerReader {
            context,
            control: Metered::new(context.control),
            properties,
            ids: context.links.ids_of(player),
            player,
        };
        // One more than the page, to know whether there is another.
        let wanted = self.limit + 1 + before.shown;
        let (mut events, mut end, mut length) = (Vec::new(), before.time_ms.saturating_add(1), DAY_MS);
        if self.before.is_none() {
            // Times are at most a day ahead of the clock.
            length += 366 * DAY_MS;
        }
        while events.len() < wanted && end > oldest_ms {
            let start = end.saturating_sub(length).max(oldest_ms);
            events.extend(reader.newest(start..end, wanted - events.len())?);
            (end, length) = (start, length.saturating_mul(2));
        }
        Ok(self.page(events, before))
    }

    fn page(&self, mut events: Vec<TimelineEvent>, before: TimelineCursor) -> TimelinePage {
        let same = events.iter().take_while(|event| event.time_ms == before.time_ms).count();
        events.drain(..before.shown.min(same));
        let has_more = events.len() > self.limit;
        events.truncate(self.limit);
        let next = events.last().filter(|_| has_more).map(|last| {
            let shown = events.iter().rev().take_while(|event| event.time_ms == last.time_ms).count();
            let earlier = if last.time_ms == before.time_ms { before.shown } else { 0 };
            TimelineCursor { time_ms: last.time_ms, shown: shown + earlier }
        });
        TimelinePage { events, next }
    }
}

/// Returns the names of properties that events of an id in a range of time may have.
pub type PropertyNames<'a> = dyn Fn(Range<i64>, u64) -> Result<Vec<Box<str>>, ScanFailure> + 'a;

/// The columns of an event, beside its time and its properties.
const OWN_FIELDS: [Field; 12] = [
    Field::Received,
    Field::Player,
    Field::Event,
    Field::Id,
    Field::Anonymous,
    Field::Session,
    Field::Value,
    Field::Country,
    Field::Platform,
    Field::Version,
    Field::Source,
    Field::Level,
];
/// The places of the first two of them.
const RECEIVED: usize = 0;
const PLAYER: usize = 1;

struct PlayerReader<'a> {
    context: &'a Context<'a>,
    control: Metered<'a>,
    properties: &'a PropertyNames<'a>,
    /// The player and its linked ids.
    ids: Vec<u64>,
    player: u64,
}

/// An event, after what orders it: time, receipt, and whether it has the player's own id.
type Ordered = ((i64, i64, bool), TimelineEvent);

impl PlayerReader<'_> {
    /// Returns at most `count` events of a range, newest first.
    fn newest(&self, times: Range<i64>, count: usize) -> Result<Vec<TimelineEvent>, QuestionFailure> {
        let mut events: Vec<Ordered> = Vec::new();
        let mut bytes = 0;
        for id in &self.ids {
            let mut of_id: VecDeque<Ordered> = VecDeque::new();
            let properties = (self.properties)(times.clone(), *id)?;
            let mut fields = OWN_FIELDS.to_vec();
            fields.extend(properties.into_iter().map(Field::Property));
            let names: Vec<String> = fields.iter().map(label).collect();
            let request = ScanRequest {
                times: times.clone(),
                fields,
                events: None,
                players: *id..=*id,
                order: Order::ByPlayer,
            };
            self.context.source.scan(&request, &self.control, &mut |chunk| {
                // Only the last rows of a chunk can be among the newest.
                let is_own =
                    |row: &usize| chunk.players[*row] == *id && chunk.columns[PLAYER].value(*row).is_some();
                let own: Vec<usize> = (0..chunk.rows()).filter(is_own).collect();
                for row in own[own.len().saturating_sub(count)..].iter().copied() {
                    let event = self.read(&names, chunk, row);
                    bytes += event.1.bytes();
                    of_id.push_back(event);
                    if of_id.len() > count {
                        bytes -= of_id.pop_front().map_or(0, |(_, event)| event.bytes());
                    }
                }
                self.context.progress.add_rows(chunk.rows());
                self.control.set(bytes)
            })?;
            events.extend(of_id);
        }
        // The sort is stable: of equal events of one id, the one that arrived later is newer.
        events.sort_by_key(|(order, _)| *order);
        events.reverse();
        events.truncate(count);
        Ok(events.into_iter().map(|(_, event)| event).collect())
    }

    fn read(&self, names: &[String], chunk: &Chunk, row: usize) -> Ordered {
        let received = number_of(&chunk.columns[RECEIVED], row);
        let cells = names.iter().zip(&chunk.columns).filter_map(|(name, column)| {
            let value = match column.value(row)? {
                Value::Text(text) => text.into(),
                Value::Flag(flag) => flag.into(),
                Value::Number(time) if name == "received" => utc(time as i64).into(),
                Value::Number(value) => number(Some(value)),
            };
            Some((name.clone(), value))
        });
        let event = TimelineEvent { time_ms: chunk.times[row], values: cells.collect() };
        let order =
            (event.time_ms, received.map_or(i64::MIN, |ms| ms as i64), chunk.players[row] == self.player);
        (order, event)
    }
}

impl TimelineEvent {
    fn bytes(&self) -> usize {
        let cell = |(name, value): &(String, Json)| {
            size_of::<(String, Json)>() + name.len() + value.as_str().map_or(0, str::len)
        };
        size_of::<Ordered>() + self.values.iter().map(cell).sum::<usize>()
    }

    fn object(&self) -> Map<String, Json> {
        let mut object = Map::from_iter([("ts".to_owned(), utc(self.time_ms).into())]);
        let mut props = Map::new();
        for (name, value) in &self.values {
            match name.strip_prefix("props.") {
                Some(property) => props.insert(property.to_owned(), value.clone()),
                None => object.insert(name.clone(), value.clone()),
            };
        }
        if !props.is_empty() {
            object.insert("props".to_owned(), props.into());
        }
        object
    }
}

impl TimelinePage {
    /// Returns the page of a player without events.
    pub fn empty() -> TimelinePage {
        TimelinePage { events: Vec::new(), next: None }
    }
}

impl Answer for TimelinePage {
    fn fields(&self) -> Map<String, Json> {
        let mut fields = Map::new();
        fields.insert(
            "events".to_owned(),
            self.events.iter().map(|event| Json::from(event.object())).collect(),
        );
        fields.insert("next".to_owned(), json!(self.next.map(|next| next.to_string())));
        fields
    }

    fn columns(&self) -> Vec<String> {
        let own = ["ts", "event", "id", "player", "session", "value", "level", "props"];
        own.map(str::to_owned).to_vec()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Json>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        let columns = self.columns();
        self.events.iter().try_for_each(|event| {
            let object = event.object();
            put(columns.iter().map(|column| object.get(column).cloned().unwrap_or(Json::Null)).collect())
        })
    }
}
