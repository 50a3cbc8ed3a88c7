//! Variants: events get the version of the game variables and the player's experiment variants as dimensions.

use std::sync::Arc;

use liveops::Game;
use liveops::vars::VarsViewer;
use model::Dimension;
use model::batch::{DeclaredValues, StoredEvent};
use model::limits::DIMENSION_BYTES_MAX;
use model::series::{OTHER, VARIANT, VARS};
use parking_lot::RwLock;

use crate::views::Views;

/// The game variables that are active while one batch is admitted.
pub(super) struct VariantAnnotator {
    game: Arc<RwLock<Game>>,
    now_ms: i64,
    version: String,
    has_experiments: bool,
    views: Arc<Views>,
    number: u32,
    /// The cohorts that conditions name.
    cohorts: Vec<String>,
    /// The viewer that `variants` belongs to, without cohorts. The events of a batch often belong to one player.
    viewer: VarsViewer,
    variants: Option<String>,
}

impl VariantAnnotator {
    /// Returns `None` if the game never had a variable.
    pub(super) fn new(views: &Arc<Views>, number: u32, now_ms: i64) -> Option<VariantAnnotator> {
        let (views, game) = (Arc::clone(views), views.liveops.game(number));
        let (version, has_experiments, cohorts) = {
            let vars = &game.read().vars;
            let cohorts: Vec<String> = vars.cohorts().map(str::to_owned).collect();
            (vars.version(), vars.has_experiments(), cohorts)
        };
        let version = (version > 0).then(|| version.to_string())?;
        let (viewer, variants) = (VarsViewer::default(), None);
        Some(VariantAnnotator {
            game,
            now_ms,
            version,
            has_experiments,
            views,
            number,
            cohorts,
            viewer,
            variants,
        })
    }

    /// Adds the version and the variants to the event's list of dimensions.
    pub(super) fn annotate(&mut self, event: &StoredEvent<'_>, list: &mut Vec<u8>) {
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
        let viewer = VarsViewer {
            player: text(event.player),
            country: dimension(Dimension::Country),
            platform: dimension(Dimension::Platform),
            version: dimension(Dimension::Version),
            segments: Vec::new(),
            cohorts: Vec::new(),
        };
        if viewer != self.viewer {
            (self.viewer, self.variants) = (viewer, None);
        }
        self.variants.get_or_insert_with(|| {
            let names = self.cohorts.iter().map(String::as_str);
            let cohorts = self.views.cohorts_of(self.number, &self.viewer.player, names);
            let viewer = VarsViewer { cohorts, ..self.viewer.clone() };
            self.game.read().vars.variants(&viewer, self.now_ms)
        })
    }
}
