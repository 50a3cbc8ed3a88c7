//! The events of one game at one position of the log, as questions read them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::query::{QueryControl, QueryStopped};
use wal::RealDisk;

use crate::archive::{OpenTail, Part, Segment};
use crate::builder::{Day, Table, day_of, start_of};
use crate::columns::Chunk;
use crate::merge::{CHUNK_ROWS, Cut, Filter, Merge, PartStream, Stream, TableStream};
use crate::part::PartWriter;
use crate::scan::{Order, ScanFailure, ScanRequest, Source};
use crate::shape::{FIXED, Projection, Property, Shape};

/// Players of one range of [`Source::player_ranges`], at most, as far as hashes are even.
const RANGE_PLAYERS: u64 = 1 << 20;
const RANGES_MAX: u64 = 4_096;

/// Bytes of a row group in memory, about.
const GROUP_BYTES: usize = 16 << 20;

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteFailure {
    /// Reading the events failed or was stopped.
    #[error(transparent)]
    Scan(#[from] ScanFailure),
    /// The disk failed or is full.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// All events of a game that were appended before it was taken.
pub struct Snapshot {
    seed: u64,
    parts: Vec<Arc<Part>>,
    segments: Vec<Arc<Segment>>,
    open: Arc<OpenTail>,
    deleted_before: Option<Day>,
}

/// Where rows of one day are, in the order of the log.
pub(crate) enum Place {
    File(Arc<Part>),
    Memory(Arc<Table>),
}

impl Place {
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Place::File(part) => part.info.rows,
            Place::Memory(table) => table.rows() as u64,
        }
    }

    /// Returns the time of the first row, and that of the last one plus one.
    pub(crate) fn times(&self) -> Range<i64> {
        match self {
            Place::File(part) => part.info.times.0..part.info.times.1,
            Place::Memory(table) => table.times.clone(),
        }
    }
}

impl Snapshot {
    pub(crate) fn new(
        seed: u64,
        parts: Vec<Arc<Part>>,
        segments: Vec<Arc<Segment>>,
        open: Arc<OpenTail>,
        deleted_before: Option<Day>,
    ) -> Snapshot {
        Snapshot { seed, parts, segments, open, deleted_before }
    }

    pub(crate) fn empty() -> Snapshot {
        Snapshot::new(0, Vec::new(), Vec::new(), Arc::default(), None)
    }

    /// Returns the time of the first event, and that of the last one plus one. `None` if there are no events.
    pub fn times(&self) -> Option<Range<i64>> {
        let files = self.parts.iter().map(|part| part.info.times.0..part.info.times.1);
        let memory = self.tables().into_iter().map(|table| table.times.clone());
        files.chain(memory).reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
    }

    /// Returns the time from which on there are events, if older ones were deleted because of their age: the start of the
    /// first day that was kept, or of the first day of an event that is older all the same, milliseconds since 1970.
    pub fn events_since(&self) -> Option<i64> {
        let deleted_before = self.deleted_before?;
        let oldest = self.times().map_or(deleted_before, |times| day_of(times.start));
        Some(start_of(deleted_before.min(oldest)))
    }

    /// Returns the number of events.
    pub fn events(&self) -> u64 {
        let files = self.parts.iter().map(|part| part.info.rows).sum::<u64>();
        files + self.tables().iter().map(|table| table.rows() as u64).sum::<u64>()
    }

    /// Returns the files. They stay until the snapshot is dropped.
    pub fn files(&self) -> Vec<PathBuf> {
        self.parts.iter().map(|part| part.path().to_owned()).collect()
    }

