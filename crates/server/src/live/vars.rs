//! Variables, as each of those who watch gets them.
//!
//! One channel of a game says that its variables changed; what that means for somebody is computed for each, in
//! microseconds, on the thread of the connection. So there may be as many different watchers as connections.

use bytes::Bytes;
use liveops::LiveOps;
use liveops::vars::Who;

use super::channel::Message;
use crate::time::now_ms;

/// What the channel last saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    version: Option<u64>,
    /// When a value changes by itself.
    edge_ms: Option<i64>,
}

impl Seen {
    /// Whether somebody's values may be others now.
    pub(super) fn advance(&mut self, liveops: &LiveOps, game: u32, now_ms: i64, touched: bool) -> bool {
        let is_over = self.edge_ms.is_some_and(|edge_ms| edge_ms <= now_ms);
        if !touched && !is_over {
            return false;
        }
        let game = liveops.game(game);
        let vars = &game.read().vars;
        self.edge_ms = vars.next_change_ms(now_ms);
        self.version.replace(vars.version()) != Some(vars.version()) || is_over
    }
}

/// Somebody who watches.
pub(super) struct Viewer {
    game: u32,
    who: Who,
    /// The tag of what was told last.
    told: String,
}

impl Viewer {
    pub(super) fn new(game: u32, who: Who) -> Viewer {
        Viewer { game, who, told: String::new() }
    }

    /// Puts what this one gets in the place of what the channel says, or nothing if that is what it was.
    pub(super) fn personal(&mut self, liveops: &LiveOps, messages: &mut Vec<Message>) {
        let Some(Message { number, name, .. }) = messages.pop() else { return };
        messages.clear();
        let game = liveops.game(self.game);
        let (game, now_ms) = (game.read(), now_ms());
        let evaluated = game.vars.evaluate(&self.who, now_ms);
        if name == "change" && evaluated.etag == self.told {
            return;
        }
        let (version, vars) = (evaluated.version, game.vars.json(&self.who, now_ms));
        let fields = Bytes::from(format!(r#""topic":"vars","version":{version},"vars":{vars}"#));
        self.told = evaluated.etag;
        messages.push(Message { number, name, fields });
    }
}
