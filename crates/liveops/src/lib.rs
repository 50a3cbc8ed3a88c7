//! Live-ops as a state machine: game variables, boards, levels, achievements, the feed, surveys and players.
//!
//! Every change is a command in the log. A command is decided when it is applied, in log order, from the commands and
//! events before it and from nothing else: the same log gives the same state and the same answers. There is no clock,
//! no randomness and no I/O in here but reads of [`model::ports::records::Records`]; the time is that of the entry,
//! and what must not be guessed is drawn at the door.
//!
//! State is in memory. What changed since the last checkpoint is written with the next one, in the same transaction as
//! the rollups and the log position.

mod answer;
mod command;
mod engine;
mod game;
mod idempotency;
mod names;
mod subject;

pub mod boards;
pub mod feed;
pub mod levels;
pub mod players;
pub mod surveys;
pub mod vars;

pub use answer::{Answer, Kind, Refusal};
pub use command::{BadCommand, By, Caller, Command, CommandRef, Idempotency, Signed, encode};
pub use engine::{Applied, LiveOps};
pub use game::{At, Context, Game, Touched};
pub use names::{check_player, check_text, is_key};
pub use subject::{Blobs, Changes, Damaged, Subject};
