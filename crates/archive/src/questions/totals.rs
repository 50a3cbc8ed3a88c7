//! The totals of one player: all events under the player's id and those that are linked to it. Events of erased players
//! have no id any more, and are in no totals.

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;
use serde_json::{Map, Value, json};

use super::answer::{Answer, RowsTooLarge, number, utc};
use super::groups::Groups;
use super::measures::{Measured, Sum, number_of};
use super::walk::Metered;
use super::{Context, FieldList, QuestionFailure};
use crate::columns::Field;
use crate::scan::{Order, ScanRequest};

/// The totals of a player.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayerTotals {
    /// The time of the first event, milliseconds since 1970.
    pub first_ms: i64,
    /// The time of the last event.
    pub last_ms: i64,
    /// The number of events.
    pub events: u64,
    /// The number of sessions with events.
    pub sessions: u64,
    /// The events by name, the most frequent first.
    pub by_event: Vec<EventTotals>,
}

/// The events of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct EventTotals {
    /// The name.
    pub event: String,
    /// How many.
    pub count: u64,
    /// The sum of their values; `None` if none has one.
    pub sum: Option<f64>,
}

impl PlayerTotals {
    /// Adds up the events of the player with this hash in a range of time, milliseconds since 1970. `None` if there are
    /// none.
    pub fn read(
        context: &Context<'_>,
        player: u64,
        times: std::ops::Range<i64>,
    ) -> Result<Option<PlayerTotals>, QuestionFailure> {
        let mut columns = FieldList::default();
        let mut names = Groups::new(&[Field::Event], &mut columns);
        let mut sessions = Groups::new(&[Field::Session], &mut columns);
        let value = columns.index(&Field::Value);
        let own_id = columns.index(&Field::Player);
        let mut counts: HashMap<u32, (u64, Sum), FxBuildHasher> = HashMap::default();
        let mut seen: HashSet<u32, FxBuildHasher> = HashSet::default();
        let mut range: Option<(i64, i64)> = None;
        let control = Metered::new(context.control);
        for id in context.links.ids_of(context.links.player(player)) {
            let request = ScanRequest {
                times: times.clone(),
                fields: columns.fields().to_vec(),
                events: None,
                players: id..=id,
                order: Order::Any,
            };
            context.source.scan(&request, &control, &mut |chunk| {
                names.start_chunk(chunk);
                sessions.start_chunk(chunk);
                let is_own =
                    |row: &usize| chunk.players[*row] == id && chunk.columns[own_id].value(*row).is_some();
                for row in (0..chunk.rows()).filter(is_own) {
                    let (count, sum) = counts.entry(names.group_of(chunk, row)).or_default();
                    *count += 1;
                    number_of(&chunk.columns[value], row).into_iter().for_each(|value| sum.add(0, value));
                    let session = sessions.group_of(chunk, row);
                    if !sessions.is_empty_key(session) {
                        seen.insert(session);
                    }
                    let time = chunk.times[row];
                    let (first, last) = range.get_or_insert((time, time));
                    (*first, *last) = (time.min(*first), time.max(*last));
                }
                context.progress.add_rows(chunk.rows());
                control.set(names.bytes() + sessions.bytes() + counts.capacity() * 48 + seen.capacity() * 5)
            })?;
        }
        let total = |(group, (count, sum)): (&u32, &(u64, Sum))| EventTotals {
            event: names.key(*group).swap_remove(0),
            count: *count,
            sum: sum.result(0.0),
        };
        let mut by_event: Vec<EventTotals> = counts.iter().map(total).collect();
        by_event.sort_by(|one, other| (other.count, &one.event).cmp(&(one.count, &other.event)));
        Ok(range.map(|(first_ms, last_ms)| PlayerTotals {
            first_ms,
            last_ms,
            events: by_event.iter().map(|event| event.count).sum(),
            sessions: seen.len() as u64,
            by_event,
        }))
    }
}

impl EventTotals {
    fn cells(&self) -> Vec<Value> {
        vec![json!(self.event), json!(self.count), number(self.sum)]
    }
}

impl Answer for PlayerTotals {
    fn fields(&self) -> Map<String, Value> {
        let columns = self.columns();
        let event = |event: &EventTotals| columns.iter().cloned().zip(event.cells()).collect::<Map<_, _>>();
        let events: Vec<Value> = self.by_event.iter().map(|one| event(one).into()).collect();
        let fields = json!({
            "first_seen": utc(self.first_ms),
            "last_seen": utc(self.last_ms),
            "events": self.events,
            "sessions": self.sessions,
            "by_event": events,
        });
        match fields {
            Value::Object(fields) => fields,
            _ => unreachable!("it was written as an object"),
        }
    }

    fn columns(&self) -> Vec<String> {
        ["event", "count", "sum"].map(str::to_owned).to_vec()
    }

    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge> {
        self.by_event.iter().try_for_each(|event| put(event.cells()))
    }
}
