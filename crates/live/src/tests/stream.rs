//! A client of server-sent events that keeps the state it is told.

use std::sync::Arc;

use serde_json::Value;

use super::world::World;
use crate::{Client, Options, Resume, Topic};

/// Events that a client shows.
const EVENTS_MAX: usize = 50;

/// One subscription, streamed.
#[derive(Default)]
pub struct Stream {
    /// `None`: it is away.
    client: Option<Client>,
    /// What it was told comes to.
    state: Value,
    id: String,
}

impl Stream {
    pub fn leave(&mut self) {
        self.client = None;
    }

    /// Begins, or goes on where it was.
    pub fn come(&mut self, world: &World, topic: &Topic) {
        let resume = Resume::parse(&self.id);
        let (options, topics) = (Options { min_interval_ms: 0 }, vec![("s".to_owned(), topic.clone())]);
        let client = Client::new(Arc::clone(&world.live), &world.game, topics, options, resume.as_ref());
        self.client = Some(client.expect("there is room"));
    }

    pub fn take(&mut self) {
        let Some(client) = &mut self.client else { return };
        let text = String::from_utf8(client.take()).expect("it is text");
        for event in text.split_terminator("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).expect("a field");
            self.id = field("id: ").to_owned();
            let data: Value = serde_json::from_str(field("data: ")).expect("it is JSON");
            match field("event: ") {
                "change" => self.change(data),
                _ => self.state = data,
            }
        }
    }

    /// The state without the moment at which it was found, and without the minutes of players, which are told once a
    /// minute.
    pub fn read(&self) -> Value {
        let mut state = self.state.clone();
        let fields = state.as_object_mut().into_iter();
        fields.for_each(|fields| fields.retain(|name, _| !matches!(name.as_str(), "as_of" | "minutes")));
        state
    }

    fn change(&mut self, mut change: Value) {
        if let Some(points) = change.get_mut("points").map(Value::take) {
            self.query(points.as_array().expect("a list"), change["totals"].as_array().expect("a list"));
        } else if let Some(added) = change.get_mut("added").map(Value::take) {
            let shown = self.state["events"].as_array().into_iter().flatten();
            let all = added.as_array().expect("a list").iter().chain(shown);
            self.state["events"] = all.take(EVENTS_MAX).cloned().collect();
        } else if change.get("topic").is_some() {
            self.state = change;
        } else {
            let fields = change.as_object_mut().map(std::mem::take).expect("an object");
            fields.into_iter().for_each(|(name, value)| self.state[name] = value);
        }
    }

    fn query(&mut self, points: &[Value], totals: &[Value]) {
        let times = self.state["times"].as_array().expect("a list").clone();
        let all = self.state["series"].as_array_mut().expect("a list");
        for point in points {
            let bucket = times.iter().position(|time| *time == point["time"]).expect("it is in the window");
            series(all, point)["values"][bucket] = point["value"].clone();
        }
        for total in totals {
            series(all, total)["total"] = total["total"].clone();
        }
    }
}

fn series<'s>(all: &'s mut [Value], named: &Value) -> &'s mut Value {
    let same = |series: &&mut Value| series["key"] == named["key"] && series.get("name") == named.get("name");
    all.iter_mut().find(same).expect("it is a series of the answer")
}
