//! The keys of stored rows, so ordered that one group is one range.
//!
//! ```text
//! game u32 | cut u8 | metric: u8 length, bytes | hour u32 | value        all big-endian
//! ```

use std::ops::Range;

use model::series::Cut;

use super::groups::GroupKey;

/// The key of a row.
pub(super) fn row(group: &GroupKey<'_>, value: &str) -> Vec<u8> {
    let mut key = self::group(group);
    key.extend_from_slice(value.as_bytes());
    key
}

/// What all rows of a group begin with.
pub(super) fn group(group: &GroupKey<'_>) -> Vec<u8> {
    let mut key = metric(group.game, group.cut, group.metric);
    key.extend_from_slice(&group.hour.to_be_bytes());
    key
}

/// What all hours of one cut of a metric begin with.
pub(super) fn metric(game: u32, cut: Cut, metric: &str) -> Vec<u8> {
    let mut key = cuts(game, cut);
    key.push(metric.len() as u8);
    key.extend_from_slice(metric.as_bytes());
    key
}

/// What all metrics of a game, cut in the same way, begin with.
pub(super) fn cuts(game: u32, cut: Cut) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.extend_from_slice(&game.to_be_bytes());
    key.push(cut.code());
    key
}

/// From the first to after the last key of the hours.
pub(super) fn hours(game: u32, cut: Cut, metric: &str, hours: &Range<u32>) -> Range<Vec<u8>> {
    let prefix = self::metric(game, cut, metric);
    let at = |hour: u32| [prefix.as_slice(), hour.to_be_bytes().as_slice()].concat();
    at(hours.start)..at(hours.end)
}

/// The parts of a key, or `None` for bytes that are no key.
pub(super) fn parts(key: &[u8]) -> Option<(GroupKey<'_>, &str)> {
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
        fn a_key_reads_back_as_its_parts(
            game: u32, hour: u32, cut in 0usize..9, metric in ".{0,40}", value in ".{0,40}",
        ) {
            let cuts = [0, 1, 2, 3, 4, 5, 16, 216, 255].map(|code| Cut::from_code(code).unwrap());
            let group = GroupKey { game, cut: cuts[cut], metric: &metric, hour };
            let key = row(&group, &value);
            prop_assert_eq!(parts(&key), Some((group, value.as_str())));
        }

        #[test]
        fn any_bytes_are_a_key_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = parts(&bytes);
        }
    }

    #[test]
    fn the_rows_of_a_group_are_one_range() {
        let group = |hour| GroupKey { game: 1, cut: Cut::By(Dimension::Level), metric: "score", hour };
        let range = hours(1, Cut::By(Dimension::Level), "score", &(7..8));
        assert!(range.contains(&row(&group(7), "")) && range.contains(&row(&group(7), "\u{10ffff}")));
        assert!(!range.contains(&row(&group(6), "x")) && !range.contains(&row(&group(8), "")));
    }
}
