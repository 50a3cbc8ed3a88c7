//! Saving a level: what it may be, where there is room for it, whether it was there before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::content::{self, Content};
use super::flags::Flags;
use super::level::{Counters, Level, LevelId, State};
use super::list::Row;
use super::votes::Votes;
use super::{Levels, full};
use crate::game::{At, Context};
use crate::names::{check_player, check_text, is_key};
use crate::{Answer, Refusal};

const NAME_BYTES_MAX: usize = 100;
const PLAYER_NAME_BYTES_MAX: usize = 64;
const SOURCE_BYTES_MAX: usize = 100;
const FIELDS_MAX: usize = 20;
/// Names and values of all fields together: they are in memory, once with the level and once in the index.
const FIELDS_BYTES_MAX: usize = 1_000;

/// Levels of a game, 125 MB of memory when they are ordinary ones.
pub const LEVELS_MAX: usize = 250_000;
/// Compressed data of a game on disk.
pub const GAME_DATA_BYTES_MAX: u64 = 16 << 30;
/// Levels of one player, removed ones included.
pub const PLAYER_LEVELS_MAX: usize = 1_000;
/// Data and pictures of one player, not compressed: so much has to go into the document that exports a player.
pub const PLAYER_DATA_BYTES_MAX: u64 = 64 << 20;
/// A level to be saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Save {
    /// Its id, drawn at the door: 12 lower-case letters and digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Who made it.
    pub player: String,
    /// The maker's name as others see it.
    #[serde(default)]
    pub player_name: String,
    /// What lists can be filtered by.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// Where it was made.
    #[serde(default)]
    pub source: String,
    /// A draft, or published at once.
    pub state: State,
    /// The data, the first part of the blob.
    pub data: Content,
    /// The picture, the rest of the blob.
    #[serde(default)]
    pub thumb: Option<Content>,
}

#[derive(Serialize)]
struct Saved {
    #[serde(flatten)]
    level: Row,
    /// Whether this player had saved the same data under the same name before: then it is that level.
    duplicate: bool,
}

impl Levels {
    pub(super) fn save(&mut self, context: &Context<'_>, save: Save) -> Result<(u32, Answer), Refusal> {
        let id = save.check(context.blob)?;
        if let Some(slot) = self.duplicate_of(&save) {
            let level = self.row(self.shelf.get(slot));
            return Ok((slot, Answer::ok(&Saved { level, duplicate: true })));
        }
        self.check_room(id, &save)?;
        let (data, thumb) = context.blob.split_at(save.data.packed_bytes as usize);
        self.keep(&save.data, data);
        save.thumb.iter().for_each(|content| self.keep(content, thumb));
        let maker = self.people.enter(&save.player);
        let slot = self.take_in(save.level(id, maker, context.at));
        self.index(slot);
        self.unwritten.level(id);
        let level = self.row(self.shelf.get(slot));
        Ok((slot, Answer::created(&Saved { level, duplicate: false })))
    }

    fn keep(&mut self, content: &Content, packed: &[u8]) {
        if self.references.is_new(content) {
            content::keep(&mut self.blobs, content, packed);
        }
    }

    /// The level that this player saved first with the same name and data, whatever became of it.
    fn duplicate_of(&self, save: &Save) -> Option<u32> {
        let same = |slot: &&u32| {
            let level = self.shelf.get(**slot);
            level.data.sha256 == save.data.sha256 && *level.name == *save.name
        };
        self.people.find(&save.player)?.levels.iter().find(same).copied()
    }

