//! Which other ids a player has had, by their texts: so that all of them can be found when the player is to be forgotten.
//!
//! Kept on disk alone. Who is counted as whom is not decided here but in [`model::identity`], by numbers.
//!
//! ```text
//! t/<anonymous>                       the id that it was found to be
//! f/<id's length u8><id><anonymous>   empty: an anonymous id that was found to be this one
//! ```

use std::collections::BTreeSet;

use model::ports::counters::StoreError;
use serde::{Deserialize, Serialize};

use crate::subject::Blobs;

use super::Players;

/// An anonymous id was found to be another id's owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Link {
    /// The anonymous id.
    pub anonymous: String,
    /// Whose it is.
    pub player: String,
}

/// Ids that one player may have; more are not looked for.
const IDS_MAX: usize = 10_000;

/// Links between ids.
#[derive(Default)]
pub(super) struct Aliases(pub(super) Blobs);

impl Aliases {
    fn put(&mut self, link: &Link) {
        let (to, from) = keys(link);
        self.0.put(&to, link.player.as_bytes());
        self.0.put(&from, []);
    }

    pub(super) fn remove(&mut self, link: &Link) {
        let (to, from) = keys(link);
        self.0.remove(&to);
        self.0.remove(&from);
    }

    /// All links among the ids of the player that this id belongs to.
    fn of(&self, id: &str) -> Result<Vec<Link>, StoreError> {
        let (mut ids, mut links) = (BTreeSet::from([id.to_owned()]), BTreeSet::new());
        let mut left = vec![id.to_owned()];
        while let Some(id) = left.pop().filter(|_| ids.len() < IDS_MAX) {
            let to = self.0.get(&[b"t/", id.as_bytes()].concat())?;
            let to = to.map(|to| Link { anonymous: id.clone(), player: text(&to) });
            let from = self.0.keys(&prefix(&id))?.into_iter();
            let from = from.map(|key| Link { anonymous: text(&key[3 + id.len()..]), player: id.clone() });
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

fn keys(link: &Link) -> (Vec<u8>, Vec<u8>) {
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
    /// Values that are kept on disk.
    pub fn blobs(&mut self) -> &mut Blobs {
        &mut self.aliases.0
    }

    pub(crate) fn linked(&mut self, anonymous: &str, player: &str) {
        if anonymous != player {
            self.aliases.put(&Link { anonymous: anonymous.to_owned(), player: player.to_owned() });
        }
    }

    /// The links among all ids of the player that this id belongs to. Reads the store.
    pub fn links(&self, player: &str) -> Result<Vec<Link>, StoreError> {
        if player.len() > usize::from(u8::MAX) { Ok(Vec::new()) } else { self.aliases.of(player) }
    }
}
