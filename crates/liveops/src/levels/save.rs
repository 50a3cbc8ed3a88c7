//! Saving a level: limits and duplicates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::content::{self, ContentRef};
use super::flags::LevelFlags;
use super::level::{Level, LevelId, LevelState, PlayCounters};
use super::list::LevelRow;
use super::votes::Votes;
use super::{Levels, limit_reached};
use crate::game::{CommandContext, LogPoint};
use crate::names::{check_player, check_text, is_key};
use crate::{CommandResponse, Refusal};

const NAME_BYTES_MAX: usize = 100;
const PLAYER_NAME_BYTES_MAX: usize = 64;
const SOURCE_BYTES_MAX: usize = 100;
const FIELDS_MAX: usize = 20;
/// Names and values of all fields together. They are in memory twice: with the level and in the index.
const FIELDS_BYTES_MAX: usize = 1_000;

/// Levels of a game, about 125 MB of memory.
pub(crate) const LEVELS_MAX: usize = 250_000;
/// Compressed data of a game on disk.
pub(crate) const GAME_DATA_BYTES_MAX: u64 = 16 << 30;
/// Levels of one player, including removed ones.
pub const PLAYER_LEVELS_MAX: usize = 1_000;
/// Uncompressed data and thumbnails of one player, which must fit into the export of a player.
pub const PLAYER_DATA_BYTES_MAX: u64 = 64 << 20;
/// A level to be saved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SaveLevel {
    /// Its random id: 12 lower-case letters and digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The id of its maker.
    pub player: String,
    /// The maker's display name.
    #[serde(default)]
    pub player_name: String,
    /// The fields that lists can be filtered by.
    #[serde(default)]
    pub fields: BTreeMap<String, String>,
    /// The place where it was made.
    #[serde(default)]
    pub source: String,
    /// The state: draft or published.
    pub state: LevelState,
    /// The data, the first part of the blob.
    pub data: ContentRef,
    /// The thumbnail, the rest of the blob.
    #[serde(default)]
    pub thumb: Option<ContentRef>,
}

#[derive(Serialize)]
struct SaveResponse {
    #[serde(flatten)]
    level: LevelRow,
    /// True if this player has already saved the same data under the same name; the response is then that level.
    duplicate: bool,
}

impl Levels {
    pub(super) fn save(
        &mut self,
        context: &CommandContext<'_>,
        save: SaveLevel,
    ) -> Result<(u32, CommandResponse), Refusal> {
        let id = save.check(context.blob)?;
        if let Some(slot) = self.duplicate_of(&save) {
            let level = self.row(self.arena.get(slot));
            return Ok((slot, CommandResponse::ok(&SaveResponse { level, duplicate: true })));
        }
        self.check_room(id, &save)?;
        let (data, thumb) = context.blob.split_at(save.data.packed_bytes as usize);
        self.keep(&save.data, data);
        save.thumb.iter().for_each(|content| self.keep(content, thumb));
        let maker = self.contributors.find_or_add(&save.player);
        let slot = self.insert_level(save.level(id, maker, context.at));
        self.index(slot);
        self.unwritten.level(id);
        let level = self.row(self.arena.get(slot));
        Ok((slot, CommandResponse::created(&SaveResponse { level, duplicate: false })))
    }

    fn keep(&mut self, content: &ContentRef, packed: &[u8]) {
        if self.references.is_new(content) {
            content::put_blob(&mut self.blobs, content, packed);
        }
    }

    /// Returns the first level that this player saved with the same name and data, even if it was removed.
    fn duplicate_of(&self, save: &SaveLevel) -> Option<u32> {
        let same = |slot: &&u32| {
            let level = self.arena.get(**slot);
            level.data.sha256 == save.data.sha256 && *level.name == *save.name
        };
        self.contributors.find(&save.player)?.levels.iter().find(same).copied()
    }

