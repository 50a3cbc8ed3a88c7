//! Watching: what can be read can be watched.
//!
//! Equal subscriptions share one *channel*: one computation, one encoded message. A channel is computed again only when
//! something it reads was touched, at most once per tick. What it computed is told as messages (server-sent events) and,
//! if somebody wants that, as documents. Each channel keeps its last changes, so that a client that was away goes on
//! where it was; one that is too far behind gets the whole state instead of a growing queue.

pub mod docs;
pub mod inspector;
pub mod meter;

mod channel;
mod client;
#[cfg(test)]
mod copy;
mod history;
mod listener;
#[cfg(test)]
mod tests;
mod topic;
mod topics;
mod watch;

pub use channel::Message;
pub use client::{Client, Resume};
pub use topic::Topic;
pub use topics::Page;
pub use watch::{INTERVAL_MS, INTERVAL_MS_MAX, Options, Told, Watch};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use liveops::Touched;
use model::deltas::Deltas;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::catalog::Game;
use crate::flows::Flows;
use crate::time::now_ms;
use crate::views::Views;

use channel::{Channel, LINGER};
use listener::{Form, Listener};

/// Changes are gathered this long.
const TICK: Duration = Duration::from_millis(250);
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
    /// Rung when the first channel appears, or at the end.
    bell: Condvar,
}

#[derive(Default)]
struct Channels {
    open: HashMap<(u32, Topic), Arc<Channel>>,
    stopped: bool,
}

/// There are as many channels as there may be.
#[derive(Debug, thiserror::Error)]
#[error("there are {CHANNELS_MAX} different subscriptions already")]
pub struct TooManyChannels;

impl Live {
    /// Starts the thread that computes. `epoch` differs from run to run.
    pub fn start(views: Arc<Views>, flows: Arc<Flows>, epoch: String) -> std::io::Result<Arc<Live>> {
        let live = Live::new(views, flows, epoch, Box::new(now_ms));
        let running = Arc::downgrade(&live);
        std::thread::Builder::new().name("live".into()).spawn(move || tick(&running))?;
        Ok(live)
    }

    /// Follows the views; whoever calls this computes.
    fn new(views: Arc<Views>, flows: Arc<Flows>, epoch: String, clock: Clock) -> Arc<Live> {
        let live = Arc::new(Live {
            views,
            flows,
            clock,
            epoch,
            published: AtomicU64::new(0),
            publishing: Mutex::default(),
            channels: Mutex::default(),
            bell: Condvar::new(),
        });
        let touched = Arc::downgrade(&live);
        live.views.on_applied(move |deltas| {
            if let Some(live) = touched.upgrade() {
                live.touched(deltas);
            }
        });
        let decided = Arc::downgrade(&live);
        live.views.on_decided(move |game, touched| {
            if let Some(live) = decided.upgrade() {
                live.decided(game, touched);
            }
        });
        live
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.channels.lock().stopped = true;
        self.bell.notify_all();
    }

    /// Listens to a channel, opening it if nobody watches the same. What it knows then is as of now.
    fn join(
        &self,
        game: &Arc<Game>,
        topic: Topic,
        bell: &Arc<Notify>,
        interval: Duration,
        form: Form,
    ) -> Result<Listener, TooManyChannels> {
        let listener = Listener::join(self.channel(game, topic)?, bell, interval, form);
        self.bell.notify_all();
        listener.channel.advance(self);
        Ok(listener)
    }

    fn channel(&self, game: &Arc<Game>, topic: Topic) -> Result<Arc<Channel>, TooManyChannels> {
        let mut channels = self.channels.lock();
        let key = (game.number, topic);
        if let Some(channel) = channels.open.get(&key) {
            return Ok(Arc::clone(channel));
        }
        if channels.open.len() >= CHANNELS_MAX {
            return Err(TooManyChannels);
        }
        let opened_at = self.published.load(Ordering::Acquire);
        let channel = Arc::new(Channel::new(Arc::clone(game), key.1.clone(), opened_at));
        channels.open.insert(key, Arc::clone(&channel));
        Ok(channel)
    }

    /// Lets a change be published under the next number.
    fn publish(&self, put: impl FnOnce(u64)) {
        let _publishing = self.publishing.lock();
        let number = self.published.load(Ordering::Acquire) + 1;
        put(number);
        self.published.store(number, Ordering::Release);
    }

    fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Every change up to this number is in its channel.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// Distinguishes this run of the server from the one before.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// How many channels are open.
    pub fn channels(&self) -> usize {
        self.channels.lock().open.len()
    }

    fn touched(&self, deltas: &Deltas) {
        let channels = self.channels.lock();
        if channels.open.is_empty() {
            return;
        }
        for row in deltas.rows().filter(|row| row.cut == model::series::Cut::Total) {
            let of_game = channels.open.values().filter(|channel| channel.game.number == row.game);
            of_game.for_each(|channel| channel.touched(row.metric));
        }
    }

    fn decided(&self, game: u32, touched: &[Touched]) {
        let channels = self.channels.lock();
        let of_game = channels.open.values().filter(|channel| channel.game.number == game);
        of_game.for_each(|channel| channel.decided(&self.views.liveops, touched));
    }

    /// Returns when there is a channel. False: there is nothing more to do.
    fn wait_for_channels(&self) -> bool {
        let mut channels = self.channels.lock();
        while channels.open.is_empty() && !channels.stopped {
            self.bell.wait(&mut channels);
        }
        !channels.stopped
    }

    /// Computes what is watched.
    fn work(&self) {
        let mut channels = self.channels.lock();
        channels.open.retain(|_, channel| channel.idle_since().is_none_or(|since| since.elapsed() < LINGER));
        let watched = channels.open.values().filter(|channel| channel.idle_since().is_none());
        let watched: Vec<Arc<Channel>> = watched.cloned().collect();
        drop(channels);
        watched.iter().for_each(|channel| channel.advance(self));
    }
}

fn tick(live: &Weak<Live>) {
    while let Some(live) = live.upgrade() {
        if !live.wait_for_channels() {
            return;
        }
        live.work();
        drop(live);
        std::thread::sleep(TICK);
    }
}
