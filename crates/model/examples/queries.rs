//! Benchmark of queries without the cost of a store: `cargo run --release -p playmeter-model --example queries`.
//!
//! The store is a list of aggregates, the cheapest possible. The time of visiting it is measured first and
//! subtracted.

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use model::Dimension;
use model::deltas::Deltas;
use model::ports::counters::{self, Checkpoint, Counters, SideState, SlotSelector, StoreError};
use model::ports::records::Records;
use model::query::{Measure, MetricQuery, Query, QueryDimension, Step, Unbounded, run};
use model::rollup::{Aggregate, hash_player};
use model::series::Resolution;

const NOW_MIN: u32 = 29_750_400;

/// Rows that have the same aggregate in every slot.
struct Rows {
    names: Vec<String>,
    aggregate: Aggregate,
}

impl Records for Rows {
    fn record(&self, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn records(&self, _: &[u8], _: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Counters for Rows {
    fn apply(&self, _: Range<u64>, _: &Deltas) -> Result<(), StoreError> {
        unreachable!("this store is only read")
    }

    fn applied_until(&self) -> u64 {
        0
    }

    fn durable_until(&self) -> u64 {
        0
    }

    fn checkpoint(&self, _: SideState) -> Box<dyn Checkpoint> {
        unreachable!("this store is only read")
    }

    fn side_state(&self, _: &str) -> Result<Option<Vec<u8>>, StoreError> {
        unreachable!("this store is only read")
    }

    fn export(&self, _: &Range<u32>) -> Result<(u64, counters::ExportedRows), StoreError> {
        unreachable!("this store is only read")
    }

    fn snapshot(&self) -> Result<Box<dyn counters::StoreSnapshot>, StoreError> {
        unreachable!("this store is only read")
    }

    fn link_files(&self, _: &std::path::Path) -> Result<(), StoreError> {
        unreachable!("this store is only read")
    }

    fn remove_rows(&self, _: u32, _: usize) -> Result<usize, StoreError> {
        unreachable!("this store is only read")
    }

    fn replace(&self, _: &[counters::RowChange]) -> Result<(), StoreError> {
        unreachable!("this store is only read")
    }

    fn visit(
        &self,
        select: SlotSelector<'_>,
        minutes: Range<u32>,
        visit: &mut dyn FnMut(&str, u32, &Aggregate),
    ) -> Result<(), StoreError> {
        let slots = || minutes.clone().step_by(select.resolution.minutes() as usize);
        match select.resolution {
            Resolution::Minute => {
                self.names.iter().for_each(|row| slots().for_each(|slot| visit(row, slot, &self.aggregate)))
            }
            // Hours are visited block by block, each with all its rows.
            Resolution::Hour => {
                slots().for_each(|slot| self.names.iter().for_each(|row| visit(row, slot, &self.aggregate)))
            }
        }
        Ok(())
    }

    fn metrics(&self, _: u32, _: Range<u32>) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }
}

/// Returns the time of the fastest of many runs in microseconds, to exclude other load on the machine.
fn fastest(mut run: impl FnMut()) -> f64 {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e6
    };
    (0..300).map(|_| once(&mut run)).fold(f64::INFINITY, f64::min)
}

fn measure(name: &str, rows: usize, players: usize, days: i64, query: Query) {
    let mut aggregate = Aggregate { count: 7, ..Aggregate::default() };
    (0..players).for_each(|player| aggregate.players.insert(hash_player(1, &player.to_le_bytes())));
    let store = Rows { names: (0..rows).map(|row| format!("C{row}")).collect(), aggregate };
    let now_ms = i64::from(NOW_MIN) * 60_000;
    let query = Query { from_ms: Some(now_ms - days * 86_400_000), until_ms: Some(now_ms), ..query };
    let plan = query.plan(now_ms, "UTC").expect("a valid query");
    let planning = fastest(|| drop(black_box(query.plan(now_ms, "UTC"))));
    let running = fastest(|| drop(black_box(run(&plan, 1, &store, None, &Unbounded))));
    let resolution = if query.step == Some(Step::Minute) { Resolution::Minute } else { Resolution::Hour };
    let select = SlotSelector { game: 1, metric: "a", cut: plan.cut(), values: None, resolution };
    let mut sum = 0;
    let visiting = fastest(|| {
        let mut visit = |row: &str, slot: u32, aggregate: &Aggregate| {
            sum += row.len() as i64 + i64::from(slot) + aggregate.count
        };
        store.visit(select, plan.window(), black_box(&mut visit)).expect("the store does not fail");
    });
    black_box(sum);
    println!(
        "{name:<52} plan {planning:>8.2}  visiting {visiting:>8.2}  beyond {:>8.2} us",
        running - visiting
    );
}

fn main() {
    let of = |measure, step, by: &[QueryDimension]| Query {
        metrics: vec![MetricQuery { metric: "a".into(), measure: Some(measure), as_name: None }],
        step: Some(step),
        by: by.to_vec(),
        ..Query::default()
    };
    let country = [QueryDimension::BuiltIn(Dimension::Country)];
    measure("a day by the minute, count", 1, 0, 1, of(Measure::Count, Step::Minute, &[]));
    measure("30 days by the hour, count", 1, 0, 30, of(Measure::Count, Step::Hour, &[]));
    measure("30 days by the day, count", 1, 0, 30, of(Measure::Count, Step::Day, &[]));
    measure(
        "30 days by the day in Paris, count",
        1,
        0,
        30,
        Query { tz: Some("Europe/Paris".into()), ..of(Measure::Count, Step::Day, &[]) },
    );
    measure(
        "30 days by the hour, 20 countries, top 10",
        20,
        0,
        30,
        Query { top: Some(10), ..of(Measure::Count, Step::Hour, &country) },
    );
    measure(
        "a day by the minute, 20 countries, top 10",
        20,
        0,
        1,
        Query { top: Some(10), ..of(Measure::Count, Step::Minute, &country) },
    );
    measure("a day by the minute, 50 players a minute", 1, 50, 1, of(Measure::Uniques, Step::Minute, &[]));
    measure(
        "a day by the minute, 5,000 players a minute",
        1,
        5_000,
        1,
        of(Measure::Uniques, Step::Minute, &[]),
    );
}
