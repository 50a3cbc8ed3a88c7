//! Describes samples as text, for tests to compare, and checks properties of every sample.

use decode::sample::{Measured, Sample, SampleResult};

/// Describes each sample and each rejection on one line.
#[allow(dead_code, reason = "not every test prints samples")]
pub(crate) fn describe(decode: impl FnOnce(&mut dyn FnMut(SampleResult<'_>))) -> String {
    let mut lines = Vec::new();
    each(decode, |result| {
        lines.push(match result {
            Ok(sample) => describe_fields(&sample),
            Err(rejected) => {
                format!(
                    "rejected: {} in {:?}",
                    rejected.reject.label(),
                    String::from_utf8_lossy(rejected.text)
                )
            }
        });
    });
    lines.join("\n")
}

/// Returns the number of accepted and of rejected inputs.
#[allow(dead_code, reason = "not every test counts samples")]
pub(crate) fn count(decode: impl FnOnce(&mut dyn FnMut(SampleResult<'_>))) -> (usize, usize) {
    let (mut accepted, mut rejected) = (0, 0);
    each(decode, |sample| if sample.is_ok() { accepted += 1 } else { rejected += 1 });
    (accepted, rejected)
}

/// Calls `look` with every result, after checking the samples.
pub(crate) fn each(
    decode: impl FnOnce(&mut dyn FnMut(SampleResult<'_>)),
    mut visit: impl FnMut(SampleResult<'_>),
) {
    decode(&mut |result| {
        if let Ok(sample) = &result {
            check_invariants(sample);
        }
        visit(result);
    });
}

fn check_invariants(sample: &Sample<'_>) {
    assert!((1..=200).contains(&sample.name.len()) && !sample.name.starts_with('$'), "{sample:?}");
    assert!((1.0..=1e9).contains(&sample.weight), "{sample:?}");
    assert!(sample.tags.len() <= 64, "{sample:?}");
    for tag in sample.tags {
        assert!((1..=128).contains(&tag.key.len()) && tag.value.len() <= 1_024, "{tag:?}");
    }
    let value = match sample.measured {
        Measured::Member(text) => {
            assert!((1..=1_024).contains(&text.len()), "{sample:?}");
            0.0
        }
        Measured::Histogram(histogram) => {
            assert_eq!(
                histogram.count,
                histogram.buckets.iter().map(|part| part.1).sum::<u64>(),
                "{sample:?}"
            );
            assert!(
                [histogram.sum, histogram.min, histogram.max].into_iter().all(f64::is_finite),
                "{sample:?}"
            );
            assert!(
                histogram.buckets.iter().all(|part| (histogram.min..=histogram.max).contains(&part.0)),
                "{sample:?}"
            );
            0.0
        }
        Measured::Count(value)
        | Measured::Gauge(value)
        | Measured::Change(value)
        | Measured::Timer(value)
        | Measured::Value(value) => value,
    };
    assert!((value * sample.weight).is_finite(), "{sample:?}");
}

#[allow(dead_code, reason = "not every test prints samples")]
fn describe_fields(sample: &Sample<'_>) -> String {
    let mut words = format!("{} {}", sample.name, measured(sample.measured));
    if sample.weight != 1.0 {
        words += &format!(" x{}", sample.weight);
    }
    for tag in sample.tags {
        words += &format!(" {}={}", tag.key, tag.value);
    }
    if let Some(ts_ms) = sample.ts_ms {
        words += &format!(" at {ts_ms}");
    }
    words
}

#[allow(dead_code, reason = "not every test prints samples")]
fn measured(measured: Measured<'_>) -> String {
    match measured {
        Measured::Count(value) => format!("count {value}"),
        Measured::Gauge(value) => format!("gauge {value}"),
        Measured::Change(value) => format!("change {value}"),
        Measured::Timer(value) => format!("timer {value}"),
        Measured::Value(value) => format!("value {value}"),
        Measured::Member(text) => format!("member {text}"),
        Measured::Histogram(histogram) => format!(
            "histogram count {} sum {} min {} max {} {:?}",
            histogram.count, histogram.sum, histogram.min, histogram.max, histogram.buckets
        ),
    }
}
