//! When players last won the levels that boards ask about, from `$level` events.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;
use model::Dimension;
use model::batch::StoredEvent;
use serde::Deserialize;

use super::store::WON;
use crate::At;
use crate::players::SESSION_MS;
use crate::subject::{Changes, Damaged};

/// Wins that are remembered, over all players; beyond it the oldest are forgotten early.
const WINS_MAX: usize = 200_000;
/// Nothing older matters to a session that is open. Clients' clocks may be off by as much again.
const WINDOW_MS: i64 = 2 * SESSION_MS;

/// Wins by level and player.
#[derive(Default)]
pub struct Won {
    watched: BTreeSet<String>,
    wins: HashMap<(String, String), i64>,
    /// Wins by time, oldest first.
    order: VecDeque<(i64, (String, String))>,
    changed: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Props<'a> {
    state: Option<&'a str>,
}

impl Won {
    /// From now on wins of this level are remembered.
    pub fn watch(&mut self, level: Option<&str>) {
        if let Some(level) = level {
            self.watched.insert(level.to_owned());
        }
    }

    /// Takes note of a `$level` event.
    pub fn event(&mut self, at: At, event: &StoredEvent<'_>) {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let level =
            text(event.dimensions[Dimension::Level as usize]).filter(|level| self.watched.contains(level));
        let player = text(event.player).filter(|player| !player.is_empty());
        let is_win = || {
            let props: Option<Props<'_>> = serde_json::from_slice(event.props).ok();
            props.is_some_and(|props| props.state == Some("win"))
        };
        if let Some(win) = level.zip(player).filter(|_| is_win()) {
            self.forget(at.ms);
            self.order.push_back((at.ms, win.clone()));
            self.changed.push(win.clone());
            self.wins.insert(win, at.ms);
        }
    }

    fn forget(&mut self, now_ms: i64) {
        while let Some((at_ms, _)) = self.order.front() {
            if at_ms + WINDOW_MS > now_ms && self.order.len() < WINS_MAX {
                return;
            }
            let (at_ms, win) = self.order.pop_front().expect("there is a first one");
            if self.wins.get(&win) == Some(&at_ms) {
                self.wins.remove(&win);
                self.changed.push(win);
            }
        }
    }

    /// When a player won a level, milliseconds since 1970.
    pub fn at(&self, player: &str, level: &str) -> Option<i64> {
        self.wins.get(&(level.to_owned(), player.to_owned())).copied()
    }

    /// Forgets a player.
    pub fn erase_player(&mut self, player: &str) {
        let own = self.wins.keys().filter(|(_, other)| other == player).cloned();
        let own: Vec<(String, String)> = own.collect();
        for win in own {
            self.wins.remove(&win);
            self.changed.push(win);
        }
        self.order.retain(|(_, (_, other))| other != player);
    }

    /// Takes a record that was written.
    pub fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let win: (String, String) = serde_json::from_slice(key)?;
        let at_ms: i64 = serde_json::from_slice(value)?;
        self.order.push_back((at_ms, win.clone()));
        self.wins.insert(win, at_ms);
        Ok(())
    }

    /// Called after the last record.
    pub fn restored(&mut self) {
        self.order.make_contiguous().sort_unstable();
    }

    /// Puts what changed since the last call.
    pub fn changes(&mut self, changes: &mut Changes<'_>) {
        for win in self.changed.drain(..) {
            let mut key = vec![WON];
            serde_json::to_writer(&mut key, &win).expect("text is JSON, and a Vec takes all");
            match self.wins.get(&win) {
                Some(at_ms) => changes.put(&key, at_ms.to_string()),
                None => changes.remove(&key),
            }
        }
    }
}
