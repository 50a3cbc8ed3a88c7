//! Live subscriptions: everything that can be queried can be subscribed to.
//!
//! Equal subscriptions share one *channel*: one computation and one encoded message. A channel is computed again only when
//! data it reads has changed or its time has come, and never more often than a subscriber wants. Results are published as
//! messages (server-sent events) and, if a subscriber wants them, as documents (DDP). Each channel keeps its latest changes
//! so that a client can resume after a disconnect; a client that missed more than that gets the full state instead of a
//! growing queue.

pub mod documents;

mod channel;
mod cost;
mod delivery;
mod dirty_minutes;
mod document_builder;
mod document_subscription;
mod history;
mod interests;
#[cfg(test)]
mod replica;
mod resume_point;
mod schedule;
mod source;
mod sse_stream;
mod subscribers;
mod subscription_quota;
mod subscription_stats;
#[cfg(test)]
mod tests;
mod topic;
mod topics;

pub use delivery::{Delivery, DeliveryOptions, MIN_INTERVAL_MS_DEFAULT, MIN_INTERVAL_MS_MAX};
pub use document_subscription::DocumentSubscription;
pub use resume_point::ResumePoint;
pub use sse_stream::SseStream;
pub use subscription_quota::{SubscriptionPermit, SubscriptionQuotaExceeded};
pub use topic::Topic;
pub use topics::PageTopic;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use liveops::Touched;
use model::deltas::Deltas;
use model::limits::CLOCK_BACK_MS;
use model::query::{QueryControl, Unbounded};
use parking_lot::{Mutex, RwLock};
use pipeline::catalog::Game;
use pipeline::flows::Flows;
use pipeline::query::pool::QueryPool;
use pipeline::time::now_ms;
use pipeline::views::Views;
use tokio::sync::Notify;

use channel::{Channel, LINGER};
use delivery::DeliveryForm;
use interests::Interests;
use schedule::{DueWork, PostedActivity, Schedule};
use subscribers::Subscriber;
use subscription_quota::SubscriptionQuota;

/// Channels of all games together.
const CHANNELS_MAX: usize = 10_000;
/// A channel for which no thread is free is computed after this time, if one is free then.
const DISPATCH_RETRY: Duration = Duration::from_millis(250);

/// A channel whose computation has panicked is computed again after this time.
const PANIC_RETRY: Duration = Duration::from_secs(5);

/// Returns the time in milliseconds since 1970.
type Clock = Box<dyn Fn() -> i64 + Send + Sync>;

/// All channels, and the thread that computes them.
pub struct Live {
    views: Arc<Views>,
    flows: Arc<Flows>,
    clock: Clock,
    /// Identifies this run of the server.
    epoch: String,
    /// The number of the last published change. One change is published at a time.
    published: AtomicU64,
    publishing: Mutex<()>,
    channels: Mutex<ChannelRegistry>,
    /// The interests of channels that have subscribers.
    interests: RwLock<Interests>,
    schedule: Schedule,
    quota: Arc<SubscriptionQuota>,
    /// Runs queries that may take long, and bounds all of them.
    queries: Option<Arc<QueryPool>>,
}

#[derive(Default)]
struct ChannelRegistry {
    open: HashMap<(u32, Topic), Arc<Channel>>,
    /// The number of the newest channel.
    newest: u64,
}

/// The limit of different subscriptions is reached.
#[derive(Debug, thiserror::Error)]
#[error("the server already has {CHANNELS_MAX} different subscriptions, the maximum")]
pub struct TooManyChannels;

/// A channel that another thread computes. Dropped when it was computed, when that panicked, or when no thread was free.
struct Dispatched {
    live: Arc<Live>,
    channel: Arc<Channel>,
    has_begun: bool,
}

impl Drop for Dispatched {
    fn drop(&mut self) {
        let Dispatched { live, channel, has_begun } = self;
        channel.end_dispatch();
        if thread::panicking() {
            live.schedule.insert(channel, Instant::now() + PANIC_RETRY);
        } else if *has_begun {
            live.schedule_next(channel);
        }
    }
}

impl Live {
    /// Starts the thread that computes channels. `epoch` must differ from run to run. One credential may have at most
    /// `subscriptions_per_credential_max` subscriptions.
    pub fn start(
        views: Arc<Views>,
        flows: Arc<Flows>,
        epoch: String,
        subscriptions_per_credential_max: usize,
        queries: Arc<QueryPool>,
    ) -> io::Result<Arc<Live>> {
        let clock = Box::new(now_ms);
        let live = Live::new(views, flows, epoch, subscriptions_per_credential_max, clock, Some(queries));
        let running = Arc::clone(&live);
        thread::Builder::new().name("live".into()).spawn(move || running.run())?;
        Ok(live)
    }

