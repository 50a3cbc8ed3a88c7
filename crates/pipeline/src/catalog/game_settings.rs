//! The settings of a game: the lateness bound, declared dimensions, the number of values per dimension, how long raw events
//! are kept, and whether they may be exported.
//!
//! Those about events take effect when events are admitted and are stored with them, so that a replay of the log gives the
//! same result.

use model::limits::{
    DECLARED_MAX, DECLARED_NAME_BYTES_MAX, DECLARED_NUMBER_MAX, LATE_DAYS_MAX, VALUES_PER_DIMENSION,
    VALUES_PER_DIMENSION_MAX,
};
use model::query::{NumberedDimension, QueryDimension};
use serde::{Deserialize, Deserializer, Serialize};

use super::error::invalid;
use super::{Catalog, CatalogError, Game};

/// The most days for which raw events can be kept, other than for ever.
const EVENTS_DAYS_MAX: u32 = 36_500;

/// The settings of a game.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GameSettings {
    /// Events older than this number of days are late.
    pub late_days: u32,
    /// The number of values of a dimension that have rows of their own, per metric and day.
    pub values_max: u32,
    /// Raw events may be exported, by keys with the scope `export`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub export: bool,
    /// The days for which raw events are kept: 0 for ever, `None` as long as the server's setting says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_days: Option<u32>,
    /// The declared dimensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<DimensionDeclaration>,
    /// Dimensions that were dropped. A name that is declared again gets its number back; a number never has two names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub former_dimensions: Vec<DimensionDeclaration>,
}

/// The declaration of a property as a dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DimensionDeclaration {
    /// The key in `props`.
    pub name: String,
    /// The number under which its rows are stored.
    pub number: u8,
}

/// A change of settings. Omitted fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsChange {
    /// Events older than this number of days are late.
    pub late_days: Option<u32>,
    /// The number of values of a dimension that have rows of their own, per metric and day.
    pub values_max: Option<u32>,
    /// Raw events may be exported, by keys with the scope `export`.
    pub export: Option<bool>,
    /// The days for which raw events are kept: 0 for ever, `Some(None)` as long as the server's setting says.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub events_days: Option<Option<u32>>,
    /// Properties to declare as dimensions.
    pub declare: Vec<String>,
    /// Dimensions to drop. Their existing rows stay.
    pub drop: Vec<String>,
}

/// Reads a field that may be null, which is different from a field that is not given.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(field: D) -> Result<Option<T>, D::Error> {
    T::deserialize(field).map(Some)
}

impl Default for GameSettings {
    fn default() -> GameSettings {
        GameSettings {
            late_days: LATE_DAYS_MAX,
            values_max: VALUES_PER_DIMENSION,
            export: false,
            events_days: None,
            dimensions: Vec::new(),
            former_dimensions: Vec::new(),
        }
    }
}

impl GameSettings {
    pub(super) fn is_default(&self) -> bool {
        *self == GameSettings::default()
    }

    /// Returns the lateness bound in milliseconds.
    pub fn late_ms(&self) -> i64 {
        i64::from(self.late_days) * 24 * 3_600_000
    }

    /// Returns the declared dimensions for queries.
    pub fn declared(&self) -> Vec<NumberedDimension> {
        let one = |dimension: &DimensionDeclaration| NumberedDimension {
            number: dimension.number,
            name: dimension.name.as_str().into(),
        };
        self.dimensions.iter().map(one).collect()
    }

    pub(super) fn apply(&mut self, change: SettingsChange) -> Result<(), CatalogError> {
        if let Some(late_days) = change.late_days {
            self.late_days = within("late_days", late_days, 1, LATE_DAYS_MAX)?;
        }
        if let Some(values_max) = change.values_max {
            self.values_max = within("values_max", values_max, 1, VALUES_PER_DIMENSION_MAX)?;
        }
        self.export = change.export.unwrap_or(self.export);
        if let Some(events_days) = change.events_days {
            let check = |days| within("events_days", days, 0, EVENTS_DAYS_MAX);
            self.events_days = events_days.map(check).transpose()?;
        }
        change.drop.iter().try_for_each(|name| self.drop_dimension(name))?;
        change.declare.into_iter().try_for_each(|name| self.declare(name))
    }

    fn drop_dimension(&mut self, name: &str) -> Result<(), CatalogError> {
        let place = self.dimensions.iter().position(|dimension| dimension.name == name);
        let place = place.ok_or_else(|| invalid("dimension", format!("`{name}` is not declared")))?;
        self.former_dimensions.push(self.dimensions.remove(place));
        Ok(())
    }

    fn declare(&mut self, name: String) -> Result<(), CatalogError> {
        check_name(&name)?;
        if self.dimensions.iter().any(|dimension| dimension.name == name) {
            return Ok(());
        }
        if self.dimensions.len() >= DECLARED_MAX {
            return Err(invalid(
                "dimension",
                format!("a game must not declare more than {DECLARED_MAX} dimensions at a time"),
            ));
        }
        let former = self.former_dimensions.iter().position(|dimension| dimension.name == name);
        let dimension = match former {
            Some(place) => self.former_dimensions.remove(place),
            None => DimensionDeclaration { name, number: self.next_number()? },
        };
        self.dimensions.push(dimension);
        Ok(())
    }

