//! The shipped program end to end: HTTP, the command line, signals, the disk.
//!
//! Each test starts a server of its own on a new folder and a free port. What is sent stands in tables; what came of
//! it is told in words, such as `1 accepted; 1 invalid unknown_field` or `413 too_large (events)`.

mod client;
mod player;
mod route_table;
mod socket;
mod world;

mod accounting;
mod agent;
mod boards;
mod bodies;
mod clocks;
mod collectors;
mod connections;
mod ddp;
mod dimensions;
mod disk;
mod experiments;
mod feed;
mod fields;
mod flows;
mod identity;
mod imports;
mod keys;
mod levels;
mod limits;
mod methods;
mod monitor;
mod openapi;
mod origins;
mod pages;
mod playtomic;
mod privacy;
mod queries;
mod quotas;
mod receipts;
mod sessions;
mod settings;
mod sockets;
mod stopping;
mod suite;
mod surveys;
mod vars;
mod watch;
