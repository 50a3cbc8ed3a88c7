//! Alerts: rules are evaluated on a thread of their own, and their notifications are delivered on another.
//!
//! Rules, their state and their notifications are live-ops state ([`liveops::alerts`]). This crate reads them, and
//! writes what it finds as commands of the log:
//!
//! - [`evaluator`] runs the query of each rule, [`judge`] compares the values, and [`phase`] decides whether the state
//!   changes. All three are also what [`replay`] runs over history.
//! - [`sender`] delivers what waits: at least once, in order for each target, with an id that stays the same over
//!   retries and restarts. [`address`] decides which addresses may be connected to.

pub mod address;
mod evaluator;
mod http_client;
mod judge;
mod mail;
mod message;
mod phase;
mod question;
mod replay;
mod sender;
mod settings;
mod signature;
mod turns;

pub use evaluator::{Alerts, RuleStatus, Start};
pub use question::RuleQuery;
pub use replay::{Replay, ReplayRequest};
pub use settings::{AlertSettings, MailEncryption, MailSettings};
pub use signature::new_secret;
