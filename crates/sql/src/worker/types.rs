//! The types of a result's columns, read once, and their names in SQL.

use std::fmt::{self, Display, Formatter};

use sql::protocol::{Failure, FailureKind};

use super::ffi::{Api, LogicalType};

/// A type of DuckDB, with what is needed to decode its vectors.
#[derive(Debug)]
pub(crate) enum Type {
    Boolean,
    /// A signed or unsigned integer of up to eight bytes.
    Integer {
        bytes: usize,
        signed: bool,
    },
    HugeInt,
    UHugeInt,
    BigNum,
    Float,
    Double,
    /// Stored as an integer of this many bytes.
    Decimal {
        width: u8,
        scale: u8,
        bytes: usize,
    },
    Text,
    Json,
    Blob,
    Geometry,
    Bit,
    Uuid,
    Date,
    /// Since midnight, with this many units in a second.
    Time {
        per_second: i64,
    },
    TimeTz,
    /// Since 1970, with this many units in a second.
    Timestamp {
        per_second: i64,
        utc: bool,
    },
    Interval,
    /// Stored as an index of this many bytes.
    Enum {
        labels: Vec<String>,
        bytes: usize,
    },
    List(Box<Type>),
    Array(Box<Type>, usize),
    Struct(Vec<(String, Type)>),
    Map(Box<Type>, Box<Type>),
    Union(Vec<(String, Type)>),
}

impl Type {
    /// Reads a type of the library and frees it.
    ///
    /// # Safety
    ///
    /// `logical` is a type of this library that is not used afterwards.
    pub(crate) unsafe fn take(api: &Api, mut logical: LogicalType) -> Result<Type, Failure> {
        // SAFETY: as promised by the caller.
        unsafe {
            let read = Type::read(api, logical);
            (api.destroy_logical_type)(&mut logical);
            read
        }
    }

    unsafe fn read(api: &Api, logical: LogicalType) -> Result<Type, Failure> {
        let integer = |bytes, signed| Type::Integer { bytes, signed };
        let timestamp = |per_second| Type::Timestamp { per_second, utc: false };
        // SAFETY: each function is called for the type that it is made for.
        unsafe {
            Ok(match (api.get_type_id)(logical) {
                1 => Type::Boolean,
                2 => integer(1, true),
                3 => integer(2, true),
                // An untyped NULL has vectors of integers.
                4 | 36 => integer(4, true),
                5 => integer(8, true),
                6 => integer(1, false),
                7 => integer(2, false),
                8 => integer(4, false),
                9 => integer(8, false),
                10 => Type::Float,
                11 => Type::Double,
                12 => timestamp(1_000_000),
                13 => Type::Date,
                14 => Type::Time { per_second: 1_000_000 },
                15 => Type::Interval,
                16 => Type::HugeInt,
                17 => match api.take_text((api.logical_type_get_alias)(logical)).as_str() {
                    "JSON" => Type::Json,
                    _ => Type::Text,
                },
                18 => Type::Blob,
                19 => Type::Decimal {
                    width: (api.decimal_width)(logical),
                    scale: (api.decimal_scale)(logical),
                    bytes: bytes_of((api.decimal_internal_type)(logical)),
                },
                20 => timestamp(1),
                21 => timestamp(1_000),
                22 => timestamp(1_000_000_000),
                23 => Type::Enum {
                    labels: (0..(api.enum_dictionary_size)(logical))
                        .map(|index| api.take_text((api.enum_dictionary_value)(logical, index.into())))
                        .collect(),
                    bytes: bytes_of((api.enum_internal_type)(logical)),
                },
                24 => Type::List(Box::new(Type::take(api, (api.list_type_child_type)(logical))?)),
                25 => Type::Struct(Type::members(
                    api,
                    (api.struct_type_child_count)(logical),
                    |index| api.take_text((api.struct_type_child_name)(logical, index)),
                    |index| (api.struct_type_child_type)(logical, index),
                )?),
                26 => Type::Map(
                    Box::new(Type::take(api, (api.map_type_key_type)(logical))?),
                    Box::new(Type::take(api, (api.map_type_value_type)(logical))?),
                ),
                27 => Type::Uuid,
                28 => Type::Union(Type::members(
                    api,
                    (api.union_type_member_count)(logical),
                    |index| api.take_text((api.union_type_member_name)(logical, index)),
                    |index| (api.union_type_member_type)(logical, index),
                )?),
                29 => Type::Bit,
                30 => Type::TimeTz,
                31 => Type::Timestamp { per_second: 1_000_000, utc: true },
                32 => Type::UHugeInt,
                33 => Type::Array(
                    Box::new(Type::take(api, (api.array_type_child_type)(logical))?),
                    (api.array_type_array_size)(logical) as usize,
                ),
                35 => Type::BigNum,
                39 => Type::Time { per_second: 1_000_000_000 },
                40 => Type::Geometry,
                41 => return Err(Failure::new(FailureKind::Statement, VARIANT)),
                id => {
                    let message = format!("a column has a type that this server does not know (number {id})");
                    return Err(Failure::new(FailureKind::Statement, message));
                }
            })
        }
    }

