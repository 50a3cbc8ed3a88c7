//! Encodes chunks as the streaming format of Arrow IPC.
//!
//! DuckDB exports its chunks through the Arrow C data interface; what is added here is the framing and the metadata.
//! The crate `arrow-ipc` would do the same for 90 CPU-seconds of each build.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;

use sql::protocol::{Column, Failure, FailureKind};

use super::database::{Database, Rows, Rowset, arrow_failure};
use super::ffi::{self, Api, ArrowArray, ArrowOptions, ArrowSchema};
use super::flatbuffer::{self, Field};

/// The version of the metadata that all readers since 2020 expect.
const VERSION: i16 = 4;
/// Kinds of messages.
const SCHEMA: u8 = 1;
const DICTIONARY_BATCH: u8 = 2;
const RECORD_BATCH: u8 = 3;
/// A message of length 0.
const END: [u8; 8] = [0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0];
/// Flag of a schema whose values may be null.
const NULLABLE: i64 = 2;

/// Encodes an answer chunk by chunk.
pub(crate) struct ArrowEncoder {
    api: &'static Api,
    options: ArrowOptions,
    columns: Vec<Node>,
    schema: Vec<u8>,
    /// Whether the dictionaries of columns with the type ENUM were sent.
    has_dictionaries: bool,
    end: Vec<u8>,
}

/// A column or a part of it.
struct Node {
    name: String,
    nullable: bool,
    layout: Layout,
    of: ArrowType,
    children: Vec<Node>,
    /// The number and the values of a dictionary; the node itself has the indexes.
    dictionary: Option<(i64, Box<Node>)>,
}

/// A type as the metadata describes it: its number and the table of its parameters.
struct ArrowType {
    number: u8,
    fields: Vec<Field>,
}

/// How values are laid out in buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Null,
    Bits,
    Fixed(usize),
    /// Offsets of this many bytes, then bytes.
    Bytes(usize),
    /// Offsets of this many bytes; the items are the child.
    List(usize),
    FixedList(usize),
    Struct,
    SparseUnion,
}

impl ArrowEncoder {
    pub(crate) fn new(
        database: &Database,
        rows: &mut Rows<'_>,
        columns: &[Column],
    ) -> Result<ArrowEncoder, Failure> {
        let options = database.arrow_options();
        let names: Vec<CString> =
            columns.iter().map(|column| CString::new(column.name.as_str()).unwrap_or_default()).collect();
        let mut names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut types: Vec<_> = (0..columns.len()).map(|column| rows.logical_type(column as u64)).collect();
        let mut schema = MaybeUninit::<ArrowSchema>::zeroed();
        let api = database.api;
        // SAFETY: names and types are as many as the count says; the schema is read only if it was written.
        let nodes = unsafe {
            let error = (api.to_arrow_schema)(
                options,
                types.as_mut_ptr(),
                names.as_mut_ptr(),
                columns.len() as u64,
                schema.as_mut_ptr(),
            );
            types.iter_mut().for_each(|of| (api.destroy_logical_type)(of));
            if let Some(failure) = arrow_failure(api, error) {
                return Err(failure);
            }
            let mut schema = schema.assume_init();
            let mut dictionaries = 0;
            let nodes = Node::children_of(&schema, &mut dictionaries);
            if let Some(release) = schema.release {
                release(&mut schema);
            }
            nodes?
        };
        let fields = nodes.iter().map(Node::field).collect();
        let header = vec![Field::I16(0), Field::Tables(fields)];
        Ok(ArrowEncoder {
            api,
            options,
            schema: message(SCHEMA, header, &[]),
            columns: nodes,
            has_dictionaries: false,
            end: Vec::new(),
        })
    }

    /// Returns what stands before the rows.
    pub(crate) fn schema(&self) -> &[u8] {
        &self.schema
    }

    /// Returns the first `count` rows of a chunk.
    pub(crate) fn batch(&mut self, rows: &Rowset<'_>, count: usize) -> Result<Vec<u8>, Failure> {
        let mut array = MaybeUninit::<ArrowArray>::zeroed();
        // SAFETY: the chunk is alive; the array is read only if it was written, and released after its last use.
        unsafe {
            let error = (self.api.data_chunk_to_arrow)(self.options, rows.chunk, array.as_mut_ptr());
            if let Some(failure) = arrow_failure(self.api, error) {
                return Err(failure);
            }
            let mut array = array.assume_init();
            let encoded = self.encode(&array, count);
            if let Some(release) = array.release {
                release(&mut array);
            }
            encoded
        }
    }

