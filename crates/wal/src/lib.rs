//! The durable log: what has been acknowledged survives a power cut, in order, once.
//!
//! Callers append entries from any thread and await a receipt. One writer gathers everything that
//! waits, lets the sequencer decide what must be decided in log order, writes it as one frame, makes
//! it durable with one `fdatasync`, and only then answers all who waited. Readers follow behind and
//! see nothing that is not durable.
//!
//! Offsets number what was written, densely: an entry of `n` events takes `n` offsets, one without
//! events takes one, so that every entry has a place of its own and "applied until" is exact.
//!
//! The caller sees to it that one process at a time has the folder open for writing.

mod error;
mod options;

mod chunk;
mod commit;
mod folder;
mod format;
mod housekeep;
mod lane;
mod queue;
mod read;
mod receipt;
mod recover;
mod rewrite;
mod scan;
mod shared;
mod tail;
mod verify;
mod wal;

pub mod disk;
pub mod sim;

pub use chunk::{Chunk, Entries, EntryRef};
pub use commit::{Committer, Pending, Sequencer, TakeAll};
pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{Damage, WalError};
pub use format::ENTRY_BYTES_MAX;
pub use housekeep::Housekeeper;
pub use lane::{Lane, Pump};
#[cfg(feature = "fault-injection")]
pub use options::InjectedFault;
pub use options::{Options, Retention};
pub use queue::{Ack, Entry};
pub use read::Batch;
pub use receipt::{Committed, Receipt};
pub use rewrite::{Replaced, Rewrite, Rewritten};
pub use shared::Stats;
pub use tail::Follow;
pub use verify::{Verified, verify_folder};
pub use wal::{Opened, Report, Wal};
