//! Writes FlatBuffers, as far as the metadata of Arrow needs them. A table comes before what it refers to.

/// A field of a table.
#[derive(Clone)]
pub(crate) enum Field {
    /// The field has its default.
    None,
    U8(u8),
    I16(i16),
    I32(i32),
    I64(i64),
    Text(String),
    Table(Vec<Field>),
    Tables(Vec<Vec<Field>>),
    I32s(Vec<i32>),
    /// Structs of two `i64`.
    Pairs(Vec<[i64; 2]>),
}

impl Field {
    fn size(&self) -> usize {
        match self {
            Field::None => 0,
            Field::U8(_) => 1,
            Field::I16(_) => 2,
            Field::I64(_) => 8,
            _ => 4,
        }
    }
}

/// Returns a buffer with this table as its root.
pub(crate) fn buffer(root: &[Field]) -> Vec<u8> {
    let mut out = vec![0; 4];
    put_table(&mut out, 0, root);
    out
}

/// Appends a table, aligned to 8 bytes, and makes the reference at `from` point to it.
fn put_table(out: &mut Vec<u8>, from: usize, fields: &[Field]) {
    let mut end: usize = 4;
    let places: Vec<usize> = fields
        .iter()
        .map(|field| match field.size() {
            0 => 0,
            size => {
                let place = end.next_multiple_of(size);
                end = place + size;
                place
            }
        })
        .collect();
    align(out, 2, 0);
    let layout = out.len();
    let short = |size: usize| u16::try_from(size).expect("a table of metadata is small").to_le_bytes();
    out.extend(short(4 + 2 * fields.len()));
    out.extend(short(end));
    places.iter().for_each(|place| out.extend(short(*place)));
    align(out, 8, 0);
    let table = out.len();
    refer(out, from, table);
    out.resize(table + end, 0);
    out[table..table + 4].copy_from_slice(&((table - layout) as i32).to_le_bytes());
    for (field, place) in fields.iter().zip(places) {
        put_field(out, field, table + place);
    }
}

/// Writes a field at its place, and what it refers to at the end.
fn put_field(out: &mut Vec<u8>, field: &Field, at: usize) {
    match field {
        Field::None => {}
        Field::U8(value) => out[at] = *value,
        Field::I16(value) => out[at..at + 2].copy_from_slice(&value.to_le_bytes()),
        Field::I32(value) => out[at..at + 4].copy_from_slice(&value.to_le_bytes()),
        Field::I64(value) => out[at..at + 8].copy_from_slice(&value.to_le_bytes()),
        Field::Text(text) => {
            start_vector(out, at, text.len(), 4);
            out.extend(text.bytes());
            out.push(0);
        }
        Field::Table(fields) => put_table(out, at, fields),
        Field::Tables(tables) => {
            let first = start_vector(out, at, tables.len(), 4);
            out.resize(first + 4 * tables.len(), 0);
            for (index, fields) in tables.iter().enumerate() {
                put_table(out, first + 4 * index, fields);
            }
        }
        Field::I32s(values) => {
            start_vector(out, at, values.len(), 4);
            values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        }
        Field::Pairs(pairs) => {
            start_vector(out, at, pairs.len(), 8);
            pairs.iter().flatten().for_each(|value| out.extend(value.to_le_bytes()));
        }
    }
}

/// Starts a vector whose elements are aligned, and returns where they begin.
fn start_vector(out: &mut Vec<u8>, from: usize, length: usize, alignment: usize) -> usize {
    align(out, alignment, 4);
    let vector = out.len();
    refer(out, from, vector);
    out.extend((length as u32).to_le_bytes());
    out.len()
}

/// Fills up until `ahead` bytes later the position is aligned.
fn align(out: &mut Vec<u8>, alignment: usize, ahead: usize) {
    let length = (out.len() + ahead).next_multiple_of(alignment) - ahead;
    out.resize(length, 0);
}

/// Makes the reference at `from` point to `to`, which is behind it.
fn refer(out: &mut [u8], from: usize, to: usize) {
    out[from..from + 4].copy_from_slice(&((to - from) as u32).to_le_bytes());
}
