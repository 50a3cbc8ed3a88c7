//! Which columns rows have, and how to get the columns of a question or of another file from them.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::column_builder::ColumnBuilder;
use crate::columns::{Chunk, Column, Field, Uuids, Value};
use crate::json::{Leaf, ObjectWriter, Scratch, flatten};

/// Properties with a column of their own.
pub(crate) const PROPERTIES_MAX: usize = 64;
/// A property has a column of its own if at least one row of this many has it.
const ROWS_PER_VALUE_MAX: u64 = 100;
/// Names of properties in the JSON of the rest that are counted; beyond it any name may be there.
const REST_NAMES_MAX: usize = 256;

/// The columns that all rows have, beside player and time, in the order of files.
pub(crate) const FIXED: [Field; 12] = [
    Field::Event,
    Field::Player,
    Field::Session,
    Field::Value,
    Field::Country,
    Field::Platform,
    Field::Version,
    Field::Source,
    Field::Level,
    Field::Anonymous,
    Field::Id,
    Field::Received,
];

/// The place of a fixed column.
pub(crate) fn place(field: &Field) -> usize {
    FIXED.iter().position(|fixed| fixed == field).expect("a column that all rows have")
}

/// The type of a column of properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
}

impl Kind {
    fn of(value: Value<'_>) -> Kind {
        match value {
            Value::Text(_) => Kind::Text,
            Value::Number(_) => Kind::Number,
            Value::Flag(_) => Kind::Flag,
        }
    }
}

/// A property with a column of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Property {
    pub(crate) name: Box<str>,
    pub(crate) kind: Kind,
    /// Rows that have it.
    pub(crate) rows: u64,
}

/// The names of the properties in the JSON of the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RestNames {
    /// Names and the number of rows that have them.
    pub(crate) rows: BTreeMap<Box<str>, u64>,
    /// True if there are others.
    pub(crate) others: bool,
}

impl RestNames {
    pub(crate) fn may_contain(&self, name: &str) -> bool {
        self.others || self.rows.contains_key(name)
    }

    /// Counts the names of one row.
    pub(crate) fn count(&mut self, json: &str, scratch: &mut Scratch) {
        let (rows, others) = (&mut self.rows, &mut self.others);
        let read = flatten(json, scratch, |name, _, _| {
            if let Some(count) = rows.get_mut(name) {
                *count += 1;
            } else if rows.len() < REST_NAMES_MAX {
                rows.insert(name.into(), 1);
            } else {
                *others = true;
            }
        });
        self.others |= read.is_err();
    }
}

/// The columns of some rows: the fixed ones, those of properties, and the JSON of the rest, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shape {
    pub(crate) properties: Vec<Property>,
    pub(crate) rest: RestNames,
}

impl Shape {
    /// Returns the number of columns.
    pub(crate) fn width(&self) -> usize {
        FIXED.len() + self.properties.len() + 1
    }

    /// Returns the place of the JSON of the rest.
    pub(crate) fn rest_place(&self) -> usize {
        FIXED.len() + self.properties.len()
    }

    fn property(&self, name: &str) -> Option<usize> {
        self.properties.iter().position(|property| &*property.name == name)
    }

    /// Chooses the properties with a column from counts by name and type. Of names that differ by case only, one gets a
    /// column: several readers of Parquet ignore case.
    pub(crate) fn choose(
        rows: u64,
        counts: impl IntoIterator<Item = (Box<str>, Kind, u64)>,
    ) -> Vec<Property> {
        let mut names: BTreeMap<Box<str>, Property> = BTreeMap::new();
        for (name, kind, count) in counts {
            match names.get_mut(&name) {
                Some(known) if known.rows >= count => {}
                _ => {
                    names.insert(name.clone(), Property { name, kind, rows: count });
                }
            }
        }
        let mut chosen: Vec<Property> = names
            .into_values()
            .filter(|property| property.rows > 0 && property.rows.saturating_mul(ROWS_PER_VALUE_MAX) >= rows)
            .collect();
        chosen.sort_by(|one, other| other.rows.cmp(&one.rows).then_with(|| one.name.cmp(&other.name)));
        let mut lower = HashSet::new();
        chosen.retain(|property| lower.insert(property.name.to_lowercase()));
        chosen.truncate(PROPERTIES_MAX);
        chosen.sort_by(|one, other| one.name.cmp(&other.name));
        chosen
    }

