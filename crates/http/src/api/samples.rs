//! Samples of one HTTP request: from its decoder to the log.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use collect::samples::{Dimensions, Gauges, SampleTable};
use decode::sample::SampleResult;
use model::batch::Endpoint;
use model::{RawBatch, Reject};
use pipeline::catalog::Access;
use pipeline::ingest::{Claims, ClientInfo, IngestError, IngestRequest};
use pipeline::reject_tally::RejectTally;
use wal::{Ack, Lane};

use crate::AppState;

/// The samples of one request, aggregated.
pub(crate) struct SampleBatch {
    table: SampleTable,
    added: u64,
    rejects: RejectTally,
    received_ms: i64,
    /// Rows that are not written yet; `None` before the first attempt.
    entries: Option<VecDeque<Range<usize>>>,
    written: SampleReceipt,
}

/// The outcome of a batch of samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SampleReceipt {
    /// Number of durable samples.
    pub(crate) accepted: u64,
    /// Number of rejected samples by reason.
    pub(crate) rejected: Vec<(Reject, u32)>,
}

/// The endpoint and the client address of a batch.
#[derive(Clone, Copy)]
pub(crate) struct SampleOrigin {
    pub(crate) endpoint: Endpoint,
    pub(crate) address: Option<IpAddr>,
}

impl SampleBatch {
    pub(crate) fn new(
        shared: &AppState,
        access: &Access,
        gauges: Arc<Gauges>,
        received_ms: i64,
    ) -> SampleBatch {
        let seed = shared.views.seeds.of(access.game.number);
        let table = SampleTable::new(Dimensions::of(&access.game.settings), seed, gauges);
        let written = SampleReceipt::default();
        SampleBatch { table, added: 0, rejects: RejectTally::default(), received_ms, entries: None, written }
    }

    /// Adds a sample, or counts the reject of the decoder.
    pub(crate) fn add(&mut self, sample: SampleResult<'_>) {
        match sample {
            Ok(sample) => match self.table.add(&sample, self.received_ms) {
                Ok(()) => self.added += 1,
                Err(reject) => self.rejects.add(reject, sample.name.as_bytes()),
            },
            Err(refused) => self.rejects.add(refused.reject, refused.text),
        }
    }

    /// Writes the samples and returns once they are durable. After a failure it may be called again and continues.
    pub(crate) async fn write(
        &mut self,
        shared: &AppState,
        lane: &Lane<Claims>,
        access: &Access,
        origin: SampleOrigin,
    ) -> Result<SampleReceipt, IngestError> {
        self.prepare();
        self.rejects.show(&shared.views.recent_events, access.game.number, origin.endpoint);
        while let Some(rows) = self.entries.as_ref().and_then(|entries| entries.front().cloned()) {
            let decoded = self.table.events(rows.clone());
            let rejected = self.write_rows(shared, lane, access, origin, &decoded).await?;
            self.entries.as_mut().map(VecDeque::pop_front);
            for (index, reject) in rejected {
                let samples = self.table.sample_count(rows.start + index as usize);
                self.written.accepted -= u64::from(samples);
                add_count(&mut self.written.rejected, reject, samples);
            }
            // Count the rejects only once.
            self.rejects.clear();
        }
        Ok(self.written.clone())
    }

    fn prepare(&mut self) {
        if self.entries.is_some() {
            return;
        }
        let mut entries = VecDeque::from(self.table.encode());
        if entries.is_empty() {
            // An empty entry still counts the rejects.
            entries.push_back(0..0);
        }
        self.entries = Some(entries);
        self.written = SampleReceipt { accepted: self.added, rejected: self.rejects.counts().to_vec() };
    }

    async fn write_rows(
        &self,
        shared: &AppState,
        lane: &Lane<Claims>,
        access: &Access,
        origin: SampleOrigin,
        decoded: &RawBatch<'_>,
    ) -> Result<Vec<(u32, Reject)>, IngestError> {
        let SampleOrigin { endpoint, address } = origin;
        let (received_ms, refused) = (self.received_ms, self.rejects.counts());
        let client = ClientInfo { address, user_agent: "" };
        let request = IngestRequest { endpoint, received_ms, ack: Ack::Disk, rejected: refused, client };
        Ok(shared.ingest.submit(lane, access, &request, decoded).await?.rejected)
    }
}

impl SampleReceipt {
    pub(crate) fn rejected_count(&self) -> u64 {
        self.rejected.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// Returns the rejects as text, such as `2 malformed_line, 1 ts_invalid`; empty if all samples were accepted.
    pub(crate) fn reasons(&self) -> String {
        let one = |(reject, count): &(Reject, u32)| format!("{count} {}", reject.label());
        self.rejected.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

pub(super) fn add_count(rejected: &mut Vec<(Reject, u32)>, reject: Reject, count: u32) {
    match rejected.iter_mut().find(|(other, _)| *other == reject) {
        Some((_, sum)) => *sum = sum.saturating_add(count),
        None => rejected.push((reject, count)),
    }
}