    unsafe fn encode(&mut self, array: &ArrowArray, count: usize) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        let mut batch = Batch::default();
        for (index, node) in self.columns.iter().enumerate() {
            // SAFETY: a chunk has one child for each column.
            unsafe {
                let column = &**array.children.add(index);
                if !self.has_dictionaries {
                    node.put_dictionaries(Some(column), &mut out)?;
                }
                node.put(column, count, &mut batch)?;
            }
        }
        self.has_dictionaries = true;
        out.extend(batch.message(count));
        Ok(out)
    }

    /// Returns what stands behind the rows.
    pub(crate) fn end(&mut self) -> Result<&[u8], Failure> {
        if !self.has_dictionaries {
            // Readers expect the dictionaries that the schema names even if there are no rows.
            for node in &self.columns {
                // SAFETY: no array is read.
                unsafe { node.put_dictionaries(None, &mut self.end)? };
            }
        }
        self.end.extend(END);
        Ok(&self.end)
    }
}

impl Node {
    unsafe fn children_of(schema: &ArrowSchema, dictionaries: &mut i64) -> Result<Vec<Node>, Failure> {
        let count = schema.n_children as usize;
        // SAFETY: a schema has as many children as it says.
        (0..count).map(|index| unsafe { Node::new(&**schema.children.add(index), dictionaries) }).collect()
    }

    unsafe fn new(schema: &ArrowSchema, dictionaries: &mut i64) -> Result<Node, Failure> {
        // SAFETY: the texts of a schema end with zero, and its dictionary is a schema.
        unsafe {
            let format = ffi::text(schema.format);
            let (layout, number, fields) = describe(&format).ok_or_else(|| {
                let message = format!("a column has no form in Arrow ({format}); cast it to VARCHAR");
                Failure::new(FailureKind::Statement, message)
            })?;
            let dictionary = match schema.dictionary.as_ref() {
                None => None,
                Some(values) => {
                    *dictionaries += 1;
                    Some((*dictionaries, Box::new(Node::new(values, dictionaries)?)))
                }
            };
            Ok(Node {
                name: ffi::text(schema.name),
                nullable: schema.flags & NULLABLE != 0,
                layout,
                of: ArrowType { number, fields },
                children: Node::children_of(schema, dictionaries)?,
                dictionary,
            })
        }
    }

    /// Returns the metadata of the field. The type of a field with a dictionary is that of the dictionary's values.
    fn field(&self) -> Vec<Field> {
        let of = self.dictionary.as_ref().map_or(self, |(_, values)| values);
        let dictionary = match &self.dictionary {
            None => Field::None,
            Some((id, _)) => Field::Table(vec![Field::I64(*id), Field::Table(self.of.fields.clone())]),
        };
        vec![
            Field::Text(self.name.clone()),
            Field::U8(self.nullable.into()),
            Field::U8(of.of.number),
            Field::Table(of.of.fields.clone()),
            dictionary,
            Field::Tables(of.children.iter().map(Node::field).collect()),
        ]
    }
    /// Appends the dictionaries of this node and of its children; those of an answer without rows are empty.
    unsafe fn put_dictionaries(&self, array: Option<&ArrowArray>, out: &mut Vec<u8>) -> Result<(), Failure> {
        if let Some((id, values)) = &self.dictionary {
            let mut batch = Batch::default();
            let mut count = 0;
            // SAFETY: an array of indexes has a dictionary.
            match array.map(|array| unsafe { &*array.dictionary }) {
                Some(dictionary) => {
                    count = dictionary.length as usize;
                    // SAFETY: the dictionary has the type of the schema's.
                    unsafe { values.put(dictionary, count, &mut batch)? };
                }
                None => values.put_empty(&mut batch),
            }
            let header = vec![Field::I64(*id), Field::Table(batch.header(count))];
            out.extend(message(DICTIONARY_BATCH, header, &batch.body));
        }
        for (index, child) in self.children.iter().enumerate() {
            // SAFETY: an array has the children that its schema has.
            unsafe { child.put_dictionaries(array.map(|array| &**array.children.add(index)), out)? };
        }
        Ok(())
    }