    /// Returns the properties of rows that come from several shapes.
    pub(crate) fn merge<'a>(rows: u64, shapes: impl IntoIterator<Item = &'a Shape>) -> Vec<Property> {
        let mut counts: BTreeMap<(Box<str>, Kind), u64> = BTreeMap::new();
        let mut rest: BTreeMap<Box<str>, u64> = BTreeMap::new();
        for shape in shapes {
            for property in &shape.properties {
                *counts.entry((property.name.clone(), property.kind)).or_default() += property.rows;
            }
            for (name, count) in &shape.rest.rows {
                *rest.entry(name.clone()).or_default() += count;
            }
        }
        let with_rest = counts.into_iter().map(|((name, kind), count)| {
            let rest = rest.get(&name).copied().unwrap_or(0);
            (name, kind, count + rest)
        });
        Shape::choose(rows, with_rest)
    }
}

/// How to get columns from rows of a shape.
#[derive(Debug)]
pub(crate) struct Projection {
    /// The columns to read, by their place in the shape, ascending.
    pub(crate) places: Vec<usize>,
    outputs: Vec<Output>,
    /// Where the JSON of the rest is among the columns read.
    rest: Option<usize>,
    /// Columns whose values go into the JSON of the rest, with their names.
    put_back: Vec<(usize, Box<str>)>,
    /// True if the last output is the JSON of the rest.
    has_rest_output: bool,
}

#[derive(Debug)]
struct Output {
    /// The column, among those read.
    column: Option<usize>,
    /// The name to look for in the JSON of the rest.
    in_rest: Option<Box<str>>,
    /// Only values of this type are taken from there.
    kind: Option<Kind>,
}

impl Projection {
    /// Reads the columns of a question, and the names of events if the rows are filtered by them.
    pub(crate) fn of_fields(shape: &Shape, fields: &[Field], reads_event: bool) -> Projection {
        let mut places = Vec::new();
        places.extend(reads_event.then(|| place(&Field::Event)));
        let mut outputs = Vec::new();
        for field in fields {
            let (place, in_rest) = match field {
                Field::Property(name) => {
                    let place = shape.property(name).map(|property| FIXED.len() + property);
                    (place, shape.rest.may_contain(name).then(|| name.clone()))
                }
                fixed => (Some(place(fixed)), None),
            };
            places.extend(place);
            places.extend(in_rest.is_some().then(|| shape.rest_place()));
            outputs.push(Output { column: place, in_rest, kind: None });
        }
        let rest_place = shape.rest_place();
        Projection { places, outputs, rest: Some(rest_place), put_back: Vec::new(), has_rest_output: false }
            .with_places_sorted()
    }

    /// Reads all columns and gives them the columns of another shape.
    pub(crate) fn of_shape(shape: &Shape, properties: &[Property]) -> Projection {
        let mut outputs: Vec<Output> =
            (0..FIXED.len()).map(|place| Output { column: Some(place), in_rest: None, kind: None }).collect();
        let mut is_used = vec![false; shape.properties.len()];
        for property in properties {
            let same = shape.property(&property.name);
            let same = same.filter(|same| shape.properties[*same].kind == property.kind);
            if let Some(same) = same {
                is_used[same] = true;
            }
            let in_rest = shape.rest.may_contain(&property.name).then(|| property.name.clone());
            let column = same.map(|same| FIXED.len() + same);
            outputs.push(Output { column, in_rest, kind: Some(property.kind) });
        }
        let unused = is_used.iter().enumerate().filter(|(_, is_used)| !**is_used);
        let put_back: Vec<(usize, Box<str>)> = unused
            .map(|(property, _)| (FIXED.len() + property, shape.properties[property].name.clone()))
            .collect();
        Projection {
            places: (0..shape.width()).collect(),
            outputs,
            rest: Some(shape.rest_place()),
            has_rest_output: true,
            put_back,
        }
        .with_places_sorted()
    }

