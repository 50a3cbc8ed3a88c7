//! embedded
pub mod counters;
pub mod ids;
#[cfg(feature = "plants")]
mod plant;

#[cfg(feature = "plants")]
pub use plant::Plant;
