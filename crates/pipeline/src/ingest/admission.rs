//! The admission context of a batch: what admission knows besides the events.

use model::admit::AdmissionContext;
use model::batch::KeyClass;

use super::{Ingest, IngestRequest};
use crate::catalog::{Access, Scope};
use crate::enrich::agent;
use crate::enrich::geo::Country;

/// An [`AdmissionContext`] that owns the country it was built with.
pub(super) struct OwnedAdmissionContext {
    received_ms: i64,
    sent_at_ms: Option<i64>,
    import: bool,
    late_ms: i64,
    country: Option<Country>,
    platform: &'static str,
    bot: bool,
    is_internal: bool,
}

impl OwnedAdmissionContext {
    pub(super) fn as_context(&self) -> AdmissionContext<'_> {
        AdmissionContext {
            received_ms: self.received_ms,
            sent_at_ms: self.sent_at_ms,
            import: self.import,
            late_ms: self.late_ms,
            country: self.country.as_ref().map_or("", |country| country.as_str()),
            platform: self.platform,
            bot: self.bot,
            is_internal: self.is_internal,
        }
    }
}

impl Ingest {
    /// Looks up the country of the client and reads its user agent.
    pub(super) fn admission_context(
        &self,
        access: &Access,
        request: &IngestRequest<'_>,
        sent_at_ms: Option<i64>,
    ) -> OwnedAdmissionContext {
        let device = agent::device(request.client.user_agent);
        OwnedAdmissionContext {
            received_ms: request.received_ms,
            sent_at_ms,
            import: access.class == KeyClass::Secret && access.may(Scope::EventsImport),
            late_ms: access.game.settings.late_ms(),
            country: request.client.address.and_then(|address| self.country(address)),
            platform: device.platform.map_or("", |platform| platform.label()),
            bot: device.bot,
            is_internal: request.endpoint.is_internal(),
        }
    }
}
