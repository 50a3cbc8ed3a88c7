//! One connection and what it watches.

use std::sync::Arc;

use tokio::sync::Notify;

use super::channel::{Channel, Message};
use super::vars::Viewer;
use super::{Live, TooManyChannels, Topic};
use crate::catalog::Game;

/// Where a client was: the id of the last event it saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Resume {
    epoch: String,
    number: u64,
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
}

struct Watched {
    name: String,
    channel: Arc<Channel>,
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
        resume: Option<&Resume>,
    ) -> Result<Client, TooManyChannels> {
        let notify = Arc::new(Notify::new());
        let mut watched = Vec::with_capacity(topics.len());
        for (name, topic) in topics {
            let (topic, viewer) = topic.shared(game);
            let channel = live.channel(game, topic)?;
            channel.join(&notify);
            live.advance(&channel);
            // A viewer does not know what its earlier connection was told.
            let resumed = resume.filter(|resume| {
                viewer.is_none() && resume.epoch == live.epoch() && channel.remembers(resume.number)
            });
            let whole = match (resume, resumed) {
                (_, Some(_)) => None,
                (Some(_), None) => Some("reset"),
                (None, None) => Some("snapshot"),
            };
            let after = resumed.map_or(0, |resume| resume.number);
            watched.push(Watched { name, channel, viewer, after, whole });
        }
        Ok(Client { live, notify, watched })
    }

    /// What is new, as server-sent events; empty when nothing is.
    pub fn take(&mut self) -> Vec<u8> {
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

    /// Returns when there may be something new.
    pub async fn wait(&self) {
        self.notify.notified().await;
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
    fn take(&mut self, live: &Live, until: u64, into: &mut Vec<Message>) {
        self.take_shared(live, until, into);
        if let Some(viewer) = &mut self.viewer {
            viewer.personal(&live.views().liveops, into);
        }
    }

    fn take_shared(&mut self, live: &Live, until: u64, into: &mut Vec<Message>) {
        if let Some(name) = self.whole.take() {
            let (fields, newest) = self.channel.snapshot(live.views());
            into.push(Message { number: until, name, fields });
            self.after = newest.max(until);
            return;
        }
        self.after = self.channel.messages(live.views(), self.after, until, into);
    }
}
