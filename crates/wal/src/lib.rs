//! The durable write-ahead log: acknowledged entries survive a power cut, in order, exactly once.
//!
//! Callers append entries from any thread and await a receipt. One writer thread commits everything that
//! is queued: it runs the sequencer, which decides in log order, writes one frame, makes it durable with
//! one `fdatasync` and then acknowledges all entries of the commit. Readers see only what is durable.
//!
//! Offsets are dense: an entry of `n` events takes `n` offsets and an entry without events takes one, so
//! every entry has its own position and "applied until" is exact.
//!
//! The caller must ensure that only one process at a time has the folder open for writing.

mod error;
mod options;

mod chunk;
mod commit;
mod folder;
mod format;
mod held_files;
mod housekeeper;
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
pub use commit::{AcceptAll, Committer, PendingEntry, Sequencer};
pub use disk::{Disk, DiskFile, RealDisk};
pub use error::{Damage, WalError};
pub use format::ENTRY_BYTES_MAX;
pub use held_files::{HeldFiles, SegmentFile};
pub use housekeeper::Housekeeper;
pub use lane::{Lane, Pump};
#[cfg(feature = "fault-injection")]
pub use options::InjectedFault;
pub use options::{Options, Retention};
pub use queue::{Ack, Entry};
pub use read::ReadBatch;
pub use receipt::{Committed, Receipt};
pub use recover::{oldest_offset, skip_lost_end};
pub use rewrite::{Replacement, RewriteStats, Rewriter};
pub use shared::Stats;
pub use tail::Follow;
pub use verify::{VerifyReport, verify_folder};
pub use wal::{OpenReport, OpenedWal, Wal};
