//! What one connection watches.
//!
//! Two subscriptions to the same in the same collection are one *group*: its documents are told once, and are gone when
//! the last of its subscriptions is. So a document is never told twice, and nothing has to be counted by document.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use model::batch::KeyClass;

use super::messages::{self, Refusal};
use super::publications::{Wanted, may_see};
use crate::problem::Problem;
use crate::ws::Frames;
use live::documents::EncodingKey;
use live::{Delivery, DocumentSubscription, SubscriptionPermit, Topic};
use pipeline::catalog::{Access, Game, Scope};

/// Subscriptions of one connection.
pub(super) const SUBSCRIPTIONS_MAX: usize = 100;

/// All of a connection.
#[derive(Default)]
pub(super) struct Subscriptions {
    groups: Vec<Group>,
    /// Which group is asked first, so that a connection that takes little gets something of each.
    first: usize,
}

struct Group {
    topic: Topic,
    key: EncodingKey,
    watch: DocumentSubscription,
    subs: Vec<Sub>,
    game: Arc<Game>,
    class: KeyClass,
    scope: Option<Scope>,
}

struct Sub {
    id: String,
    is_ready: bool,
    _permit: SubscriptionPermit,
}

impl Subscriptions {
    pub(super) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.subs.len()).sum()
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.groups.iter().any(|group| group.subs.iter().any(|sub| sub.id == id))
    }

    /// Joins a group that shows the same already. `false`: there is none, and nothing happened.
    pub(super) fn join(
        &mut self,
        id: &str,
        wanted: &Wanted,
        access: &Access,
        permit: &mut Option<SubscriptionPermit>,
    ) -> Result<bool, Problem> {
        let is_same = |group: &&mut Group| {
            group.key.collection == wanted.key.collection
                && group.topic == wanted.topic
                && group.game.number == access.game.number
        };
        let Some(group) = self.groups.iter_mut().find(is_same) else { return Ok(false) };
        if group.key.is_ordered != wanted.key.is_ordered {
            let detail =
                "the same is subscribed in this collection with another `ordered`; name another `collection`";
            return Err(Problem::conflict(detail).field("ordered"));
        }
        if let Some(permit) = permit.take() {
            group
                .watch
                .shorten_interval(wanted.options)
                .map_err(|refused| Problem::overloaded(refused.to_string()))?;
            group.subs.push(Sub { id: id.to_owned(), is_ready: false, _permit: permit });
        }
        Ok(true)
    }

    /// Begins a group.
    pub(super) fn open(
        &mut self,
        id: &str,
        wanted: Wanted,
        access: &Access,
        watch: DocumentSubscription,
        permit: SubscriptionPermit,
    ) {
        let sub = Sub { id: id.to_owned(), is_ready: false, _permit: permit };
        let Wanted { topic, key, scope, .. } = wanted;
        let (game, class) = (Arc::clone(&access.game), access.class);
        // Most connections have one group, and there are many connections.
        self.groups.reserve_exact(1);
        self.groups.push(Group { topic, key, watch, subs: vec![sub], game, class, scope });
    }

    /// Ends a subscription; what is to be told of that.
    pub(super) fn close(&mut self, id: &str) -> Bytes {
        let mut frames = Frames::default();
        if let Some(at) = self.groups.iter().position(|group| group.subs.iter().any(|sub| sub.id == id)) {
            self.groups[at].subs.retain(|sub| sub.id != id);
            if self.groups[at].subs.is_empty() {
                let group = self.groups.swap_remove(at);
                return group.gone(&messages::nosub(id, None));
            }
        }
        frames.text(&messages::nosub(id, None));
        frames.freeze()
    }

    /// Ends what this credential may not see; `Err`: it may see nothing. What is to be told of that.
    pub(super) fn review(&mut self, access: &Result<Access, Problem>) -> Vec<Bytes> {
        let refusal = |group: &Group| match access {
            Ok(access) if may_see(access, &group.game, group.class, group.scope) => None,
            Ok(_) => Some(Problem::scope("the credential that is used now may not see this").into()),
            Err(problem) => Some(Refusal::from(problem.clone())),
        };
        let mut told = Vec::new();
        for group in std::mem::take(&mut self.groups) {
            match refusal(&group) {
                None => self.groups.push(group),
                Some(refusal) => {
                    let nosub = |sub: &Sub| messages::nosub(&sub.id, Some(&refusal));
                    let nosubs: Vec<String> = group.subs.iter().map(nosub).collect();
                    told.push(group.gone(&nosubs[0]));
                    let mut frames = Frames::default();
                    nosubs[1..].iter().for_each(|nosub| frames.text(nosub));
                    told.push(frames.freeze());
                }
            }
        }
        told
    }

    /// What is new in one group whose time has come. `None`: in none.
    pub(super) fn next(&mut self, epoch: &str) -> Option<Vec<Bytes>> {
        let count = self.groups.len();
        let mut places = (0..count).map(|place| (self.first + place) % count);
        let (place, said) = places.find_map(|place| {
            let group = &mut self.groups[place];
            let told = group.watch.next_delivery();
            Some((place, group.tell(told, epoch)?))
        })?;
        self.first = place + 1;
        Some(said)
    }

    /// Everything that is known by now, whether or not its time has come.
    pub(super) fn everything(&mut self, epoch: &str) -> Vec<Bytes> {
        let groups = self.groups.iter_mut();
        let told = groups.filter_map(|group| {
            let told = group.watch.next_delivery_now();
            group.tell(told, epoch)
        });
        told.flatten().collect()
    }

    /// When the next is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.groups.iter().filter_map(|group| group.watch.due()).min()
    }
}

impl Group {
    fn tell(&mut self, told: Option<Delivery>, epoch: &str) -> Option<Vec<Bytes>> {
        let mut said = Vec::new();
        if let Some(Delivery { offset, step }) = told {
            let EncodingKey { collection, is_ordered } = &self.key;
            let encode = |changes: &[_]| messages::changes(changes, collection, *is_ordered, offset);
            said.push(step.encoded(&self.key, encode));
        }
        let waiting = self.subs.iter().filter(|sub| !sub.is_ready);
        let ids: Vec<String> = waiting.map(|sub| sub.id.clone()).collect();
        self.subs.iter_mut().for_each(|sub| sub.is_ready = true);
        if !ids.is_empty() {
            let mut frames = Frames::default();
            frames.text(&messages::ready(&ids, epoch, self.watch.offset()));
            said.push(frames.freeze());
        }
        (!said.is_empty()).then_some(said)
    }

    /// All its documents gone, and a last word.
    fn gone(&self, last: &str) -> Bytes {
        let EncodingKey { collection, is_ordered } = &self.key;
        let mut said =
            messages::changes(&self.watch.removals(), collection, *is_ordered, self.watch.offset()).to_vec();
        let mut frames = Frames::default();
        frames.text(last);
        said.extend_from_slice(&frames.freeze());
        said.into()
    }
}