    /// Subscribes to changes of the views. The caller runs what becomes due.
    fn new(
        views: Arc<Views>,
        flows: Arc<Flows>,
        epoch: String,
        subscriptions_per_credential_max: usize,
        clock: Clock,
        queries: Option<Arc<QueryPool>>,
    ) -> Arc<Live> {
        let live = Arc::new(Live {
            views,
            flows,
            clock,
            epoch,
            published: AtomicU64::new(0),
            publishing: Mutex::default(),
            channels: Mutex::default(),
            interests: RwLock::default(),
            schedule: Schedule::default(),
            quota: SubscriptionQuota::new(subscriptions_per_credential_max),
            queries,
        });
        let (for_applied, for_decided) = (Arc::downgrade(&live), Arc::downgrade(&live));
        let with_live =
            |live: &Weak<Live>, then: &dyn Fn(&Live)| live.upgrade().as_deref().into_iter().for_each(then);
        live.views.on_applied(move |deltas| with_live(&for_applied, &|live| live.on_applied(deltas)));
        live.views.on_command(move |game, touched| {
            with_live(&for_decided, &|live| live.on_decided(game, touched));
        });
        live
    }

    /// Stops the thread.
    pub fn stop(&self) {
        self.schedule.stop();
    }

    /// Returns the identifier of this run of the server.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Returns the number of open channels.
    pub fn channel_count(&self) -> usize {
        self.channels.lock().open.len()
    }

    /// Reserves subscriptions for a credential. `holder` identifies the credential.
    pub fn admit(&self, holder: u64, count: usize) -> Result<SubscriptionPermit, SubscriptionQuotaExceeded> {
        self.quota.admit(holder, count)
    }

    /// Returns true if subscribing to the topic may compute a query for long. A thread that serves requests must then
    /// leave it to one that runs queries.
    pub fn is_slow_to_open(&self, game: &Game, topic: &Topic) -> bool {
        if !matches!(topic, Topic::Query(_)) {
            return false;
        }
        let (topic, _) = topic.clone().into_shared(game);
        self.channels.lock().open.get(&(game.number, topic)).is_none_or(|channel| channel.is_slow())
    }

    /// Returns the bounds of a computation that starts now.
    fn query_control(&self) -> Box<dyn QueryControl> {
        match &self.queries {
            Some(queries) => Box::new(queries.control()),
            None => Box::new(Unbounded),
        }
    }

    /// Adds a subscriber to the channel of a topic, and opens the channel if there is none. `notify` is notified of
    /// changes. The channel's state is current when this returns.
    fn subscribe(
        self: &Arc<Live>,
        game: &Arc<Game>,
        topic: Topic,
        notify: &Arc<Notify>,
        interval: Duration,
        form: DeliveryForm,
    ) -> Result<Subscriber, TooManyChannels> {
        let mut channels = self.channels.lock();
        let channel = self.get_or_open_channel(&mut channels, game, topic)?;
        let was_idle = channel.idle_since().is_some();
        let subscriber = Subscriber::register(self, &channel, notify, interval, form);
        if was_idle {
            // An idle channel has no interests, so it missed changes.
            channel.mark_dirty(None);
            self.interests.write().add(&channel);
        }
        if interval.is_zero() {
            self.views.urgent_watchers.add(game.number, channel.interests());
        }
        drop(channels);
        // A new subscriber must see everything acknowledged before, even if the other subscribers get it a moment later.
        // An expensive channel is not recomputed for it before its pause is over.
        let now = Instant::now();
        if channel.is_dirty() && (was_idle || !channel.is_expensive() || channel.throttled_until(now) <= now)
        {
            channel.refresh(self);
        }
        self.schedule_next(&channel);
        Ok(subscriber)
    }

    fn get_or_open_channel(
        &self,
        channels: &mut ChannelRegistry,
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
        channels.newest += 1;
        let (number, topic) = (channels.newest, key.1.clone());
        let channel = Channel::new(number, Arc::clone(game), topic, self.last_published(), self.now_ms());
        let channel = Arc::new(channel);
        channels.open.insert(key, Arc::clone(&channel));
        Ok(channel)
    }

