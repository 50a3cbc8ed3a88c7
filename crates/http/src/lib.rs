//! The HTTP surface: listener, authentication, routes, WebSockets, DDP and the endpoints that existing clients use.

pub mod api;
pub mod app;
pub mod auth;
pub mod body;
pub mod compat;
mod cors;
pub mod ddp;
pub mod listener;
pub mod monitor;
pub mod problem;
pub mod query_string;
pub mod ws;

mod state;

pub use state::{AppState, HttpSettings};
