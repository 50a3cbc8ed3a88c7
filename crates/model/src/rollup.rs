//! The numbers of a rollup: what is kept of a series per minute, hour and day.
//!
//! Everything here is a pure function of the multiset of events that went in: the order of the events,
//! and how the log was cut into batches, change no byte. So whatever is added is exact (integers and
//! [`ExactSum`]) or a maximum ([`Distinct`]), and what is stored was computed with additions,
//! multiplications, divisions and bit operations alone, in which all machines agree.

mod block;
mod bytes;
mod cell;
mod distinct;
mod hash;
mod players;
mod quantiles;
mod registers;
mod sum;

pub use block::{Block, DayBlock, HourBlock, StoredBlock};
pub use bytes::Corrupt;
pub use cell::{Cell, Latest, Numbers, Values};
pub use distinct::Distinct;
pub use hash::hash_player;
pub use quantiles::{Bucket, Quantiles};
pub use sum::ExactSum;
