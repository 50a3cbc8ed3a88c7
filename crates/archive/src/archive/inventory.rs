//! What the manifests say, to be compared with other counts of the same events.

use std::collections::BTreeMap;

use super::Archive;

/// The files of one game.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GameInventory {
    /// Events before this position of the log are in files.
    pub until: u64,
    /// Files of UTC days (since 1970) before this one were deleted because of their age.
    pub deleted_before: Option<i32>,
    /// The files, by day and then in the order of the log.
    pub files: Vec<FileInventory>,
}

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInventory {
    /// The UTC day of its events (since 1970).
    pub day: i32,
    /// The position of the log at which its events start.
    pub log_start: u64,
    /// The number of its events.
    pub events: u64,
}

impl Archive {
    /// Returns the position of the log before which every event is in a file, and the files of all games, as of one moment.
    pub fn inventory(&self) -> (u64, BTreeMap<u32, GameInventory>) {
        let state = self.state.lock();
        let of_game = |game: &super::Game| {
            let files = game.parts.values().flatten().map(|part| FileInventory {
                day: part.info.day,
                log_start: part.info.log.0,
                events: part.info.rows,
            });
            let (until, deleted_before) = (game.until, game.deleted_before);
            GameInventory { until, deleted_before, files: files.collect() }
        };
        (state.position, state.games.iter().map(|(number, game)| (*number, of_game(game))).collect())
    }
}
