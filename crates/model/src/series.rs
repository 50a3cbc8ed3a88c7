//! Names of rollup rows: metrics, cuts and resolutions.

use crate::Dimension;
use crate::limits::DECLARED_NUMBER_MAX;

/// The value of the row that counts everything the cardinality limit gave no row of its own.
pub const OTHER: &str = "(other)";
/// The value of a declared dimension in samples that have no tag for it.
pub const NONE: &str = "(none)";
/// The metric over all events of a game.
pub const EVENTS: &str = "$events";
/// The metric that counts samples, with a row for each of their names in [`SAMPLE_NAMES`].
pub const SAMPLES: &str = "$samples";
/// The cut of [`SAMPLES`] by name.
pub const SAMPLE_NAMES: Cut = Cut::Declared(MEASURE);
/// The number of a dimension added by ingest: the variant of each experiment the event was in, such as
/// `button=blue`. An event has one value per experiment and counts in the row of each.
pub const VARIANT: u8 = 0;
/// The number of a dimension added by ingest: the version of the game variables that was active.
pub const VARS: u8 = DECLARED_NUMBER_MAX + 1;
/// The number of a dimension added by ingest to `$level_metric`: the measure and the level, such as
/// `coins@castle`; for a ranged measure also its value, `coins@castle=7`.
pub const MEASURE: u8 = VARS + 1;
/// The dimensions added by ingest, with their names in queries and responses.
pub const SERVER_DIMENSIONS: [(u8, &str); 3] = [(VARIANT, "variant"), (VARS, "vars"), (MEASURE, "measure")];
/// The stored number of the cut by the first declared dimension; lower numbers are reserved for built-in ones.
const DECLARED_CODE: u8 = 16;
/// Joins the values of a [`Cut::Tuple`] row; it cannot occur in a dimension's value.
pub const TUPLE_SEPARATOR: char = '\u{1f}';

/// How a metric is divided into rows. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cut {
    /// One row for all events; its value is empty.
    Total,
    /// One row per value of a dimension; events without it count in the row with the empty value.
    By(Dimension),
    /// One row per value of a declared dimension, identified by the number it got on declaration. Those in
    /// [`SERVER_DIMENSIONS`] exist in every game. Events without the dimension count in no row.
    Declared(u8),
    /// One row per combination of the values of all dimensions, joined by [`TUPLE_SEPARATOR`] in the order of
    /// [`Dimension::ALL`]. These rows have counts and values but no players. [`EVENTS`] has none of them: they
    /// would be the sums of those of each event.
    Tuple,
}

impl Cut {
    /// Returns the stored number.
    pub fn code(self) -> u8 {
        match self {
            Cut::Total => 0,
            Cut::By(dimension) => 1 + dimension as u8,
            Cut::Declared(number) => DECLARED_CODE + number.min(MEASURE),
            Cut::Tuple => 255,
        }
    }

    /// Returns the cut with this stored number.
    pub fn from_code(code: u8) -> Option<Cut> {
        match code {
            0 => Some(Cut::Total),
            255 => Some(Cut::Tuple),
            1..DECLARED_CODE => Dimension::ALL.get(code as usize - 1).copied().map(Cut::By),
            _ => Some(code - DECLARED_CODE).filter(|number| *number <= MEASURE).map(Cut::Declared),
        }
    }
}

/// The width of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resolution {
    /// UTC minutes.
    Minute,
    /// UTC hours.
    Hour,
}

impl Resolution {
    /// Returns the number of minutes in a slot.
    pub fn minutes(self) -> u32 {
        match self {
            Resolution::Minute => 1,
            Resolution::Hour => 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_number_is_one_cut_or_none() {
        let cuts = (0..=255).filter_map(|code| Some((code, Cut::from_code(code)?)));
        let cuts: Vec<(u8, Cut)> = cuts.collect();
        assert!(cuts.iter().all(|(code, cut)| cut.code() == *code));
        assert_eq!(cuts.len(), 2 + Dimension::COUNT + 1 + MEASURE as usize);
        assert_eq!(Cut::Declared(VARIANT).code(), 16);
    }
}
