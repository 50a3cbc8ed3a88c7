//! Watching: what can be read can be watched.
//!
//! Equal subscriptions share one *channel*: one computation, one encoded message. A channel is computed again only when
//! something it reads was touched or when its time has come, and not more often than anybody wants it. What it computed is told as messages (server-sent events) and,
//! if somebody wants that, as documents. Each channel keeps its last changes, so that a client that was away goes on
//! where it was; one that is too far behind gets the whole state instead of a growing queue.

pub mod docs;

mod census;
mod channel;
mod client;
#[cfg(test)]
mod copy;
mod cost;
mod history;
mod holders;
mod listener;
mod queue;
mod routes;
#[cfg(test)]
mod tests;
mod topic;
mod topics;
mod touches;
mod watch;

pub use channel::Message;
pub use client::{Client, Resume};
pub use holders::{Permit, TooManyOfOne};
pub use topic::Topic;
pub use topics::Page;
pub use watch::{INTERVAL_MS, INTERVAL_MS_MAX, Options, Told, Watch};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use liveops::Touched;
use model::deltas::Deltas;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use pipeline::catalog::Game;
use pipeline::flows::Flows;
use pipeline::time::now_ms;
use pipeline::views::Views;

use channel::{Channel, LINGER};
use holders::Holders;
use listener::{Form, Listener};
use queue::{Due, Post, Queue};
use routes::Routes;

/// Channels of all games together.
const CHANNELS_MAX: usize = 10_000;

/// Tells the time in milliseconds since 1970.
type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// All channels, and the thread that keeps them up to date.
pub struct Live {
    views: Arc<Views>,
    flows: Arc<Flows>,
    clock: Clock,
    /// Distinguishes this run of the server from the one before.
    epoch: String,
    /// The number of the last published change. One is published at a time.
    published: AtomicU64,
    publishing: Mutex<()>,
    channels: Mutex<Channels>,
    /// The channels that are watched.
    routes: RwLock<Routes>,
    queue: Queue,
    holders: Arc<Holders>,
}

#[derive(Default)]
struct Channels {
    open: HashMap<(u32, Topic), Arc<Channel>>,
    next: u64,
}

/// There are as many channels as there may be.
#[derive(Debug, thiserror::Error)]
#[error("there are {CHANNELS_MAX} different subscriptions already")]
pub struct TooManyChannels;

impl Live {
    /// Starts the thread that computes. `epoch` differs from run to run. One credential has at most `each_max`
    /// subscriptions.
    pub fn start(
        views: Arc<Views>,
        flows: Arc<Flows>,
        epoch: String,
        each_max: usize,
    ) -> std::io::Result<Arc<Live>> {
        let live = Live::new(views, flows, epoch, each_max, Box::new(now_ms));
        let running = Arc::clone(&live);
        std::thread::Builder::new().name("live".into()).spawn(move || running.run())?;
        Ok(live)
    }

    /// Follows the views; whoever calls this computes.
    fn new(views: Arc<Views>, flows: Arc<Flows>, epoch: String, each_max: usize, clock: Clock) -> Arc<Live> {
        let live = Arc::new(Live {
            views,
            flows,
            clock,
            epoch,
            published: AtomicU64::new(0),
            publishing: Mutex::default(),
            channels: Mutex::default(),
            routes: RwLock::default(),
            queue: Queue::default(),
            holders: Holders::new(each_max),
        });
        let (one, other) = (Arc::downgrade(&live), Arc::downgrade(&live));
        let follow =
            |live: &Weak<Live>, then: &dyn Fn(&Live)| live.upgrade().as_deref().into_iter().for_each(then);
        live.views.on_applied(move |deltas| follow(&one, &|live| live.applied(deltas)));
        live.views.on_command(move |game, touched| follow(&other, &|live| live.decided(game, touched)));
        live
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.queue.stop();
    }

    /// Distinguishes this run of the server from the one before.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// How many channels are open.
    pub fn channels(&self) -> usize {
        self.channels.lock().open.len()
    }

    /// Makes room for some subscriptions of somebody, whom the number tells from others.
    pub fn admit(&self, holder: u64, count: usize) -> Result<Permit, TooManyOfOne> {
        self.holders.admit(holder, count)
    }

