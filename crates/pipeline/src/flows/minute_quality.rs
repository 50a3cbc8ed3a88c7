//! The quality of running flows by game and minute. Values are aggregated here and enter the log as one sample per
//! metric, so that a minute of 100,000 flows costs the log as much as a minute of one flow.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::RawEvent;
use model::batch::Samples;
use model::flows::Quality;
use model::rollup::{Aggregate, Bucket, ValueStats};

/// The quality metrics. The count of each is the number of flows.
const QUALITY_METRICS: [&str; 6] =
    ["$flow.mos", "$flow.loss", "$flow.jitter_ms", "$flow.rtt_ms", "$flow.expected", "$flow.lost"];

/// The aggregated quality of one minute.
#[derive(Default)]
pub(super) struct MinuteQuality {
    games: BTreeMap<u32, [Aggregate; QUALITY_METRICS.len()]>,
}

/// The encoded aggregates of one game in a minute.
pub(super) struct EncodedMinute {
    pub(super) game: u32,
    aggregates: Vec<(&'static str, u32, Vec<u8>)>,
}

impl MinuteQuality {
    /// Adds the minute of one flow. A flow without a known round trip adds no value to that metric.
    pub(super) fn add(&mut self, game: u32, quality: &Quality) {
        let values = [
            Some(quality.mos),
            Some(quality.loss()),
            Some(quality.jitter_ms),
            quality.rtt_ms,
            Some(quality.expected as f64),
            Some(quality.lost as f64),
        ];
        let aggregates = self.games.entry(game).or_default();
        for (aggregate, value) in aggregates.iter_mut().zip(values) {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            aggregate.count += 1;
            aggregate.values.get_or_insert_with(Box::<ValueStats>::default).observe(value, Bucket::of(value));
        }
    }

    /// Encodes the aggregates of each game.
    pub(super) fn encode(self) -> Vec<EncodedMinute> {
        let game = |(game, aggregates): (u32, [Aggregate; QUALITY_METRICS.len()])| {
            let named =
                QUALITY_METRICS.into_iter().zip(aggregates).filter(|(_, aggregate)| aggregate.count > 0);
            let encoded = named.map(|(name, aggregate)| {
                let mut bytes = Vec::new();
                aggregate.encode(&mut bytes);
                (name, aggregate.count as u32, bytes)
            });
            EncodedMinute { game, aggregates: encoded.collect() }
        };
        self.games.into_iter().map(game).collect()
    }
}

impl EncodedMinute {
    /// Returns the aggregates as events of the minute that begins at `at_ms`.
    pub(super) fn events(&self, at_ms: i64) -> Vec<RawEvent<'_>> {
        self.aggregates
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

    /// Returns the entries of a minute with this number of flows, as `name count sum p50`.
    fn entries(flows: u32) -> Vec<String> {
        let mut minute = MinuteQuality::default();
        for flow in 0..flows {
            let rtt_ms = (flow % 2 == 0).then_some(f64::from(flow));
            let quality = Quality { expected: 3_000, lost: 30, jitter_ms: 4.0, rtt_ms, mos: 4.0 };
            minute.add(7, &quality);
        }
        let encoded = minute.encode();
        assert!(encoded.iter().all(|encoded| encoded.game == 7));
        let events = encoded.iter().flat_map(|encoded| encoded.events(60_000));
        let describe = |event: RawEvent<'_>| {
            assert_eq!(event.ts_ms, Some(60_000));
            let samples = event.samples.expect("the values are aggregated");
            let aggregate = samples.aggregate().expect("it was encoded");
            assert_eq!(i64::from(samples.received), aggregate.count);
            let values = aggregate.values.expect("there are values");
            let (sum, p50) = (values.sum.value(), values.quantiles.quantile(0.5).unwrap_or_default());
            format!("{} {} {sum} {p50:.1e}", event.name.expect("a name"), aggregate.count)
        };
        events.map(describe).collect()
    }

    #[test]
    fn a_minute_of_any_number_of_flows_is_one_sample_per_metric() {
        let expected = [
            "$flow.mos 1000 4000 4.0e0",
            "$flow.loss 1000 10 1.0e-2",
            "$flow.jitter_ms 1000 4000 4.0e0",
            "$flow.rtt_ms 500 249500 5.0e2",
            "$flow.expected 1000 3000000 3.0e3",
            "$flow.lost 1000 30000 3.0e1",
        ];
        assert_eq!(entries(1_000), expected);
        assert!(entries(0).is_empty());
    }

    #[test]
    fn every_metric_has_a_name_reserved_for_the_server() {
        assert!(QUALITY_METRICS.iter().all(|name| model::admit::INTERNAL_NAMES.contains(name)));
    }
}