    /// Returns about how many bytes of memory the events take that are in no file.
    pub fn newest_bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes()).sum::<usize>() + self.open.bytes()
    }

    /// Writes the events that are in no file to a new file like those of the archive, without making it durable.
    /// Returns false, and writes nothing, if there are none.
    pub fn write_newest(&self, path: &Path, control: &dyn QueryControl) -> Result<bool, WriteFailure> {
        let tables = self.tables();
        let Some(day) = tables.iter().map(|table| table.day).min() else { return Ok(false) };
        let rows = tables.iter().map(|table| table.rows() as u64).sum();
        let properties = Shape::merge(rows, tables.iter().map(|table| &*table.shape));
        let properties: Vec<Property> =
            properties.into_iter().map(|property| Property { rows: 0, ..property }).collect();
        let stream = |table: &Arc<Table>| -> Box<dyn Stream> {
            let projection = Projection::of_shape(&table.shape, &properties);
            Box::new(TableStream::new(table.clone(), projection, Filter::all()))
        };
        let mut merge = Merge::new(tables.iter().map(stream).collect(), FIXED.len() + properties.len() + 1);
        let mut writer = PartWriter::create(&RealDisk, path, 0, day, (0, 0), &properties)?;
        while let Some(group) = merge.next(Cut::Players { rows: CHUNK_ROWS, bytes: GROUP_BYTES }, control)? {
            writer.row_group(&group)?;
        }
        writer.finish_temporary()?;
        Ok(true)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the names of properties that events of these times and players may have: at most `count_max`, those with a
    /// column of their own first.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is damaged.
    pub fn property_names(
        &self,
        times: Range<i64>,
        players: RangeInclusive<u64>,
        count_max: usize,
    ) -> Result<Vec<Box<str>>, ScanFailure> {
        let mut filter = Filter::of_times(times);
        filter.players = players;
        let (mut own, mut rest) = (BTreeSet::new(), BTreeSet::new());
        for place in self.places(&filter).into_values().flatten() {
            match place {
                Place::File(part) => insert_names(part.open()?.shape(), &mut own, &mut rest),
                Place::Memory(table) => insert_names(&table.shape, &mut own, &mut rest),
            }
        }
        let rest = rest.into_iter().filter(|name| !own.contains(name)).collect::<Vec<_>>();
        Ok(own.into_iter().chain(rest).take(count_max).collect())
    }

    fn tables(&self) -> Vec<Arc<Table>> {
        let sealed = self.segments.iter().flat_map(|segment| segment.tables.iter().cloned());
        // Appending has checked the entries.
        let open = self.open.tables(self.seed).unwrap_or_default();
        sealed.chain(open.iter().cloned()).collect()
    }

    /// Returns where rows of these times are, by day.
    pub(crate) fn places(&self, filter: &Filter) -> BTreeMap<Day, Vec<Place>> {
        let mut days: BTreeMap<Day, Vec<Place>> = BTreeMap::new();
        for part in &self.parts {
            if filter.may_match(part.info.times, part.info.hashes) {
                days.entry(part.info.day).or_default().push(Place::File(part.clone()));
            }
        }
        for table in self.tables() {
            if filter.may_match((table.times.start, table.times.end), (0, u64::MAX)) {
                days.entry(table.day).or_default().push(Place::Memory(table));
            }
        }
        days
    }

    fn open<'a>(
        &self,
        place: &Place,
        request: &ScanRequest,
        filter: &Filter,
    ) -> Result<Box<dyn Stream + 'a>, ScanFailure> {
        let reads_event = request.events.is_some();
        Ok(match place {
            Place::File(part) => {
                let reader = part.open()?;
                let projection = Projection::of_fields(reader.shape(), &request.fields, reads_event);
                Box::new(PartStream::new(reader, projection, filter.clone()))
            }
            Place::Memory(table) => {
                let projection = Projection::of_fields(&table.shape, &request.fields, reads_event);
                Box::new(TableStream::new(table.clone(), projection, filter.clone()))
            }
        })
    }
}

/// Inserts the names of properties with a column, and of those in the JSON of the rest.
fn insert_names(shape: &Shape, own: &mut BTreeSet<Box<str>>, rest: &mut BTreeSet<Box<str>>) {
    own.extend(shape.properties.iter().map(|property| property.name.clone()));
    rest.extend(shape.rest.rows.keys().cloned());
}

impl Source for Snapshot {
    fn player_ranges(&self, times: Range<i64>) -> Vec<RangeInclusive<u64>> {
        let filter = Filter::of_times(times);
        let count = |place: &Place| match place {
            Place::File(part) => part.info.players,
            Place::Memory(table) => table.players,
        };
        let players: u64 = self.places(&filter).values().flatten().map(count).sum();
        let ranges = players.div_ceil(RANGE_PLAYERS).clamp(1, RANGES_MAX);
        let first = |range: u64| ((u128::from(range) << 64) / u128::from(ranges)) as u64;
        let last = |range: u64| if range + 1 == ranges { u64::MAX } else { first(range + 1) - 1 };
        (0..ranges).map(|range| first(range)..=last(range)).collect()
    }

    fn scan(
        &self,
        request: &ScanRequest,
        control: &dyn QueryControl,
        rows: &mut dyn FnMut(&Chunk) -> Result<(), QueryStopped>,
    ) -> Result<(), ScanFailure> {
        if request.times.is_empty() || request.players.is_empty() {
            return Ok(());
        }
        let filter = Filter::of(request);
        for places in self.places(&filter).into_values() {
            let mut streams = Vec::with_capacity(places.len());
            if places.len() == 1 || request.order == Order::Any {
                for place in &places {
                    let mut stream = self.open(place, request, &filter)?;
                    let mut bytes = 0;
                    loop {
                        control.check(bytes)?;
                        let Some(chunk) = stream.next()? else { break };
                        if chunk.rows() > 0 {
                            bytes = stream.bytes() + chunk.bytes();
                            rows(&chunk)?;
                        }
                    }
                }
                continue;
            }
            for place in &places {
                streams.push(self.open(place, request, &filter)?);
            }
            let mut merge = Merge::new(streams, request.fields.len());
            while let Some(chunk) = merge.next(Cut::Rows(CHUNK_ROWS), control)? {
                rows(&chunk)?;
            }
        }
        Ok(())
    }
}