    /// Listens to a channel, opening it if nobody watches the same. What it knows then is as of now.
    fn join(
        self: &Arc<Live>,
        game: &Arc<Game>,
        topic: Topic,
        bell: &Arc<Notify>,
        interval: Duration,
        form: Form,
    ) -> Result<Listener, TooManyChannels> {
        let mut channels = self.channels.lock();
        let channel = self.channel(&mut channels, game, topic)?;
        let was_idle = channel.idle_since().is_some();
        let listener = Listener::join(self, &channel, bell, interval, form);
        if was_idle {
            // What happened while nobody watched was not looked at.
            channel.touch(None);
            self.routes.write().add(&channel);
        }
        if interval.is_zero() {
            self.views.urgent_watchers.add(game.number, channel.routes());
        }
        drop(channels);
        // Whoever comes sees what was acknowledged before, though others are told a moment later. Something dear waits.
        let now = Instant::now();
        if channel.is_touched() && (was_idle || channel.affordable_at(now) <= now) {
            channel.advance(self);
        }
        self.schedule(&channel);
        Ok(listener)
    }

    fn channel(
        &self,
        channels: &mut Channels,
        game: &Arc<Game>,
        topic: Topic,
    ) -> Result<Arc<Channel>, TooManyChannels> {
        let key = (game.number, topic);
        if let Some(channel) = channels.open.get(&key) {
            return Ok(Arc::clone(channel));
        }
        if channels.open.len() >= CHANNELS_MAX {
            channels.open.retain(|_, channel| channel.idle_since().is_none());
        }
        if channels.open.len() >= CHANNELS_MAX {
            return Err(TooManyChannels);
        }
        channels.next += 1;
        let (number, topic) = (channels.next, key.1.clone());
        let channel = Channel::new(number, Arc::clone(game), topic, self.published(), self.now_ms());
        let channel = Arc::new(channel);
        channels.open.insert(key, Arc::clone(&channel));
        Ok(channel)
    }

    /// Somebody listens no more.
    fn left(&self, channel: &Arc<Channel>, interval: Duration, leave: impl FnOnce()) {
        let _channels = self.channels.lock();
        leave();
        if interval.is_zero() {
            self.views.urgent_watchers.remove(channel.game.number, channel.routes());
        }
        if channel.idle_since().is_some() {
            self.routes.write().remove(channel);
            self.queue.put(channel, Instant::now() + LINGER);
        }
    }

    /// Lets a change be published under the next number.
    fn publish(&self, put: impl FnOnce(u64)) {
        let _publishing = self.publishing.lock();
        let number = self.published() + 1;
        put(number);
        self.published.store(number, Ordering::Release);
    }

    /// Every change up to this number is in its channel.
    fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Called by whoever applies the log, with what was added.
    fn applied(&self, deltas: &Deltas) {
        let now = Instant::now();
        self.routes.read().applied(deltas, |channel, minute| {
            if channel.touch(Some(minute)) {
                self.queue.put(channel, channel.free_at(now));
            }
        });
    }

    /// Called by whoever applies the log, with what a command changed.
    fn decided(&self, game: u32, touched: &[Touched]) {
        let routes = self.routes.read();
        for touched in touched {
            routes.decided(game, touched, |channel| self.touch(channel));
            if let Touched::Posted(actor) = touched
                && routes.feeds(game).next().is_some()
            {
                self.queue.put_post(game, actor);
            }
        }
    }

    fn touch(&self, channel: &Arc<Channel>) {
        if channel.touch(None) {
            self.queue.put(channel, channel.free_at(Instant::now()));
        }
    }

    fn schedule(&self, channel: &Arc<Channel>) {
        if let Some(at) = channel.next_at(Instant::now(), self.now_ms()) {
            self.queue.put(channel, at);
        }
    }

    fn run(&self) {
        while let Some(due) = self.queue.wait() {
            self.work(due);
        }
    }

    fn work(&self, due: Due) {
        due.posts.iter().for_each(|post| self.look_at(post));
        for channel in &due.channels {
            if channel.idle_since().is_some() {
                self.close_if_left(channel);
                continue;
            }
            channel.advance(self);
            self.schedule(channel);
        }
    }

    /// Touches the feeds of those who follow somebody who did something.
    fn look_at(&self, post: &Post) {
        let game = self.views.liveops.game(post.game);
        let game = game.read();
        let follows =
            |player: &str| post.actor.as_ref().is_none_or(|actor| game.feed.is_following(player, actor));
        let routes = self.routes.read();
        let feeds = routes.feeds(post.game).filter(|(player, _)| follows(player));
        feeds.flat_map(|(_, channels)| channels).for_each(|channel| self.touch(channel));
    }

    /// Forgets a channel that nobody has come back to.
    fn close_if_left(&self, channel: &Arc<Channel>) {
        let mut channels = self.channels.lock();
        let Some(since) = channel.idle_since() else { return self.schedule(channel) };
        if since.elapsed() < LINGER {
            return self.queue.put(channel, since + LINGER);
        }
        channels.open.remove(&(channel.game.number, channel.topic.clone()));
    }
}
