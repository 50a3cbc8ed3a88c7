//! The alert rules of a game with their states.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::Document;
use crate::source::{ComputeContext, ComputeMoment, TopicSource, Update, object_fields};

/// Computes the topic `alerts`. Holds the state that was last published.
pub(crate) struct AlertsSource {
    builder: DocumentBuilder,
    moment: ComputeMoment,
    /// The rules by key, without secrets.
    alerts: Vec<Value>,
}

impl AlertsSource {
    pub(crate) fn new(builder: DocumentBuilder) -> AlertsSource {
        AlertsSource { builder, moment: ComputeMoment::default(), alerts: Vec::new() }
    }

    fn message(&self) -> Value {
        json!({ "as_of": self.moment.as_of(), "alerts": self.alerts })
    }
}

impl TopicSource for AlertsSource {
    fn update(&mut self, context: &ComputeContext<'_>, _: &DirtyMinutes) -> Update {
        let is_first = self.moment == ComputeMoment::default();
        self.moment = context.moment();
        let game = context.views.liveops.game(context.game.number);
        let alerts: Vec<Value> = game.read().alerts.rules().map(|(key, alert)| alert.json(key)).collect();
        if !is_first && alerts == self.alerts {
            return Update::Unchanged;
        }
        self.alerts = alerts;
        Update::Replaced(object_fields(&self.message()))
    }

    fn full_state(&self) -> Bytes {
        object_fields(&self.message())
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        let alert =
            |alert: &Value| self.builder.document_of_object(alert["key"].as_str().unwrap_or_default(), alert);
        self.alerts.iter().map(alert).collect()
    }
}
