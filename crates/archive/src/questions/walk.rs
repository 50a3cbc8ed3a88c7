//! The events of each player in order of time.

use std::cell::Cell;
use std::ops::Range;

use model::query::{QueryControl, QueryStopped};

use super::measures::number_of;
use super::players::PlayerTable;
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Field};
use crate::scan::{Order, ScanFailure, ScanRequest};

/// A question about what players do one thing after another.
pub(super) trait PlayerQuestion {
    /// What is kept of a player while the events of a range of players are read.
    type State: Copy + Default;
    /// What is kept of an event of a linked player until all events are read.
    type Row: Copy;

    /// Finds the rows of the chunk that matter, ascending.
    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>);

    /// Reads one of the rows.
    fn read(&mut self, chunk: &Chunk, row: usize) -> Self::Row;

    /// Takes the next event of a player.
    fn step(&mut self, state: &mut Self::State, player: u64, time_ms: i64, row: Self::Row);

    /// Takes the next events of a player, which follow each other in a chunk.
    #[inline]
    fn run(&mut self, state: &mut Self::State, player: u64, chunk: &Chunk, rows: &[u32]) {
        for row in rows.iter().map(|row| *row as usize) {
            let read = self.read(chunk, row);
            self.step(state, player, chunk.times[row], read);
        }
    }

    /// Takes a player of whom all events were read.
    fn finish(&mut self, player: u64, state: &Self::State);

    /// All events of all players so far were read.
    fn end_range(&mut self) {}

    /// Returns the memory in use beside the states of players, in bytes.
    fn bytes(&self) -> usize;
}

/// Adds the memory of a question to that of its scan.
pub(super) struct Metered<'a> {
    control: &'a dyn QueryControl,
    own: Cell<usize>,
}

impl<'a> Metered<'a> {
    pub(super) fn new(control: &'a dyn QueryControl) -> Metered<'a> {
        Metered { control, own: Cell::new(0) }
    }

    /// Sets the memory of the question, and fails if it is too much.
    pub(super) fn set(&self, bytes: usize) -> Result<(), QueryStopped> {
        self.own.set(bytes);
        self.control.check(bytes)
    }
}

impl QueryControl for Metered<'_> {
    fn check(&self, bytes: usize) -> Result<(), QueryStopped> {
        self.control.check(bytes.saturating_add(self.own.get()))
    }
}

/// An event of a linked player. The ids of a player are in ranges of their own, so its events are only known together
/// when all ranges were read.
struct Aside<R> {
    player: u64,
    time: i64,
    /// When the server received it: events of two ids at the same time are in the order of receipt.
    received: i64,
    /// The order of those that were received at the same time: a player is anonymous first.
    is_player: bool,
    number: u32,
    row: R,
}

/// Players between two checks of time, where no events are read.
const PLAYERS_PER_CHECK: usize = 65_536;
/// Players whose state is fetched from memory while others are worked on.
const RUNS_AHEAD: usize = 8;

/// Hands the events of each player to a question, in order of time; those of the same time in order of arrival.
/// Events without a player are left out, and a linked anonymous id is its player.
pub(super) fn walk_players<Q: PlayerQuestion>(
    question: &mut Q,
    context: &Context<'_>,
    mut columns: FieldList,
    times: Range<i64>,
    events: Option<Vec<Box<str>>>,
) -> Result<(), QuestionFailure> {
    let received = (!context.links.is_empty()).then(|| columns.index(&Field::Received));
    let control = Metered::new(context.control);
    let mut aside: Vec<Aside<Q::Row>> = Vec::new();
    let (mut rows, mut runs) = (Vec::new(), Vec::new());
    let ranges = context.source.player_ranges(times.clone());
    context.progress.start(ranges.len());
    for players in ranges {
        let mut table = PlayerTable::<Q::State>::new(&players);
        let request = ScanRequest {
            times: times.clone(),
            fields: columns.fields().to_vec(),
            events: events.clone(),
            players,
            order: Order::ByPlayer,
        };
        context.source.scan(&request, &control, &mut |chunk| {
            question.select(chunk, context, &mut rows);
            walk_chunk(question, context, chunk, &rows, received, &mut table, &mut runs, &mut aside);
            context.progress.add_rows(chunk.rows());
            control.set(question.bytes() + table.bytes() + aside.capacity() * size_of::<Aside<Q::Row>>())
        })?;
        for (number, (player, state)) in table.iter().enumerate() {
            if number % PLAYERS_PER_CHECK == 0 {
                control.set(question.bytes() + table.bytes())?;
            }
            question.finish(player, state);
        }
        question.end_range();
        context.progress.end_range();
    }
    finish_linked(question, &control, aside)?;
    Ok(())
}

fn walk_chunk<Q: PlayerQuestion>(
    question: &mut Q,
    context: &Context<'_>,
    chunk: &Chunk,
    rows: &[u32],
    received: Option<usize>,
    table: &mut PlayerTable<Q::State>,
    runs: &mut Vec<(u64, u32, u32)>,
    aside: &mut Vec<Aside<Q::Row>>,
) {
    runs.clear();
    let mut at = 0;
    while at < rows.len() {
        let player = chunk.players[rows[at] as usize];
        let start = at;
        while at < rows.len() && chunk.players[rows[at] as usize] == player {
            at += 1;
        }
        runs.push((player, start as u32, at as u32));
    }
    for (index, (player, start, end)) in runs.iter().copied().enumerate() {
        if let Some((ahead, ..)) = runs.get(index + RUNS_AHEAD) {
            table.prefetch(*ahead);
        }
        let rows = &rows[start as usize..end as usize];
        if player == 0 {
            continue;
        }
        if let Some(linked) = context.links.linked(player) {
            for row in rows.iter().map(|row| *row as usize) {
                let received = received.and_then(|column| number_of(&chunk.columns[column], row));
                aside.push(Aside {
                    player: linked,
                    time: chunk.times[row],
                    received: received.map_or(i64::MIN, |ms| ms as i64),
                    is_player: player == linked,
                    number: aside.len() as u32,
                    row: question.read(chunk, row),
                });
            }
            continue;
        }
        question.run(table.get_or_insert(player), player, chunk, rows);
    }
}

fn finish_linked<Q: PlayerQuestion>(
    question: &mut Q,
    control: &Metered<'_>,
    mut aside: Vec<Aside<Q::Row>>,
) -> Result<(), ScanFailure> {
    let bytes = aside.capacity() * size_of::<Aside<Q::Row>>();
    aside.sort_unstable_by_key(|row| (row.player, row.time, row.received, row.is_player, row.number));
    for (number, rows) in aside.chunk_by(|one, next| one.player == next.player).enumerate() {
        if number % PLAYERS_PER_CHECK == 0 {
            control.set(question.bytes() + bytes)?;
        }
        let mut state = Q::State::default();
        for row in rows {
            question.step(&mut state, row.player, row.time, row.row);
        }
        question.finish(rows[0].player, &state);
    }
    question.end_range();
    control.set(question.bytes() + bytes)?;
    Ok(())
}
