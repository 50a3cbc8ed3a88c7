//! When which channel is to be computed. Nothing runs while nothing is due.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::channel::Channel;

/// Posts that wait to be looked at. One more, and all feeds of its game are computed instead.
const POSTS_MAX: usize = 10_000;

/// The channels that will be computed, and what has to be looked at before.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Default)]
struct Waiting {
    times: BTreeSet<(Instant, u64)>,
    channels: HashMap<u64, (Instant, Arc<Channel>)>,
    posts: HashSet<Post>,
    is_stopped: bool,
}

/// A player of a game did something that followers see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Post {
    pub game: u32,
    /// `None`: of many players, who were not written down.
    pub actor: Option<String>,
}

/// What is to be done now.
#[derive(Default)]
pub(super) struct Due {
    pub channels: Vec<Arc<Channel>>,
    pub posts: HashSet<Post>,
}

impl Queue {
    /// Computes the channel at this time, or earlier if that was asked for before.
    pub fn put(&self, channel: &Arc<Channel>, at: Instant) {
        let mut waiting = self.waiting.lock();
        let number = channel.number;
        match waiting.channels.get(&number) {
            Some((earlier, _)) if *earlier <= at => return,
            Some((later, _)) => {
                let later = (*later, number);
                waiting.times.remove(&later);
            }
            None => {}
        }
        let is_first = waiting.times.first().is_none_or(|(first, _)| at < *first);
        waiting.times.insert((at, number));
        waiting.channels.insert(number, (at, Arc::clone(channel)));
        if is_first {
            self.bell.notify_one();
        }
    }

    /// Looks, as soon as there is time, at whom this concerns.
    pub fn put_post(&self, game: u32, actor: &str) {
        let mut waiting = self.waiting.lock();
        let is_full = waiting.posts.len() >= POSTS_MAX;
        waiting.posts.insert(Post { game, actor: (!is_full).then(|| actor.to_owned()) });
        self.bell.notify_one();
    }

    /// What is due at this time.
    #[cfg(test)]
    pub fn take(&self, now: Instant) -> Due {
        self.waiting.lock().take(now)
    }

    /// Returns when something is due, with it. `None`: there is nothing more to do.
    pub fn wait(&self) -> Option<Due> {
        let mut waiting = self.waiting.lock();
        while !waiting.is_stopped {
            let due = waiting.take(Instant::now());
            if !due.channels.is_empty() || !due.posts.is_empty() {
                return Some(due);
            }
            match waiting.times.first().copied() {
                Some((first, _)) => drop(self.bell.wait_until(&mut waiting, first)),
                None => self.bell.wait(&mut waiting),
            }
        }
        None
    }

    pub fn stop(&self) {
        self.waiting.lock().is_stopped = true;
        self.bell.notify_one();
    }
}

impl Waiting {
    fn take(&mut self, now: Instant) -> Due {
        let mut due = Due { channels: Vec::new(), posts: std::mem::take(&mut self.posts) };
        while let Some((_, number)) = self.times.first().copied().filter(|(first, _)| *first <= now) {
            self.times.pop_first();
            due.channels.extend(self.channels.remove(&number).map(|(_, channel)| channel));
        }
        due
    }
}