    /// Appends the first `count` values of an array.
    unsafe fn put(&self, array: &ArrowArray, count: usize, batch: &mut Batch) -> Result<(), Failure> {
        if array.offset != 0 {
            return Err(Failure::new(
                FailureKind::Internal,
                "a column of Arrow does not start at its first row",
            ));
        }
        // SAFETY: an array has the buffers of its layout, and each holds at least `count` values.
        unsafe {
            let buffer = |index: usize| (*array.buffers.add(index)).cast::<u8>();
            let bytes = |index: usize, length: usize| -> &[u8] {
                let start = buffer(index);
                if start.is_null() || length == 0 { &[] } else { std::slice::from_raw_parts(start, length) }
            };
            let child = |index: usize| &**array.children.add(index);
            // The end of the last value.
            let end_of = |width: usize| match (count, width) {
                (0, _) => 0,
                (_, 4) => buffer(1).cast::<i32>().add(count).read_unaligned() as usize,
                _ => buffer(1).cast::<i64>().add(count).read_unaligned() as usize,
            };
            let validity = match self.layout {
                Layout::Null | Layout::SparseUnion => &[],
                _ => bytes(0, count.div_ceil(8)),
            };
            let nulls = match self.layout {
                Layout::Null => count,
                _ => nulls(validity, count),
            };
            batch.nodes.push([count as i64, nulls as i64]);
            if !matches!(self.layout, Layout::Null | Layout::SparseUnion) {
                batch.push(if nulls == 0 { &[] } else { validity });
            }
            match self.layout {
                Layout::Null | Layout::Struct | Layout::FixedList(_) => {}
                Layout::Bits => batch.push(bytes(1, count.div_ceil(8))),
                Layout::Fixed(width) => batch.push(bytes(1, count * width)),
                Layout::Bytes(width) => {
                    batch.push(bytes(1, (count + 1) * width));
                    batch.push(bytes(2, end_of(width)));
                }
                Layout::List(width) => batch.push(bytes(1, (count + 1) * width)),
                Layout::SparseUnion => batch.push(bytes(array.n_buffers as usize - 1, count)),
            }
            let children = match self.layout {
                Layout::List(width) => end_of(width),
                Layout::FixedList(size) => count * size,
                _ => count,
            };
            for (index, node) in self.children.iter().enumerate() {
                node.put(child(index), children, batch)?;
            }
        }
        Ok(())
    }

    /// Appends no values.
    fn put_empty(&self, batch: &mut Batch) {
        batch.nodes.push([0, 0]);
        let buffers = match self.layout {
            Layout::Null => 0,
            Layout::Struct | Layout::FixedList(_) | Layout::SparseUnion => 1,
            Layout::Bits | Layout::Fixed(_) | Layout::List(_) => 2,
            Layout::Bytes(_) => 3,
        };
        (0..buffers).for_each(|_| batch.push(&[]));
        self.children.iter().for_each(|child| child.put_empty(batch));
    }
}

/// The content of a record batch.
#[derive(Default)]
struct Batch {
    /// Length and nulls of each node.
    nodes: Vec<[i64; 2]>,
    /// Offset and length of each buffer.
    buffers: Vec<[i64; 2]>,
    body: Vec<u8>,
}

impl Batch {
    fn push(&mut self, buffer: &[u8]) {
        self.buffers.push([self.body.len() as i64, buffer.len() as i64]);
        self.body.extend(buffer);
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }

    fn header(&self, count: usize) -> Vec<Field> {
        let (nodes, buffers) = (self.nodes.clone(), self.buffers.clone());
        vec![Field::I64(count as i64), Field::Pairs(nodes), Field::Pairs(buffers)]
    }

    fn message(&self, count: usize) -> Vec<u8> {
        message(RECORD_BATCH, self.header(count), &self.body)
    }
}

/// Returns the values that are null; a buffer without bytes means none.
fn nulls(validity: &[u8], count: usize) -> usize {
    if validity.is_empty() {
        return 0;
    }
    let is_null = |index: &usize| validity[index / 8] >> (index % 8) & 1 == 0;
    (0..count).filter(is_null).count()
}

