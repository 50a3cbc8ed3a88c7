//! Watching: what can be read can be watched.
//!
//! Equal subscriptions share one *channel*: one computation, one encoded message. A channel is computed again only when
//! something it reads was touched, at most once per tick. Each channel keeps its last changes, so that a client that was
//! away goes on where it was; one that is too far behind gets the whole state instead of a growing queue.

pub mod inspector;
pub mod meter;

mod channel;
mod client;
mod pages;
mod topic;
mod vars;

pub use channel::Message;
pub use client::{Client, Resume};
pub use pages::Page;
pub use topic::Topic;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use liveops::Touched;
use model::deltas::Deltas;
use parking_lot::{Condvar, Mutex};

use crate::catalog::Game;
use crate::views::Views;

use channel::Channel;

/// Changes are gathered this long.
const TICK: Duration = Duration::from_millis(250);
/// A channel without clients is kept so many ticks, for those who come back.
const LINGER_TICKS: u32 = 120;
/// Channels of all games together.
const CHANNELS_MAX: usize = 10_000;

/// All channels, and the thread that keeps them up to date.
pub struct Live {
    views: Arc<Views>,
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
    pub fn start(views: Arc<Views>, epoch: String) -> std::io::Result<Arc<Live>> {
        let live = Arc::new(Live {
            views,
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
        let running = Arc::downgrade(&live);
        std::thread::Builder::new().name("live".into()).spawn(move || tick(&running))?;
        Ok(live)
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.channels.lock().stopped = true;
        self.bell.notify_all();
    }

    /// Joins a channel, opening it if nobody watches the same.
    pub(crate) fn channel(&self, game: &Arc<Game>, topic: Topic) -> Result<Arc<Channel>, TooManyChannels> {
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
        self.bell.notify_all();
        Ok(channel)
    }

    /// Computes a channel now and publishes what changed.
    pub(crate) fn advance(&self, channel: &Channel) {
        let _publishing = self.publishing.lock();
        let number = self.published.load(Ordering::Acquire) + 1;
        if channel.advance(&self.views, number) {
            self.published.store(number, Ordering::Release);
            channel.notify();
        }
    }

    pub(crate) fn views(&self) -> &Views {
        &self.views
    }

    /// Every change up to this number is in its channel.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    pub(crate) fn epoch(&self) -> &str {
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

    fn wait_for_channels(&self) -> Option<Vec<Arc<Channel>>> {
        let mut channels = self.channels.lock();
        while channels.open.is_empty() && !channels.stopped {
            self.bell.wait(&mut channels);
        }
        channels.open.retain(|_, channel| channel.linger(LINGER_TICKS));
        (!channels.stopped).then(|| channels.open.values().cloned().collect())
    }
}

fn tick(live: &Weak<Live>) {
    while let Some(live) = live.upgrade() {
        let Some(channels) = live.wait_for_channels() else { return };
        for channel in &channels {
            live.advance(channel);
        }
        drop((channels, live));
        std::thread::sleep(TICK);
    }
}
