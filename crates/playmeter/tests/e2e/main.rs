//! The shipped program end to end: HTTP, the command line, signals, the disk.
//!
//! Each test starts its own server on a new folder and a free port. Requests are often rows of a table; their outcome is
//! summarized as text, such as `1 accepted; 1 invalid unknown_field` or `413 too_large (events)`.

mod client;
mod player;
mod route_table;
mod socket;
mod world;

mod accounting;
mod agent;
mod alerts;
mod backups;
mod boards;
mod bodies;
#[cfg(feature = "fault-injection")]
mod clock_jumps;
mod clocks;
mod cohorts;
mod collectors;
mod connections;
mod damage;
mod dashboard;
mod ddp;
mod deletion;
mod dimensions;
mod disk;
mod experiment_results;
mod experiments;
mod exports;
mod failures;
mod feed;
mod fields;
mod flows;
mod games;
mod golden_folders;
mod howto_backup;
mod howto_pages;
mod http_syntax;
mod identity;
mod imports;
mod keys;
mod levels;
mod limits;
mod methods;
mod monitor;
mod openapi;
mod origins;
mod own_folder;
mod pages;
mod permissions;
mod player_timelines;
mod playtomic;
mod privacy;
mod proxies;
mod queries;
mod questions;
mod quotas;
mod receipts;
mod remote_write;
mod retention;
mod rows;
mod saved_questions;
mod sdk_files;
mod sessions;
mod settings;
mod sockets;
mod sockjs;
mod sql;
mod stopping;
mod suite;
mod surveys;
mod tls;
mod vars;
mod verify;
mod watch;
