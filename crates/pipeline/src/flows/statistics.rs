//! Statistics of the running flows of a game.

use model::flows::{Flow, Quality};
use model::rollup::{Bucket, Quantiles};
use serde_json::{Value, json};

use super::summary::rounded;

/// Tenths of a MOS from 1 to 4.5, the maximum.
const MOS_TENTHS: usize = 36;
/// Hundredths of a MOS from 0 to 4.5.
const MOS_HUNDREDTHS: usize = 451;
/// The age up to which a flow counts as just begun.
const BEGAN_MS: i64 = 60_000;

/// Statistics of the running flows of a game. Quantiles of the MOS are exact to a hundredth, the others within one
/// percent, as those of queries.
#[derive(Debug)]
pub struct FlowStatistics {
    now_ms: i64,
    /// The number of running flows.
    pub running: u64,
    began: u64,
    expected: u64,
    lost: u64,
    mos_tenths: [u64; MOS_TENTHS],
    mos_hundredths: Box<[u64; MOS_HUNDREDTHS]>,
    jitter_ms: Quantiles,
    rtt_ms: Quantiles,
}

impl FlowStatistics {
    /// Creates statistics of no flows. `now_ms` is in milliseconds since 1970.
    pub fn new(now_ms: i64) -> FlowStatistics {
        FlowStatistics {
            now_ms,
            running: 0,
            began: 0,
            expected: 0,
            lost: 0,
            mos_tenths: [0; MOS_TENTHS],
            mos_hundredths: Box::new([0; MOS_HUNDREDTHS]),
            jitter_ms: Quantiles::default(),
            rtt_ms: Quantiles::default(),
        }
    }

    /// Adds a flow. `recent` is its [`Flow::recent_quality`].
    pub fn add(&mut self, flow: &Flow, recent: &Quality) {
        self.running += 1;
        self.began += u64::from(self.now_ms - flow.opened_ms < BEGAN_MS);
        self.expected += recent.expected;
        self.lost += recent.lost;
        self.mos_tenths[tenth_of(recent.mos)] += 1;
        self.mos_hundredths[hundredth_of(recent.mos)] += 1;
        observe(&mut self.jitter_ms, recent.jitter_ms);
        if let Some(rtt_ms) = recent.rtt_ms {
            observe(&mut self.rtt_ms, rtt_ms);
        }
    }

    /// Returns the statistics as JSON. `mos_tenths` contains the number of flows with a MOS of 1.0 to 1.1, 1.1 to 1.2
    /// and so on. A statistic without values is null.
    pub fn json(&self) -> Value {
        let loss = if self.expected == 0 { 0.0 } else { self.lost as f64 / self.expected as f64 };
        json!({
            "began": self.began,
            "expected": self.expected,
            "lost": self.lost,
            "loss": rounded(loss),
            "mos": self.mos(),
            "mos_tenths": self.mos_tenths[..],
            "jitter_ms": quantiles(&self.jitter_ms, [("p50", 0.5), ("p90", 0.9)]),
            "rtt_ms": quantiles(&self.rtt_ms, [("p50", 0.5), ("p90", 0.9)]),
        })
    }

    fn mos(&self) -> Value {
        if self.running == 0 {
            return Value::Null;
        }
        json!({ "p10": self.mos_quantile(0.1), "p50": self.mos_quantile(0.5) })
    }

    /// Returns the lowest MOS that this share of the flows does not exceed.
    fn mos_quantile(&self, share: f64) -> f64 {
        let rank = ((share * self.running as f64).ceil() as u64).max(1);
        let mut passed = 0;
        let reached = |flows: &u64| {
            passed += flows;
            passed >= rank
        };
        self.mos_hundredths.iter().position(reached).unwrap_or_default() as f64 / 100.0
    }
}

fn hundredth_of(mos: f64) -> usize {
    ((mos * 100.0).round() as usize).min(MOS_HUNDREDTHS - 1)
}

fn tenth_of(mos: f64) -> usize {
    ((mos * 10.0) as usize).saturating_sub(10).min(MOS_TENTHS - 1)
}

fn observe(values: &mut Quantiles, value: f64) {
    if value.is_finite() {
        values.add(Bucket::of(value), 1);
    }
}

fn quantiles(values: &Quantiles, shares: [(&str, f64); 2]) -> Value {
    if values.count() == 0 {
        return Value::Null;
    }
    shares
        .into_iter()
        .map(|(name, share)| (name.to_owned(), json!(values.quantile(share).map(rounded))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mos_counts_in_the_tenth_below_it() {
        assert_eq!(
            [0.0, 1.0, 1.09, 3.1, 3.6, 4.0, 4.3, 4.5, 9.0].map(tenth_of),
            [0, 0, 0, 21, 26, 30, 33, 35, 35]
        );
    }

    #[test]
    fn quantiles_of_the_mos_are_exact_to_a_hundredth() {
        let mut statistics = FlowStatistics::new(0);
        for mos in [4.40, 3.914, 4.396, 1.0, 0.0, 9.0, f64::NAN, 4.1, 4.2, 4.3] {
            statistics.running += 1;
            statistics.mos_hundredths[hundredth_of(mos)] += 1;
        }
        assert_eq!(
            [0.1, 0.3, 0.4, 0.5, 1.0].map(|share| statistics.mos_quantile(share)),
            [0.0, 1.0, 3.91, 4.1, 4.5]
        );
    }

    #[test]
    fn statistics_of_no_flows_are_null() {
        let json = FlowStatistics::new(0).json();
        assert_eq!([&json["mos"], &json["jitter_ms"], &json["rtt_ms"]], [&Value::Null; 3]);
        assert_eq!((&json["loss"], &json["began"]), (&json!(0.0), &json!(0)));
    }
}
