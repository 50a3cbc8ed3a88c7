//! The log format of a command.
//!
//! ```text
//! version u8 = 1 | zero u8 x 3 | game u32 | received ms i64 | length of the JSON u32 | JSON | blob
//! ```
//! Numbers are little-endian. The JSON is an [`Envelope`]; the blob is data that is too large for JSON, such as a
//! level's.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::game::Game;
use crate::{alerts, boards, cohorts, feed, levels, players, saved, surveys, vars};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 20;

/// A live-ops write, by subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Changes game variables.
    Vars(vars::VarsCommand),
    /// Changes boards or submits a score.
    Boards(boards::BoardCommand),
    /// Changes player levels.
    Levels(levels::LevelCommand),
    /// Changes achievements, follows or the feed.
    Feed(feed::FeedCommand),
    /// Changes surveys or answers one.
    Surveys(surveys::SurveyCommand),
    /// Changes alert rules, their state or their notifications.
    Alerts(alerts::AlertCommand),
    /// Changes player sessions or erases a player.
    Players(players::PlayerCommand),
    /// Changes cohorts.
    Cohorts(cohorts::CohortCommand),
    /// Changes saved questions and dashboards.
    Saved(saved::SavedCommand),
}

impl Command {
    /// Returns the player who writes, if the command names one.
    pub fn player(&self) -> Option<&str> {
        match self {
            Command::Boards(boards::BoardCommand::Submit { score, .. }) => Some(&score.player),
            Command::Levels(levels::LevelCommand::Save(save)) => Some(&save.player),
            Command::Levels(
                levels::LevelCommand::Rate { player, .. } | levels::LevelCommand::Flag { player, .. },
            )
            | Command::Feed(
                feed::FeedCommand::Grant { player, .. }
                | feed::FeedCommand::Follow { player, .. }
                | feed::FeedCommand::Unfollow { player, .. },
            )
            | Command::Surveys(surveys::SurveyCommand::Answer { player, .. })
            | Command::Players(players::PlayerCommand::OpenSession { player, .. }) => Some(player),
            Command::Feed(feed::FeedCommand::Post(post)) => Some(&post.player),
            _ => None,
        }
    }

    /// Returns true if the command creates something of which a game can have a limited number: a player session, a board
    /// or a level.
    pub fn is_creation(&self, game: &Game) -> bool {
        match self {
            Command::Levels(levels::LevelCommand::Save(_))
            | Command::Players(players::PlayerCommand::OpenSession { .. }) => true,
            _ => self.is_board_creation(game),
        }
    }

    /// Returns true if the command creates a board.
    pub fn is_board_creation(&self, game: &Game) -> bool {
        match self {
            Command::Boards(
                boards::BoardCommand::Submit { table, .. } | boards::BoardCommand::Define { table, .. },
            ) => !game.boards.has(table),
            _ => false,
        }
    }
}

/// The sender of a command. The server has checked the credential and its scopes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Principal {
    /// The kind of credential.
    pub caller: Caller,
    /// A signature that the server has verified. Whether its nonce is new is decided when the command is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<RequestSignature>,
}

/// The kind of credential that a command was sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// The public key, which every client has.
    Public,
    /// A secret key with the scope that the command needs.
    Server,
    /// A dashboard user whose role allows the command.
    Person,
    /// The server, for a client with the public key whose protocol needs a command that clients may not send. What all
    /// clients together may create is limited as for [`Caller::Public`].
    Compat,
}

/// The signature of a request, made with the key of a player session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestSignature {
    /// The session's id.
    pub session: String,
    /// A value that a session may use once.
    pub nonce: String,
}

/// Identifies a repeated request, so that it is applied once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Idempotency {
    /// The client's `Idempotency-Key`, prefixed with the kind of credential.
    pub key: String,
    /// A digest of method, path and body.
    pub request: String,
}

/// The JSON of a log entry.
#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    by: Cow<'a, Principal>,
    /// The game's time zone when the command was received.
    #[serde(borrow)]
    tz: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotency: Option<Cow<'a, Idempotency>>,
    command: Cow<'a, Command>,
}

/// A command as read from a log entry, or to be written as one.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandRef<'a> {
    /// The game's number.
    pub game: u32,
    /// The time of receipt by the server, in milliseconds since 1970.
    pub received_ms: i64,
    /// The sender.
    pub by: Principal,
    /// The game's time zone, an IANA name.
    pub tz: String,
    /// Identifies a repeated request.
    pub idempotency: Option<Idempotency>,
    /// The command.
    pub command: Command,
    /// Data that is too large for JSON.
    pub blob: &'a [u8],
}

/// An error for bytes that are not a command of a version that this program knows.
#[derive(Debug, thiserror::Error)]
#[error("log entry is not a valid command: {0}")]
pub struct CommandDecodeError(pub(crate) String);

/// Returns the bytes of a log entry.
pub fn encode(command: &CommandRef<'_>) -> Vec<u8> {
    let envelope = Envelope {
        by: Cow::Borrowed(&command.by),
        tz: Cow::Borrowed(&command.tz),
        idempotency: command.idempotency.as_ref().map(Cow::Borrowed),
        command: Cow::Borrowed(&command.command),
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES + 256 + command.blob.len());
    bytes.extend_from_slice(&[VERSION, 0, 0, 0]);
    bytes.extend_from_slice(&command.game.to_le_bytes());
    bytes.extend_from_slice(&command.received_ms.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    serde_json::to_writer(&mut bytes, &envelope)
        .expect("commands have text keys, and writing to a Vec cannot fail");
    let length = (bytes.len() - HEADER_BYTES) as u32;
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(command.blob);
    bytes
}

/// The parts of an entry, before its JSON is parsed.
pub(crate) struct EntryParts<'a> {
    pub(crate) game: u32,
    received_ms: i64,
    pub(crate) json: &'a [u8],
    blob: &'a [u8],
}

/// Splits an entry into its parts.
pub(crate) fn parts(bytes: &[u8]) -> Result<EntryParts<'_>, CommandDecodeError> {
    let bad = |why: &str| CommandDecodeError(why.to_owned());
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| bad("too short"))?;
    if header[0] != VERSION {
        return Err(bad("unknown version"));
    }
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (json, blob) = rest.split_at_checked(word(16) as usize).ok_or_else(|| bad("truncated"))?;
    let received_ms = i64::from(word(8)) | i64::from(word(12)) << 32;
    Ok(EntryParts { game: word(4), received_ms, json, blob })
}

impl<'a> CommandRef<'a> {
    /// Parses an entry of the log.
    pub fn read(bytes: &'a [u8]) -> Result<CommandRef<'a>, CommandDecodeError> {
        let EntryParts { game, received_ms, json, blob } = parts(bytes)?;
        let envelope: Envelope<'_> =
            serde_json::from_slice(json).map_err(|error| CommandDecodeError(error.to_string()))?;
        Ok(CommandRef {
            game,
            received_ms,
            by: envelope.by.into_owned(),
            tz: envelope.tz.into_owned(),
            idempotency: envelope.idempotency.map(Cow::into_owned),
            command: envelope.command.into_owned(),
            blob,
        })
    }
}