    unsafe fn members(
        api: &Api,
        count: u64,
        name: impl Fn(u64) -> String,
        member: impl Fn(u64) -> LogicalType,
    ) -> Result<Vec<(String, Type)>, Failure> {
        // SAFETY: `member` returns a type that is its caller's to free.
        (0..count).map(|index| Ok((name(index), unsafe { Type::take(api, member(index)) }?))).collect()
    }

    /// Returns whether the values of this type are objects or lists in JSON.
    pub(crate) fn is_nested(&self) -> bool {
        use Type::{Array, List, Map, Struct, Union};
        matches!(self, List(_) | Array(..) | Struct(_) | Map(..) | Union(_))
    }
}

const VARIANT: &str =
    "a column has the type VARIANT, which has no form outside of SQL; cast it to VARCHAR or JSON";

fn bytes_of(id: u32) -> usize {
    match id {
        2 | 6 => 1,
        3 | 7 => 2,
        4 | 8 => 4,
        5 | 9 => 8,
        _ => 16,
    }
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let members = |f: &mut Formatter<'_>, kind: &str, members: &[(String, Type)]| {
            write!(f, "{kind}(")?;
            for (index, (name, member)) in members.iter().enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                write!(f, "{comma}\"{}\" {member}", name.replace('"', "\"\""))?;
            }
            f.write_str(")")
        };
        match self {
            Type::Boolean => f.write_str("BOOLEAN"),
            Type::Integer { bytes, signed } => {
                let name = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"][bytes.trailing_zeros() as usize];
                write!(f, "{}{name}", if *signed { "" } else { "U" })
            }
            Type::HugeInt => f.write_str("HUGEINT"),
            Type::UHugeInt => f.write_str("UHUGEINT"),
            Type::BigNum => f.write_str("BIGNUM"),
            Type::Float => f.write_str("FLOAT"),
            Type::Double => f.write_str("DOUBLE"),
            Type::Decimal { width, scale, .. } => write!(f, "DECIMAL({width},{scale})"),
            Type::Text => f.write_str("VARCHAR"),
            Type::Json => f.write_str("JSON"),
            Type::Blob => f.write_str("BLOB"),
            Type::Geometry => f.write_str("GEOMETRY"),
            Type::Bit => f.write_str("BIT"),
            Type::Uuid => f.write_str("UUID"),
            Type::Date => f.write_str("DATE"),
            Type::Time { per_second: 1_000_000 } => f.write_str("TIME"),
            Type::Time { .. } => f.write_str("TIME_NS"),
            Type::TimeTz => f.write_str("TIME WITH TIME ZONE"),
            Type::Timestamp { utc: true, .. } => f.write_str("TIMESTAMP WITH TIME ZONE"),
            Type::Timestamp { per_second, .. } => f.write_str(match per_second {
                1 => "TIMESTAMP_S",
                1_000 => "TIMESTAMP_MS",
                1_000_000 => "TIMESTAMP",
                _ => "TIMESTAMP_NS",
            }),
            Type::Interval => f.write_str("INTERVAL"),
            Type::Enum { .. } => f.write_str("ENUM"),
            Type::List(item) => write!(f, "{item}[]"),
            Type::Array(item, size) => write!(f, "{item}[{size}]"),
            Type::Struct(fields) => members(f, "STRUCT", fields),
            Type::Map(key, value) => write!(f, "MAP({key}, {value})"),
            Type::Union(variants) => members(f, "UNION", variants),
        }
    }
}
