//! Events as columns: what a scan hands out.

use std::sync::Arc;

/// The code of a row without a value.
pub const ABSENT: u32 = u32::MAX;

/// A column of events, as a question names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Field {
    /// The event's name.
    Event,
    /// The UUID set by the client, in its usual text.
    Id,
    /// The player's id.
    Player,
    /// The anonymous id of `$identify`.
    Anonymous,
    /// The session's id.
    Session,
    /// The measured value.
    Value,
    /// The country, two letters.
    Country,
    /// The platform.
    Platform,
    /// The version.
    Version,
    /// The source.
    Source,
    /// The level.
    Level,
    /// The time of receipt, milliseconds since 1970.
    Received,
    /// A property. A dot in the name enters an object: `props.weapon.kind`.
    Property(Box<str>),
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A string.
    Text(&'a str),
    /// A number.
    Number(f64),
    /// True or false.
    Flag(bool),
}

/// Rows of one game, in the order that the scan promises.
#[derive(Clone, Debug, Default)]
pub struct Chunk {
    /// The hash of each row's player ([`model::rollup::hash_player`]); 0 for a row without player.
    pub players: Vec<u64>,
    /// The time of each row, milliseconds since 1970.
    pub times: Vec<i64>,
    /// The other columns, in the order in which the scan asked for them.
    pub columns: Vec<Column>,
}

impl Chunk {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.times.len()
    }
}

/// The values of one column of a chunk, one per row.
#[derive(Clone, Debug)]
pub enum Column {
    /// No row has a value.
    Absent,
    /// Each row has the number of its value in a dictionary, or [`ABSENT`].
    Coded {
        /// One code per row.
        codes: Vec<u32>,
        /// The values. Chunks of one row group share them.
        dictionary: Arc<Dictionary>,
    },
    /// Numbers; NaN where a row has no value, since no event can hold NaN.
    Numbers(Vec<f64>),
}

impl Column {
    /// Returns the value of a row.
    pub fn value(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Column::Absent => None,
            Column::Coded { codes, dictionary } => {
                (codes[row] != ABSENT).then(|| dictionary.value(codes[row]))
            }
            Column::Numbers(values) => (!values[row].is_nan()).then(|| Value::Number(values[row])),
        }
    }
}

/// The distinct values of a column. Text lies in one buffer, because a dictionary may hold every player.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    text: String,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Text { start: u32, end: u32 },
    Number(f64),
    Flag(bool),
}

impl Dictionary {
    /// Appends a value, whose code is the number of values before it. The caller keeps values distinct.
    ///
    /// # Panics
    /// If the text of all values exceeds 4 GiB.
    pub fn push(&mut self, value: Value<'_>) -> u32 {
        let code = self.entries.len() as u32;
        self.entries.push(match value {
            Value::Text(text) => {
                let start = u32::try_from(self.text.len()).expect("less than 4 GiB of text");
                self.text.push_str(text);
                Entry::Text { start, end: u32::try_from(self.text.len()).expect("less than 4 GiB of text") }
            }
            Value::Number(number) => Entry::Number(number),
            Value::Flag(flag) => Entry::Flag(flag),
        });
        code
    }

    /// Returns the value with a code.
    pub fn value(&self, code: u32) -> Value<'_> {
        match self.entries[code as usize] {
            Entry::Text { start, end } => Value::Text(&self.text[start as usize..end as usize]),
            Entry::Number(number) => Value::Number(number),
            Entry::Flag(flag) => Value::Flag(flag),
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no value.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns about how many bytes of memory the dictionary takes.
    pub fn bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}
