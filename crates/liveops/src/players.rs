//! Players: sessions, which say who may act for whom, for a quarter of an hour; the nonces that make a signature good
//! once; and how a player is forgotten.

mod aliases;
mod erasures;
mod mentions;

use std::collections::VecDeque;

use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::aliases::Aliases;
use self::erasures::Receipts;
use crate::command::Signed;
use crate::game::{At, Context, Game};
use crate::names::{check_player, check_text};
use crate::subject::{Changes, Damaged, Subject};
use crate::{Answer, Kind, Refusal};

pub use self::aliases::Link;
pub use self::erasures::{Erasure, Found, GONE_WITHIN_MS, Receipt, Stage};
pub use self::mentions::{Traces, game_of, is_mentioned};

/// How long a session lives.
pub const SESSION_MS: i64 = 15 * 60 * 1000;
/// For so long a nonce is remembered: twice as long as a client's clock may be off, in either direction.
const NONCE_MS: i64 = 600 * 1000;
/// Sessions of a game at a time; beyond it new ones are refused.
const SESSIONS_MAX: usize = 1_000_000;
/// A player's name as others see it.
pub const NAME_BYTES_MAX: usize = 64;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Opens a session.
    OpenSession {
        /// Drawn at the door.
        session: String,
        /// For whom.
        player: String,
        /// The player's name as others see it.
        #[serde(default)]
        name: String,
    },
    /// Forgets a player. Drawn at the door: the receipt; found there: the player's other ids.
    Erase {
        /// The receipt.
        receipt: String,
        /// Whom.
        player: String,
        /// Links that make other ids the player's, each from an anonymous id to another id.
        #[serde(default)]
        links: Vec<Link>,
    },
    /// The log holds nothing of the player any more, so the ids are no longer needed.
    Erased {
        /// The receipt.
        receipt: String,
        /// What was found there.
        found: Found,
    },
    /// No file holds anything of the player any more.
    Purged {
        /// The receipt.
        receipt: String,
    },
    /// All that is known of a player was given out.
    Exported {
        /// Drawn at the door.
        receipt: String,
    },
}

/// A player's session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// For whom.
    pub player: String,
    /// The name as others see it.
    pub name: String,
    /// When it was opened, milliseconds since 1970.
    pub started_ms: i64,
}

impl Session {
    /// When it ends.
    pub fn expires_ms(&self) -> i64 {
        self.started_ms + SESSION_MS
    }
}

/// Open sessions, used nonces, erasures.
#[derive(Default)]
pub struct Players {
    sessions: HashMap<String, Session>,
    /// Sessions by the time they were opened, oldest first.
    opened: VecDeque<(i64, String)>,
    nonces: HashSet<String>,
    /// Nonces by the time they were used, oldest first.
    used: VecDeque<(i64, String)>,
    changed: Vec<Vec<u8>>,
    aliases: Aliases,
    receipts: Receipts,
}

impl Players {
    /// The session of this id, if it is open.
    pub fn session(&self, id: &str, now_ms: i64) -> Option<&Session> {
        self.sessions.get(id).filter(|session| session.expires_ms() > now_ms)
    }

    /// Takes note of a signature; refused if its nonce was used before or its session is over.
    pub(crate) fn check_nonce(&mut self, at: At, signed: &Signed) -> Result<(), Refusal> {
        self.forget(at.ms);
        if self.session(&signed.session, at.ms).is_none() {
            return Err(unsigned("the session is over; open one with POST /v1/session"));
        }
        let nonce = format!("{}/{}", signed.session, signed.nonce);
        if !self.nonces.insert(nonce.clone()) {
            return Err(unsigned("this nonce was used before"));
        }
        self.changed.push([b"n/", nonce.as_bytes()].concat());
        self.used.push_back((at.ms, nonce));
        Ok(())
    }

    fn open(&mut self, at: At, id: String, player: String, name: String) -> Result<Answer, Refusal> {
        check_player("player", &player)?;
        check_text("name", &name, NAME_BYTES_MAX)?;
        self.forget(at.ms);
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(Refusal::too_many(format!("there are {SESSIONS_MAX} sessions already")));
        }
        let session = Session { player, name, started_ms: at.ms };
        self.changed.push([b"s/", id.as_bytes()].concat());
        self.opened.push_back((at.ms, id.clone()));
        let answer = Opened {
            session: &id,
            player: &session.player,
            name: &session.name,
            expires_ms: session.expires_ms(),
        };
        let answer = Answer::created(&answer);
        self.sessions.insert(id, session);
        Ok(answer)
    }

    /// Removes what is over.
    fn forget(&mut self, now_ms: i64) {
        while let Some((_, id)) = self.opened.pop_front_if(|(at_ms, _)| *at_ms + SESSION_MS <= now_ms) {
            self.changed.push([b"s/", id.as_bytes()].concat());
            self.sessions.remove(&id);
        }
        while let Some((_, nonce)) = self.used.pop_front_if(|(at_ms, _)| *at_ms + NONCE_MS <= now_ms) {
            self.changed.push([b"n/", nonce.as_bytes()].concat());
            self.nonces.remove(&nonce);
        }
    }

    /// Ends a player's sessions.
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

    /// The player's open sessions, as JSON.
    pub fn export_player(&self, player: &str) -> Value {
        let mut sessions: Vec<_> = self.sessions.iter().filter(|(_, it)| it.player == player).collect();
        sessions.sort_unstable_by_key(|(id, session)| (session.started_ms, *id));
        let told = sessions.into_iter().map(
            |(id, session)| json!({ "session": id, "name": session.name, "started_ms": session.started_ms }),
        );
        told.collect()
    }
}

