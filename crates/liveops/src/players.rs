//! Players: sessions that allow a client to act for a player for 15 minutes, nonces that make a signature valid once,
//! and the erasure of players.

mod aliases;
mod erasures;
mod id_index;

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::aliases::Aliases;
use self::erasures::Receipts;
use crate::command::RequestSignature;
use crate::game::{CommandContext, Game, LogPoint};
use crate::names::{check_player, check_text};
use crate::subject::{RecordError, RecordWriter, Subject};
use crate::{CommandResponse, Refusal, RefusalKind};

pub use self::aliases::IdentityLink;
pub use self::erasures::{ERASURE_WITHIN_MS, ErasedCounts, Erasure, ErasureStage, Receipt};
pub(crate) use self::id_index::contains_text;
pub use self::id_index::{PlayerIdIndex, game_of_command};

/// The lifetime of a session.
pub(crate) const SESSION_MS: i64 = 15 * 60 * 1000;
/// The retention of a nonce: twice the tolerated clock error of a client, which may be in either direction.
const NONCE_MS: i64 = 600 * 1000;
/// Open sessions of a game; beyond it new ones are refused.
const SESSIONS_MAX: usize = 1_000_000;
/// Bytes of a player's display name.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlayerCommand {
    /// Opens a session.
    OpenSession {
        /// The session's random id.
        session: String,
        /// The player.
        player: String,
        /// The player's display name.
        #[serde(default)]
        name: String,
    },
    /// Erases a player. The server supplies a random receipt and the links to the player's other ids.
    Erase {
        /// The receipt's random id.
        receipt: String,
        /// The player's id.
        player: String,
        /// The links that connect the player's ids, each from an anonymous id to another id.
        #[serde(default)]
        links: Vec<IdentityLink>,
    },
    /// The log no longer contains the player, so that the ids are no longer needed.
    Erased {
        /// The receipt's id.
        receipt: String,
        /// The number of events and commands that were rewritten.
        found: ErasedCounts,
        /// The offset of the request that was erased: a later one is still to be erased. 0 in old logs.
        #[serde(default, skip_serializing_if = "is_zero")]
        until: u64,
    },
    /// No file contains the player any more.
    Purged {
        /// The receipt's id.
        receipt: String,
    },
    /// The data of a player was exported.
    Exported {
        /// The receipt's random id.
        receipt: String,
    },
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A player session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayerSession {
    /// The player's id.
    pub player: String,
    /// The player's display name.
    pub name: String,
    /// The time of opening, in milliseconds since 1970.
    pub started_ms: i64,
}

impl PlayerSession {
    /// Returns the time at which the session expires, in milliseconds since 1970.
    pub fn expires_ms(&self) -> i64 {
        self.started_ms + SESSION_MS
    }
}

/// Open sessions, used nonces and erasures.
#[derive(Default)]
pub struct Players {
    sessions: HashMap<String, PlayerSession>,
    /// Session ids by opening time, oldest first.
    opened: VecDeque<(i64, String)>,
    nonces: HashSet<String>,
    /// Nonces by time of use, oldest first.
    used: VecDeque<(i64, String)>,
    changed: Vec<Vec<u8>>,
    aliases: Aliases,
    receipts: Receipts,
}

impl Players {
    /// Returns the session of this id if it is open.
    pub fn session(&self, id: &str, now_ms: i64) -> Option<&PlayerSession> {
        self.sessions.get(id).filter(|session| session.expires_ms() > now_ms)
    }

    /// Registers the nonce of a signature. Refused if the nonce was used before or the session has expired.
    pub(crate) fn check_nonce(&mut self, at: LogPoint, signed: &RequestSignature) -> Result<(), Refusal> {
        self.expire(at.ms);
        if self.session(&signed.session, at.ms).is_none() {
            return Err(unsigned("the session has expired; open a new one with POST /v1/session"));
        }
        let nonce = format!("{}/{}", signed.session, signed.nonce);
        if !self.nonces.insert(nonce.clone()) {
            return Err(unsigned("this nonce was already used; sign each request with a new one"));
        }
        self.changed.push([b"n/", nonce.as_bytes()].concat());
        self.used.push_back((at.ms, nonce));
        Ok(())
    }

