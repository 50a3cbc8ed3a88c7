//! A command as the log stores it.
//!
//! ```text
//! version u8 = 1 | zero u8 x 3 | game u32 | received ms i64 | length of the JSON u32 | JSON | blob
//! ```
//! Numbers are little-endian. The JSON is an [`Envelope`]; the blob is what is too large for JSON: a level's data.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{boards, feed, levels, players, surveys, vars};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 20;

/// Everything that changes live-ops, by subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Game variables.
    Vars(vars::Command),
    /// Boards and scores.
    Boards(boards::Command),
    /// Player levels.
    Levels(levels::Command),
    /// Achievements, follows, the feed.
    Feed(feed::Command),
    /// Surveys.
    Surveys(surveys::Command),
    /// Sessions of players, bans, erasure.
    Players(players::Command),
}

/// On whose behalf a command came. The door has checked the credential and its scopes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct By {
    /// The kind of credential.
    pub caller: Caller,
    /// A signature that the door found right; that its nonce is new is decided here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<Signed>,
}

/// The kind of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// The public key: anybody.
    Public,
    /// A secret key with the scope that the command needs.
    Server,
    /// Somebody who is signed in to the dashboard and whose role allows it.
    Person,
}

/// A signed request of a player's session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signed {
    /// The session's id.
    pub session: String,
    /// Used once.
    pub nonce: String,
}

/// What makes a repeated request harmless.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Idempotency {
    /// The client's `Idempotency-Key`, with the credential's kind before it.
    pub key: String,
    /// A digest of method, path and body.
    pub request: String,
}

/// What stands in an entry beside its header.
#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    by: Cow<'a, By>,
    /// The game's time zone at the time.
    #[serde(borrow)]
    tz: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idempotency: Option<Cow<'a, Idempotency>>,
    command: Cow<'a, Command>,
}

/// A command read back from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandRef<'a> {
    /// The tenant.
    pub game: u32,
    /// When the server received it, milliseconds since 1970.
    pub received_ms: i64,
    /// On whose behalf.
    pub by: By,
    /// The game's time zone, an IANA name.
    pub tz: String,
    /// What makes repeating it harmless.
    pub idempotency: Option<Idempotency>,
    /// What to do.
    pub command: Command,
    /// What is too large for JSON.
    pub blob: &'a [u8],
}

/// The bytes are not a command of a version this program knows.
#[derive(Debug, thiserror::Error)]
#[error("log entry is not a command: {0}")]
pub struct BadCommand(pub(crate) String);

/// The bytes of a log entry.
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
    serde_json::to_writer(&mut bytes, &envelope).expect("commands have text keys, and a Vec takes all");
    let length = (bytes.len() - HEADER_BYTES) as u32;
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(command.blob);
    bytes
}

/// An entry before its JSON is read.
pub(crate) struct Parts<'a> {
    pub(crate) game: u32,
    received_ms: i64,
    pub(crate) json: &'a [u8],
    blob: &'a [u8],
}

/// Takes an entry apart.
pub(crate) fn parts(bytes: &[u8]) -> Result<Parts<'_>, BadCommand> {
    let bad = |why: &str| BadCommand(why.to_owned());
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or_else(|| bad("it is too short"))?;
    if header[0] != VERSION {
        return Err(bad("its version is not known"));
    }
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (json, blob) = rest.split_at_checked(word(16) as usize).ok_or_else(|| bad("it is cut off"))?;
    let received_ms = i64::from(word(8)) | i64::from(word(12)) << 32;
    Ok(Parts { game: word(4), received_ms, json, blob })
}

impl<'a> CommandRef<'a> {
    /// Reads an entry of the log.
    pub fn read(bytes: &'a [u8]) -> Result<CommandRef<'a>, BadCommand> {
        let Parts { game, received_ms, json, blob } = parts(bytes)?;
        let envelope: Envelope<'_> =
            serde_json::from_slice(json).map_err(|error| BadCommand(error.to_string()))?;
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
