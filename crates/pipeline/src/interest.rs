//! Interests: the data that a live subscription depends on.

use model::series::OTHER;

/// Data that a subscription reads and whose changes it must see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Interest {
    /// One metric of the rollups.
    Metric(String),
    /// Every event of the game.
    EveryEvent,
    /// Everything that changes rollups.
    Everything,
    /// The game variables.
    Vars,
    /// The alert rules.
    Alerts,
    /// One leaderboard, by name.
    Board(String),
    /// The feed of one player.
    Feed(String),
}

impl Interest {
    /// Returns the interest in a metric as queries name it. The row `(other)` counts events beyond the cardinality
    /// limit and no event has this name, so it depends on every event.
    pub fn in_metric(metric: Option<&str>) -> Interest {
        match metric {
            None | Some(OTHER) => Interest::EveryEvent,
            Some(name) => Interest::Metric(name.to_owned()),
        }
    }
}
