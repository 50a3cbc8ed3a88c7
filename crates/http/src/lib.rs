//! The HTTP surface: listener, authentication, routes, WebSockets, DDP and the endpoints for existing clients.

mod api;
pub mod app;
mod auth;
mod batch_receipts;
mod body;
mod body_memory;
mod client_address;
mod client_stream;
mod compat;
mod cors;
mod ddp;
mod hex;
mod host;
pub mod listener;
pub mod monitor;
mod problem;
pub mod query_string;
pub mod redirect;
mod rejected_requests;
mod request_context;
mod rows;
mod sign_in_attempts;
mod state;
pub mod tls;
pub mod ws;

pub use api::commands::CommandRequest;
pub use api::exports::PagesInProgress;
pub use batch_receipts::BatchReceipts;
pub use body_memory::{BodyBudget, BodyMemoryLimits};
pub use ddp::SockJsSessions;
pub use host::PublicUrl;
pub use problem::Problem;
pub use rejected_requests::RejectedRequests;
pub use sign_in_attempts::SignInAttempts;
pub use state::{AppState, HttpSettings, RuntimeState};
