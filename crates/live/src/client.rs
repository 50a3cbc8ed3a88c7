//! One stream of server-sent events and what it watches.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::channel::Message;
use super::listener::{Form, Listener};
use super::topics::Viewer;
use super::watch::Options;
use super::{Live, TooManyChannels, Topic};
use pipeline::catalog::Game;

/// Where a client was: the epoch of the server's run, and the number of the last change it was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    /// As [`Live::epoch`] was.
    pub epoch: String,
    /// The number of the change.
    pub number: u64,
}

impl Resume {
    /// Reads `<epoch>.<number>`.
    pub fn parse(id: &str) -> Option<Resume> {
        let (epoch, number) = id.rsplit_once('.')?;
        Some(Resume { epoch: epoch.to_owned(), number: number.parse().ok()? })
    }
}

/// A client holds no data, only how far it is in each channel.
pub struct Client {
    live: Arc<Live>,
    notify: Arc<Notify>,
    watched: Vec<Watched>,
    interval: Duration,
    told_at: Option<Instant>,
}

struct Watched {
    name: String,
    listener: Listener,
    viewer: Option<Viewer>,
    after: u64,
    /// The first message is the whole state under this name.
    whole: Option<&'static str>,
}

impl Client {
    /// Watches all of these, each under its name, from `resume` on if that is still known.
    pub fn new(
        live: Arc<Live>,
        game: &Arc<Game>,
        topics: Vec<(String, Topic)>,
        options: Options,
        resume: Option<&Resume>,
    ) -> Result<Client, TooManyChannels> {
        let notify = Arc::new(Notify::new());
        let mut watched = Vec::with_capacity(topics.len());
        for (name, topic) in topics {
            let (topic, viewer) = topic.shared(game);
            let listener = live.join(game, topic, &notify, options.interval(), Form::Messages)?;
            // A viewer does not know what its earlier connection was told.
            let resumed = resume.filter(|resume| {
                viewer.is_none() && resume.epoch == live.epoch() && listener.channel.remembers(resume.number)
            });
            let whole = match (resume, resumed) {
                (_, Some(_)) => None,
                (Some(_), None) => Some("reset"),
                (None, None) => Some("snapshot"),
            };
            let after = resumed.map_or(0, |resume| resume.number);
            watched.push(Watched { name, listener, viewer, after, whole });
        }
        Ok(Client { live, notify, watched, interval: options.interval(), told_at: None })
    }

    /// What is new, as server-sent events; empty when nothing is, or when it is not time for it.
    pub fn take(&mut self) -> Vec<u8> {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return Vec::new();
        }
        self.told_at = Some(Instant::now());
        self.watched.iter().for_each(|watched| watched.listener.listen());
        let until = self.live.published();
        let mut messages: Vec<(usize, Message)> = Vec::new();
        for (index, watched) in self.watched.iter_mut().enumerate() {
            let mut own = Vec::new();
            watched.take(&self.live, until, &mut own);
            messages.extend(own.into_iter().map(|message| (index, message)));
        }
        messages.sort_by_key(|(_, message)| message.number);
        let mut text = Vec::new();
        for (index, message) in messages {
            self.write(&mut text, &self.watched[index].name, &message);
        }
        text
    }

    /// Returns when there may be something new to take.
    pub async fn wait(&self) {
        match self.due() {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => self.notify.notified().await,
        }
    }

    /// When what is new may be told; `None`: nothing is new. All of a stream is told together, so that the number of the
    /// newest change says how far it is in everything.
    fn due(&self) -> Option<Instant> {
        let is_new = self.watched.iter().any(Watched::is_new);
        is_new.then(|| self.told_at.map_or_else(Instant::now, |told_at| told_at + self.interval))
    }

    fn write(&self, text: &mut Vec<u8>, name: &str, message: &Message) {
        let head = format!("event: {}\nid: {}.{}\n", message.name, self.live.epoch(), message.number);
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(format!("data: {{\"sub\":\"{name}\",").as_bytes());
        text.extend_from_slice(&message.fields);
        text.extend_from_slice(b"}\n\n");
    }
}

impl Watched {
    fn is_new(&self) -> bool {
        self.whole.is_some() || self.listener.channel.newest() > self.after
    }

    fn take(&mut self, live: &Live, until: u64, into: &mut Vec<Message>) {
        self.take_shared(until, into);
        if let Some(viewer) = &mut self.viewer {
            viewer.personal(&live.views.liveops, live.now_ms(), into);
        }
    }

    fn take_shared(&mut self, until: u64, into: &mut Vec<Message>) {
        if let Some(name) = self.whole.take() {
            let (fields, newest) = self.listener.channel.whole();
            into.push(Message { number: until, name, fields });
            self.after = newest.max(until);
            return;
        }
        let channel = &self.listener.channel;
        self.after = channel.messages(self.after, until, into);
        if into.len() > 1 {
            channel.merged();
        }
    }
}
