//! The newest grants of all players, so that they can be listed without reading every player.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of grants that are known without their players.
const GRANTS_MAX: usize = 1_000;

/// The newest grants of a game. Not stored: a restart finds them in the grants of the players.
#[derive(Default)]
pub(super) struct RecentGrants {
    /// Time in milliseconds since 1970, player and achievement.
    grants: BTreeSet<(i64, u32, Arc<str>)>,
}

impl RecentGrants {
    pub(super) fn add(&mut self, at_ms: i64, actor: u32, key: &Arc<str>) {
        let is_newer = self.grants.first().is_none_or(|(oldest, ..)| at_ms >= *oldest);
        if self.grants.len() < GRANTS_MAX || is_newer {
            self.grants.insert((at_ms, actor, Arc::clone(key)));
        }
        if self.grants.len() > GRANTS_MAX {
            self.grants.pop_first();
        }
    }

    /// Removes the grants of a player.
    pub(super) fn remove(&mut self, actor: u32) {
        self.grants.retain(|(_, other, _)| *other != actor);
    }

    /// Returns time, player and achievement of each grant.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, u32, &str)> {
        self.grants.iter().map(|(at_ms, actor, key)| (*at_ms, *actor, &**key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_grants_are_kept() {
        let (mut recent, key) = (RecentGrants::default(), Arc::from("a"));
        for number in (0..2_000).rev() {
            recent.add(i64::from(number), number, &key);
        }
        assert_eq!((recent.iter().count(), recent.iter().next()), (GRANTS_MAX, Some((1_000, 1_000, "a"))));
        recent.add(5_000, 7, &key);
        recent.remove(1_999);
        assert_eq!(recent.iter().count(), GRANTS_MAX - 1);
        assert_eq!(recent.iter().last(), Some((5_000, 7, "a")));
    }
}
