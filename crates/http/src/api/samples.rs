//! Samples over HTTP: from the decoder of a request to the line.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use decode::sample::SampleResult;
use model::batch::Endpoint;
use model::{RawBatch, Reject};
use wal::{Ack, Lane};

use crate::AppState;
use collect::samples::{Dimensions, Gauges, SampleTable};
use pipeline::catalog::Access;
use pipeline::ingest::{Claims, ClientInfo, IngestError, IngestRequest};
use pipeline::reject_tally::RejectTally;

/// The samples of one request, added up.
pub(crate) struct Samples {
    table: SampleTable,
    taken: u64,
    refusals: RejectTally,
    received_ms: i64,
    /// Rows that are yet to be written, once it has been begun.
    entries: Option<VecDeque<Range<usize>>>,
    written: Written,
}

/// What became of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Written {
    /// Samples that are durable.
    pub(crate) accepted: u64,
    /// The others, by reason.
    pub(crate) refused: Vec<(Reject, u32)>,
}

/// Through which door they came, and from where.
#[derive(Clone, Copy)]
pub(crate) struct Door {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: Option<IpAddr>,
}

impl Samples {
    /// None yet, for the credential's game.
    pub(crate) fn new(shared: &AppState, access: &Access, gauges: Arc<Gauges>, received_ms: i64) -> Samples {
        let seed = shared.views.seeds.of(access.game.number);
        let table = SampleTable::new(Dimensions::of(&access.game.settings), seed, gauges);
        let written = Written::default();
        Samples { table, taken: 0, refusals: RejectTally::default(), received_ms, entries: None, written }
    }

    /// Takes what a decoder hands on.
    pub(crate) fn take(&mut self, taken: SampleResult<'_>) {
        match taken {
            Ok(sample) => match self.table.add(&sample, self.received_ms) {
                Ok(()) => self.taken += 1,
                Err(reject) => self.refusals.add(reject, sample.name.as_bytes()),
            },
            Err(refused) => self.refusals.add(refused.reject, refused.text),
        }
    }

    /// Returns when they are durable. After a failure it may be called again, and goes on where it was.
    pub(crate) async fn write(
        &mut self,
        shared: &AppState,
        lane: &Lane<Claims>,
        access: &Access,
        door: Door,
    ) -> Result<Written, IngestError> {
        self.begin();
        self.refusals.show(&shared.views.recent_events, access.game.number, door.endpoint);
        while let Some(rows) = self.entries.as_ref().and_then(|entries| entries.front().cloned()) {
            let decoded = self.table.events(rows.clone());
            let refused = self.entry(shared, lane, access, door, &decoded).await?;
            self.entries.as_mut().map(VecDeque::pop_front);
            for (index, reject) in refused {
                let samples = self.table.sample_count(rows.start + index as usize);
                self.written.accepted -= u64::from(samples);
                add(&mut self.written.refused, reject, samples);
            }
            // They are counted once.
            self.refusals.clear();
        }
        Ok(self.written.clone())
    }

    fn begin(&mut self) {
        if self.entries.is_some() {
            return;
        }
        let mut entries = VecDeque::from(self.table.encode());
        if entries.is_empty() {
            // What was refused is counted all the same.
            entries.push_back(0..0);
        }
        self.entries = Some(entries);
        self.written = Written { accepted: self.taken, refused: self.refusals.counts().to_vec() };
    }

    async fn entry(
        &self,
        shared: &AppState,
        lane: &Lane<Claims>,
        access: &Access,
        door: Door,
        decoded: &RawBatch<'_>,
    ) -> Result<Vec<(u32, Reject)>, IngestError> {
        let Door { endpoint, address } = door;
        let (received_ms, refused) = (self.received_ms, self.refusals.counts());
        let client = ClientInfo { address, user_agent: "" };
        let request = IngestRequest { endpoint, received_ms, ack: Ack::Disk, rejected: refused, client };
        Ok(shared.ingest.submit(lane, access, &request, decoded).await?.rejected)
    }
}

impl Written {
    /// How many were not accepted.
    pub(crate) fn refused_count(&self) -> u64 {
        self.refused.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// `2 malformed_line, 1 ts_invalid`; empty if all were accepted.
    pub(crate) fn reasons(&self) -> String {
        let one = |(reject, count): &(Reject, u32)| format!("{count} {}", reject.label());
        self.refused.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

fn add(refused: &mut Vec<(Reject, u32)>, reject: Reject, count: u32) {
    match refused.iter_mut().find(|(other, _)| *other == reject) {
        Some((_, sum)) => *sum = sum.saturating_add(count),
        None => refused.push((reject, count)),
    }
}
