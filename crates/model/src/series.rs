//! Which series there are: what a rollup row is about.

use crate::Dimension;
use crate::limits::DECLARED_NUMBER_MAX;

/// The value of the row that gathers what the cardinality guard did not give a row of its own.
pub const OTHER: &str = "(other)";
/// The metric over all events of a game.
pub const EVENTS: &str = "$events";
/// The number of a dimension that the line stamps itself: the variant of each experiment that an event was under, such as
/// `button=blue`. An event has as many values as there are experiments, and stands in the row of each.
pub const VARIANT: u8 = 0;
/// The number of a dimension that the line stamps itself: the version of the game variables that was active.
pub const VARS: u8 = DECLARED_NUMBER_MAX + 1;
/// The number of a dimension that the line stamps itself on `$level_metric`: which measure of which level, such as
/// `coins@castle`; of a ranged one its value as well, `coins@castle=7`.
pub const MEASURE: u8 = VARS + 1;
/// The dimensions that the line stamps itself, by their names in queries and answers.
pub const STAMPED: [(u8, &str); 3] = [(VARIANT, "variant"), (VARS, "vars"), (MEASURE, "measure")];
/// The stored number of the first declared dimension's cut; those before are kept for built-in ones.
const DECLARED_CODE: u8 = 16;
/// Joins the values of a [`Cut::Tuple`] row; it cannot stand in a dimension's value.
pub const TUPLE_SEPARATOR: char = '\u{1f}';

/// How a metric's events are cut into rows. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cut {
    /// One row for everything; its value is empty.
    Total,
    /// One row per value of a dimension; events without it stand in the row with the empty value.
    By(Dimension),
    /// One row per value of a dimension that the game declared, by the number it got then; those in
    /// [`STAMPED`] are every game's. Events without it stand in no row.
    Declared(u8),
    /// One row per combination of all dimensions' values, joined by [`TUPLE_SEPARATOR`] in the order of
    /// [`Dimension::ALL`]. These rows have counts and values, but no players; and
    /// [`EVENTS`] has none of them, because they are the sums of those of each event.
    Tuple,
}

impl Cut {
    /// The stored number.
    pub fn code(self) -> u8 {
        match self {
            Cut::Total => 0,
            Cut::By(dimension) => 1 + dimension as u8,
            Cut::Declared(number) => DECLARED_CODE + number.min(MEASURE),
            Cut::Tuple => 255,
        }
    }

    /// The cut with this stored number.
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
pub enum Level {
    /// UTC minutes.
    Minute,
    /// UTC hours.
    Hour,
}

impl Level {
    /// Minutes in a slot.
    pub fn minutes(self) -> u32 {
        match self {
            Level::Minute => 1,
            Level::Hour => 60,
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
