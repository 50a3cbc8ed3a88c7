//! What the line stamps on events for the sake of charts: which version of the game variables was active, and which
//! variant of each experiment the player had.

use std::sync::Arc;

use liveops::vars::Who;
use liveops::{Game, LiveOps};
use model::Dimension;
use model::batch::{DeclaredValues, StoredEvent};
use model::limits::DIMENSION_BYTES_MAX;
use model::series::{OTHER, VARIANT, VARS};
use parking_lot::RwLock;

/// The variables as they are while one request is admitted.
pub(super) struct Variants {
    game: Arc<RwLock<Game>>,
    now_ms: i64,
    version: String,
    has_experiments: bool,
    /// Whose variants were looked up last; events of a request are often one player's.
    who: Who,
    variants: Option<String>,
}

impl Variants {
    /// Those of a game; `None` if it never had a variable.
    pub(super) fn of(liveops: &LiveOps, game: u32, now_ms: i64) -> Option<Variants> {
        let game = liveops.game(game);
        let (version, has_experiments) = {
            let vars = &game.read().vars;
            (vars.version(), vars.has_experiments())
        };
        let version = (version > 0).then(|| version.to_string())?;
        Some(Variants { game, now_ms, version, has_experiments, who: Who::default(), variants: None })
    }

    /// Adds what is stamped on the event.
    pub(super) fn stamp(&mut self, event: &StoredEvent<'_>, list: &mut Vec<u8>) {
        DeclaredValues::push(list, VARS, self.version.as_bytes());
        if self.has_experiments && !event.player.is_empty() {
            let each = self.variants_of(event).split(',').filter(|variant| !variant.is_empty());
            each.for_each(|variant| {
                let value = if variant.len() <= DIMENSION_BYTES_MAX { variant } else { OTHER };
                DeclaredValues::push(list, VARIANT, value.as_bytes());
            });
        }
    }

    fn variants_of(&mut self, event: &StoredEvent<'_>) -> &str {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let dimension = |dimension: Dimension| text(event.dimensions[dimension as usize]);
        let who = Who {
            player: text(event.player),
            country: dimension(Dimension::Country),
            platform: dimension(Dimension::Platform),
            version: dimension(Dimension::Version),
            segments: Vec::new(),
        };
        if who != self.who {
            (self.who, self.variants) = (who, None);
        }
        self.variants.get_or_insert_with(|| self.game.read().vars.variants(&self.who, self.now_ms))
    }
}
