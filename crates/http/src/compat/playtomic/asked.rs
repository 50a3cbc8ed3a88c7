//! From JSON with a section and an action to the answer of what they name.

use std::net::IpAddr;

use liveops::{Caller, Command, CommandResponse, Principal, Refusal};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::code::{Code, Reply};
use super::{achievements, data, levels, lookups, scores};
use crate::api::commands::{self, Local};
use pipeline::catalog::Access;

/// A request whose signature was right.
pub(super) struct Asked<'a> {
    pub(super) local: &'a Local,
    /// The game, as its clients see it.
    pub(super) access: Access,
    /// The client's address.
    pub(super) address: Option<IpAddr>,
    pub(super) user_agent: &'a str,
    /// Milliseconds since 1970.
    pub(super) received_ms: i64,
}

/// An answer; the other kind ends the request early.
pub(super) type Answered = Result<Reply, Reply>;

impl Asked<'_> {
    /// Does what the JSON asks for.
    pub(super) async fn answer(&self, json: &str) -> Answered {
        let mut body: Map<String, Value> = serde_json::from_str(json)
            .map_err(|error| Reply::fails_because(Code::InvalidRequest, &error.to_string()))?;
        let mut word = |name: &str| match body.remove(name) {
            Some(Value::String(word)) => word.to_ascii_lowercase(),
            _ => String::new(),
        };
        let (section, action) = (word("section"), word("action"));
        // SDKs repeat it here; the one in the URL names the game.
        body.remove("publickey");
        match (&*section, &*action) {
            ("gamevars", "load") => lookups::vars(self, read(body)?),
            ("gamevars", "single") => lookups::var(self, read(body)?),
            ("geoip", "lookup") => lookups::country(self, read(body)?),
            ("achievements", "list") => achievements::list(self, read(body)?),
            ("achievements", "stream") => achievements::stream(self, read(body)?),
            ("achievements", "save") => achievements::save(self, read(body)?).await,
            ("leaderboards", "list") => scores::list(self, read(body)?),
            ("leaderboards", "save") => scores::save(self, read(body)?).await,
            ("leaderboards", "saveandlist") => scores::save_and_list(self, read(body)?).await,
            ("playerlevels", "save") => levels::save(self, levels::nested(body)?).await,
            ("playerlevels", "load") => levels::load(self, read(body)?).await,
            ("playerlevels", "list") => levels::list(self, read(body)?).await,
            ("playerlevels", "rate") => levels::rate(self, read(body)?).await,
            ("newsletter", "subscribe") => Ok(Reply::fails(Code::NewsletterDisabled)),
            ("data", action) => data::answer(self, action, read(body)?).await,
            _ => {
                let detail = format!("there is no `{section}.{action}`");
                Err(Reply::fails_because(Code::InvalidRequest, &detail))
            }
        }
    }

    /// Sends a command; returns when it is durable and was decided.
    pub(super) async fn decide(
        &self,
        caller: Caller,
        command: Command,
        blob: &[u8],
    ) -> Result<Result<CommandResponse, Refusal>, Reply> {
        let by = Principal { caller, signed: None };
        let asked = commands::Asked::of(self.access.clone(), by, self.received_ms);
        self.local.decided(asked, command, blob).await.map_err(|problem| Reply::problem(&problem))
    }
}

/// Reads the parameters of an action. What is not among them is refused by its name.
pub(super) fn read<T: DeserializeOwned>(body: Map<String, Value>) -> Result<T, Reply> {
    serde_json::from_value(Value::Object(body))
        .map_err(|error| Reply::fails_because(Code::InvalidRequest, &error.to_string()))
}
