//! `gamevars.load`, `gamevars.single` and `geoip.lookup`.

use std::net::IpAddr;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use liveops::vars::VarsViewer;
use pipeline::enrich::agent;

use super::code::ReplyCode;
use super::countries;
use super::reply::Reply;
use super::request::{PlaytomicRequest, ReplyResult};

/// The code and name of an unknown country, as SDKs expect them.
const UNKNOWN: (&str, &str) = ("N/A", "UNKNOWN");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadVarsParams {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SingleVarParams {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LookupCountryParams {
    /// The default is the address of the client.
    ip: Option<String>,
}

/// Returns all variables.
pub(super) fn vars(request: &PlaytomicRequest<'_>, _: LoadVarsParams) -> ReplyResult {
    let game = request.runtime.shared.views.liveops.game(request.access.game.number);
    let json = game.read().vars.json(&request.viewer(), request.received_ms);
    let vars: Map<String, Value> = serde_json::from_str(&json)
        .map_err(|error| Reply::error_with(ReplyCode::General, &error.to_string()))?;
    Ok(Reply::ok(vars_body(vars)))
}

/// Returns one variable, or no variable if it does not exist.
pub(super) fn var(request: &PlaytomicRequest<'_>, single: SingleVarParams) -> ReplyResult {
    let game = request.runtime.shared.views.liveops.game(request.access.game.number);
    let game = game.read();
    let mut vars = Map::new();
    if let Some((json, _)) = game.vars.value(&single.name, &request.viewer(), request.received_ms) {
        let value = serde_json::from_str(json);
        let value = value.map_err(|error| Reply::error_with(ReplyCode::General, &error.to_string()))?;
        vars.insert(single.name, value);
    }
    Ok(Reply::ok(vars_body(vars)))
}

/// Returns the variables in `gamevars` and at the top level. SDKs pass the whole reply to the game, and games read either.
fn vars_body(vars: Map<String, Value>) -> Map<String, Value> {
    let gamevars: Map<String, Value> =
        vars.iter().map(|(name, value)| (name.clone(), json!({ "value": value }))).collect();
    let mut body = vars;
    body.insert("gamevars".into(), gamevars.into());
    body
}

/// Returns the country of an address. Code and name are in `country` and at the top level, because games read either.
pub(super) fn country(request: &PlaytomicRequest<'_>, lookup: LookupCountryParams) -> ReplyResult {
    let invalid = |_| Reply::error_with(ReplyCode::InvalidRequest, "`ip` must be an IP address");
    let address = lookup.ip.map(|ip| ip.parse::<IpAddr>().map_err(invalid)).transpose()?;
    let code = request.country(address.or(request.address));
    let (code, name) = code.as_deref().map_or(UNKNOWN, |code| (code, countries::name(code)));
    let mut body = Map::new();
    body.insert("code".into(), code.into());
    body.insert("name".into(), name.into());
    body.insert("country".into(), json!({ "code": code, "name": name }));
    Ok(Reply::ok(body))
}

impl PlaytomicRequest<'_> {
    fn country(&self, address: Option<IpAddr>) -> Option<String> {
        let country = self.runtime.shared.ingest.country(address?)?;
        Some(country.as_str().to_owned())
    }

    /// Returns the country and platform of the client, for which variables are evaluated.
    fn viewer(&self) -> VarsViewer {
        let platform = agent::device(self.user_agent).platform;
        VarsViewer {
            country: self.country(self.address).unwrap_or_default(),
            platform: platform.map_or_else(String::new, |platform| platform.label().to_owned()),
            ..VarsViewer::default()
        }
    }
}
