//! Compares values as a rule says. Pure.

use std::collections::BTreeMap;

use liveops::alerts::{
    ALERT_SERIES_MAX, AlertComparison, AlertFinding, AlertSeries, BandComparison, PreviousComparison,
};

/// The values of a query at one time: one for each series, the highest total first.
pub(crate) type Values = Vec<AlertSeries>;

/// Half of the width of a band is at least this share of the mean, so that equal weeks leave room for chance.
const BAND_SHARE_MIN: f64 = 0.1;
/// Weeks with data that a band needs.
const WEEKS_MIN: usize = 2;

/// What was found at one time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    pub(crate) finding: AlertFinding,
}

/// Whether the condition is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    NotMet,
    /// The query has no value.
    NoData,
    /// There is too little history to compare with.
    NoHistory,
}

/// What values are compared with.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reference {
    /// The values of the period before.
    pub(crate) previous: Values,
    /// The values of the same minutes in earlier weeks, without those before the first data of the game.
    pub(crate) weeks: Vec<Values>,
}

/// The limits outside of which the condition is met.
#[derive(Clone, Copy, Default)]
struct Limits {
    low: Option<f64>,
    high: Option<f64>,
}

/// Decides whether the values meet the condition. A rule meets it if one of its series does.
pub(crate) fn judge(compare: &AlertComparison, values: Values, reference: &Reference) -> Judged {
    if compare.no_data_s.is_some() {
        return judge_silence(&values);
    }
    if compare.band.is_some() && reference.weeks.len() < WEEKS_MIN {
        let value = values.first().and_then(|first| first.value);
        return Judged {
            verdict: Verdict::NoHistory,
            finding: AlertFinding { value, ..AlertFinding::default() },
        };
    }
    let mut met: Option<AlertFinding> = None;
    let mut first: Option<AlertFinding> = None;
    for series in values {
        let Some(value) = series.value else { continue };
        let (is_met, limits) = compare_one(compare, &series.key, value, reference);
        let Limits { low, high } = limits;
        let finding = AlertFinding { value: Some(value), low, high, series: Vec::new() };
        if is_met {
            let met = met.get_or_insert_with(|| finding.clone());
            if met.series.len() < ALERT_SERIES_MAX {
                met.series.push(series);
            }
        }
        first.get_or_insert(finding);
    }
    match (met, first) {
        (Some(finding), _) => Judged { verdict: Verdict::Met, finding },
        (None, Some(finding)) => Judged { verdict: Verdict::NotMet, finding },
        (None, None) => Judged { verdict: Verdict::NoData, finding: AlertFinding::default() },
    }
}

/// The values are numbers of events or samples: the condition is met if there were none.
fn judge_silence(values: &Values) -> Judged {
    let count: f64 = values.iter().filter_map(|series| series.value).sum();
    let verdict = if count == 0.0 { Verdict::Met } else { Verdict::NotMet };
    Judged { verdict, finding: AlertFinding { value: Some(count), ..AlertFinding::default() } }
}

fn compare_one(
    compare: &AlertComparison,
    key: &BTreeMap<String, String>,
    value: f64,
    reference: &Reference,
) -> (bool, Limits) {
    if let (Some(op), Some(limit)) = (compare.op, compare.value) {
        return (op.holds(value, limit), Limits { low: None, high: Some(limit) });
    }
    if let Some(PreviousComparison { op, factor, min }) = compare.previous {
        let previous = value_of(&reference.previous, key);
        let limit = previous * factor;
        let is_large = min.is_none_or(|min| value >= min || previous >= min);
        return (is_large && op.holds(value, limit), Limits { low: None, high: Some(limit) });
    }
    if let Some(band) = compare.band {
        let (low, high) = band_around(&reference.weeks, key, band);
        return (value < low || value > high, Limits { low: Some(low), high: Some(high) });
    }
    (false, Limits::default())
}

/// Returns the value of a series; 0 if it has none.
fn value_of(values: &Values, key: &BTreeMap<String, String>) -> f64 {
    values.iter().find(|series| series.key == *key).and_then(|series| series.value).unwrap_or(0.0)
}

/// Returns the band: the mean of the weeks, and `width` standard deviations on both sides.
fn band_around(weeks: &[Values], key: &BTreeMap<String, String>, band: BandComparison) -> (f64, f64) {
    let values: Vec<f64> = weeks.iter().map(|week| value_of(week, key)).collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = band.width * variance.sqrt().max(BAND_SHARE_MIN * mean.abs());
    (mean - half, mean + half)
}

#[cfg(test)]
mod tests {
    use liveops::alerts::ComparisonOperator;

    use super::*;

