//! The ids of a player, so that an erasure finds all of them.
//!
//! Only on disk. The ids that are counted as one player are decided in [`model::identity`], by their numbers.
//!
//! ```text
//! t/<anonymous>                       the id that it was linked to
//! f/<id's length u8><id><anonymous>   empty: an anonymous id that was linked to this id
//! ```

use std::collections::BTreeSet;

use model::ports::counters::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::subject::BlobStore;
use crate::{ExportCursor, ExportPage};

use super::Players;

/// A link from an anonymous id to another id of the same player.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct IdentityLink {
    /// The anonymous id.
    pub anonymous: String,
    /// The id that it was linked to.
    pub player: String,
}

/// Ids of one player that are followed; a longer chain is cut off.
const IDS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Aliases(pub(super) BlobStore);

impl Aliases {
    fn put(&mut self, link: &IdentityLink) {
        let (to, from) = keys(link);
        self.0.put(&to, link.player.as_bytes());
        self.0.put(&from, []);
    }

    pub(super) fn remove(&mut self, link: &IdentityLink) {
        let (to, from) = keys(link);
        self.0.remove(&to);
        self.0.remove(&from);
    }

    /// Returns all links between the ids of the player who has this id.
    fn of(&self, id: &str) -> Result<Vec<IdentityLink>, StoreError> {
        let (mut ids, mut links) = (BTreeSet::from([id.to_owned()]), BTreeSet::new());
        let mut left = vec![id.to_owned()];
        while let Some(id) = left.pop().filter(|_| ids.len() < IDS_MAX) {
            let to = self.0.get(&[b"t/", id.as_bytes()].concat())?;
            let to = to.map(|to| IdentityLink { anonymous: id.clone(), player: text(&to) });
            let from = self.0.keys(&prefix(&id))?.into_iter();
            let from =
                from.map(|key| IdentityLink { anonymous: text(&key[3 + id.len()..]), player: id.clone() });
            for link in to.into_iter().chain(from) {
                for other in [&link.anonymous, &link.player] {
                    if ids.insert(other.clone()) {
                        left.push(other.clone());
                    }
                }
                links.insert(link);
            }
        }
        Ok(links.into_iter().collect())
    }
}

fn keys(link: &IdentityLink) -> (Vec<u8>, Vec<u8>) {
    let to = [b"t/", link.anonymous.as_bytes()].concat();
    (to, [&prefix(&link.player), link.anonymous.as_bytes()].concat())
}

fn prefix(id: &str) -> Vec<u8> {
    let length = u8::try_from(id.len()).expect("ids of players have at most 128 bytes");
    [b"f/".as_slice(), &[length], id.as_bytes()].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Players {
    pub(crate) fn blobs(&mut self) -> &mut BlobStore {
        &mut self.aliases.0
    }

    pub(crate) fn add_link(&mut self, anonymous: &str, player: &str) {
        if anonymous != player {
            self.aliases.put(&IdentityLink { anonymous: anonymous.to_owned(), player: player.to_owned() });
        }
    }

    /// Returns the next links. Reads the store.
    pub(crate) fn export_links(&self, from: &ExportCursor, limit: usize) -> Result<ExportPage, StoreError> {
        let keys = self.aliases.0.keys(b"t/")?;
        let mut left = keys.iter().map(|key| text(&key[2..])).filter(|anonymous| *anonymous >= from.outer);
        let mut rows = Vec::new();
        for anonymous in left.by_ref().take(limit) {
            let player = self.aliases.0.get(&[b"t/", anonymous.as_bytes()].concat())?;
            rows.extend(player.map(|player| json!({ "anonymous": anonymous, "player": text(&player) })));
        }
        Ok(ExportPage { rows, next: left.next().map(|outer| ExportCursor { outer, next: 0 }) })
    }

    /// Returns all links between the ids of the player who has this id. Reads the store.
    pub fn links(&self, player: &str) -> Result<Vec<IdentityLink>, StoreError> {
        if player.len() > usize::from(u8::MAX) { Ok(Vec::new()) } else { self.aliases.of(player) }
    }
}
