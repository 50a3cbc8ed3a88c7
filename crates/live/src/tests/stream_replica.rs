//! A client of server-sent events that keeps the state it receives.

use std::sync::Arc;

use serde_json::Value;

use super::world::World;
use crate::{DeliveryOptions, ResumePoint, SseStream, Topic};

/// Events that a client keeps.
const EVENTS_MAX: usize = 50;

/// One stream and the state of its client.
#[derive(Default)]
pub(super) struct StreamReplica {
    /// `None`: disconnected.
    stream: Option<SseStream>,
    /// The state of each subscription, by its number.
    states: Vec<Value>,
    last_event_id: String,
}

impl StreamReplica {
    pub(super) fn disconnect(&mut self) {
        self.stream = None;
    }

    /// Connects, and resumes if there was a connection before.
    pub(super) fn connect(&mut self, world: &World, topic: &Topic) {
        self.connect_to(world, std::slice::from_ref(topic));
    }

    /// Connects to several topics, and resumes if there was a connection before.
    pub(super) fn connect_to(&mut self, world: &World, topics: &[Topic]) {
        let resume = ResumePoint::parse(&self.last_event_id);
        self.states.resize(topics.len(), Value::Null);
        let topics = topics.iter().enumerate().map(|(number, topic)| (number.to_string(), topic.clone()));
        let (options, topics) = (DeliveryOptions { min_interval_ms: 0 }, topics.collect());
        let stream = SseStream::open(Arc::clone(&world.live), &world.game, topics, options, resume.as_ref());
        self.stream = Some(stream.expect("there are few channels"));
    }

    pub(super) fn receive(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let text = String::from_utf8(stream.next_events()).expect("it is UTF-8");
        for event in text.split_terminator("\n\n") {
            let find = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let field = |name: &str| find(name).expect("a field");
            if let Some(id) = find("id: ") {
                self.last_event_id = id.to_owned();
            }
            let data: Value = serde_json::from_str(field("data: ")).expect("it is JSON");
            let subscription = data["sub"].as_str().and_then(|name| name.parse().ok());
            let state: &mut Value = &mut self.states[subscription.unwrap_or(0)];
            match field("event: ") {
                "change" => apply(state, data),
                _ => *state = data,
            }
        }
    }

    /// Returns the state without the moment of its computation, and without the players by minute, which are sent only
    /// once a minute.
    pub(super) fn read(&self) -> Value {
        self.read_subscription(0)
    }

    pub(super) fn read_subscription(&self, number: usize) -> Value {
        let mut state = self.states.get(number).cloned().unwrap_or_default();
        let fields = state.as_object_mut().into_iter();
        fields.for_each(|fields| fields.retain(|name, _| !matches!(name.as_str(), "as_of" | "minutes")));
        state
    }
}

fn apply(state: &mut Value, mut change: Value) {
    if let Some(points) = change.get_mut("points").map(Value::take) {
        let totals = change["totals"].as_array().expect("a list");
        apply_points(state, points.as_array().expect("a list"), totals);
    } else if let Some(added) = change.get_mut("added").map(Value::take) {
        let shown = state["events"].as_array().into_iter().flatten();
        let all = added.as_array().expect("a list").iter().chain(shown);
        state["events"] = all.take(EVENTS_MAX).cloned().collect();
    } else if change.get("topic").is_some() {
        *state = change;
    } else {
        let fields = change.as_object_mut().map(std::mem::take).expect("an object");
        fields.into_iter().for_each(|(name, value)| state[name] = value);
    }
}

fn apply_points(state: &mut Value, points: &[Value], totals: &[Value]) {
    let times = state["times"].as_array().expect("a list").clone();
    let all = state["series"].as_array_mut().expect("a list");
    for point in points {
        let bucket = times.iter().position(|time| *time == point["time"]).expect("it is in the window");
        series(all, point)["values"][bucket] = point["value"].clone();
    }
    for total in totals {
        series(all, total)["total"] = total["total"].clone();
    }
}

fn series<'s>(all: &'s mut [Value], key: &Value) -> &'s mut Value {
    let same = |series: &&mut Value| series["key"] == key["key"] && series.get("name") == key.get("name");
    all.iter_mut().find(same).expect("the result has the series")
}