    fn open_session(
        &mut self,
        at: LogPoint,
        id: String,
        player: String,
        name: String,
    ) -> Result<CommandResponse, Refusal> {
        check_player("player", &player)?;
        check_text("name", &name, NAME_BYTES_MAX)?;
        self.expire(at.ms);
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(Refusal::too_many(format!(
                "this game already has {SESSIONS_MAX} open sessions; try again later"
            )));
        }
        let session = PlayerSession { player, name, started_ms: at.ms };
        self.changed.push([b"s/", id.as_bytes()].concat());
        self.opened.push_back((at.ms, id.clone()));
        let answer = SessionResponse {
            session: &id,
            player: &session.player,
            name: &session.name,
            expires_ms: session.expires_ms(),
        };
        let answer = CommandResponse::created(&answer);
        self.sessions.insert(id, session);
        Ok(answer)
    }

    /// Removes expired sessions and nonces.
    fn expire(&mut self, now_ms: i64) {
        while let Some((_, id)) = self.opened.pop_front_if(|(at_ms, _)| *at_ms + SESSION_MS <= now_ms) {
            self.changed.push([b"s/", id.as_bytes()].concat());
            self.sessions.remove(&id);
        }
        while let Some((_, nonce)) = self.used.pop_front_if(|(at_ms, _)| *at_ms + NONCE_MS <= now_ms) {
            self.changed.push([b"n/", nonce.as_bytes()].concat());
            self.nonces.remove(&nonce);
        }
    }

    /// Closes a player's sessions.
    pub fn erase_player(&mut self, player: &str) {
        let of_player = self.sessions.iter().filter(|(_, session)| session.player == player);
        let ids: Vec<String> = of_player.map(|(id, _)| id.clone()).collect();
        for id in &ids {
            self.changed.push([b"s/", id.as_bytes()].concat());
            self.sessions.remove(id);
        }
        self.opened.retain(|(_, id)| !ids.contains(id));
        let is_of = |nonce: &str| nonce.split_once('/').is_some_and(|(id, _)| ids.iter().any(|it| it == id));
        for (_, nonce) in self.used.iter().filter(|(_, nonce)| is_of(nonce)) {
            self.changed.push([b"n/", nonce.as_bytes()].concat());
            self.nonces.remove(nonce);
        }
        self.used.retain(|(_, nonce)| !is_of(nonce));
    }

    /// Returns the player's open sessions as JSON.
    pub fn export_player(&self, player: &str) -> Value {
        let mut sessions: Vec<_> = self.sessions.iter().filter(|(_, it)| it.player == player).collect();
        sessions.sort_unstable_by_key(|(id, session)| (session.started_ms, *id));
        let rows = sessions.into_iter().map(
            |(id, session)| json!({ "session": id, "name": session.name, "started_ms": session.started_ms }),
        );
        rows.collect()
    }
}

/// The response to an opened session. The server adds the key.
#[derive(Serialize)]
struct SessionResponse<'a> {
    session: &'a str,
    player: &'a str,
    name: &'a str,
    expires_ms: i64,
}

fn unsigned(detail: &str) -> Refusal {
    Refusal { kind: RefusalKind::Unsigned, field: None, detail: detail.to_owned() }
}

impl Game {
    pub(crate) fn apply_players(
        &mut self,
        context: &mut CommandContext<'_>,
        command: PlayerCommand,
    ) -> Result<CommandResponse, Refusal> {
        match command {
            PlayerCommand::OpenSession { session, player, name } => {
                self.players.open_session(context.at, session, player, name)
            }
            PlayerCommand::Erase { receipt, player, links } => self.erase(context, receipt, &player, &links),
            PlayerCommand::Erased { receipt, found, until } => self.erased(&receipt, found, until),
            PlayerCommand::Purged { receipt } => self.players.receipts.purged(&receipt, context.at.ms),
            PlayerCommand::Exported { receipt } => self.players.receipts.exported(receipt, context.at.ms),
        }
    }
}

