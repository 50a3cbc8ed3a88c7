//! The schedule of channels to compute. The thread sleeps while nothing is due.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::channel::Channel;

/// Posts waiting to be processed. Beyond that, all feeds of the game are computed instead.
const POSTS_MAX: usize = 10_000;

/// Channels with the time at which they will be computed, and posts to process before that.
#[derive(Default)]
pub(crate) struct Schedule {
    state: Mutex<ScheduleState>,
    changed: Condvar,
}

#[derive(Default)]
struct ScheduleState {
    times: BTreeSet<(Instant, u64)>,
    channels: HashMap<u64, (Instant, Arc<Channel>)>,
    posts: HashSet<PostedActivity>,
    is_stopped: bool,
}

/// A player posted an activity, which appears in the feeds of the player's followers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PostedActivity {
    pub(crate) game: u32,
    /// The player; `None`: too many players to list.
    pub(crate) actor: Option<String>,
}

/// The work that is due now.
#[derive(Default)]
pub(crate) struct DueWork {
    pub(crate) channels: Vec<Arc<Channel>>,
    pub(crate) posts: HashSet<PostedActivity>,
}

impl Schedule {
    /// Schedules the channel for this time. An earlier time that is already scheduled stays.
    pub(crate) fn insert(&self, channel: &Arc<Channel>, at: Instant) {
        let mut state = self.state.lock();
        let number = channel.number;
        match state.channels.get(&number) {
            Some((earlier, _)) if *earlier <= at => return,
            Some((later, _)) => {
                let later = (*later, number);
                state.times.remove(&later);
            }
            None => {}
        }
        let is_first = state.times.first().is_none_or(|(first, _)| at < *first);
        state.times.insert((at, number));
        state.channels.insert(number, (at, Arc::clone(channel)));
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Schedules a post for processing as soon as possible.
    pub(crate) fn insert_post(&self, game: u32, actor: &str) {
        let mut state = self.state.lock();
        let is_full = state.posts.len() >= POSTS_MAX;
        state.posts.insert(PostedActivity { game, actor: (!is_full).then(|| actor.to_owned()) });
        self.changed.notify_one();
    }

    /// Removes and returns the work that is due at this time.
    #[cfg(test)]
    pub(crate) fn remove_due(&self, now: Instant) -> DueWork {
        self.state.lock().remove_due(now)
    }

    /// Waits until work is due, removes it and returns it. Returns `None` after [`Schedule::stop`].
    pub(crate) fn wait(&self) -> Option<DueWork> {
        let mut state = self.state.lock();
        while !state.is_stopped {
            let due = state.remove_due(Instant::now());
            if !due.channels.is_empty() || !due.posts.is_empty() {
                return Some(due);
            }
            match state.times.first().copied() {
                Some((first, _)) => drop(self.changed.wait_until(&mut state, first)),
                None => self.changed.wait(&mut state),
            }
        }
        None
    }

    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_one();
    }
}

impl ScheduleState {
    fn remove_due(&mut self, now: Instant) -> DueWork {
        let mut due = DueWork { channels: Vec::new(), posts: std::mem::take(&mut self.posts) };
        while let Some((_, number)) = self.times.first().copied().filter(|(first, _)| *first <= now) {
            self.times.pop_first();
            due.channels.extend(self.channels.remove(&number).map(|(_, channel)| channel));
        }
        due
    }
}