/// What an opened session is answered with; the door adds the key.
#[derive(Serialize)]
struct Opened<'a> {
    session: &'a str,
    player: &'a str,
    name: &'a str,
    expires_ms: i64,
}

fn unsigned(detail: &str) -> Refusal {
    Refusal { kind: Kind::Unsigned, field: None, detail: detail.to_owned() }
}

impl Game {
    pub(crate) fn apply_players(
        &mut self,
        context: &mut Context<'_>,
        command: Command,
    ) -> Result<Answer, Refusal> {
        match command {
            Command::OpenSession { session, player, name } => {
                self.players.open(context.at, session, player, name)
            }
            Command::Erase { receipt, player, links } => self.erase(context, receipt, &player, &links),
            Command::Erased { receipt, found } => self.erased(&receipt, found),
            Command::Purged { receipt } => self.players.receipts.purged(&receipt, context.at.ms),
            Command::Exported { receipt } => self.players.receipts.exported(receipt, context.at.ms),
        }
    }
}

impl Subject for Players {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let key = String::from_utf8_lossy(key).into_owned();
        match key.split_once('/') {
            Some(("s", id)) => {
                let session: Session = serde_json::from_slice(value)?;
                self.opened.push_back((session.started_ms, id.to_owned()));
                self.sessions.insert(id.to_owned(), session);
            }
            Some(("n", nonce)) => {
                self.used.push_back((serde_json::from_slice(value)?, nonce.to_owned()));
                self.nonces.insert(nonce.to_owned());
            }
            Some(("e", receipt)) => self.receipts.restore(receipt, value)?,
            _ => return Err(Damaged(format!("there is no record `{key}` of players"))),
        }
        Ok(())
    }

    fn restored(&mut self) {
        self.opened.make_contiguous().sort_unstable();
        self.used.make_contiguous().sort_unstable();
    }

    fn changes(&mut self, changes: &mut Changes<'_>) {
        self.receipts.changes(changes);
        let used: HashMap<&str, i64> = self.used.iter().map(|(at_ms, nonce)| (&**nonce, *at_ms)).collect();
        for key in self.changed.drain(..) {
            let (kind, id) = key.split_at(2);
            let id = std::str::from_utf8(id).expect("ids are text");
            let value = match kind {
                b"s/" => self.sessions.get(id).map(serde_json::to_vec),
                _ => used.get(id).map(serde_json::to_vec),
            };
            match value {
                Some(value) => changes.put(&key, value.expect("numbers and text are JSON")),
                None => changes.remove(&key),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ports::records::RecordWrite;

    const NOW: i64 = 1_800_000_000_000;

    fn at(ms: i64) -> At {
        At { offset: 1, ms }
    }

    fn signed(session: &str, nonce: &str) -> Signed {
        Signed { session: session.to_owned(), nonce: nonce.to_owned() }
    }

    fn with_session() -> Players {
        let mut players = Players::default();
        players.open(at(NOW), "one".into(), "bo".into(), "Bo".into()).expect("a session");
        players
    }

    #[test]
    fn a_session_lives_a_quarter_of_an_hour() {
        let mut players = with_session();
        assert_eq!(players.session("one", NOW + SESSION_MS - 1).map(|it| &*it.player), Some("bo"));
        assert_eq!(players.session("one", NOW + SESSION_MS), None);
        assert_eq!(players.session("two", NOW), None);
        players.forget(NOW + SESSION_MS);
        assert!(players.sessions.is_empty() && players.opened.is_empty());
    }

    #[test]
    fn a_nonce_is_good_once_in_ten_minutes() {
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
        players.changes(&mut Changes::new(1, 6, &mut writes));
        let mut again = Players::default();
        for RecordWrite { key, value } in &writes {
            again.restore(&key[5..], value.as_ref().expect("a value")).expect("a record");
        }
        again.restored();
        assert_eq!(again.session("one", NOW), players.session("one", NOW));
        assert!(again.check_nonce(at(NOW), &signed("one", "nonce-01")).is_err());
        again.forget(NOW + SESSION_MS);
        let mut removed: Vec<RecordWrite> = Vec::new();
        again.changes(&mut Changes::new(1, 6, &mut removed));
        assert!(removed.iter().all(|write| write.value.is_none()));
        assert_eq!(removed.len(), 2);
    }
}
