//! Rollup values: everything that is stored about a series per minute, hour and day.
//!
//! All results are pure functions of the multiset of events: neither the order of the events nor how the log was
//! split into batches changes a byte. Therefore everything that is merged is exact (integers and [`ExactSum`]) or a
//! maximum ([`Distinct`]), and everything stored is computed with additions, multiplications, divisions and bit
//! operations only, on which all machines agree.

mod aggregate;
mod block;
mod bytes;
mod distinct;
mod hash;
mod quantiles;
mod registers;
mod slot_players;
mod sum;

pub use aggregate::{Aggregate, LatestValue, ValueStats, ValueSummary};
pub use block::{Block, DayBlock, HourBlock, StoredBlock};
pub use bytes::Corrupt;
pub use distinct::Distinct;
pub use hash::hash_player;
pub use quantiles::{Bucket, Quantiles};
pub use sum::ExactSum;
