//! The viewer of variables and surveys, from the query string and the connection.

use hyper::header::USER_AGENT;
use liveops::vars::VarsViewer;
use model::batch::KeyClass;
use model::limits::{DIMENSION_BYTES_MAX, PLAYER_BYTES_MAX};
use model::placeholder_id::is_placeholder_id;
use pipeline::catalog::Access;
use pipeline::enrich::agent;

use crate::AppState;
use crate::api::events::header_text;
use crate::auth::Credentials;
use crate::problem::Problem;

/// Segments that one request may name.
const SEGMENTS_MAX: usize = 100;

/// The query parameters that describe a viewer.
#[derive(Default)]
pub(crate) struct ViewerParams {
    player: String,
    country: Option<String>,
    platform: Option<String>,
    version: String,
    segments: Vec<String>,
}

impl ViewerParams {
    /// Reads a query string that has no other parameters.
    pub(crate) fn read(query: Option<&str>) -> Result<ViewerParams, Problem> {
        let mut params = ViewerParams::default();
        for (name, value) in crate::query_string::pairs(query.unwrap_or_default())? {
            // Authentication reads `key` and `game`.
            if !params.set(&name, value)? && !matches!(name.as_str(), "key" | "game") {
                let detail =
                    "unknown parameter; allowed: `player`, `country`, `platform`, `version`, `segment`";
                return Err(Problem::invalid(detail).field(name));
            }
        }
        Ok(params)
    }

    /// Reads one parameter. Returns false if it does not describe a viewer.
    pub(crate) fn set(&mut self, name: &str, value: String) -> Result<bool, Problem> {
        let bytes_max = if name == "player" { PLAYER_BYTES_MAX } else { DIMENSION_BYTES_MAX };
        let too_long = || Problem::invalid(format!("must have at most {bytes_max} bytes")).field(name);
        if !matches!(name, "player" | "country" | "platform" | "version" | "segment") {
            return Ok(false);
        }
        if name != "segment" && value.len() > bytes_max {
            return Err(too_long());
        }
        match name {
            // Players with a placeholder id are anonymous, so that they do not share one bucket.
            "player" if is_placeholder_id(&value) => {}
            "player" => self.player = value,
            "country" => self.country = Some(value.to_ascii_uppercase()),
            "platform" => self.platform = Some(value),
            "version" => self.version = value,
            _ => {
                self.segments = value.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect();
                if self.segments.len() > SEGMENTS_MAX || self.segments.iter().any(|it| it.len() > bytes_max) {
                    let detail =
                        format!("must be at most {SEGMENTS_MAX} segments of at most {bytes_max} bytes");
                    return Err(Problem::invalid(detail).field(name));
                }
            }
        }
        Ok(true)
    }

    /// Returns true if the request names a player.
    pub(crate) fn has_player(&self) -> bool {
        !self.player.is_empty()
    }

    /// Returns the viewer of a request. With the public key the client is the player, whose country is derived from the
    /// address; a server states what it knows about the player.
    pub(crate) fn viewer(
        self,
        shared: &AppState,
        access: &Access,
        credentials: &Credentials,
    ) -> Result<VarsViewer, Problem> {
        let is_player = access.class == KeyClass::Public;
        if is_player && self.country.is_some() {
            let detail = "only allowed with a secret key; with the public key the country is derived from the IP address";
            return Err(Problem::invalid(detail).field("country"));
        }
        let located = || credentials.client_address().and_then(|address| shared.ingest.country(address));
        let country = if is_player { located().map(|it| it.as_str().to_owned()) } else { self.country };
        let agent = || {
            agent::device(header_text(credentials.headers(), USER_AGENT))
                .platform
                .map(|it| it.label().to_owned())
        };
        let platform = self.platform.or_else(|| if is_player { agent() } else { None });
        let game = shared.views.liveops.game(access.game.number);
        let cohorts = {
            let game = game.read();
            shared.views.cohorts_of(access.game.number, &self.player, game.audience_cohorts().into_iter())
        };
        Ok(VarsViewer {
            cohorts,
            player: self.player,
            country: country.unwrap_or_default(),
            platform: platform.unwrap_or_default(),
            version: self.version,
            segments: self.segments,
        })
    }
}
