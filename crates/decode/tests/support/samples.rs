//! Samples in words, for tests to compare, and what is true of every one of them.

use decode::sample::{Measured, Sample, Taken};

/// A line for each sample and for each refusal.
#[allow(dead_code, reason = "not every test prints samples")]
pub fn describe(decode: impl FnOnce(&mut dyn FnMut(Taken<'_>))) -> String {
    let mut lines = Vec::new();
    each(decode, |taken| {
        lines.push(match taken {
            Ok(sample) => words(&sample),
            Err(refused) => {
                format!("refused: {} in {:?}", refused.reject.label(), String::from_utf8_lossy(refused.text))
            }
        });
    });
    lines.join("\n")
}

/// How many were taken, and how many refused.
#[allow(dead_code, reason = "not every test counts samples")]
pub fn count(decode: impl FnOnce(&mut dyn FnMut(Taken<'_>))) -> (usize, usize) {
    let (mut taken, mut refused) = (0, 0);
    each(decode, |sample| if sample.is_ok() { taken += 1 } else { refused += 1 });
    (taken, refused)
}

/// Looks at every sample, after it was checked.
pub fn each(decode: impl FnOnce(&mut dyn FnMut(Taken<'_>)), mut look: impl FnMut(Taken<'_>)) {
    decode(&mut |taken| {
        if let Ok(sample) = &taken {
            keeps_its_promises(sample);
        }
        look(taken);
    });
}

fn keeps_its_promises(sample: &Sample<'_>) {
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
        Measured::Spread(spread) => {
            assert_eq!(spread.count, spread.parts.iter().map(|part| part.1).sum::<u64>(), "{sample:?}");
            assert!([spread.sum, spread.min, spread.max].into_iter().all(f64::is_finite), "{sample:?}");
            assert!(
                spread.parts.iter().all(|part| (spread.min..=spread.max).contains(&part.0)),
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
fn words(sample: &Sample<'_>) -> String {
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
        Measured::Spread(spread) => format!(
            "spread count {} sum {} min {} max {} {:?}",
            spread.count, spread.sum, spread.min, spread.max, spread.parts
        ),
    }
}
