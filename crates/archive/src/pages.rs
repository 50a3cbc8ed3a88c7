//! All events of a game in pages, in an order that never changes.
//!
//! Events come by UTC day, then by the hash of the player, then by time, those of the same time in the order of the log.
//! Cutting, merging and erasing keep that order, and a later event never comes between two earlier ones of the same
//! player and time. So a cursor names a place by what cannot change, and every event that was there when a reader began
//! is on exactly one page.

mod cursor;
mod rows;

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use model::query::QueryControl;
use parking_lot::Mutex;
use wal::DiskFile;

pub use cursor::{EventCursor, InvalidCursor};

use crate::archive::erase_rows;
use crate::builder::Day;
use crate::columns::Chunk;
use crate::merge::{CHUNK_ROWS, Cut, Filter, Merge, PartStream, Stream, TableStream};
use crate::part::PartWriter;
use crate::scan::ScanFailure;
use crate::shape::{FIXED, Projection, Property, Shape};
use crate::snapshot::{Place, Snapshot, WriteFailure};
use rows::RowWriter;

/// Events that are read at once, unless they are a row group of Parquet.
const ROWS_AT_ONCE: u64 = 4_096;
/// Memory of the events that are read at once, about.
const BYTES_AT_ONCE: usize = 16 << 20;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 64 << 10;

/// How a page is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFormat {
    /// One JSON object per line; fields without a value are left out.
    Ndjson,
    /// RFC 4180 with a header; texts that a spreadsheet would run are neutralised.
    Csv,
    /// A Parquet file like those of the archive, so with events of one day only.
    Parquet,
}

/// Which events are on a page.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// The times of the events, milliseconds since 1970.
    pub times: Range<i64>,
    /// Where the page begins; `None` for the first one.
    pub from: Option<EventCursor>,
    /// The most events of a page.
    pub rows_max: u64,
    /// The format.
    pub format: PageFormat,
    /// Players, as hashes, whose events have nothing that identifies them, as if they were erased already.
    pub hidden_players: Vec<u64>,
}

/// A page of events, whose rows are read when it is written.
pub struct EventPage {
    snapshot: Snapshot,
    times: Range<i64>,
    format: PageFormat,
    hidden_players: HashSet<u64>,
    days: Vec<PageDay>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<EventCursor>,
}

/// The events of one day that are on a page.
struct PageDay {
    day: Day,
    /// The hash of the first player.
    player: u64,
    /// Events from that player on that were on an earlier page.
    skip: u64,
    rows: u64,
}

impl EventPage {
    /// Finds out where a page ends. Reads the times and players of its events, unless it has whole days only.
    pub fn plan(
        snapshot: Snapshot,
        request: PageRequest,
        control: &dyn QueryControl,
    ) -> Result<EventPage, ScanFailure> {
        let PageRequest { times, from, rows_max, format, hidden_players } = request;
        let hidden_players = hidden_players.into_iter().collect();
        let mut page = EventPage { snapshot, times, format, hidden_players, days: Vec::new(), next: None };
        let filter = Filter::of_times(page.times.clone());
        let first = from.map_or(Day::MIN, |from| from.day);
        for (day, places) in page.snapshot.places(&filter).range(first..) {
            let from = from.filter(|from| from.day == *day).unwrap_or(EventCursor::start_of(*day));
            let left = rows_max.saturating_sub(page.rows());
            if left == 0 || (format == PageFormat::Parquet && !page.days.is_empty()) {
                page.next = Some(from);
                break;
            }
            let (found, next) = page.plan_day(places, from, left, control)?;
            if found.rows > 0 {
                page.days.push(found);
            }
            if next.is_some() {
                page.next = next;
                break;
            }
        }
        Ok(page)
    }

    /// Returns the number of events.
    pub fn rows(&self) -> u64 {
        self.days.iter().map(|day| day.rows).sum()
    }

    /// Returns the events of a day from a place on, at most `left`, and the place of the next one.
    fn plan_day(
        &self,
        places: &[Place],
        from: EventCursor,
        left: u64,
        control: &dyn QueryControl,
    ) -> Result<(PageDay, Option<EventCursor>), ScanFailure> {
        let mut found = PageDay { day: from.day, player: from.player, skip: 0, rows: 0 };
        let all: u64 = places.iter().map(Place::rows).sum();
        let is_whole = places.iter().all(|place| {
            let times = place.times();
            self.times.start <= times.start && times.end <= self.times.end
        });
        if from == EventCursor::start_of(from.day) && is_whole && all <= left {
            found.rows = all;
            return Ok((found, None));
        }
        let mut merge = self.merge(places, from.player, Columns::None)?;
        let mut at = EventCursor::start_of(from.day);
        let mut is_first = true;
        while let Some(rows) = merge.next(Cut::Rows(CHUNK_ROWS), control)? {
            for (player, time) in rows.players.iter().zip(&rows.times) {
                let is_same = !is_first && (at.player, at.time) == (*player, *time);
                let index = if is_same { at.index + 1 } else { 0 };
                at = EventCursor { day: from.day, player: *player, time: *time, index };
                is_first = false;
                if at < from {
                    found.skip += 1;
                } else if found.rows == left {
                    return Ok((found, Some(at)));
                } else {
                    found.rows += 1;
                }
            }
        }
        Ok((found, None))
    }

