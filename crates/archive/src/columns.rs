//! Events as columns: what a scan hands out.

use std::sync::{Arc, OnceLock};

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

    /// Returns about how many bytes of memory the rows take.
    pub fn bytes(&self) -> usize {
        self.rows() * 16 + self.columns.iter().map(Column::bytes).sum::<usize>()
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
    /// UUIDs.
    Uuids(Uuids),
}

impl Column {
    /// Returns true if the column has this many rows.
    pub(crate) fn has_rows(&self, rows: usize) -> bool {
        match self {
            Column::Absent => true,
            Column::Coded { codes, .. } => codes.len() == rows,
            Column::Numbers(values) => values.len() == rows,
            Column::Uuids(uuids) => uuids.len() == rows,
        }
    }

    /// Returns the number of rows that have a value.
    pub(crate) fn count_values(&self) -> usize {
        match self {
            Column::Absent => 0,
            Column::Coded { codes, .. } => codes.iter().filter(|code| **code != ABSENT).count(),
            Column::Numbers(values) => values.iter().filter(|value| !value.is_nan()).count(),
            Column::Uuids(uuids) => uuids.present.iter().filter(|present| **present).count(),
        }
    }

    /// Returns about how many bytes of memory the column takes, with its dictionary.
    pub fn bytes(&self) -> usize {
        match self {
            Column::Absent => 0,
            Column::Coded { codes, dictionary } => codes.len() * 4 + dictionary.bytes(),
            Column::Numbers(values) => values.len() * 8,
            Column::Uuids(uuids) => uuids.len() * 17,
        }
    }

    /// Returns the value of a row.
    pub fn value(&self, row: usize) -> Option<Value<'_>> {
        match self {
            Column::Absent => None,
            Column::Coded { codes, dictionary } => {
                (codes[row] != ABSENT).then(|| dictionary.value(codes[row]))
            }
            Column::Numbers(values) => (!values[row].is_nan()).then(|| Value::Number(values[row])),
            Column::Uuids(uuids) => uuids.text(row).map(Value::Text),
        }
    }
}

/// UUIDs, one per row. Their text is written when it is first asked for.
#[derive(Clone, Debug, Default)]
pub struct Uuids {
    values: Vec<u128>,
    present: Vec<bool>,
    texts: OnceLock<String>,
}

const UUID_TEXT_BYTES: usize = 36;

impl Uuids {
    /// Appends a row.
    pub fn push(&mut self, value: Option<u128>) {
        self.values.push(value.unwrap_or_default());
        self.present.push(value.is_some());
        self.texts = OnceLock::new();
    }

    /// Removes the UUIDs of some rows.
    pub(crate) fn remove(&mut self, is_removed: impl Fn(usize) -> bool) {
        for row in 0..self.values.len() {
            if is_removed(row) {
                (self.values[row], self.present[row]) = (0, false);
            }
        }
        self.texts = OnceLock::new();
    }

    /// Returns the UUID of a row, most significant byte first.
    pub fn get(&self, row: usize) -> Option<u128> {
        self.present[row].then_some(self.values[row])
    }

    /// Returns the UUID of a row as text.
    pub fn text(&self, row: usize) -> Option<&str> {
        let texts = self.texts.get_or_init(|| {
            let mut texts = String::with_capacity(self.values.len() * UUID_TEXT_BYTES);
            self.values.iter().for_each(|value| write_uuid(*value, &mut texts));
            texts
        });
        self.present[row].then(|| &texts[row * UUID_TEXT_BYTES..][..UUID_TEXT_BYTES])
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

fn write_uuid(value: u128, into: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for digit in 0..32 {
        if matches!(digit, 8 | 12 | 16 | 20) {
            into.push('-');
        }
        into.push(char::from(DIGITS[(value >> (124 - 4 * digit)) as usize & 15]));
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

    /// Makes room for more values, and for their text.
    pub(crate) fn reserve(&mut self, values: usize, text_bytes: usize) {
        self.entries.reserve(values);
        self.text.reserve(text_bytes);
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
