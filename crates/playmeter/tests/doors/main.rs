//! The shipped program through its real doors: HTTP, the command line, signals, the disk.
//!
//! Each test starts a server of its own on a new folder and a free port. What is sent stands in tables; what came of
//! it is told in words, such as `1 accepted; 1 invalid unknown_field` or `413 too_large (events)`.

mod client;
mod player;
mod world;

mod accounting;
mod boards;
mod bodies;
mod clocks;
mod connections;
mod dimensions;
mod disk;
mod feed;
mod keys;
mod experiments;
mod fields;
mod identity;
mod levels;
mod limits;
mod pages;
mod playtomic;
mod openapi;
mod privacy;
mod queries;
mod quotas;
mod receipts;
mod settings;
mod sessions;
mod stopping;
mod suite;
mod surveys;
mod vars;
mod watch;
