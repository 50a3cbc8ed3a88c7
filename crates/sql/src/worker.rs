//! The worker: one query over the files of one game, in a process that can do nothing else.

mod arrow;
mod check;
mod database;
mod ffi;
mod flatbuffer;
mod json;
mod rows;
mod run;
mod sandbox;
mod statement;
mod tables;
mod text;
mod types;
mod vector;

pub(crate) use check::check;
pub(crate) use run::{exit, run};
