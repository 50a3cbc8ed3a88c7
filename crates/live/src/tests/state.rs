//! Whatever happens, and however often somebody is away: who watches has what a new question would be answered.

use liveops::vars::VarsViewer;
use model::Dimension;
use model::query::{CompareWith, Measure, MetricQuery, Query, QueryDimension, Step, WindowLength};
use proptest::prelude::*;
use serde_json::json;

use super::stream::Stream;
use super::world::{Follower, World, game};
use super::{board, feed, minutes_of, score};
use crate::copy::Copy;
use crate::{Page, Resume, Topic};

/// What may happen.
#[derive(Clone, Debug)]
enum Happening {
    /// A batch: events by name, player, country, value and age in minutes.
    Post(Vec<(u8, u8, u8, Option<u8>, u8)>),
    /// A batch of another game.
    Elsewhere,
    Score(u8, u8),
    Variable(u8, u8),
    Say(u8),
    Follow(u8),
    Pass(u16),
    Take(usize),
    Leave(usize),
    Come(usize),
}

const NAMES: [&str; 3] = ["hit", "miss", "win"];
const PLAYERS: [&str; 4] = ["ann", "bo", "cy", "dee"];
const COUNTRIES: [&str; 4] = ["FR", "DE", "TR", ""];

fn any_step() -> impl Strategy<Value = Happening> {
    let age = prop_oneof![6 => 0..3u8, 1 => 0..120u8];
    let event = (0..3u8, 0..4u8, 0..4u8, prop::option::of(0..9u8), age);
    prop_oneof![
        6 => prop::collection::vec(event, 1..5).prop_map(Happening::Post),
        1 => Just(Happening::Elsewhere),
        2 => (0..4u8, 0..20u8).prop_map(|(player, score)| Happening::Score(player, score)),
        1 => (0..3u8, 0..3u8).prop_map(|(name, value)| Happening::Variable(name, value)),
        1 => (0..4u8).prop_map(Happening::Say),
        1 => (0..4u8).prop_map(Happening::Follow),
        2 => prop_oneof![0..5u16, 0..200u16].prop_map(Happening::Pass),
        3 => any::<usize>().prop_map(Happening::Take),
        2 => any::<usize>().prop_map(Happening::Leave),
        2 => any::<usize>().prop_map(Happening::Come),
    ]
}

fn query(metric: &str, measure: Measure, last: &str, step: Step) -> Query {
    let metric = MetricQuery { metric: metric.into(), measure: Some(measure), as_name: None };
    Query { metrics: vec![metric], last: WindowLength::parse(last), step: Some(step), ..Query::default() }
}

fn topics() -> Vec<Topic> {
    let country = || vec![QueryDimension::BuiltIn(Dimension::Country)];
    let queries = [
        query("hit", Measure::Count, "60m", Step::Minute),
        query("events", Measure::Uniques, "3h", Step::Hour),
        query("online", Measure::Count, "10m", Step::Minute),
        Query { by: country(), top: Some(2), ..query("win", Measure::Sum, "2h", Step::Hour) },
        Query {
            by: vec![QueryDimension::Event],
            top: Some(1),
            ..query("events", Measure::Count, "20m", Step::Minute)
        },
        Query { compare: Some(CompareWith::Previous), ..query("miss", Measure::P90, "30m", Step::Minute) },
    ];
    let newest = Page::Board {
        table: "race".into(),
        window: None,
        per_page: 2,
        newest: true,
        filter: Vec::new(),
        code: None,
    };
    let mut topics = vec![Topic::Online, Topic::Events, board(), feed(), minutes_of("hit")];
    topics.push(Topic::Page(Box::new(newest)));
    topics.push(Topic::Vars(Box::new(VarsViewer { country: "FR".into(), ..VarsViewer::default() })));
    topics.extend(queries.map(|query| Topic::Query(Box::new(query))));
    topics
}

/// Somebody who watches a topic in both forms, and may be away.
struct Watcher {
    topic: Topic,
    follower: Option<Follower>,
    left: Option<(Resume, Copy)>,
    stream: Stream,
}

