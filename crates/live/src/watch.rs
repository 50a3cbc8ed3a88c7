//! One subscription, seen as documents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::client::Resume;
use super::docs::{Change, Docs, Step};
use super::listener::{Form, Listener};
use super::topics::Viewer;
use super::{Live, TooManyChannels, Topic};
use pipeline::catalog::Game;

/// Changes are gathered this long, unless a subscription says otherwise.
pub const INTERVAL_MS: u32 = 250;
/// The longest that changes may be gathered.
pub const INTERVAL_MS_MAX: u32 = 3_600_000;

/// How a subscription wants to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// It is told at most this often, in milliseconds; 0: at once.
    pub min_interval_ms: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { min_interval_ms: INTERVAL_MS }
    }
}

impl Options {
    pub(super) fn interval(self) -> Duration {
        Duration::from_millis(self.min_interval_ms.min(INTERVAL_MS_MAX).into())
    }
}

/// What a subscription is told.
#[derive(Clone, Debug)]
pub struct Told {
    /// The number of the state to which the step leads: where to resume.
    pub offset: u64,
    /// What changed.
    pub step: Arc<Step>,
}

/// One subscription. It holds the state that it was last told and nothing else, so a slow one costs no more than others.
pub struct Watch {
    listener: Listener,
    viewer: Option<Viewer>,
    /// `None`: nothing was told yet.
    known: Option<Arc<Docs>>,
    /// What changed while it was away.
    missed: Option<Arc<Step>>,
    is_resumed: bool,
    /// The number of the state that it was told last; 0: none.
    told: u64,
    /// The number of the newest change that was looked at.
    seen: u64,
    told_at: Option<Instant>,
}

impl Watch {
    /// Watches a topic of a game, from `resume` on if that is still known. `bell` is rung when there may be something to
    /// take; several watches of a connection share one.
    pub fn open(
        live: &Arc<Live>,
        game: &Arc<Game>,
        topic: Topic,
        options: Options,
        resume: Option<&Resume>,
        bell: &Arc<Notify>,
    ) -> Result<Watch, TooManyChannels> {
        let (topic, viewer) = topic.shared(game);
        let listener = live.join(game, topic, bell, options.interval(), Form::Documents)?;
        // A viewer does not know what its earlier connection was told.
        let is_known = |resume: &&Resume| resume.epoch == live.epoch() && resume.number > 0;
        let resume = resume.filter(|resume| viewer.is_none() && is_known(resume));
        let resumed = resume.and_then(|resume| listener.channel.resume(resume.number));
        let is_resumed = resumed.is_some();
        let told = resume.filter(|_| is_resumed).map_or(0, |resume| resume.number);
        let (known, missed) = resumed.unzip();
        Ok(Watch { listener, viewer, known, missed, is_resumed, told, seen: 0, told_at: None })
    }

    /// Whether `resume` was taken up: only what changed since then is told.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// The number of the state that was told last: where to resume. 0: nothing was told.
    pub fn offset(&self) -> u64 {
        self.told
    }

    /// Everything since the last call, if something is new and it is time. The first time: everything there is, or
    /// everything since `resume`.
    pub fn take(&mut self) -> Option<Told> {
        if self.due()? > Instant::now() {
            return None;
        }
        self.listener.listen();
        self.seen = self.listener.channel.newest();
        let step = self.step();
        self.told = self.known.as_ref().map_or(0, |known| known.number);
        self.told_at = step.as_ref().map(|_| Instant::now()).or(self.told_at);
        step.map(|step| Told { offset: self.told, step })
    }

    /// Everything that was decided by now, whether or not it is time: for whoever decided it and waits for the effect.
    pub fn take_now(&mut self) -> Option<Told> {
        self.listener.channel.advance(self.listener.live());
        self.told_at = None;
        self.take()
    }

    /// From now on it is told this often, if that is more often than before.
    pub fn hasten(&mut self, options: Options) -> Result<(), TooManyChannels> {
        if options.interval() < self.listener.interval() {
            self.listener = self.listener.again(options.interval())?;
        }
        Ok(())
    }

    /// When what is new may be told; `None`: nothing is new.
    pub fn due(&self) -> Option<Instant> {
        if self.known.is_none() || self.missed.is_some() {
            return Some(Instant::now());
        }
        let is_new = self.listener.channel.newest() > self.seen;
        let interval = self.listener.interval();
        is_new.then(|| self.told_at.map_or_else(Instant::now, |told_at| told_at + interval))
    }

    /// Everything that was told gone.
    pub fn gone(&self) -> Vec<Change> {
        self.known.as_ref().map(|known| known.gone()).unwrap_or_default()
    }

    /// From the known state to the newest, after what was missed. `None`: there is no difference.
    fn step(&mut self) -> Option<Arc<Step>> {
        let (missed, docs) = (self.missed.take(), self.docs());
        let Some(known) = self.known.replace(Arc::clone(&docs)) else { return Some(docs.whole()) };
        let since = self.since(&known, &docs);
        match (missed, since) {
            (Some(missed), Some(since)) => {
                let changes = missed.changes.iter().chain(&since.changes).cloned().collect();
                Some(Arc::new(Step::new(changes)))
            }
            (missed, since) => missed.or(since),
        }
    }

    fn since(&self, known: &Docs, docs: &Docs) -> Option<Arc<Step>> {
        if known.number == docs.number {
            return None;
        }
        if docs.before.is_some_and(|before| before != known.number) {
            self.listener.channel.merged();
        }
        let step = docs.since(known);
        (!step.changes.is_empty()).then_some(step)
    }

    /// The newest state.
    fn docs(&self) -> Arc<Docs> {
        let channel = &self.listener.channel;
        match &self.viewer {
            Some(viewer) => {
                let (liveops, now_ms) = (&self.listener.live().views.liveops, self.listener.live().now_ms());
                Arc::new(viewer.documents(liveops, now_ms, channel.newest()))
            }
            None => channel.docs(),
        }
    }
}