    /// Returns true if the columns of the shape are returned as they are.
    pub(crate) fn is_identity(&self) -> bool {
        let in_order =
            |(index, output): (usize, &Output)| output.column == Some(index) && output.in_rest.is_none();
        self.has_rest_output
            && self.put_back.is_empty()
            && self.places.len() == self.outputs.len() + 1
            && self.outputs.iter().enumerate().all(in_order)
    }

    /// Turns places of the shape into indices of the columns read.
    fn with_places_sorted(mut self) -> Projection {
        self.places.sort_unstable();
        self.places.dedup();
        let index = |place: usize| self.places.binary_search(&place).ok();
        for output in &mut self.outputs {
            output.column = output.column.and_then(index);
        }
        for (place, _) in &mut self.put_back {
            *place = index(*place).expect("all columns are read");
        }
        self.rest = self.rest.and_then(index);
        self
    }

    /// Returns the columns that were asked for.
    pub(crate) fn apply(&self, rows: usize, read: Vec<Column>) -> Vec<Column> {
        let looks_into_rest = self.outputs.iter().any(|output| output.in_rest.is_some());
        let has_rest = self.rest.is_some_and(|rest| !matches!(read[rest], Column::Absent));
        if !self.put_back.is_empty() || (looks_into_rest && has_rest) {
            return self.apply_with_rest(rows, &read);
        }
        let mut read: Vec<Option<Column>> = read.into_iter().map(Some).collect();
        let uses = |index: usize| self.outputs.iter().filter(|output| output.column == Some(index)).count();
        let is_shared: Vec<bool> = (0..read.len()).map(|index| uses(index) > 1).collect();
        let mut take = |index: usize| {
            if is_shared[index] { read[index].clone() } else { read[index].take() }
        };
        let columns = self.outputs.iter().map(|output| output.column.and_then(&mut take));
        let mut columns: Vec<Column> = columns.map(|column| column.unwrap_or(Column::Absent)).collect();
        if self.has_rest_output {
            columns.push(self.rest.and_then(&mut take).unwrap_or(Column::Absent));
        }
        columns
    }

    fn apply_with_rest(&self, rows: usize, read: &[Column]) -> Vec<Column> {
        let rest = self.rest.map_or(&Column::Absent, |rest| &read[rest]);
        let wanted: Vec<usize> =
            (0..self.outputs.len()).filter(|output| self.outputs[*output].in_rest.is_some()).collect();
        let mut built: Vec<ColumnBuilder> = wanted.iter().map(|_| ColumnBuilder::default()).collect();
        let mut rest_built = ColumnBuilder::default();
        let (mut scratch, mut found) = (Scratch::default(), vec![None; wanted.len()]);
        for row in 0..rows {
            let mut writer = ObjectWriter::default();
            found.fill(None);
            let present: Vec<bool> = wanted
                .iter()
                .map(|output| {
                    let column = self.outputs[*output].column;
                    column.is_some_and(|column| read[column].value(row).is_some())
                })
                .collect();
            if let Some(Value::Text(json)) = rest.value(row) {
                let flattened = flatten(json, &mut scratch, |name, leaf, raw| {
                    let is_wanted = |output: &usize| self.outputs[*output].in_rest.as_deref() == Some(name);
                    let value = wanted.iter().position(is_wanted).and_then(|at| {
                        let kind = self.outputs[wanted[at]].kind;
                        let value = OwnedValue::of(leaf, kind.is_none())?;
                        let fits = kind.is_none_or(|kind| Kind::of(value.borrow()) == kind);
                        (fits && !present[at] && found[at].is_none()).then_some((at, value))
                    });
                    match value {
                        Some((at, value)) => found[at] = Some(value),
                        None => writer.push(name, raw),
                    }
                });
                if flattened.is_err() && self.has_rest_output {
                    // Text that is no object stays as it is.
                    rest_built.push(Some(Value::Text(json)));
                    writer = ObjectWriter::default();
                    found.fill(None);
                }
            }
            for ((built, output), found) in built.iter_mut().zip(&wanted).zip(&found) {
                let column = self.outputs[*output].column;
                let value = column.and_then(|column| read[column].value(row));
                built.push(value.or(found.as_ref().map(OwnedValue::borrow)));
            }
            if self.has_rest_output && rest_built.rows() == row {
                for (column, name) in &self.put_back {
                    if let Some(value) = read[*column].value(row) {
                        writer.push_value(name, value);
                    }
                }
                rest_built.push(writer.finish().map(Value::Text));
            }
        }
        let mut built = built.into_iter();
        let mut columns: Vec<Column> = Vec::with_capacity(self.outputs.len() + 1);
        for output in &self.outputs {
            columns.push(match (&output.in_rest, output.column) {
                (Some(_), _) => built.next().expect("one for each output").finish(),
                (None, Some(column)) => read[column].clone(),
                (None, None) => Column::Absent,
            });
        }
        if self.has_rest_output {
            columns.push(rest_built.finish());
        }
        columns
    }
}

