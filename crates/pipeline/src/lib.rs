//! The ingest pipeline: from raw batches to durable entries of the log, and from the log to views.
//!
//! An acknowledged event is durable and is applied to the views exactly once. Nothing here knows HTTP.

pub mod ingest;

pub mod applier;
pub mod archiver;
pub mod views;

pub mod accounting;
pub mod catalog;
pub mod cohorts;
pub mod command_quota;
pub mod deleted_games;
pub mod disk_space;
pub mod distribute;
pub mod engine;
pub mod enrich;
pub mod erasure;
pub mod file_ids;
pub mod flows;
pub mod game_export;
pub mod interest;
mod lag;
pub mod open;
pub mod open_log;
pub mod pacer;
pub(crate) mod pending_answers;
pub mod query;
pub mod random;
pub mod recent_events;
pub mod reject_tally;
pub mod shutdown;
pub mod time;
pub mod timed_stores;
mod token_buckets;
pub mod urgent_watchers;