    fn next_number(&self) -> Result<u8, CatalogError> {
        let used = self.dimensions.iter().chain(&self.former_dimensions).map(|dimension| dimension.number);
        let last = used.max().unwrap_or(model::series::VARIANT);
        let full = || {
            invalid(
                "dimension",
                format!(
                    "the game has used all {DECLARED_NUMBER_MAX} dimension names that it may ever declare"
                ),
            )
        };
        (last < DECLARED_NUMBER_MAX).then_some(last + 1).ok_or_else(full)
    }
}

impl Catalog {
    /// Changes a game's settings, all or nothing.
    pub fn set_game(&self, id: &str, change: SettingsChange) -> Result<Game, CatalogError> {
        self.update(|file| {
            let game = file.game_mut(id)?;
            game.settings.apply(change)?;
            Ok(game.clone())
        })
    }
}

fn within(field: &'static str, value: u32, min: u32, max: u32) -> Result<u32, CatalogError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(invalid(field, format!("must be between {min} and {max}")))
}

fn check_name(name: &str) -> Result<(), CatalogError> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if !(1..=DECLARED_NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_allowed) {
        let message = format!("must be 1 to {DECLARED_NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`");
        return Err(invalid("dimension", message));
    }
    if QueryDimension::from_label(name, &[]).is_some() {
        return Err(invalid("dimension", format!("`{name}` is a built-in dimension; choose another name")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(settings: &mut GameSettings, declare: &[&str], drop: &[&str]) -> Result<String, CatalogError> {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let change = SettingsChange { declare: own(declare), drop: own(drop), ..SettingsChange::default() };
        settings.apply(change)?;
        let dimensions =
            settings.dimensions.iter().map(|dimension| format!("{}={}", dimension.name, dimension.number));
        Ok(dimensions.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_dimension_number_never_gets_a_second_name() {
        let mut settings = GameSettings::default();
        let mut check = |declare: &[&str], drop: &[&str], expected: &str| {
            assert_eq!(change(&mut settings, declare, drop).as_deref(), Ok(expected));
        };
        check(&["weapon", "mode"], &[], "weapon=1 mode=2");
        check(&["weapon"], &[], "weapon=1 mode=2");
        check(&["hat"], &["mode"], "weapon=1 hat=3");
        check(&["mode"], &["weapon"], "hat=3 mode=2");
    }

    #[test]
    fn invalid_and_built_in_names_are_rejected() {
        let settings = GameSettings::default();
        let long = "x".repeat(65);
        for name in ["", "a b", "a,b", "é", "event", "country", "variant", "vars", "measure", "level", &long]
        {
            assert!(change(&mut settings.clone(), &[name], &[]).is_err(), "{name}");
        }
        assert!(change(&mut settings.clone(), &[], &["hat"]).is_err());
    }

    #[test]
    fn a_game_declares_up_to_16_dimensions_at_a_time_and_200_in_total() {
        let mut settings = GameSettings::default();
        let names: Vec<String> = (0..201).map(|name| format!("n{name}")).collect();
        names[..16].iter().for_each(|name| drop(change(&mut settings, &[name], &[]).expect("there is room")));
        assert!(change(&mut settings, &[&names[16]], &[]).is_err());
        for at in 16..200 {
            change(&mut settings, &[&names[at]], &[&names[at - 16]]).expect("there is a number left");
        }
        assert!(change(&mut settings, &[&names[200]], &[&names[199]]).is_err());
    }

    #[test]
    fn settings_out_of_bounds_are_rejected() {
        let mut settings = GameSettings::default();
        let mut set = |late_days, values_max| {
            settings.apply(SettingsChange { late_days, values_max, ..SettingsChange::default() })
        };
        assert!(set(Some(1), Some(1)).is_ok() && set(Some(30), Some(10_000)).is_ok());
        assert!(set(Some(0), None).is_err() && set(Some(31), None).is_err());
        assert!(set(None, Some(0)).is_err() && set(None, Some(10_001)).is_err());
        let mut keep = |days| {
            let change = SettingsChange { events_days: Some(days), ..SettingsChange::default() };
            settings.apply(change).map(|()| settings.events_days)
        };
        assert_eq!(
            (keep(Some(0)), keep(Some(36_500)), keep(None)),
            (Ok(Some(0)), Ok(Some(36_500)), Ok(None))
        );
        assert!(keep(Some(36_501)).is_err());
    }

    #[test]
    fn a_change_that_is_sent_to_a_server_is_the_same_there() {
        for events_days in [None, Some(None), Some(Some(7))] {
            let change = SettingsChange { events_days, ..SettingsChange::default() };
            let sent = serde_json::to_string(&change).expect("it is JSON");
            assert_eq!(serde_json::from_str::<SettingsChange>(&sent).expect("it is JSON"), change, "{sent}");
        }
    }
}
