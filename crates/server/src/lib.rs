//! The line and everything that is served: bytes in, answers out. Which engine keeps the views is not known here.

pub mod admin;
pub mod answers;
pub mod api;
pub mod auth;
pub mod body;
pub mod bootstrap;
pub mod catalog;
pub mod collect;
pub mod control;
pub mod ddp;
pub mod demo;
pub mod enrich;
pub mod erasure;
pub mod flows;
pub mod http;
pub mod line;
pub mod live;
pub mod monitor;
pub mod problem;
pub mod process;
pub mod random;
pub mod server;
pub mod time;
pub mod views;
pub mod wire;
pub mod ws;
