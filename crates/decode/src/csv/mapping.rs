//! The mapping of columns of a file to fields of an event.

use model::limits::{PROP_KEY_BYTES_MAX, PROPS_KEYS_MAX};
use model::{RawEvent, Reject};

use crate::json::{FieldKey, field_key, put_plain};

/// Maximum number of columns of a file.
pub(super) const COLUMNS_MAX: usize = 1_024;

/// The target of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A field of the event.
    Field(Field),
    /// The property of this name.
    Prop(String),
    /// The column is ignored.
    Ignore,
}

/// A field of an event other than `props`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(FieldKey);

/// The handling of columns that neither the mapping nor a field names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OtherColumns {
    /// They become properties.
    #[default]
    Props,
    /// They are ignored.
    Ignore,
}

/// The targets of a file's columns. A column that is not mapped goes to the target of its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    columns: Vec<(String, Target)>,
    others: OtherColumns,
    fixed: Vec<(Field, String)>,
    pub(super) delimiter: u8,
}

/// The error of a file that cannot be read with a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// The target does not exist.
    #[error("{0:?} is not an event field, `props.` followed by a name, or `ignore`")]
    UnknownTarget(String),
    /// The delimiter is a quotation mark, a line ending or not ASCII.
    #[error("{0:?} cannot be the delimiter")]
    Delimiter(char),
    /// The mapping names a column that the header does not have.
    #[error("the header has no column {0:?}")]
    MissingColumn(String),
    /// Two columns, or a column and a fixed text, have the same target.
    #[error("column {0:?} has the same target as another column or a fixed value")]
    DuplicateTarget(String),
    /// More columns are properties than an event may have.
    #[error("more than {PROPS_KEYS_MAX} columns are properties")]
    TooManyProps,
    /// A property's name is too long or empty.
    #[error("the name of column {0} cannot be a property: it must have 1 to {PROP_KEY_BYTES_MAX} bytes")]
    PropName(usize),
    /// The header is not UTF-8, longer than an event, or has too many columns.
    #[error("the header is not UTF-8, too long, or has more than {COLUMNS_MAX} columns")]
    HeaderUnreadable,
    /// The file is empty.
    #[error("the file has no header")]
    NoHeader,
}

impl Target {
    /// Parses a target: the name of a field such as `event` or `ts`, `props.` and a name, or `ignore`.
    pub fn parse(text: &str) -> Result<Target, MappingError> {
        match text.strip_prefix("props.") {
            Some(name) => Ok(Target::Prop(name.to_string())),
            None if text == "ignore" => Ok(Target::Ignore),
            None => Ok(Target::Field(Field::parse(text)?)),
        }
    }
}

impl Field {
    /// Returns the field of this name.
    pub fn parse(name: &str) -> Result<Field, MappingError> {
        field_key(name).map(Field).ok_or_else(|| MappingError::UnknownTarget(name.to_string()))
    }

    /// Sets the field of an event to a text of a file, which has no quotes and may therefore be meant as a number.
    pub fn put<'a>(self, event: &mut RawEvent<'a>, text: &'a str) -> Result<(), Reject> {
        put_plain(event, self.0, text)
    }
}

impl Default for Mapping {
    /// Commas; columns go to the field of their name, the rest to the properties.
    fn default() -> Mapping {
        Mapping { columns: Vec::new(), others: OtherColumns::Props, fixed: Vec::new(), delimiter: b',' }
    }
}

impl Mapping {
    /// Maps a column to a target.
    pub fn column(mut self, name: &str, target: Target) -> Mapping {
        self.columns.push((name.to_string(), target));
        self
    }

    /// Sets a field to the same text in every event, such as the name of the event.
    pub fn fixed(mut self, field: Field, text: &str) -> Mapping {
        self.fixed.push((field, text.to_string()));
        self
    }

    /// Sets the handling of columns that are not mapped.
    pub fn others(mut self, others: OtherColumns) -> Mapping {
        self.others = others;
        self
    }

    /// Sets the separator of fields: an ASCII character, such as `;` or a tab.
    pub fn delimiter(mut self, delimiter: char) -> Result<Mapping, MappingError> {
        match u8::try_from(delimiter) {
            Ok(byte) if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => self.delimiter = byte,
            _ => return Err(MappingError::Delimiter(delimiter)),
        }
        Ok(self)
    }

    /// Returns an event with the fixed fields only.
    pub fn fixed_event(&self) -> Result<RawEvent<'_>, Reject> {
        let mut event = RawEvent::default();
        for (field, text) in &self.fixed {
            field.put(&mut event, text)?;
        }
        Ok(event)
    }

    /// Returns the targets of a header's columns, all of them different.
    pub fn resolve(&self, header: &[&str]) -> Result<Vec<Target>, MappingError> {
        if let Some((name, _)) = self.columns.iter().find(|(name, _)| !header.contains(&&**name)) {
            return Err(MappingError::MissingColumn(name.clone()));
        }
        let columns: Vec<Target> = header.iter().map(|name| self.resolve_one(name)).collect();
        for (at, (column, name)) in columns.iter().zip(header).enumerate() {
            let is_fixed = |column: &Target| matches!(column, Target::Field(field) if self.fixed.iter().any(|(own, _)| own == field));
            if *column != Target::Ignore && (columns[..at].contains(column) || is_fixed(column)) {
                return Err(MappingError::DuplicateTarget(name.to_string()));
            }
            if matches!(column, Target::Prop(name) if name.is_empty() || name.len() > PROP_KEY_BYTES_MAX) {
                return Err(MappingError::PropName(at + 1));
            }
        }
        let props = columns.iter().filter(|column| matches!(column, Target::Prop(_))).count();
        if props > PROPS_KEYS_MAX { Err(MappingError::TooManyProps) } else { Ok(columns) }
    }

    fn resolve_one(&self, name: &str) -> Target {
        let own = self.columns.iter().find(|(column, _)| column == name).map(|(_, target)| target.clone());
        match (own.or_else(|| Target::parse(name).ok()), self.others) {
            (Some(target), _) => target,
            (None, OtherColumns::Ignore) => Target::Ignore,
            (None, OtherColumns::Props) => Target::Prop(name.to_string()),
        }
    }
}
