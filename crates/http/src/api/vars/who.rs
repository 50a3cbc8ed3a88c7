//! Who asks, as the query string and the connection say.

use std::net::SocketAddr;

use hyper::header::{HeaderMap, USER_AGENT};
use liveops::vars::VarsViewer;
use model::batch::KeyClass;
use model::limits::{DIMENSION_BYTES_MAX, PLAYER_BYTES_MAX};
use model::placeholder_id::is_placeholder_id;

use crate::AppState;
use crate::api::events::{address, text};
use crate::problem::Problem;
use pipeline::catalog::Access;
use pipeline::enrich::agent;

/// Segments that one request may name.
const SEGMENTS_MAX: usize = 100;

/// What a query string says of somebody.
#[derive(Default)]
pub struct Parameters {
    player: String,
    country: Option<String>,
    platform: Option<String>,
    version: String,
    segments: Vec<String>,
}

impl Parameters {
    /// Reads a query string that may have nothing else.
    pub fn read(query: Option<&str>) -> Result<Parameters, Problem> {
        let mut parameters = Parameters::default();
        for (name, value) in crate::query_string::pairs(query.unwrap_or_default())? {
            // The credential and the game it is for have been read.
            if !parameters.take(&name, value)? && !matches!(name.as_str(), "key" | "game") {
                let detail = "there are `player`, `country`, `platform`, `version` and `segment`";
                return Err(Problem::invalid(detail).field(name));
            }
        }
        Ok(parameters)
    }

    /// Takes one parameter, if it is about somebody.
    pub fn take(&mut self, name: &str, value: String) -> Result<bool, Problem> {
        let bytes_max = if name == "player" { PLAYER_BYTES_MAX } else { DIMENSION_BYTES_MAX };
        let too_long = || Problem::invalid(format!("it has at most {bytes_max} bytes")).field(name);
        if !matches!(name, "player" | "country" | "platform" | "version" | "segment") {
            return Ok(false);
        }
        if name != "segment" && value.len() > bytes_max {
            return Err(too_long());
        }
        match name {
            // An id that stands for nobody in particular is nobody's: its players are not in one share together.
            "player" if is_placeholder_id(&value) => {}
            "player" => self.player = value,
            "country" => self.country = Some(value.to_ascii_uppercase()),
            "platform" => self.platform = Some(value),
            "version" => self.version = value,
            _ => {
                self.segments = value.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
                if self.segments.len() > SEGMENTS_MAX || self.segments.iter().any(|it| it.len() > bytes_max) {
                    let detail = format!("at most {SEGMENTS_MAX} of at most {bytes_max} bytes");
                    return Err(Problem::invalid(detail).field(name));
                }
            }
        }
        Ok(true)
    }

    /// Whether a player is named.
    pub fn has_player(&self) -> bool {
        !self.player.is_empty()
    }

    /// Somebody who asks through a connection. With the public key that is the player, and the country is that of the
    /// address; another server says what it knows.
    pub fn who(
        self,
        shared: &AppState,
        access: &Access,
        headers: &HeaderMap,
        peer: SocketAddr,
    ) -> Result<VarsViewer, Problem> {
        let is_player = access.class == KeyClass::Public;
        if is_player && self.country.is_some() {
            let detail = "the country is that of the address; only a secret key may say another";
            return Err(Problem::invalid(detail).field("country"));
        }
        let located = || address(shared, headers, peer).and_then(|address| shared.ingest.country(address));
        let country = if is_player { located().map(|it| it.as_str().to_owned()) } else { self.country };
        let agent = || agent::device(text(headers, USER_AGENT)).platform.map(|it| it.label().to_owned());
        let platform = self.platform.or_else(|| if is_player { agent() } else { None });
        Ok(VarsViewer {
            player: self.player,
            country: country.unwrap_or_default(),
            platform: platform.unwrap_or_default(),
            version: self.version,
            segments: self.segments,
        })
    }
}
