//! A request of the API: dispatches its section and action to a handler.

use std::net::IpAddr;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use liveops::{Caller, Command, CommandResponse, Principal, Refusal};
use pipeline::catalog::Access;

use super::code::ReplyCode;
use super::reply::Reply;
use super::{achievements, data, levels, lookups, scores};
use crate::RuntimeState;
use crate::api::commands;

/// A request with a valid signature.
pub(super) struct PlaytomicRequest<'a> {
    pub(super) runtime: &'a RuntimeState,
    /// The public access to the game.
    pub(super) access: Access,
    pub(super) address: Option<IpAddr>,
    pub(super) user_agent: &'a str,
    /// The time of receipt in milliseconds since 1970.
    pub(super) received_ms: i64,
}

/// The reply of a handler. `Err` is a reply that ends the request early.
pub(super) type ReplyResult = Result<Reply, Reply>;

impl PlaytomicRequest<'_> {
    /// Handles the JSON of a request.
    pub(super) async fn handle(&self, json: &str) -> ReplyResult {
        let mut body: Map<String, Value> = serde_json::from_str(json)
            .map_err(|error| Reply::error_with(ReplyCode::InvalidRequest, &error.to_string()))?;
        let mut lowercase = |name: &str| match body.remove(name) {
            Some(Value::String(text)) => text.to_ascii_lowercase(),
            _ => String::new(),
        };
        let (section, action) = (lowercase("section"), lowercase("action"));
        // SDKs repeat the key here; the one in the URL selects the game.
        body.remove("publickey");
        self.dispatch(&section, &action, body).await
    }

    /// Handles an action with its parameters.
    pub(super) async fn dispatch(
        &self,
        section: &str,
        action: &str,
        body: Map<String, Value>,
    ) -> ReplyResult {
        match (section, action) {
            ("gamevars", "load") => lookups::vars(self, read(body)?),
            ("gamevars", "single") => lookups::var(self, read(body)?),
            ("geoip", "lookup") => lookups::country(self, read(body)?),
            ("achievements", "list") => achievements::list(self, read(body)?),
            ("achievements", "stream") => achievements::stream(self, read(body)?),
            ("achievements", "save") => achievements::save(self, read(body)?).await,
            ("leaderboards", "list") => scores::list(self, read(body)?),
            ("leaderboards", "save") => scores::save(self, read(body)?).await,
            ("leaderboards", "saveandlist") => scores::save_and_list(self, read(body)?).await,
            ("playerlevels", "save") => levels::save(self, levels::parse_save(body)?).await,
            ("playerlevels", "load") => levels::load(self, read(body)?).await,
            ("playerlevels", "list") => levels::list(self, read(body)?).await,
            ("playerlevels", "rate") => levels::rate(self, read(body)?).await,
            ("newsletter", "subscribe") => Ok(Reply::error(ReplyCode::NewsletterDisabled)),
            ("data", action) => data::handle(self, action, read(body)?).await,
            _ => {
                let detail = format!("unknown section and action `{section}.{action}`");
                Err(Reply::error_with(ReplyCode::InvalidRequest, &detail))
            }
        }
    }

    /// Submits a command and waits until it is durable and applied. The inner result is that of the command.
    pub(super) async fn submit(
        &self,
        caller: Caller,
        command: Command,
        blob: &[u8],
    ) -> Result<Result<CommandResponse, Refusal>, Reply> {
        let by = Principal { caller, signed: None };
        let request = commands::CommandRequest::new(self.access.clone(), by, self.received_ms, self.address);
        self.runtime.execute(request, command, blob).await.map_err(|problem| Reply::from_problem(&problem))
    }
}

/// Parses the parameters of an action. Unknown parameters are rejected.
pub(super) fn read<T: DeserializeOwned>(body: Map<String, Value>) -> Result<T, Reply> {
    serde_json::from_value(Value::Object(body))
        .map_err(|error| Reply::error_with(ReplyCode::InvalidRequest, &error.to_string()))
}
