//! Personal data: exporting and erasing a player.

use model::ports::counters::StoreError;
use serde_json::{Value, json};

use super::days::{date, rfc3339};
use super::{Levels, content};
use crate::levels::level::Level;
use crate::{ExportCursor, ExportPage};

impl Levels {
    /// Returns the player's levels with their data, and the player's ratings and flags. Takes one pass over all votes.
    pub fn export_player(&self, player: &str) -> Result<Value, StoreError> {
        let Some(contributor) = self.contributors.find_number(player) else {
            return Ok(json!({ "levels": [], "ratings": [], "flags": [] }));
        };
        let mut made: Vec<&Level> =
            self.contributors.get(contributor).levels.iter().map(|slot| self.arena.get(*slot)).collect();
        made.sort_unstable_by_key(|level| level.sequence);
        let made: Vec<Value> =
            made.into_iter().map(|level| self.export(level)).collect::<Result<_, StoreError>>()?;
        Ok(
            json!({ "levels": made, "ratings": self.ratings(contributor), "flags": self.flags_of(contributor) }),
        )
    }

    /// Returns the next levels with their data, ratings and flags.
    pub(crate) fn export_levels(&self, from: &ExportCursor, limit: usize) -> Result<ExportPage, StoreError> {
        let mut levels = self.arena.iter().filter(|(slot, _)| *slot >= from.next);
        let rows = levels.by_ref().take(limit).map(|(_, level)| {
            let mut row = self.export(level)?;
            let rating = |player: u32| {
                let dated = level.votes.of(player);
                dated.map(|dated| json!({ "player": &*self.contributors.get(player).id, "rating": dated.rating(), "day": date(dated.day()) }))
            };
            row["ratings"] = level.votes.contributors().filter_map(rating).collect();
            let flags = level.flags.iter().map(|flag| {
                json!({ "player": &*self.contributors.get(flag.contributor).id, "reason": flag.reason, "at": rfc3339(flag.at_ms) })
            });
            row["flags"] = flags.collect();
            Ok(row)
        });
        let rows = rows.collect::<Result<Vec<Value>, StoreError>>()?;
        let next = levels.next().map(|(slot, _)| ExportCursor { outer: String::new(), next: slot });
        Ok(ExportPage { rows, next })
    }

    fn export(&self, level: &Level) -> Result<Value, StoreError> {
        let mut row = self.row(level);
        if !level.is_removed() {
            row.data = Some(content::get_blob(&self.blobs, &level.data)?.unpack()?);
        }
        if let Some(thumb) = &level.thumb {
            row.thumb = Some(content::get_blob(&self.blobs, thumb)?.unpack()?);
        }
        Ok(serde_json::to_value(row).expect("a row is text and numbers"))
    }

    fn ratings(&self, contributor: u32) -> Vec<Value> {
        let mut rated: Vec<(&Level, _)> =
            self.arena.iter().filter_map(|(_, level)| Some((level, level.votes.of(contributor)?))).collect();
        rated.sort_unstable_by_key(|(level, _)| level.sequence);
        let rows = rated.into_iter().map(|(level, dated)| {
            json!({ "level": level.id.as_str(), "rating": dated.rating(), "day": date(dated.day()) })
        });
        rows.collect()
    }

    fn flags_of(&self, contributor: u32) -> Vec<Value> {
        let levels = self.arena.iter().map(|(_, level)| level);
        let flags = levels.flat_map(|level| level.flags.iter().map(move |flag| (level, flag)));
        let mut flags: Vec<_> = flags.filter(|(_, flag)| flag.contributor == contributor).collect();
        flags.sort_unstable_by_key(|(_, flag)| flag.offset);
        let rows = flags.into_iter().map(|(level, flag)| {
            json!({ "level": level.id.as_str(), "reason": flag.reason, "at": rfc3339(flag.at_ms) })
        });
        rows.collect()
    }

    /// Erases the player's levels with their votes and flags, and the player's own votes and flags. Flags of other
    /// players' levels stay counted. Takes one pass over all votes.
    pub fn erase_player(&mut self, player: &str) {
        let Some(contributor) = self.contributors.find_number(player) else { return };
        for slot in self.contributors.get(contributor).levels.clone() {
            self.erase(slot);
        }
        let slots: Vec<u32> = self.arena.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.withdraw(slot, contributor, player);
        }
        self.contributors.remove_if_idle(contributor);
    }

    fn withdraw(&mut self, slot: u32, contributor: u32, player: &str) {
        let level = self.arena.get(slot);
        let id = level.id;
        if level.votes.of(contributor).is_some() {
            self.vote(slot, |votes| votes.withdraw(contributor));
            self.unwritten.no_vote(id, player);
            self.uncount_vote(contributor);
        }
        if self.arena.get(slot).flags.has(contributor) {
            self.arena.get_mut(slot).flags.withdraw(contributor);
            self.unwritten.no_flag(id, player);
            self.uncount_flag(contributor);
        }
    }

    /// Erases a level without a trace.
    fn erase(&mut self, slot: u32) {
        self.clear(slot);
        let level = self.arena.take(slot);
        let maker = self.contributors.get_mut(level.maker);
        maker.levels.retain(|other| *other != slot);
        self.unwritten.level(level.id);
    }
}
