//! The game variables, as evaluated for each subscriber.
//!
//! One channel of a game publishes that its variables changed. The values are evaluated for each subscriber, which takes
//! microseconds, on the thread of the connection. So the number of different viewers is limited only by the connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use liveops::Game;
use liveops::vars::VarsViewer;
use pipeline::views::Views;
use serde_json::value::RawValue;

use crate::channel::Message;
use crate::dirty_minutes::DirtyMinutes;
use crate::document_builder::DocumentBuilder;
use crate::documents::{Document, DocumentSet, JsonText};
use crate::source::{ComputeContext, TopicSource, Update};

/// Finds out when the variables of a game change.
#[derive(Debug, Default)]
pub(crate) struct VarsSource {
    version: Option<u64>,
    /// The generation of the players of cohorts.
    generation: u64,
    /// When a value changes by a time condition, in milliseconds since 1970.
    next_change_ms: Option<i64>,
}

impl TopicSource for VarsSource {
    fn update(&mut self, context: &ComputeContext<'_>, dirty: &DirtyMinutes) -> Update {
        let is_over = self.next_change_ms.is_some_and(|next_change_ms| next_change_ms <= context.now_ms);
        if dirty.is_empty() && !is_over {
            return Update::Unchanged;
        }
        let game = context.views.liveops.game(context.game.number);
        let vars = &game.read().vars;
        self.next_change_ms = vars.next_change_ms(context.now_ms);
        let is_new = self.version.replace(vars.version()) != Some(vars.version());
        let generation = context.views.cohorts.generation(context.game.number);
        let is_new = std::mem::replace(&mut self.generation, generation) != generation || is_new;
        if is_new || is_over { Update::Replaced(Bytes::new()) } else { Update::Unchanged }
    }

    fn due_ms(&self) -> Option<i64> {
        self.next_change_ms
    }

    /// Returns nothing: [`PersonalVars::personalize`] puts the values of each subscriber in its place.
    fn full_state(&self) -> Bytes {
        Bytes::new()
    }

    fn documents(&mut self) -> Vec<Arc<Document>> {
        Vec::new()
    }
}

/// Evaluates the variables for one subscriber.
pub(crate) struct PersonalVars {
    game: u32,
    viewer: VarsViewer,
    builder: DocumentBuilder,
    /// The ETag of the values that were last delivered.
    delivered_etag: String,
}

impl PersonalVars {
    pub(crate) fn new(game: u32, viewer: VarsViewer, builder: DocumentBuilder) -> PersonalVars {
        PersonalVars { game, viewer, builder, delivered_etag: String::new() }
    }

    /// Returns the viewer with the cohorts that it belongs to now.
    fn viewer_now(&self, views: &Views, game: &Game) -> VarsViewer {
        let cohorts = views.cohorts_of(self.game, &self.viewer.player, game.vars.cohorts());
        VarsViewer { cohorts, ..self.viewer.clone() }
    }

    /// Replaces the channel's messages with one that contains the values of this subscriber, or with none if the values
    /// did not change.
    pub(crate) fn personalize(&mut self, views: &Views, now_ms: i64, messages: &mut Vec<Message>) {
        let Some(Message { number, name, .. }) = messages.pop() else { return };
        messages.clear();
        let game = views.liveops.game(self.game);
        let game = game.read();
        let viewer = self.viewer_now(views, &game);
        let evaluated = game.vars.evaluate(&viewer, now_ms);
        if name == "change" && evaluated.etag == self.delivered_etag {
            return;
        }
        let (version, vars) = (evaluated.version, game.vars.json(&viewer, now_ms));
        let fields = Bytes::from(format!(r#""topic":"vars","version":{version},"vars":{vars}"#));
        self.delivered_etag = evaluated.etag;
        messages.push(Message { number, name, fields });
    }

    /// Returns the values of this subscriber as documents. `number` is the number of the channel's change.
    pub(crate) fn documents(&self, views: &Views, now_ms: i64, number: u64) -> DocumentSet {
        let game = views.liveops.game(self.game);
        let game = game.read();
        let json = game.vars.json(&self.viewer_now(views, &game), now_ms);
        let vars: BTreeMap<&str, &RawValue> =
            serde_json::from_str(&json).expect("variables are stored as JSON");
        let document = |(name, value): (&str, &RawValue)| {
            let fields = [("name", JsonText::of(name)), ("value", JsonText::raw(value.get()))];
            self.builder.document(name, fields)
        };
        DocumentSet::new(number, false, vars.into_iter().map(document).collect())
    }
}