#[derive(Clone, Debug)]
enum OwnedValue {
    Text(Box<str>),
    Number(f64),
    Flag(bool),
}

impl OwnedValue {
    fn of(leaf: Leaf<'_>, accepts_large: bool) -> Option<OwnedValue> {
        match leaf {
            Leaf::Text(text) => Some(OwnedValue::Text(text.into())),
            Leaf::Number(number) => Some(OwnedValue::Number(number)),
            Leaf::LargeNumber(number) => accepts_large.then_some(OwnedValue::Number(number)),
            Leaf::Flag(flag) => Some(OwnedValue::Flag(flag)),
            Leaf::Other => None,
        }
    }

    fn borrow(&self) -> Value<'_> {
        match self {
            OwnedValue::Text(text) => Value::Text(text),
            OwnedValue::Number(number) => Value::Number(*number),
            OwnedValue::Flag(flag) => Value::Flag(*flag),
        }
    }
}

/// Returns the number of different players of rows that are sorted by player; rows without player do not count.
pub(crate) fn count_players(players: &[u64]) -> u64 {
    let changes = players.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
    match players.first() {
        None => 0,
        Some(0) => changes,
        Some(_) => changes + 1,
    }
}

/// Returns the rows of columns at these indices.
pub(crate) fn select_columns(columns: &[Column], rows: &[u32]) -> Vec<Column> {
    let select = |column: &Column| match column {
        Column::Absent => Column::Absent,
        Column::Coded { codes, dictionary } => {
            let codes = rows.iter().map(|row| codes[*row as usize]).collect();
            Column::Coded { codes, dictionary: dictionary.clone() }
        }
        Column::Numbers(values) => Column::Numbers(rows.iter().map(|row| values[*row as usize]).collect()),
        Column::Uuids(uuids) => {
            let mut selected = Uuids::default();
            rows.iter().for_each(|row| selected.push(uuids.get(*row as usize)));
            Column::Uuids(selected)
        }
    };
    columns.iter().map(select).collect()
}

/// Returns the rows of a chunk at these indices.
pub(crate) fn select(chunk: &Chunk, rows: &[u32]) -> Chunk {
    Chunk {
        players: rows.iter().map(|row| chunk.players[*row as usize]).collect(),
        times: rows.iter().map(|row| chunk.times[*row as usize]).collect(),
        columns: select_columns(&chunk.columns, rows),
    }
}

/// Returns the rows of a range of a column.
pub(crate) fn slice(column: &Column, rows: std::ops::Range<usize>) -> Column {
    match column {
        Column::Absent => Column::Absent,
        Column::Coded { codes, dictionary } => {
            Column::Coded { codes: codes[rows].to_vec(), dictionary: dictionary.clone() }
        }
        Column::Numbers(values) => Column::Numbers(values[rows].to_vec()),
        Column::Uuids(uuids) => {
            let mut sliced = Uuids::default();
            rows.for_each(|row| sliced.push(uuids.get(row)));
            Column::Uuids(sliced)
        }
    }
}