impl Watcher {
    fn new(world: &World, topic: Topic) -> Watcher {
        let mut watcher = Watcher { topic, follower: None, left: None, stream: Stream::default() };
        watcher.come(world);
        watcher
    }

    fn leave(&mut self) {
        self.stream.leave();
        if let Some(follower) = self.follower.take() {
            self.left = Some((follower.resume(), follower.copy));
        }
    }

    fn come(&mut self, world: &World) {
        if self.follower.is_some() {
            return;
        }
        self.stream.come(world, &self.topic);
        let left = self.left.take();
        let mut follower = match &left {
            Some((resume, _)) => world.watch_from(&self.topic, Some(resume)),
            None => world.watch(&self.topic),
        };
        if follower.watch.is_resumed() {
            follower.copy = left.map(|(_, copy)| copy).unwrap_or_default();
        }
        self.follower = Some(follower);
    }

    fn take(&mut self) {
        self.stream.take();
        if let Some(follower) = &mut self.follower {
            follower.take();
        }
    }

    /// What it knows: the documents, without the moment at which they were found, and the state of the stream.
    fn read(&self) -> (Vec<String>, String) {
        let is_ranked = matches!(self.topic, Topic::Page(_));
        let docs = self.follower.as_ref().map(|follower| follower.copy.read(is_ranked)).unwrap_or_default();
        let doc = |(id, text): (_, String)| {
            let fields: Vec<&str> = text.lines().filter(|line| !line.starts_with("as_of=")).collect();
            format!("{id} {}", fields.join(" "))
        };
        (docs.into_iter().map(doc).collect(), self.stream.read().to_string())
    }
}

fn happen(world: &mut World, watchers: &mut [Watcher], happening: Happening) {
    let player = |player: u8| PLAYERS[usize::from(player)];
    match happening {
        Happening::Post(events) => {
            let event = |(name, player, country, value, age): &(u8, u8, u8, Option<u8>, u8)| {
                let [name, player, country] = [*name, *player, *country].map(usize::from);
                (NAMES[name], PLAYERS[player], COUNTRIES[country], value.map(f64::from), i64::from(*age))
            };
            world.post(&events.iter().map(event).collect::<Vec<_>>());
        }
        Happening::Elsewhere => world.post_to(&game(2), &[("hit", "ann", "FR", None, 0)]),
        Happening::Score(by, points) => world.command(score(player(by), points.into())),
        Happening::Variable(name, value) => {
            let definition = json!({ "value": value });
            world.command(json!({"vars": {"put": {"name": format!("v{name}"), "definition": definition}}}));
        }
        Happening::Say(by) => {
            let post = json!({"player": player(by), "kind": "post", "text": "hello"});
            world.command(json!({"feed": {"post": post}}));
        }
        Happening::Follow(other) => {
            world.command(json!({"feed": {"follow": {"player": "ann", "other": player(other)}}}));
        }
        Happening::Pass(seconds) => world.pass(seconds.into()),
        Happening::Take(which) => watchers[which % watchers.len()].take(),
        Happening::Leave(which) => watchers[which % watchers.len()].leave(),
        Happening::Come(which) => watchers[which % watchers.len()].come(world),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn who_watches_has_what_a_new_question_would_be_answered(
        happenings in prop::collection::vec(any_step(), 1..40),
    ) {
        let mut world = World::new();
        let mut watchers: Vec<Watcher> =
            topics().into_iter().map(|topic| Watcher::new(&world, topic)).collect();
        for happening in happenings {
            happen(&mut world, &mut watchers, happening);
        }
        let now = world.fresh();
        for watcher in &mut watchers {
            watcher.come(&world);
            watcher.take();
            let mut fresh = Watcher::new(&now, watcher.topic.clone());
            fresh.take();
            prop_assert_eq!(watcher.read(), fresh.read(), "{:?}", watcher.topic);
        }
    }
}