    fn merge<'a>(
        &'a self,
        places: &[Place],
        first_player: u64,
        columns: Columns<'_>,
    ) -> Result<Merge<'a>, ScanFailure> {
        let mut filter = Filter::of_times(self.times.clone());
        filter.players = first_player..=u64::MAX;
        let mut streams = Vec::with_capacity(places.len());
        for place in places {
            let stream: Box<dyn Stream> = match place {
                Place::File(part) => {
                    let reader = part.open()?;
                    let projection = columns.projection(reader.shape());
                    Box::new(PartStream::new(reader, projection, filter.clone()))
                }
                Place::Memory(table) => {
                    let projection = columns.projection(&table.shape);
                    Box::new(TableStream::new(table.clone(), projection, filter.clone()))
                }
            };
            let is_changed = matches!(columns, Columns::All(_)) && !self.hidden_players.is_empty();
            streams.push(if is_changed { Box::new(Hidden { stream, page: self }) } else { stream });
        }
        Ok(Merge::new(streams, columns.width()))
    }

    /// Writes the page in pieces.
    pub fn write(
        &self,
        control: &dyn QueryControl,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), WriteFailure> {
        match self.format {
            PageFormat::Parquet => self.write_parquet(control, out),
            PageFormat::Csv => self.write_rows(RowWriter::csv(), control, out),
            PageFormat::Ndjson => self.write_rows(RowWriter::ndjson(), control, out),
        }
    }

    fn write_rows(
        &self,
        mut writer: RowWriter,
        control: &dyn QueryControl,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), WriteFailure> {
        let mut buffer = Vec::new();
        writer.start(&mut buffer);
        for day in &self.days {
            // All properties are in the column `props`.
            self.read_day(day, &[], control, &mut |rows| {
                for row in 0..rows.rows() {
                    writer.row(&mut buffer, rows, row);
                    if buffer.len() >= WRITE_BYTES {
                        out(&buffer)?;
                        buffer.clear();
                    }
                }
                Ok(())
            })?;
        }
        Ok(out(&buffer)?)
    }

    fn write_parquet(
        &self,
        control: &dyn QueryControl,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), WriteFailure> {
        let day = self.days.first();
        let properties = day.map_or(Ok(Vec::new()), |day| self.properties(day))?;
        let file = Arc::new(Written::default());
        let number = day.map_or(0, |day| day.day);
        let mut writer = PartWriter::on(file.clone(), 0, number, (0, 0), &properties)?;
        if let Some(day) = day {
            self.read_day(day, &properties, control, &mut |rows| {
                writer.row_group(rows)?;
                out(&file.take())
            })?;
        }
        writer.finish_temporary()?;
        Ok(out(&file.take())?)
    }

    /// Returns the properties that have a column of their own in a file with the events of a day.
    fn properties(&self, day: &PageDay) -> Result<Vec<Property>, ScanFailure> {
        let places = self.places_of(day);
        let mut shapes = Vec::with_capacity(places.len());
        for place in &places {
            shapes.push(match place {
                Place::File(part) => part.open()?.shape().clone(),
                Place::Memory(table) => Shape::clone(&table.shape),
            });
        }
        let properties = Shape::merge(places.iter().map(Place::rows).sum(), &shapes);
        Ok(properties.into_iter().map(|property| Property { rows: 0, ..property }).collect())
    }

    fn places_of(&self, day: &PageDay) -> Vec<Place> {
        let mut places = self.snapshot.places(&Filter::of_times(self.times.clone()));
        places.remove(&day.day).unwrap_or_default()
    }

    /// Hands out the events of a day that are on the page, in chunks.
    fn read_day(
        &self,
        day: &PageDay,
        properties: &[Property],
        control: &dyn QueryControl,
        write: &mut dyn FnMut(&Chunk) -> io::Result<()>,
    ) -> Result<(), WriteFailure> {
        let mut merge = self.merge(&self.places_of(day), day.player, Columns::All(properties))?;
        let (mut skip, mut left) = (day.skip, day.rows);
        while left > 0 {
            let max = if skip > 0 { skip } else { left };
            let rows = match self.format {
                PageFormat::Parquet if skip == 0 => max.min(CHUNK_ROWS as u64),
                _ => max.min(ROWS_AT_ONCE),
            };
            let cut = Cut::Bounded { rows: rows as usize, bytes: BYTES_AT_ONCE };
            let Some(rows) = merge.next(cut, control)? else { break };
            if skip > 0 {
                skip -= rows.rows() as u64;
            } else {
                left -= rows.rows() as u64;
                write(&rows)?;
            }
        }
        Ok(())
    }
}

/// Which columns a pass over events reads.
enum Columns<'a> {
    /// Players and times only.
    None,
    /// The fixed ones, those of these properties, and the JSON of the rest.
    All(&'a [Property]),
}

impl Columns<'_> {
    fn projection(&self, shape: &Shape) -> Projection {
        match self {
            Columns::None => Projection::of_fields(shape, &[], false),
            Columns::All(properties) => Projection::of_shape(shape, properties),
        }
    }

    fn width(&self) -> usize {
        match self {
            Columns::None => 0,
            Columns::All(properties) => FIXED.len() + properties.len() + 1,
        }
    }
}

/// Rows without what identifies the hidden players of a page.
struct Hidden<'a> {
    stream: Box<dyn Stream + 'a>,
    page: &'a EventPage,
}

impl Stream for Hidden<'_> {
    fn next(&mut self) -> Result<Option<Arc<Chunk>>, ScanFailure> {
        let next = self.stream.next()?;
        Ok(next.map(|rows| {
            let mut rows = Arc::unwrap_or_clone(rows);
            erase_rows(&mut rows, self.page.snapshot.seed(), &self.page.hidden_players);
            Arc::new(rows)
        }))
    }

    fn bytes(&self) -> usize {
        self.stream.bytes()
    }
}

/// What was written and not yet taken. It is written from the start to the end.
#[derive(Default)]
struct Written(Mutex<Vec<u8>>);

impl Written {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock())
    }
}

impl DiskFile for Written {
    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&self, bytes: &[u8], _: u64) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn bytes(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
