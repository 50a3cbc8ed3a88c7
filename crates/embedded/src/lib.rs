//! The engine on one disk: rollups in a key-value store, event ids in sorted runs.

pub mod counters;
pub mod ids;
#[cfg(feature = "fault-injection")]
mod injected_fault;

#[cfg(feature = "fault-injection")]
pub use injected_fault::InjectedFault;
