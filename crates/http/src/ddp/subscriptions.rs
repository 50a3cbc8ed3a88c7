//! The subscriptions of one connection.
//!
//! Subscriptions to the same topic in the same collection form one *group*. Its documents are sent once and removed with
//! the last of its subscriptions. So no document is sent twice, and no reference counts per document are needed.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use live::documents::EncodingKey;
use live::{Delivery, DocumentSubscription, SubscriptionPermit, Topic};
use model::batch::KeyClass;
use pipeline::catalog::{Access, Game, Scope};

use super::messages::{self, DdpError};
use super::publications::{SubscriptionRequest, may_access};
use crate::problem::Problem;
use crate::ws::FrameBuffer;

/// The subscriptions that a connection may have.
pub(super) const SUBSCRIPTIONS_MAX: usize = 100;

/// The subscriptions of one connection, by group.
#[derive(Default)]
pub(super) struct Subscriptions {
    groups: Vec<SubscriptionGroup>,
    /// The index of the group that is sent next, so that a slow connection gets changes of every group.
    next_group: usize,
}

struct SubscriptionGroup {
    topic: Topic,
    key: EncodingKey,
    watch: DocumentSubscription,
    members: Vec<GroupMember>,
    game: Arc<Game>,
    class: KeyClass,
    scope: Option<Scope>,
}

struct GroupMember {
    id: String,
    is_ready: bool,
    _permit: SubscriptionPermit,
}

impl Subscriptions {
    pub(super) fn len(&self) -> usize {
        self.groups.iter().map(|group| group.members.len()).sum()
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.groups.iter().any(|group| group.has(id))
    }

    /// Joins the group of an equal subscription and takes the permit. Returns false if there is no such group.
    pub(super) fn join(
        &mut self,
        id: &str,
        request: &SubscriptionRequest,
        access: &Access,
        permit: &mut Option<SubscriptionPermit>,
    ) -> Result<bool, Problem> {
        let is_same = |group: &&mut SubscriptionGroup| {
            group.key.collection == request.key.collection
                && group.topic == request.topic
                && group.game.number == access.game.number
        };
        let Some(group) = self.groups.iter_mut().find(is_same) else { return Ok(false) };
        if group.key.is_ordered != request.key.is_ordered {
            let detail = "must match the open subscription to this topic: use another `collection`";
            return Err(Problem::conflict(detail).field("ordered"));
        }
        if let Some(permit) = permit.take() {
            group
                .watch
                .shorten_interval(request.options)
                .map_err(|refused| Problem::overloaded(refused.to_string()))?;
            group.members.push(GroupMember { id: id.to_owned(), is_ready: false, _permit: permit });
        }
        Ok(true)
    }

    /// Opens a group with one subscription.
    pub(super) fn open(
        &mut self,
        id: &str,
        request: SubscriptionRequest,
        access: &Access,
        watch: DocumentSubscription,
        permit: SubscriptionPermit,
    ) {
        let member = GroupMember { id: id.to_owned(), is_ready: false, _permit: permit };
        let SubscriptionRequest { topic, key, scope, .. } = request;
        let (game, class) = (Arc::clone(&access.game), access.class);
        // Most connections have one group, and there are many connections.
        self.groups.reserve_exact(1);
        self.groups.push(SubscriptionGroup { topic, key, watch, members: vec![member], game, class, scope });
    }

    /// Closes a subscription and returns the frames to send.
    pub(super) fn close(&mut self, id: &str) -> Bytes {
        let mut frames = FrameBuffer::default();
        if let Some(index) = self.groups.iter().position(|group| group.has(id)) {
            self.groups[index].members.retain(|member| member.id != id);
            if self.groups[index].members.is_empty() {
                let group = self.groups.swap_remove(index);
                return group.removal(&messages::nosub(id, None));
            }
        }
        frames.text(&messages::nosub(id, None));
        frames.freeze()
    }

    /// Closes the subscriptions that the credential has no access to and returns the frames to send. `Err`: the credential
    /// is no longer valid.
    pub(super) fn close_denied(&mut self, access: &Result<Access, Problem>) -> Vec<Bytes> {
        let denial = |group: &SubscriptionGroup| match access {
            Ok(access) if may_access(access, &group.game, group.class, group.scope) => None,
            Ok(_) => {
                Some(Problem::forbidden("the current credential has no access to this subscription").into())
            }
            Err(problem) => Some(DdpError::from(problem.clone())),
        };
        let mut sends = Vec::new();
        for group in std::mem::take(&mut self.groups) {
            match denial(&group) {
                None => self.groups.push(group),
                Some(error) => {
                    let nosub = |member: &GroupMember| messages::nosub(&member.id, Some(&error));
                    let nosubs: Vec<String> = group.members.iter().map(nosub).collect();
                    sends.push(group.removal(&nosubs[0]));
                    let mut frames = FrameBuffer::default();
                    nosubs[1..].iter().for_each(|nosub| frames.text(nosub));
                    sends.push(frames.freeze());
                }
            }
        }
        sends
    }

    /// Returns the frames of the next group whose changes are due, or `None` if no group has any.
    pub(super) fn take_next(&mut self, epoch: &str) -> Option<Vec<Bytes>> {
        let count = self.groups.len();
        let mut indexes = (0..count).map(|offset| (self.next_group + offset) % count);
        let (index, frames) = indexes.find_map(|index| {
            let group = &mut self.groups[index];
            let update = group.watch.next_delivery();
            Some((index, group.encode(update, epoch)?))
        })?;
        self.next_group = index + 1;
        Some(frames)
    }

    /// Returns the frames of all changes that are known, including those that are not due yet.
    pub(super) fn take_all(&mut self, epoch: &str) -> Vec<Bytes> {
        let groups = self.groups.iter_mut();
        let frames = groups.filter_map(|group| {
            let update = group.watch.next_delivery_now();
            group.encode(update, epoch)
        });
        frames.flatten().collect()
    }

    /// Returns the time at which the next change is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.groups.iter().filter_map(|group| group.watch.due()).min()
    }
}

impl SubscriptionGroup {
    fn has(&self, id: &str) -> bool {
        self.members.iter().any(|member| member.id == id)
    }

    /// Encodes an update, and `ready` for new members. Returns `None` if there is nothing to send.
    fn encode(&mut self, update: Option<Delivery>, epoch: &str) -> Option<Vec<Bytes>> {
        let mut sends = Vec::new();
        if let Some(Delivery { offset, step }) = update {
            let EncodingKey { collection, is_ordered } = &self.key;
            let encode = |changes: &[_]| messages::changes(changes, collection, *is_ordered, offset);
            sends.push(step.encoded(&self.key, encode));
        }
        let waiting = self.members.iter().filter(|member| !member.is_ready);
        let ids: Vec<String> = waiting.map(|member| member.id.clone()).collect();
        self.members.iter_mut().for_each(|member| member.is_ready = true);
        if !ids.is_empty() {
            let mut frames = FrameBuffer::default();
            frames.text(&messages::ready(&ids, epoch, self.watch.offset()));
            sends.push(frames.freeze());
        }
        (!sends.is_empty()).then_some(sends)
    }

    /// Returns frames that remove all documents of the group, followed by a last message.
    fn removal(&self, last_message: &str) -> Bytes {
        let EncodingKey { collection, is_ordered } = &self.key;
        let mut bytes =
            messages::changes(&self.watch.removals(), collection, *is_ordered, self.watch.offset()).to_vec();
        let mut frames = FrameBuffer::default();
        frames.text(last_message);
        bytes.extend_from_slice(&frames.freeze());
        bytes.into()
    }
}
