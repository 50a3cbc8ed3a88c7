//! Variables, as each of those who watch gets them.
//!
//! One channel of a game says that its variables changed; what that means for somebody is computed for each, in
//! microseconds, on the thread of the connection. So there may be as many different watchers as connections.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use liveops::LiveOps;
use liveops::vars::VarsViewer;
use serde_json::value::RawValue;

use crate::channel::Message;
use crate::docs::{Doc, Docs, Json};
use crate::topic::{At, List, Source, Update};
use crate::touches::Touches;

/// What the channel last saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    version: Option<u64>,
    /// When a value changes by itself.
    edge_ms: Option<i64>,
}

impl Source for Seen {
    fn advance(&mut self, at: &At<'_>, touched: &Touches) -> Update {
        let is_over = self.edge_ms.is_some_and(|edge_ms| edge_ms <= at.ms);
        if touched.is_empty() && !is_over {
            return Update::Same;
        }
        let game = at.views.liveops.game(at.game.number);
        let vars = &game.read().vars;
        self.edge_ms = vars.next_change_ms(at.ms);
        let is_new = self.version.replace(vars.version()) != Some(vars.version());
        if is_new || is_over { Update::Whole(Bytes::new()) } else { Update::Same }
    }

    fn due_ms(&self) -> Option<i64> {
        self.edge_ms
    }

    /// Each viewer's own stands in its place.
    fn whole(&self) -> Bytes {
        Bytes::new()
    }

    fn documents(&mut self) -> Vec<Arc<Doc>> {
        Vec::new()
    }
}

/// Somebody who watches.
pub(crate) struct Viewer {
    game: u32,
    who: VarsViewer,
    list: List,
    /// The tag of what was told last.
    told: String,
}

impl Viewer {
    pub fn new(game: u32, who: VarsViewer, list: List) -> Viewer {
        Viewer { game, who, list, told: String::new() }
    }

    /// Puts what this one gets in the place of what the channel says, or nothing if that is what it was.
    pub fn personal(&mut self, liveops: &LiveOps, now_ms: i64, messages: &mut Vec<Message>) {
        let Some(Message { number, name, .. }) = messages.pop() else { return };
        messages.clear();
        let game = liveops.game(self.game);
        let game = game.read();
        let evaluated = game.vars.evaluate(&self.who, now_ms);
        if name == "change" && evaluated.etag == self.told {
            return;
        }
        let (version, vars) = (evaluated.version, game.vars.json(&self.who, now_ms));
        let fields = Bytes::from(format!(r#""topic":"vars","version":{version},"vars":{vars}"#));
        self.told = evaluated.etag;
        messages.push(Message { number, name, fields });
    }

    /// What this one gets, as documents. `number` is that of the channel's change.
    pub fn documents(&self, liveops: &LiveOps, now_ms: i64, number: u64) -> Docs {
        let json = liveops.game(self.game).read().vars.json(&self.who, now_ms);
        let vars: BTreeMap<&str, &RawValue> =
            serde_json::from_str(&json).expect("variables are kept as JSON");
        let doc = |(name, value): (&str, &RawValue)| {
            self.list.doc(name, [("name", Json::of(name)), ("value", Json::raw(value.get()))])
        };
        Docs::new(number, false, vars.into_iter().map(doc).collect())
    }
}
