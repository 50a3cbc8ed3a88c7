//! The keys of stored rows, ordered so that one group is one range.
//!
//! ```text
//! game u32 | cut u8 | metric: u8 length, bytes | hour u32 | value        all big-endian
//! ```

use std::ops::Range;

use model::series::Cut;

use super::groups::GroupKey;

/// Returns the key of a row.
pub(super) fn row_key(group: &GroupKey<'_>, value: &str) -> Vec<u8> {
    let mut key = group_prefix(group);
    key.extend_from_slice(value.as_bytes());
    key
}

/// Returns the common prefix of a group's rows.
pub(super) fn group_prefix(group: &GroupKey<'_>) -> Vec<u8> {
    let mut key = metric_prefix(group.game, group.cut, group.metric);
    key.extend_from_slice(&group.hour.to_be_bytes());
    key
}

/// Returns the common prefix of all hours of one cut of a metric.
pub(super) fn metric_prefix(game: u32, cut: Cut, metric: &str) -> Vec<u8> {
    let mut key = cut_prefix(game, cut);
    key.push(metric.len() as u8);
    key.extend_from_slice(metric.as_bytes());
    key
}

/// Returns the common prefix of all metrics of a game, cut in the same way.
pub(super) fn cut_prefix(game: u32, cut: Cut) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.extend_from_slice(&game.to_be_bytes());
    key.push(cut.code());
    key
}

/// Returns the range of the keys of these hours.
pub(super) fn hour_range(game: u32, cut: Cut, metric: &str, hours: &Range<u32>) -> Range<Vec<u8>> {
    let prefix = metric_prefix(game, cut, metric);
    let at = |hour: u32| [prefix.as_slice(), hour.to_be_bytes().as_slice()].concat();
    at(hours.start)..at(hours.end)
}

/// Parses a key; `None` if the bytes are not a key.
pub(super) fn parse(key: &[u8]) -> Option<(GroupKey<'_>, &str)> {
    let (game, key) = key.split_first_chunk()?;
    let (cut, key) = key.split_first()?;
    let (length, key) = key.split_first()?;
    let (metric, key) = key.split_at_checked(*length as usize)?;
    let (hour, value) = key.split_first_chunk()?;
    let group = GroupKey {
        game: u32::from_be_bytes(*game),
        cut: Cut::from_code(*cut)?,
        metric: std::str::from_utf8(metric).ok()?,
        hour: u32::from_be_bytes(*hour),
    };
    Some((group, std::str::from_utf8(value).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Dimension;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn row_key_round_trips(
            game: u32, hour: u32, cut in 0usize..9, metric in ".{0,40}", value in ".{0,40}",
        ) {
            let cuts = [0, 1, 2, 3, 4, 5, 16, 216, 255].map(|code| Cut::from_code(code).unwrap());
            let group = GroupKey { game, cut: cuts[cut], metric: &metric, hour };
            let key = row_key(&group, &value);
            prop_assert_eq!(parse(&key), Some((group, value.as_str())));
        }

        #[test]
        fn parsing_any_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn rows_of_a_group_are_one_range() {
        let group = |hour| GroupKey { game: 1, cut: Cut::By(Dimension::Level), metric: "score", hour };
        let range = hour_range(1, Cut::By(Dimension::Level), "score", &(7..8));
        assert!(range.contains(&row_key(&group(7), "")) && range.contains(&row_key(&group(7), "\u{10ffff}")));
        assert!(!range.contains(&row_key(&group(6), "x")) && !range.contains(&row_key(&group(8), "")));
    }
}