    fn values(values: &[(&str, Option<f64>)]) -> Values {
        let series = |(country, value): &(&str, Option<f64>)| AlertSeries {
            key: BTreeMap::from([("country".to_owned(), (*country).to_owned())]),
            value: *value,
        };
        values.iter().map(series).collect()
    }

    fn one(value: f64) -> Values {
        vec![AlertSeries { key: BTreeMap::new(), value: Some(value) }]
    }

    fn fixed(op: ComparisonOperator, value: f64) -> AlertComparison {
        AlertComparison { op: Some(op), value: Some(value), ..AlertComparison::default() }
    }

    #[test]
    fn condition_is_met_by_any_series() {
        let compare = fixed(ComparisonOperator::Greater, 5.0);
        let found = judge(
            &compare,
            values(&[("FR", Some(4.0)), ("DE", Some(9.0)), ("IT", None)]),
            &Reference::default(),
        );
        assert_eq!((found.verdict, found.finding.value), (Verdict::Met, Some(9.0)));
        assert_eq!(found.finding.series, values(&[("DE", Some(9.0))]));
        let found = judge(&compare, values(&[("FR", Some(4.0)), ("DE", Some(5.0))]), &Reference::default());
        assert_eq!((found.verdict, found.finding.value), (Verdict::NotMet, Some(4.0)));
        let found = judge(&compare, values(&[("FR", None)]), &Reference::default());
        assert_eq!(found.verdict, Verdict::NoData);
        assert_eq!(judge(&compare, Vec::new(), &Reference::default()).verdict, Verdict::NoData);
    }

    #[test]
    fn operators_compare_as_written() {
        use ComparisonOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        for (op, expected) in [
            (Greater, [false, false, true]),
            (GreaterOrEqual, [false, true, true]),
            (Less, [true, false, false]),
            (LessOrEqual, [true, true, false]),
            (Equal, [false, true, false]),
            (NotEqual, [true, false, true]),
        ] {
            let is_met =
                |value| judge(&fixed(op, 5.0), one(value), &Reference::default()).verdict == Verdict::Met;
            assert_eq!([4.0, 5.0, 6.0].map(is_met), expected, "{}", op.label());
        }
    }

    #[test]
    fn value_outside_of_the_band_meets_the_condition() {
        let band = Some(BandComparison { weeks: 4, width: 3.0 });
        let compare = AlertComparison { band, ..AlertComparison::default() };
        let verdict = |weeks: &[f64], value: f64| {
            let reference =
                Reference { weeks: weeks.iter().map(|week| one(*week)).collect(), ..Reference::default() };
            judge(&compare, one(value), &reference).verdict
        };
        // Mean 100, standard deviation 8.16.
        let weeks = [90.0, 100.0, 100.0, 110.0];
        assert_eq!(verdict(&weeks, 129.0), Verdict::NotMet, "at least 10 % of the mean, three times");
        assert_eq!(verdict(&weeks, 131.0), Verdict::Met);
        assert_eq!(verdict(&weeks, 69.0), Verdict::Met);
        assert_eq!(verdict(&weeks, 71.0), Verdict::NotMet);
        assert_eq!(verdict(&[0.0, 0.0], 1.0), Verdict::Met);
        assert_eq!(verdict(&[100.0], 1_000.0), Verdict::NoHistory);
    }

    #[test]
    fn value_is_compared_with_the_period_before() {
        let previous =
            Some(PreviousComparison { op: ComparisonOperator::GreaterOrEqual, factor: 2.0, min: Some(10.0) });
        let compare = AlertComparison { previous, ..AlertComparison::default() };
        let verdict = |before: Values, value: f64| {
            judge(&compare, one(value), &Reference { previous: before, ..Reference::default() }).verdict
        };
        assert_eq!(verdict(one(10.0), 20.0), Verdict::Met);
        assert_eq!(verdict(one(10.0), 19.0), Verdict::NotMet);
        assert_eq!(verdict(one(4.0), 9.0), Verdict::NotMet, "both are below the minimum");
        assert_eq!(verdict(Vec::new(), 10.0), Verdict::Met, "none before");
    }

    #[test]
    fn silence_is_no_event_at_all() {
        let compare = AlertComparison { no_data_s: Some(600), ..AlertComparison::default() };
        let verdict = |values: Values| judge(&compare, values, &Reference::default()).verdict;
        assert_eq!(verdict(Vec::new()), Verdict::Met);
        assert_eq!(verdict(values(&[("FR", None)])), Verdict::Met);
        assert_eq!(verdict(one(0.0)), Verdict::Met);
        assert_eq!(verdict(one(1.0)), Verdict::NotMet);
    }
}
