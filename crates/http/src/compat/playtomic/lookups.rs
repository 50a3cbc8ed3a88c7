//! What a client looks up: the game's variables, and where it is.

use std::net::IpAddr;

use liveops::vars::VarsViewer;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::asked::{Answered, Asked};
use super::code::{Code, Reply};
use super::countries;
use pipeline::enrich::agent;

/// What SDKs show when nothing is known.
const UNKNOWN: (&str, &str) = ("N/A", "UNKNOWN");

/// Without parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// One variable.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Single {
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lookup {
    /// Another address than the client's.
    ip: Option<String>,
}

/// All variables.
pub(super) fn vars(asked: &Asked<'_>, _: Nothing) -> Answered {
    let game = asked.local.shared.views.liveops.game(asked.access.game.number);
    let json = game.read().vars.json(&asked.who(), asked.received_ms);
    let vars: Map<String, Value> = serde_json::from_str(&json)
        .map_err(|error| Reply::fails_because(Code::General, &error.to_string()))?;
    Ok(Reply::ok(named(vars)))
}

/// One variable, or none if there is none of this name.
pub(super) fn var(asked: &Asked<'_>, single: Single) -> Answered {
    let game = asked.local.shared.views.liveops.game(asked.access.game.number);
    let game = game.read();
    let mut vars = Map::new();
    if let Some((json, _)) = game.vars.value(&single.name, &asked.who(), asked.received_ms) {
        let value = serde_json::from_str(json);
        let value = value.map_err(|error| Reply::fails_because(Code::General, &error.to_string()))?;
        vars.insert(single.name, value);
    }
    Ok(Reply::ok(named(vars)))
}

/// The values by name, and the bare values beside: SDKs hand the whole answer to the game, and games read either.
fn named(vars: Map<String, Value>) -> Map<String, Value> {
    let gamevars: Map<String, Value> =
        vars.iter().map(|(name, value)| (name.clone(), json!({ "value": value }))).collect();
    let mut body = vars;
    body.insert("gamevars".into(), gamevars.into());
    body
}

/// The country of an address. Its code and name stand beside `country`, too, for the same reason.
pub(super) fn country(asked: &Asked<'_>, lookup: Lookup) -> Answered {
    let invalid = |_| Reply::fails_because(Code::InvalidRequest, "`ip` is not an address");
    let address = lookup.ip.map(|ip| ip.parse::<IpAddr>().map_err(invalid)).transpose()?;
    let code = asked.country(address.or(asked.address));
    let (code, name) = code.as_deref().map_or(UNKNOWN, |code| (code, countries::name(code)));
    let mut body = Map::new();
    body.insert("code".into(), code.into());
    body.insert("name".into(), name.into());
    body.insert("country".into(), json!({ "code": code, "name": name }));
    Ok(Reply::ok(body))
}

impl Asked<'_> {
    fn country(&self, address: Option<IpAddr>) -> Option<String> {
        let country = self.local.shared.ingest.country(address?)?;
        Some(country.as_str().to_owned())
    }

    /// Who asks, as far as the request tells.
    fn who(&self) -> VarsViewer {
        let platform = agent::device(self.user_agent).platform;
        VarsViewer {
            country: self.country(self.address).unwrap_or_default(),
            platform: platform.map_or_else(String::new, |platform| platform.label().to_owned()),
            ..VarsViewer::default()
        }
    }
}