    fn check_room(&self, id: LevelId, save: &SaveLevel) -> Result<(), Refusal> {
        if self.arena.slot(id.as_bytes()).is_some() {
            return Err(Refusal::conflict("a level with this id already exists; try again"));
        }
        if self.arena.len() >= LEVELS_MAX {
            return Err(limit_reached("name", format!("a game can have at most {LEVELS_MAX} levels")));
        }
        let contents = || std::iter::once(&save.data).chain(&save.thumb);
        let packed: u64 = contents().map(|content| u64::from(content.packed_bytes)).sum();
        if self.references.packed_bytes() + packed > GAME_DATA_BYTES_MAX {
            return Err(limit_reached(
                "data",
                format!("a game can have at most {GAME_DATA_BYTES_MAX} bytes of level data"),
            ));
        }
        let Some(contributor) = self.contributors.find(&save.player) else { return Ok(()) };
        if contributor.levels.len() >= PLAYER_LEVELS_MAX {
            return Err(limit_reached(
                "player",
                format!("a player can have at most {PLAYER_LEVELS_MAX} levels"),
            ));
        }
        let bytes: u64 = contents().map(|content| u64::from(content.bytes)).sum();
        if contributor.content_bytes + bytes > PLAYER_DATA_BYTES_MAX {
            return Err(limit_reached(
                "data",
                format!("a player can have at most {PLAYER_DATA_BYTES_MAX} bytes of level data"),
            ));
        }
        Ok(())
    }

    /// Inserts a level. It is not listed yet.
    pub(super) fn insert_level(&mut self, mut level: Level) -> u32 {
        if !level.is_removed() {
            level.data = self.references.add(level.data);
            level.thumb = level.thumb.map(|thumb| self.references.add(thumb));
        }
        let (maker, bytes) = (level.maker, level.content_bytes());
        let slot = self.arena.put(level);
        let maker = self.contributors.get_mut(maker);
        maker.levels.push(slot);
        maker.content_bytes += bytes;
        slot
    }
}

impl SaveLevel {
    /// Checks all limits and returns the id.
    fn check(&self, blob: &[u8]) -> Result<LevelId, Refusal> {
        let id = LevelId::parse(self.id.as_bytes())
            .ok_or_else(|| Refusal::invalid("id", "must have 12 lower-case letters and digits"))?;
        check_player("player", &self.player)?;
        if self.name.is_empty() {
            return Err(Refusal::invalid("name", format!("must have 1 to {NAME_BYTES_MAX} bytes")));
        }
        check_text("name", &self.name, NAME_BYTES_MAX)?;
        check_text("player_name", &self.player_name, PLAYER_NAME_BYTES_MAX)?;
        check_text("source", &self.source, SOURCE_BYTES_MAX)?;
        check_fields(&self.fields)?;
        if self.state == LevelState::Removed {
            return Err(Refusal::invalid("state", "must be draft or published"));
        }
        let thumb_bytes = self.thumb.map_or(0, |thumb| thumb.packed_bytes as usize);
        if blob.len() != self.data.packed_bytes as usize + thumb_bytes {
            return Err(Refusal::invalid("data", "must have the length that the command states"));
        }
        Ok(id)
    }

    fn level(self, id: LevelId, maker: u32, at: LogPoint) -> Level {
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
            counters: PlayCounters::default(),
            flags: LevelFlags::default(),
        }
    }
}

fn check_fields(fields: &BTreeMap<String, String>) -> Result<(), Refusal> {
    if fields.len() > FIELDS_MAX {
        return Err(Refusal::invalid("fields", format!("must have at most {FIELDS_MAX} entries")));
    }
    for (field, value) in fields {
        let path = format!("fields.{field}");
        if !is_key(field) {
            return Err(Refusal::invalid(
                "fields",
                "field names must have 1 to 100 letters, digits, `.`, `_` or `-`",
            ));
        }
        check_text(&path, value, FIELDS_BYTES_MAX)?;
    }
    let bytes: usize = fields.iter().map(|(field, value)| field.len() + value.len()).sum();
    if bytes > FIELDS_BYTES_MAX {
        return Err(Refusal::invalid(
            "fields",
            format!("must have at most {FIELDS_BYTES_MAX} bytes together"),
        ));
    }
    Ok(())
}