/// Returns a message: a mark, the length of its metadata, the metadata, the body.
fn message(kind: u8, header: Vec<Field>, body: &[u8]) -> Vec<u8> {
    let metadata = flatbuffer::buffer(&[
        Field::I16(VERSION),
        Field::U8(kind),
        Field::Table(header),
        Field::I64(body.len() as i64),
    ]);
    let length = metadata.len().next_multiple_of(8);
    let mut out = Vec::with_capacity(8 + length + body.len());
    out.extend([0xFF; 4]);
    out.extend((length as u32).to_le_bytes());
    out.extend(metadata);
    out.resize(8 + length, 0);
    out.extend(body);
    out
}

/// Returns the layout, the number and the parameters of a type from its format in the C data interface.
fn describe(format: &str) -> Option<(Layout, u8, Vec<Field>)> {
    let integer = |bytes: usize, signed: bool| {
        (Layout::Fixed(bytes), 2, vec![Field::I32(8 * bytes as i32), Field::U8(signed.into())])
    };
    let unit =
        |unit: &str| ["s", "m", "u", "n"].iter().position(|known| *known == unit).map(|unit| unit as i16);
    let plain = |layout, number| (layout, number, Vec::new());
    Some(match format {
        "n" => plain(Layout::Null, 1),
        "b" => plain(Layout::Bits, 6),
        "c" => integer(1, true),
        "C" => integer(1, false),
        "s" => integer(2, true),
        "S" => integer(2, false),
        "i" => integer(4, true),
        "I" => integer(4, false),
        "l" => integer(8, true),
        "L" => integer(8, false),
        "f" => (Layout::Fixed(4), 3, vec![Field::I16(1)]),
        "g" => (Layout::Fixed(8), 3, vec![Field::I16(2)]),
        "z" => plain(Layout::Bytes(4), 4),
        "u" => plain(Layout::Bytes(4), 5),
        "Z" => plain(Layout::Bytes(8), 19),
        "U" => plain(Layout::Bytes(8), 20),
        "tdD" => (Layout::Fixed(4), 8, vec![Field::I16(0)]),
        "tts" | "ttm" => (Layout::Fixed(4), 9, vec![Field::I16(unit(&format[2..])?), Field::I32(32)]),
        "ttu" | "ttn" => (Layout::Fixed(8), 9, vec![Field::I16(unit(&format[2..])?), Field::I32(64)]),
        "tin" => (Layout::Fixed(16), 11, vec![Field::I16(2)]),
        "+l" => plain(Layout::List(4), 12),
        "+L" => plain(Layout::List(8), 21),
        "+s" => plain(Layout::Struct, 13),
        "+m" => (Layout::List(4), 17, vec![Field::U8(0)]),
        _ => {
            let (kind, parameters) = format.split_once(':')?;
            match kind {
                "tss" | "tsm" | "tsu" | "tsn" => {
                    let zone = match parameters {
                        "" => Field::None,
                        zone => Field::Text(zone.to_owned()),
                    };
                    (Layout::Fixed(8), 10, vec![Field::I16(unit(&kind[2..])?), zone])
                }
                "w" => {
                    let bytes: i32 = parameters.parse().ok()?;
                    (Layout::Fixed(bytes as usize), 15, vec![Field::I32(bytes)])
                }
                "d" => {
                    let numbers: Option<Vec<i32>> = parameters.split(',').map(|n| n.parse().ok()).collect();
                    let numbers = numbers?;
                    let bits = numbers.get(2).copied().unwrap_or(128);
                    let fields =
                        vec![Field::I32(*numbers.first()?), Field::I32(*numbers.get(1)?), Field::I32(bits)];
                    (Layout::Fixed(bits as usize / 8), 7, fields)
                }
                "+w" => {
                    let size: i32 = parameters.parse().ok()?;
                    (Layout::FixedList(size as usize), 16, vec![Field::I32(size)])
                }
                "+us" => {
                    let ids: Option<Vec<i32>> = parameters.split(',').map(|id| id.parse().ok()).collect();
                    (Layout::SparseUnion, 14, vec![Field::I16(0), Field::I32s(ids?)])
                }
                _ => return None,
            }
        }
    })
}
