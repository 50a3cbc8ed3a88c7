//! Reads the values of a chunk's vectors.

use super::ffi::{Api, Vector};
use super::types::Type;

/// A column of a chunk, or a part of it, with its type.
///
/// # Invariants
///
/// The pointers are those of a chunk that outlives this value, and a row that is read is one of the chunk or is named by
/// a list of the chunk.
pub(crate) struct Values<'a> {
    pub(crate) of: &'a Type,
    data: *const u8,
    validity: *const u64,
    children: Vec<Values<'a>>,
}

impl<'a> Values<'a> {
    /// # Safety
    ///
    /// `vector` has the type `of`, and its chunk outlives the returned value.
    pub(crate) unsafe fn new(api: &Api, of: &'a Type, vector: Vector) -> Values<'a> {
        // SAFETY: as promised by the caller; children have the types of the parent's parts.
        unsafe {
            let fields = |types: &mut dyn Iterator<Item = &'a Type>| -> Vec<Values<'a>> {
                types
                    .enumerate()
                    .map(|(index, of)| {
                        Values::new(api, of, (api.struct_vector_get_child)(vector, index as u64))
                    })
                    .collect()
            };
            let children = match of {
                Type::List(item) => vec![Values::new(api, item, (api.list_vector_get_child)(vector))],
                Type::Array(item, _) => vec![Values::new(api, item, (api.array_vector_get_child)(vector))],
                Type::Struct(types) => fields(&mut types.iter().map(|(_, of)| of)),
                Type::Union(types) => {
                    fields(&mut std::iter::once(&TAG).chain(types.iter().map(|(_, of)| of)))
                }
                Type::Map(key, value) => {
                    let entries = (api.list_vector_get_child)(vector);
                    let part =
                        |index, of| Values::new(api, of, (api.struct_vector_get_child)(entries, index));
                    vec![part(0, key), part(1, value)]
                }
                _ => Vec::new(),
            };
            Values {
                of,
                data: (api.vector_get_data)(vector).cast_const().cast(),
                validity: (api.vector_get_validity)(vector),
                children,
            }
        }
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        if self.validity.is_null() {
            return false;
        }
        // SAFETY: a validity mask has a bit for each row.
        unsafe { *self.validity.add(row / 64) >> (row % 64) & 1 == 0 }
    }

    /// Returns the bytes of a value that is stored in `N` bytes.
    pub(crate) fn raw<const N: usize>(&self, row: usize) -> [u8; N] {
        // SAFETY: the type of the vector has values of N bytes.
        unsafe { self.data.add(row * N).cast::<[u8; N]>().read_unaligned() }
    }

    pub(crate) fn i64(&self, row: usize) -> i64 {
        i64::from_ne_bytes(self.raw(row))
    }

    pub(crate) fn i128(&self, row: usize) -> i128 {
        i128::from_ne_bytes(self.raw(row))
    }

    /// Returns an integer that is stored in this many bytes.
    pub(crate) fn integer(&self, row: usize, bytes: usize, signed: bool) -> i128 {
        match (bytes, signed) {
            (1, true) => i8::from_ne_bytes(self.raw(row)).into(),
            (1, false) => u8::from_ne_bytes(self.raw(row)).into(),
            (2, true) => i16::from_ne_bytes(self.raw(row)).into(),
            (2, false) => u16::from_ne_bytes(self.raw(row)).into(),
            (4, true) => i32::from_ne_bytes(self.raw(row)).into(),
            (4, false) => u32::from_ne_bytes(self.raw(row)).into(),
            (8, true) => self.i64(row).into(),
            (8, false) => u64::from_ne_bytes(self.raw(row)).into(),
            _ => self.i128(row),
        }
    }

    /// Returns the bytes of a text or blob. Up to 12 are stored in the value itself.
    pub(crate) fn bytes(&self, row: usize) -> &[u8] {
        // SAFETY: the vector has texts: a length, then the bytes or four of them and a pointer.
        unsafe {
            let value = self.data.add(row * 16);
            let length = value.cast::<u32>().read_unaligned() as usize;
            let start = match length {
                0..=12 => value.add(4),
                _ => value.add(8).cast::<*const u8>().read_unaligned(),
            };
            std::slice::from_raw_parts(start, length)
        }
    }

    pub(crate) fn text(&self, row: usize) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes(row))
    }

    /// Returns the rows of the children that belong to a list or a map.
    pub(crate) fn items(&self, row: usize) -> std::ops::Range<usize> {
        let [offset, length] = match self.of {
            Type::Array(_, size) => [row * size, *size],
            _ => {
                let entry: [u8; 16] = self.raw(row);
                let (offset, length) = entry.split_at(8);
                [offset, length]
                    .map(|half| u64::from_ne_bytes(half.try_into().expect("half of 16 bytes")) as usize)
            }
        };
        offset..offset + length
    }

    pub(crate) fn child(&self, index: usize) -> &Values<'a> {
        &self.children[index]
    }
}

/// The type of a union's tag.
static TAG: Type = Type::Integer { bytes: 1, signed: false };