    fn check_room(&self, id: LevelId, save: &Save) -> Result<(), Refusal> {
        if self.shelf.slot(id.as_bytes()).is_some() {
            return Err(Refusal::conflict("there is a level of this id already; try again"));
        }
        if self.shelf.len() >= LEVELS_MAX {
            return Err(full("name", format!("a game has at most {LEVELS_MAX} levels")));
        }
        let contents = || std::iter::once(&save.data).chain(&save.thumb);
        let packed: u64 = contents().map(|content| u64::from(content.packed_bytes)).sum();
        if self.references.packed_bytes() + packed > GAME_DATA_BYTES_MAX {
            return Err(full("data", format!("a game has at most {GAME_DATA_BYTES_MAX} bytes of data")));
        }
        let Some(person) = self.people.find(&save.player) else { return Ok(()) };
        if person.levels.len() >= PLAYER_LEVELS_MAX {
            return Err(full("player", format!("a player has at most {PLAYER_LEVELS_MAX} levels")));
        }
        let bytes: u64 = contents().map(|content| u64::from(content.bytes)).sum();
        if person.content_bytes + bytes > PLAYER_DATA_BYTES_MAX {
            return Err(full("data", format!("a player has at most {PLAYER_DATA_BYTES_MAX} bytes of data")));
        }
        Ok(())
    }

    /// Gives a level its place. It is not listed yet.
    pub(super) fn take_in(&mut self, mut level: Level) -> u32 {
        if !level.is_removed() {
            level.data = self.references.hold(level.data);
            level.thumb = level.thumb.map(|thumb| self.references.hold(thumb));
        }
        let (maker, bytes) = (level.maker, level.held_bytes());
        let slot = self.shelf.put(level);
        let maker = self.people.get_mut(maker);
        maker.levels.push(slot);
        maker.content_bytes += bytes;
        slot
    }
}

impl Save {
    /// Whether everything is within its limits; the id if so.
    fn check(&self, blob: &[u8]) -> Result<LevelId, Refusal> {
        let id = LevelId::read(self.id.as_bytes())
            .ok_or_else(|| Refusal::invalid("id", "it has 12 lower-case letters and digits"))?;
        check_player("player", &self.player)?;
        if self.name.is_empty() {
            return Err(Refusal::invalid("name", format!("it has 1 to {NAME_BYTES_MAX} bytes")));
        }
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        check_text("player_name", &self.player_name, PLAYER_NAME_BYTES_MAX)?;
        check_text("source", &self.source, SOURCE_BYTES_MAX)?;
        check_fields(&self.fields)?;
        if self.state == State::Removed {
            return Err(Refusal::invalid("state", "a level is saved as draft or published"));
        }
        let thumb_bytes = self.thumb.map_or(0, |thumb| thumb.packed_bytes as usize);
        if blob.len() != self.data.packed_bytes as usize + thumb_bytes {
            return Err(Refusal::invalid("data", "it is not what the command says"));
        }
        Ok(id)
    }

    fn level(self, id: LevelId, maker: u32, at: At) -> Level {
        Level {
            id,
            sequence: at.offset,
            created_ms: at.ms,
            published_ms: None,
            state: self.state,
            name: self.name.into(),
            maker,
            maker_name: self.player_name.into(),
            fields: self.fields.into_iter().map(|(field, value)| (field.into(), value.into())).collect(),
            source: self.source.into(),
            data: self.data,
            thumb: self.thumb,
            votes: Votes::default(),
            counters: Counters::default(),
            flags: Flags::default(),
        }
    }
}

fn check_fields(fields: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if fields.len() > FIELDS_MAX {
        return Err(Refusal::invalid("fields", format!("there are at most {FIELDS_MAX}")));
    }
    for (field, value) in fields {
        let path = format!("fields.{field}");
        if !is_key(field) {
            return Err(Refusal::invalid("fields", "a field's name has 1 to 100 letters, digits, . _ -"));
        }
        check_text(&path, value, FIELDS_BYTES_MAX)?;
    }
    let bytes: usize = fields.iter().map(|(field, value)| field.len() + value.len()).sum();
    if bytes > FIELDS_BYTES_MAX {
        return Err(Refusal::invalid(
            "fields",
            format!("they have at most {FIELDS_BYTES_MAX} bytes together"),
        ));
    }
    Ok(())
}
