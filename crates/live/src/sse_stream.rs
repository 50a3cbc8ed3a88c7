//! One stream of server-sent events with its subscriptions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline::catalog::Game;
use tokio::sync::Notify;

use crate::channel::Message;
use crate::delivery::{DeliveryForm, DeliveryOptions};
use crate::resume_point::ResumePoint;
use crate::subscribers::Subscriber;
use crate::topics::PersonalVars;
use crate::{Live, TooManyChannels, Topic};

/// A stream of server-sent events. It stores no data, only its position in each channel.
pub struct SseStream {
    live: Arc<Live>,
    notify: Arc<Notify>,
    subscriptions: Vec<StreamSubscription>,
    interval: Duration,
    delivered_at: Option<Instant>,
    /// Set while a full state that has to be sent is being computed.
    retry_at: Option<Instant>,
}

/// A full state that is being computed is looked for again after this time.
const RETRY: Duration = Duration::from_millis(20);

struct StreamSubscription {
    name: String,
    subscriber: Subscriber,
    /// `Some` if each subscriber gets values of its own.
    personal: Option<PersonalVars>,
    /// The number of the last change that was delivered.
    after: u64,
    /// The first message is the full state, as an event of this name.
    full_state_event: Option<&'static str>,
}

impl SseStream {
    /// Subscribes to several topics, each under a name, and resumes from `resume` where the changes since then are still
    /// kept.
    pub fn open(
        live: Arc<Live>,
        game: &Arc<Game>,
        topics: Vec<(String, Topic)>,
        options: DeliveryOptions,
        resume: Option<&ResumePoint>,
    ) -> Result<SseStream, TooManyChannels> {
        let notify = Arc::new(Notify::new());
        let mut subscriptions = Vec::with_capacity(topics.len());
        for (name, topic) in topics {
            let (topic, personal) = topic.into_shared(game);
            let subscriber =
                live.subscribe(game, topic, &notify, options.interval(), DeliveryForm::Messages)?;
            // Personal values are not kept between connections.
            let resumed = resume.filter(|resume| {
                personal.is_none()
                    && resume.epoch == live.epoch()
                    && subscriber.channel.has_messages_since(resume.number)
            });
            let full_state_event = match (resume, resumed) {
                (_, Some(_)) => None,
                (Some(_), None) => Some("reset"),
                (None, None) => Some("snapshot"),
            };
            let after = resumed.map_or(0, |resume| resume.number);
            subscriptions.push(StreamSubscription { name, subscriber, personal, after, full_state_event });
        }
        let interval = options.interval();
        Ok(SseStream { live, notify, subscriptions, interval, delivered_at: None, retry_at: None })
    }

    /// Returns new changes as server-sent events. Empty if nothing changed or the interval has not passed.
    pub fn next_events(&mut self) -> Vec<u8> {
        if self.due().is_none_or(|due| due > Instant::now()) {
            return Vec::new();
        }
        self.delivered_at = Some(Instant::now());
        self.subscriptions.iter().for_each(|subscription| subscription.subscriber.rearm());
        let until = self.live.last_published();
        let mut messages: Vec<(usize, Message)> = Vec::new();
        self.retry_at = None;
        for (index, subscription) in self.subscriptions.iter_mut().enumerate() {
            let mut own = Vec::new();
            if !subscription.read(&self.live, until, &mut own) {
                self.retry_at = Some(Instant::now() + RETRY);
            }
            messages.extend(own.into_iter().map(|message| (index, message)));
        }
        messages.sort_by_key(|(_, message)| message.number);
        let mut text = Vec::new();
        for (index, message) in messages {
            self.write(&mut text, &self.subscriptions[index].name, &message);
        }
        text
    }

    /// Returns when [`SseStream::next_events`] may return changes.
    pub async fn wait(&self) {
        match self.due() {
            Some(due) => tokio::time::sleep_until(due.into()).await,
            None => self.notify.notified().await,
        }
    }

    /// Returns when changes may be delivered; `None` if there are none. All subscriptions of a stream are delivered
    /// together, so the number of the newest change is the position in all of them.
    fn due(&self) -> Option<Instant> {
        let is_new = self.subscriptions.iter().any(StreamSubscription::is_new);
        let due = || self.delivered_at.map_or_else(Instant::now, |delivered_at| delivered_at + self.interval);
        is_new.then(|| self.retry_at.unwrap_or_else(due))
    }

    fn write(&self, text: &mut Vec<u8>, name: &str, message: &Message) {
        text.extend_from_slice(format!("event: {}\n", message.name).as_bytes());
        // A client resumes all subscriptions from the last number. While one of them waits for its full state, a number
        // would promise that the client has it.
        if self.retry_at.is_none() {
            text.extend_from_slice(format!("id: {}.{}\n", self.live.epoch(), message.number).as_bytes());
        }
        text.extend_from_slice(format!("data: {{\"sub\":\"{name}\",").as_bytes());
        text.extend_from_slice(&message.fields);
        text.extend_from_slice(b"}\n\n");
    }
}

impl StreamSubscription {
    fn is_new(&self) -> bool {
        self.full_state_event.is_some() || self.subscriber.channel.newest() > self.after
    }

    /// Reads the messages to send. Returns false if they need a full state that is being computed.
    fn read(&mut self, live: &Live, until: u64, into: &mut Vec<Message>) -> bool {
        let Some(after) = self.read_shared(until, into) else { return false };
        self.after = after;
        if let Some(personal) = &mut self.personal {
            personal.personalize(&live.views, live.now_ms(), into);
        }
        true
    }

    fn read_shared(&mut self, until: u64, into: &mut Vec<Message>) -> Option<u64> {
        let channel = &self.subscriber.channel;
        if let Some(name) = self.full_state_event {
            let (fields, newest) = channel.full_state()?;
            self.full_state_event = None;
            into.push(Message { number: until, name, fields });
            return Some(newest.max(until));
        }
        let after = channel.read_messages(self.after, until, into)?;
        if into.len() > 1 {
            channel.count_merged();
        }
        Some(after)
    }
}
