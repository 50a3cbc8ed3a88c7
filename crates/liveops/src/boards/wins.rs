//! The last time players won the levels that boards check, from `$level` events.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;
use model::Dimension;
use model::batch::StoredEvent;
use serde::Deserialize;

use super::records::WIN;
use crate::LogPoint;
use crate::players::SESSION_MS;
use crate::subject::{RecordError, RecordWriter};

/// Wins kept for all players; beyond it the oldest are evicted early.
const WINS_MAX: usize = 200_000;
/// The retention of a win: twice the life of a session, because client clocks may be wrong.
const WINDOW_MS: i64 = 2 * SESSION_MS;

/// Wins by level and player.
#[derive(Default)]
pub(super) struct Wins {
    watched: BTreeSet<String>,
    wins: HashMap<(String, String), i64>,
    /// Wins by time, oldest first.
    order: VecDeque<(i64, (String, String))>,
    changed: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct WinProps<'a> {
    state: Option<&'a str>,
}

impl Wins {
    /// Records wins of this level from now on.
    pub(super) fn watch(&mut self, level: Option<&str>) {
        if let Some(level) = level {
            self.watched.insert(level.to_owned());
        }
    }

    /// Records a win from a `$level` event.
    pub(super) fn apply_event(&mut self, at: LogPoint, event: &StoredEvent<'_>) {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let level =
            text(event.dimensions[Dimension::Level as usize]).filter(|level| self.watched.contains(level));
        let player = text(event.player).filter(|player| !player.is_empty());
        let is_win = || {
            let props: Option<WinProps<'_>> = serde_json::from_slice(event.props).ok();
            props.is_some_and(|props| props.state == Some("win"))
        };
        if let Some(win) = level.zip(player).filter(|_| is_win()) {
            self.evict(at.ms);
            self.order.push_back((at.ms, win.clone()));
            self.changed.push(win.clone());
            self.wins.insert(win, at.ms);
        }
    }

    fn evict(&mut self, now_ms: i64) {
        while let Some((at_ms, _)) = self.order.front() {
            if at_ms + WINDOW_MS > now_ms && self.order.len() < WINS_MAX {
                return;
            }
            let (at_ms, win) = self.order.pop_front().expect("the queue is not empty");
            if self.wins.get(&win) == Some(&at_ms) {
                self.wins.remove(&win);
                self.changed.push(win);
            }
        }
    }

    /// Returns the last time a player won a level, in milliseconds since 1970.
    pub(super) fn last_win_ms(&self, player: &str, level: &str) -> Option<i64> {
        self.wins.get(&(level.to_owned(), player.to_owned())).copied()
    }

    pub(super) fn erase_player(&mut self, player: &str) {
        let own = self.wins.keys().filter(|(_, other)| other == player).cloned();
        let own: Vec<(String, String)> = own.collect();
        for win in own {
            self.wins.remove(&win);
            self.changed.push(win);
        }
        self.order.retain(|(_, (_, other))| other != player);
    }

    pub(super) fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let win: (String, String) = serde_json::from_slice(key)?;
        let at_ms: i64 = serde_json::from_slice(value)?;
        self.order.push_back((at_ms, win.clone()));
        self.wins.insert(win, at_ms);
        Ok(())
    }

    /// Called after the last record.
    pub(super) fn finish_restore(&mut self) {
        self.order.make_contiguous().sort_unstable();
    }

    /// Writes what changed since the previous call.
    pub(super) fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        for win in self.changed.drain(..) {
            let mut key = vec![WIN];
            serde_json::to_writer(&mut key, &win).expect("text is JSON, and writing to a Vec cannot fail");
            match self.wins.get(&win) {
                Some(at_ms) => writer.put(&key, at_ms.to_string()),
                None => writer.remove(&key),
            }
        }
    }
}
