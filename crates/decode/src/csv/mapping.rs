//! Which column of a file is which field of an event.

use model::limits::{PROP_KEY_BYTES_MAX, PROPS_KEYS_MAX};
use model::{RawEvent, Reject};

use crate::json::{Key, field_key, put_plain};

/// Columns of one file.
pub(super) const COLUMNS_MAX: usize = 1_024;

/// Where the text of a column goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A field of the event.
    Field(Field),
    /// A property of this name.
    Prop(String),
    /// Nowhere.
    Ignore,
}

/// A field of an event other than `props`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field(Key);

/// What becomes of columns that the mapping does not name and that have no field's name either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Others {
    /// They are properties.
    #[default]
    Props,
    /// They are left out.
    Ignore,
}

/// What to do with the columns of a file. A column that it does not name goes where its own name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    columns: Vec<(String, Target)>,
    others: Others,
    fixed: Vec<(Field, String)>,
    pub(super) delimiter: u8,
}

/// Why a file cannot be read with a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMapping {
    /// There is no such field.
    #[error("{0:?} is neither a field of an event nor `props.` and a name nor `ignore`")]
    UnknownTarget(String),
    /// The delimiter is a quotation mark or ends lines.
    #[error("{0:?} cannot be the delimiter")]
    Delimiter(char),
    /// The mapping names a column that the header has not.
    #[error("the header has no column {0:?}")]
    MissingColumn(String),
    /// Two columns, or a column and a fixed text, go to the same place.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// More properties than an event may have.
    #[error("more than {PROPS_KEYS_MAX} columns are properties")]
    TooManyProps,
    /// A property's name is too long or empty.
    #[error("the name of column {0} cannot be a property: 1 to {PROP_KEY_BYTES_MAX} bytes are allowed")]
    PropName(usize),
    /// The header is not UTF-8, or longer than an event, or has too many columns.
    #[error("the header is not UTF-8, too long, or has more than {COLUMNS_MAX} columns")]
    HeaderUnreadable,
    /// The file is empty.
    #[error("the file has no header")]
    NoHeader,
}

impl Target {
    /// `event`, `ts` and the other fields; `props.` and a name; `ignore`.
    pub fn parse(text: &str) -> Result<Target, BadMapping> {
        match text.strip_prefix("props.") {
            Some(name) => Ok(Target::Prop(name.to_string())),
            None if text == "ignore" => Ok(Target::Ignore),
            None => Ok(Target::Field(Field::parse(text)?)),
        }
    }
}

impl Field {
    /// The field of this name.
    pub fn parse(name: &str) -> Result<Field, BadMapping> {
        field_key(name).map(Field).ok_or_else(|| BadMapping::UnknownTarget(name.to_string()))
    }

    /// Puts a text into the field of an event, as a row of a file has it: without quotes, so that it may be meant as a
    /// number.
    pub fn put<'a>(self, event: &mut RawEvent<'a>, text: &'a str) -> Result<(), Reject> {
        put_plain(event, self.0, text)
    }
}

impl Default for Mapping {
    /// Commas; columns go where their names say, the rest to the properties.
    fn default() -> Mapping {
        Mapping { columns: Vec::new(), others: Others::Props, fixed: Vec::new(), delimiter: b',' }
    }
}

impl Mapping {
    /// Sends a column somewhere else.
    pub fn column(mut self, name: &str, target: Target) -> Mapping {
        self.columns.push((name.to_string(), target));
        self
    }

    /// Gives every event the same text in a field, such as the name of the event.
    pub fn fixed(mut self, field: Field, text: &str) -> Mapping {
        self.fixed.push((field, text.to_string()));
        self
    }

    /// What becomes of columns that nobody names.
    pub fn others(mut self, others: Others) -> Mapping {
        self.others = others;
        self
    }

    /// What stands between fields: an ASCII character, such as `;` or a tab.
    pub fn delimiter(mut self, delimiter: char) -> Result<Mapping, BadMapping> {
        match u8::try_from(delimiter) {
            Ok(byte) if byte.is_ascii() && !matches!(byte, b'"' | b'\r' | b'\n') => self.delimiter = byte,
            _ => return Err(BadMapping::Delimiter(delimiter)),
        }
        Ok(self)
    }

    /// An event that has what is the same in all rows, and nothing else yet.
    pub fn event(&self) -> Result<RawEvent<'_>, Reject> {
        let mut event = RawEvent::default();
        for (field, text) in &self.fixed {
            field.put(&mut event, text)?;
        }
        Ok(event)
    }

    /// Where the columns of this header go, each to a place of its own.
    pub fn resolve(&self, header: &[&str]) -> Result<Vec<Target>, BadMapping> {
        if let Some((name, _)) = self.columns.iter().find(|(name, _)| !header.contains(&&**name)) {
            return Err(BadMapping::MissingColumn(name.clone()));
        }
        let columns: Vec<Target> = header.iter().map(|name| self.resolve_one(name)).collect();
        for (at, (column, name)) in columns.iter().zip(header).enumerate() {
            let is_fixed = |column: &Target| matches!(column, Target::Field(field) if self.fixed.iter().any(|(own, _)| own == field));
            if *column != Target::Ignore && (columns[..at].contains(column) || is_fixed(column)) {
                return Err(BadMapping::Twice(name.to_string()));
            }
            if matches!(column, Target::Prop(name) if name.is_empty() || name.len() > PROP_KEY_BYTES_MAX) {
                return Err(BadMapping::PropName(at + 1));
            }
        }
        let props = columns.iter().filter(|column| matches!(column, Target::Prop(_))).count();
        if props > PROPS_KEYS_MAX { Err(BadMapping::TooManyProps) } else { Ok(columns) }
    }

    fn resolve_one(&self, name: &str) -> Target {
        let own = self.columns.iter().find(|(column, _)| column == name).map(|(_, target)| target.clone());
        match (own.or_else(|| Target::parse(name).ok()), self.others) {
            (Some(target), _) => target,
            (None, Others::Ignore) => Target::Ignore,
            (None, Others::Props) => Target::Prop(name.to_string()),
        }
    }
}