    /// Removes a subscriber by calling `leave`. A channel without subscribers is closed later.
    fn unsubscribe(&self, channel: &Arc<Channel>, interval: Duration, leave: impl FnOnce()) {
        let _channels = self.channels.lock();
        leave();
        if interval.is_zero() {
            self.views.urgent_watchers.remove(channel.game.number, channel.interests());
        }
        if channel.idle_since().is_some() {
            self.interests.write().remove(channel);
            self.schedule.insert(channel, Instant::now() + LINGER);
        }
    }

    /// Publishes a change under the next number, by calling `put` with it.
    fn publish(&self, put: impl FnOnce(u64)) {
        let _publishing = self.publishing.lock();
        let number = self.last_published() + 1;
        put(number);
        self.published.store(number, Ordering::Release);
    }

    /// Returns the number of the last published change. Every change up to it is in its channel.
    fn last_published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Marks channels dirty after events were applied. Called by the applier.
    fn on_applied(&self, deltas: &Deltas) {
        let now = Instant::now();
        self.interests.read().for_each_applied(deltas, |channel, minute| {
            if channel.mark_dirty(Some(minute)) {
                self.schedule.insert(channel, channel.earliest_refresh(now));
            }
        });
    }

    /// Marks channels dirty after a command was applied. Called by the applier.
    fn on_decided(&self, game: u32, touched: &[Touched]) {
        let interests = self.interests.read();
        for touched in touched {
            interests.for_each_decided(game, touched, |channel| self.mark_dirty(channel));
            if let Touched::Posted(actor) = touched
                && interests.feeds(game).next().is_some()
            {
                self.schedule.insert_post(game, actor);
            }
        }
    }

    fn mark_dirty(&self, channel: &Arc<Channel>) {
        if channel.mark_dirty(None) {
            self.schedule.insert(channel, channel.earliest_refresh(Instant::now()));
        }
    }

    fn schedule_next(&self, channel: &Arc<Channel>) {
        if let Some(at) = channel.next_refresh(Instant::now(), self.now_ms()) {
            self.schedule.insert(channel, at);
        }
    }

    fn run(self: &Arc<Live>) {
        let mut last_ms = self.now_ms();
        while let Some(due) = self.schedule.wait() {
            let now_ms = self.now_ms();
            if now_ms + CLOCK_BACK_MS < std::mem::replace(&mut last_ms, now_ms) {
                // The clock was ahead: every time for which a channel waits is too late.
                let channels: Vec<_> = self.channels.lock().open.values().cloned().collect();
                channels.iter().for_each(|channel| self.mark_dirty(channel));
            }
            self.run_due(due);
        }
    }

    fn run_due(self: &Arc<Live>, due: DueWork) {
        due.posts.iter().for_each(|post| self.mark_feeds_of_followers(post));
        for channel in &due.channels {
            if channel.idle_since().is_some() {
                self.close_if_idle(channel);
                continue;
            }
            match &self.queries {
                Some(queries) if channel.is_slow() => self.dispatch(queries, channel),
                _ => {
                    channel.refresh(self);
                    self.schedule_next(channel);
                }
            }
        }
    }

    /// Has the channel computed by a thread that runs queries, so that other channels do not wait for it.
    fn dispatch(self: &Arc<Live>, queries: &QueryPool, channel: &Arc<Channel>) {
        let is_dispatched = channel.begin_dispatch() && {
            let (live, channel) = (Arc::clone(self), Arc::clone(channel));
            let mut dispatched = Dispatched { live, channel, has_begun: false };
            queries.try_run(dispatched.channel.game.number, move || {
                dispatched.has_begun = true;
                dispatched.channel.refresh(&dispatched.live);
            })
        };
        if !is_dispatched {
            self.schedule.insert(channel, Instant::now() + DISPATCH_RETRY);
        }
    }

    /// Marks the feeds of an actor's followers dirty.
    fn mark_feeds_of_followers(&self, post: &PostedActivity) {
        let game = self.views.liveops.game(post.game);
        let game = game.read();
        let follows =
            |player: &str| post.actor.as_ref().is_none_or(|actor| game.feed.is_following(player, actor));
        let interests = self.interests.read();
        let feeds = interests.feeds(post.game).filter(|(player, _)| follows(player));
        feeds.flat_map(|(_, channels)| channels).for_each(|channel| self.mark_dirty(channel));
    }

    /// Closes a channel that has had no subscribers for [`LINGER`].
    fn close_if_idle(&self, channel: &Arc<Channel>) {
        let mut channels = self.channels.lock();
        let Some(since) = channel.idle_since() else { return self.schedule_next(channel) };
        if since.elapsed() < LINGER {
            return self.schedule.insert(channel, since + LINGER);
        }
        channels.open.remove(&(channel.game.number, channel.topic.clone()));
    }
}
