//! All that is known of one player here: to be given out, or to be forgotten.

use model::ports::counters::StoreError;
use serde_json::{Value, json};

use super::days::{date, rfc3339};
use super::{Levels, content};
use crate::levels::level::Level;

impl Levels {
    /// The player's levels with their data, and what the player said of others' levels. One pass over all votes.
    pub fn export_player(&self, player: &str) -> Result<Value, StoreError> {
        let Some(person) = self.people.number(player) else {
            return Ok(json!({ "levels": [], "ratings": [], "flags": [] }));
        };
        let mut made: Vec<&Level> =
            self.people.get(person).levels.iter().map(|slot| self.shelf.get(*slot)).collect();
        made.sort_unstable_by_key(|level| level.sequence);
        let made: Vec<Value> =
            made.into_iter().map(|level| self.export(level)).collect::<Result<_, StoreError>>()?;
        Ok(json!({ "levels": made, "ratings": self.ratings(person), "flags": self.flags_of(person) }))
    }

    fn export(&self, level: &Level) -> Result<Value, StoreError> {
        let mut row = self.row(level);
        if !level.is_removed() {
            row.data = Some(content::read(&self.blobs, &level.data)?.text()?);
        }
        if let Some(thumb) = &level.thumb {
            row.thumb = Some(content::read(&self.blobs, thumb)?.text()?);
        }
        Ok(serde_json::to_value(row).expect("a row is text and numbers"))
    }

    fn ratings(&self, person: u32) -> Vec<Value> {
        let mut rated: Vec<(&Level, _)> =
            self.shelf.iter().filter_map(|(_, level)| Some((level, level.votes.of(person)?))).collect();
        rated.sort_unstable_by_key(|(level, _)| level.sequence);
        let told = rated.into_iter().map(|(level, given)| {
            json!({ "level": level.id.as_str(), "rating": given.rating(), "day": date(given.day()) })
        });
        told.collect()
    }

    fn flags_of(&self, person: u32) -> Vec<Value> {
        let levels = self.shelf.iter().map(|(_, level)| level);
        let flags = levels.flat_map(|level| level.flags.iter().map(move |flag| (level, flag)));
        let mut flags: Vec<_> = flags.filter(|(_, flag)| flag.person == person).collect();
        flags.sort_unstable_by_key(|(_, flag)| flag.offset);
        let told = flags.into_iter().map(|(level, flag)| {
            json!({ "level": level.id.as_str(), "reason": flag.reason, "at": rfc3339(flag.at_ms) })
        });
        told.collect()
    }

    /// Forgets the player: their levels with all that was said of them, their votes, their flags. What others' levels
    /// were flagged stays counted. One pass over all votes.
    pub fn erase_player(&mut self, player: &str) {
        let Some(person) = self.people.number(player) else { return };
        for slot in self.people.get(person).levels.clone() {
            self.erase(slot);
        }
        let slots: Vec<u32> = self.shelf.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            self.withdraw(slot, person, player);
        }
        self.people.leave(person);
    }

    fn withdraw(&mut self, slot: u32, person: u32, player: &str) {
        let level = self.shelf.get(slot);
        let id = level.id;
        if level.votes.of(person).is_some() {
            self.vote(slot, |votes| votes.withdraw(person));
            self.unwritten.no_vote(id, player);
            self.forget_vote(person);
        }
        if self.shelf.get(slot).flags.has(person) {
            self.shelf.get_mut(slot).flags.withdraw(person);
            self.unwritten.no_flag(id, player);
            self.forget_flag(person);
        }
    }

    /// Takes a level away as if it had never been.
    fn erase(&mut self, slot: u32) {
        self.clear(slot);
        let level = self.shelf.take(slot);
        let maker = self.people.get_mut(level.maker);
        maker.levels.retain(|other| *other != slot);
        self.unwritten.level(level.id);
    }
}
