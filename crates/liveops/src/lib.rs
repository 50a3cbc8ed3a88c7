//! Live-ops as a state machine: game variables, boards, levels, achievements, the feed, surveys, alerts, players,
//! cohorts and saved questions.
//!
//! Every change is a command in the log. A command is decided when it is applied, in log order, from the commands and
//! events before it and from nothing else: the same log gives the same state and the same responses. The crate has no
//! clock, no randomness and no I/O except reads of [`model::ports::records::Records`]. The time is that of the log
//! entry, and ids that must not be guessable are generated before the command is written.
//!
//! State is in memory. Each checkpoint writes what changed since the previous one, in the same transaction as the
//! rollups and the log position.

mod command;
mod engine;
mod erased_operands;
mod export;
mod game;
mod idempotency;
mod names;
mod response;
mod subject;

pub mod alerts;
pub mod boards;
pub mod cohorts;
pub mod feed;
pub mod levels;
pub mod players;
pub mod saved;
pub mod surveys;
pub mod vars;

pub use command::{
    Caller, Command, CommandDecodeError, CommandRef, Idempotency, Principal, RequestSignature, encode,
};
pub use engine::{AppliedCommand, LiveOps};
pub use export::{ExportCursor, ExportPage, ExportPart};
pub use game::{Game, LogPoint, Touched};
pub(crate) use names::check_text;
pub use names::{check_player, is_key};
pub use response::{CommandResponse, Refusal, RefusalKind};
pub use subject::{RecordError, RecordWriter};
