//! The quality of running flows, by game and minute: values that are added up here and enter the log as one sample for
//! each figure, so that a minute of a hundred thousand flows costs the log what a minute of one does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::RawEvent;
use model::batch::Samples;
use model::flows::Quality;
use model::rollup::{Aggregate, Bucket, ValueStats};

/// The figures, each a metric: how many flows is its count.
const FIGURES: [&str; 6] =
    ["$flow.mos", "$flow.loss", "$flow.jitter_ms", "$flow.rtt_ms", "$flow.expected", "$flow.lost"];

/// The figures of one minute.
#[derive(Default)]
pub(super) struct Minute {
    games: BTreeMap<u32, [Aggregate; FIGURES.len()]>,
}

/// The figures of one game in a minute, encoded.
pub(super) struct Told {
    pub game: u32,
    cells: Vec<(&'static str, u32, Vec<u8>)>,
}

impl Minute {
    /// Adds the minute of one flow. A flow of which no round trip is known has no value there.
    pub fn add(&mut self, game: u32, quality: &Quality) {
        let values = [
            Some(quality.mos),
            Some(quality.loss()),
            Some(quality.jitter_ms),
            quality.rtt_ms,
            Some(quality.expected as f64),
            Some(quality.lost as f64),
        ];
        let cells = self.games.entry(game).or_default();
        for (cell, value) in cells.iter_mut().zip(values) {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            cell.count += 1;
            cell.values.get_or_insert_with(Box::<ValueStats>::default).observe(value, Bucket::of(value));
        }
    }

    /// What goes into the log, game by game.
    pub fn told(self) -> Vec<Told> {
        let game = |(game, cells): (u32, [Aggregate; FIGURES.len()])| {
            let named = FIGURES.into_iter().zip(cells).filter(|(_, cell)| cell.count > 0);
            let encoded = named.map(|(name, cell)| {
                let mut bytes = Vec::new();
                cell.encode(&mut bytes);
                (name, cell.count as u32, bytes)
            });
            Told { game, cells: encoded.collect() }
        };
        self.games.into_iter().map(game).collect()
    }
}

impl Told {
    /// As events of the minute that begins at `at_ms`.
    pub fn events(&self, at_ms: i64) -> Vec<RawEvent<'_>> {
        self.cells
            .iter()
            .map(|(name, taken, cell)| RawEvent {
                name: Some(Cow::Borrowed(name)),
                ts_ms: Some(at_ms),
                samples: Some(Samples { received: *taken, aggregate: cell }),
                ..RawEvent::default()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the log gets of a minute of so many flows: `name count sum p50`.
    fn told(flows: u32) -> Vec<String> {
        let mut minute = Minute::default();
        for flow in 0..flows {
            let rtt_ms = (flow % 2 == 0).then_some(f64::from(flow));
            let quality = Quality { expected: 3_000, lost: 30, jitter_ms: 4.0, rtt_ms, mos: 4.0 };
            minute.add(7, &quality);
        }
        let told = minute.told();
        assert!(told.iter().all(|told| told.game == 7));
        let events = told.iter().flat_map(|told| told.events(60_000));
        let tell = |event: RawEvent<'_>| {
            assert_eq!(event.ts_ms, Some(60_000));
            let samples = event.samples.expect("they were added up");
            let cell = samples.aggregate().expect("it was encoded");
            assert_eq!(i64::from(samples.received), cell.count);
            let values = cell.values.expect("there are values");
            let (sum, p50) = (values.sum.value(), values.quantiles.quantile(0.5).unwrap_or_default());
            format!("{} {} {sum} {p50:.1e}", event.name.expect("a name"), cell.count)
        };
        events.map(tell).collect()
    }

    #[test]
    fn a_minute_is_one_sample_for_each_figure_however_many_flows_there_are() {
        let expected = [
            "$flow.mos 1000 4000 4.0e0",
            "$flow.loss 1000 10 1.0e-2",
            "$flow.jitter_ms 1000 4000 4.0e0",
            "$flow.rtt_ms 500 249500 5.0e2",
            "$flow.expected 1000 3000000 3.0e3",
            "$flow.lost 1000 30000 3.0e1",
        ];
        assert_eq!(told(1_000), expected);
        assert!(told(0).is_empty());
    }

    #[test]
    fn every_figure_has_a_name_that_only_the_server_may_use() {
        assert!(FIGURES.iter().all(|name| model::admit::INTERNAL_NAMES.contains(name)));
    }
}
