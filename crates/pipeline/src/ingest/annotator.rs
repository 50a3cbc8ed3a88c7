//! Annotation: the server adds to each admitted event the dimensions that follow from the game's settings and
//! variables.

use model::admit::{AdmissionContext, admit};
use model::batch::{BatchBuilder, DeclaredValues, Endpoint, StoredEvent};
use model::{RawEvent, Reject};

use super::declared_dimensions::declared_dimensions;
use super::event_names::BatchNames;
use super::identify::{IdentifyValidator, is_identify};
use super::quota::Quota;
use super::variants::VariantAnnotator;
use super::{Ingest, IngestRequest, level_measures};
use crate::catalog::{Access, DimensionDeclaration};

/// Admits and annotates the events of one batch, in their order.
pub(super) struct EventAnnotator<'a> {
    dimensions: &'a [DimensionDeclaration],
    variants: Option<VariantAnnotator>,
    list: Vec<u8>,
    identify: IdentifyValidator<'a>,
    /// The limit per player. `None` for imports: the rate at which past events happened is not known.
    quota: Option<&'a Quota>,
    names: BatchNames,
    game: u32,
}

impl<'a> EventAnnotator<'a> {
    pub(super) fn new(
        ingest: &'a Ingest,
        access: &'a Access,
        request: &IngestRequest<'_>,
    ) -> EventAnnotator<'a> {
        let (game, now_ms) = (access.game.number, request.received_ms);
        let identify = IdentifyValidator::new(&ingest.views, game);
        // The variables that were active when the events of a file happened are not known.
        let names = ingest.names.of_batch(&*ingest.views.counters, access, request.client.address, now_ms);
        let is_live = request.endpoint != Endpoint::Import;
        let variants = is_live.then(|| VariantAnnotator::new(&ingest.views, game, now_ms)).flatten();
        EventAnnotator {
            dimensions: &access.game.settings.dimensions,
            variants,
            list: Vec::new(),
            identify,
            quota: is_live.then_some(&ingest.quota),
            names,
            game,
        }
    }

    /// Admits the event and adds it to the batch. Returns its id.
    #[inline]
    pub(super) fn push(
        &mut self,
        raw: &RawEvent<'_>,
        context: &AdmissionContext<'_>,
        batch: &mut BatchBuilder,
    ) -> Result<Option<u128>, Reject> {
        let mut event = admit(raw, context)?;
        if let Some(quota) = self.quota {
            quota.acquire_for_player(self.game, event.player, context.received_ms)?;
        }
        self.list.clear();
        if !self.names.has_place(event.name) {
            DeclaredValues::push_without_place(&mut self.list);
        }
        raw.declared.for_each(|(number, value)| DeclaredValues::push(&mut self.list, number, value));
        if let Some(variants) = &mut self.variants {
            variants.annotate(&event, &mut self.list);
        }
        if let (Some(props), false) = (raw.props, self.dimensions.is_empty()) {
            declared_dimensions(self.dimensions, props, &mut self.list);
        }
        if event.name == level_measures::LEVEL_METRIC {
            level_measures::annotate(&event, raw.props.unwrap_or_default(), &mut self.list);
        }
        event.declared = DeclaredValues::from_bytes(&self.list);
        if !is_identify(raw) {
            batch.push(&event);
            return Ok(event.id);
        }
        let link = self.identify.admit(raw)?;
        let (player, anonymous) = (link.player.as_bytes(), link.anonymous.as_bytes());
        batch.push(&StoredEvent { player, anonymous, ..event });
        Ok(event.id)
    }
}