impl Subject for Players {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let key = String::from_utf8_lossy(key).into_owned();
        match key.split_once('/') {
            Some(("s", id)) => {
                let session: PlayerSession = serde_json::from_slice(value)?;
                self.opened.push_back((session.started_ms, id.to_owned()));
                self.sessions.insert(id.to_owned(), session);
            }
            Some(("n", nonce)) => {
                self.used.push_back((serde_json::from_slice(value)?, nonce.to_owned()));
                self.nonces.insert(nonce.to_owned());
            }
            Some(("e", receipt)) => self.receipts.restore(receipt, value)?,
            _ => return Err(RecordError(format!("unknown record `{key}` of players"))),
        }
        Ok(())
    }

    fn finish_restore(&mut self) {
        self.opened.make_contiguous().sort_unstable();
        self.used.make_contiguous().sort_unstable();
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        self.receipts.write_changes(writer);
        let used: HashMap<&str, i64> = self.used.iter().map(|(at_ms, nonce)| (&**nonce, *at_ms)).collect();
        for key in self.changed.drain(..) {
            let (kind, id) = key.split_at(2);
            let id = std::str::from_utf8(id).expect("ids are text");
            let value = match kind {
                b"s/" => self.sessions.get(id).map(serde_json::to_vec),
                _ => used.get(id).map(serde_json::to_vec),
            };
            match value {
                Some(value) => writer.put(&key, value.expect("numbers and text are JSON")),
                None => writer.remove(&key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::records::RecordWrite;

    const NOW: i64 = 1_800_000_000_000;

    fn at(ms: i64) -> LogPoint {
        LogPoint { offset: 1, ms }
    }

    fn signed(session: &str, nonce: &str) -> RequestSignature {
        RequestSignature { session: session.to_owned(), nonce: nonce.to_owned() }
    }

    fn with_session() -> Players {
        let mut players = Players::default();
        players.open_session(at(NOW), "one".into(), "bo".into(), "Bo".into()).expect("a session");
        players
    }

    #[test]
    fn session_expires_after_15_minutes() {
        let mut players = with_session();
        assert_eq!(players.session("one", NOW + SESSION_MS - 1).map(|it| &*it.player), Some("bo"));
        assert_eq!(players.session("one", NOW + SESSION_MS), None);
        assert_eq!(players.session("two", NOW), None);
        players.expire(NOW + SESSION_MS);
        assert!(players.sessions.is_empty() && players.opened.is_empty());
    }

    #[test]
    fn nonce_is_accepted_once_in_ten_minutes() {
        let mut players = with_session();
        assert_eq!(players.check_nonce(at(NOW), &signed("one", "nonce-01")), Ok(()));
        assert!(players.check_nonce(at(NOW + NONCE_MS - 1), &signed("one", "nonce-01")).is_err());
        assert_eq!(players.check_nonce(at(NOW + 1), &signed("one", "nonce-02")), Ok(()));
        assert!(players.check_nonce(at(NOW), &signed("two", "nonce-03")).is_err());
    }

    #[test]
    fn sessions_and_nonces_survive_a_restart() {
        let mut players = with_session();
        players.check_nonce(at(NOW), &signed("one", "nonce-01")).expect("a new nonce");
        let mut writes: Vec<RecordWrite> = Vec::new();
        players.write_changes(&mut RecordWriter::new(1, 6, &mut writes));
        let mut again = Players::default();
        for RecordWrite { key, value } in &writes {
            again.restore(&key[5..], value.as_ref().expect("a value")).expect("a record");
        }
        again.finish_restore();
        assert_eq!(again.session("one", NOW), players.session("one", NOW));
        assert!(again.check_nonce(at(NOW), &signed("one", "nonce-01")).is_err());
        again.expire(NOW + SESSION_MS);
        let mut removed: Vec<RecordWrite> = Vec::new();
        again.write_changes(&mut RecordWriter::new(1, 6, &mut removed));
        assert!(removed.iter().all(|write| write.value.is_none()));
        assert_eq!(removed.len(), 2);
    }
}
