//! After any sequence of operations, a subscriber has the same state as a new subscriber.

use liveops::vars::VarsViewer;
use model::Dimension;
use model::query::{CompareWith, Measure, MetricQuery, Query, QueryDimension, Step, WindowLength};
use proptest::prelude::*;
use serde_json::json;

use super::stream_replica::StreamReplica;
use super::world::{TestSubscriber, World, game};
use super::{board, feed, minutes_of, score};
use crate::replica::DocumentReplica;
use crate::{PageTopic, ResumePoint, Topic};

/// An operation of the test.
#[derive(Clone, Debug)]
enum Operation {
    /// Submits events by name, player, country, value and age in minutes.
    Submit(Vec<(u8, u8, u8, Option<u8>, u8)>),
    /// Submits an event of another game.
    SubmitToOtherGame,
    Score(u8, u8),
    PutVariable(u8, u8),
    Post(u8),
    Follow(u8),
    AdvanceClock(u16),
    Receive(usize),
    Disconnect(usize),
    Connect(usize),
}

const NAMES: [&str; 3] = ["hit", "miss", "win"];
const PLAYERS: [&str; 4] = ["ann", "bo", "cy", "dee"];
const COUNTRIES: [&str; 4] = ["FR", "DE", "TR", ""];

fn any_operation() -> impl Strategy<Value = Operation> {
    let age = prop_oneof![6 => 0..3u8, 1 => 0..120u8];
    let event = (0..3u8, 0..4u8, 0..4u8, prop::option::of(0..9u8), age);
    prop_oneof![
        6 => prop::collection::vec(event, 1..5).prop_map(Operation::Submit),
        1 => Just(Operation::SubmitToOtherGame),
        2 => (0..4u8, 0..20u8).prop_map(|(player, score)| Operation::Score(player, score)),
        1 => (0..3u8, 0..3u8).prop_map(|(name, value)| Operation::PutVariable(name, value)),
        1 => (0..4u8).prop_map(Operation::Post),
        1 => (0..4u8).prop_map(Operation::Follow),
        2 => prop_oneof![0..5u16, 0..200u16].prop_map(Operation::AdvanceClock),
        3 => any::<usize>().prop_map(Operation::Receive),
        2 => any::<usize>().prop_map(Operation::Disconnect),
        2 => any::<usize>().prop_map(Operation::Connect),
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
    let newest = PageTopic::Board {
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

/// A client that subscribes to a topic in both forms, and may be disconnected.
struct TestClient {
    topic: Topic,
    /// `None`: disconnected.
    subscriber: Option<TestSubscriber>,
    /// The state at the time of the disconnect.
    left: Option<(ResumePoint, DocumentReplica)>,
    stream: StreamReplica,
}

impl TestClient {
    fn new(world: &World, topic: Topic) -> TestClient {
        let stream = StreamReplica::default();
        let mut client = TestClient { topic, subscriber: None, left: None, stream };
        client.connect(world);
        client
    }

    fn disconnect(&mut self) {
        self.stream.disconnect();
        if let Some(subscriber) = self.subscriber.take() {
            self.left = Some((subscriber.resume_point(), subscriber.replica));
        }
    }

    fn connect(&mut self, world: &World) {
        if self.subscriber.is_some() {
            return;
        }
        self.stream.connect(world, &self.topic);
        let left = self.left.take();
        let mut subscriber = match &left {
            Some((resume, _)) => world.resume(&self.topic, Some(resume)),
            None => world.subscribe(&self.topic),
        };
        if subscriber.subscription.is_resumed() {
            subscriber.replica = left.map(|(_, replica)| replica).unwrap_or_default();
        }
        self.subscriber = Some(subscriber);
    }

    fn receive(&mut self) {
        self.stream.receive();
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.receive();
        }
    }

    /// Returns the documents, without the moment of their computation, and the state of the stream.
    fn read(&self) -> (Vec<String>, String) {
        let is_ranked = matches!(self.topic, Topic::Page(_));
        let documents = self.subscriber.as_ref().map(|subscriber| subscriber.replica.read(is_ranked));
        let document = |(id, text): (_, String)| {
            let fields: Vec<&str> = text.lines().filter(|line| !line.starts_with("as_of=")).collect();
            format!("{id} {}", fields.join(" "))
        };
        (documents.unwrap_or_default().into_iter().map(document).collect(), self.stream.read().to_string())
    }
}

fn run(world: &mut World, clients: &mut [TestClient], operation: Operation) {
    let player = |player: u8| PLAYERS[usize::from(player)];
    match operation {
        Operation::Submit(events) => {
            let event = |(name, player, country, value, age): &(u8, u8, u8, Option<u8>, u8)| {
                let [name, player, country] = [*name, *player, *country].map(usize::from);
                (NAMES[name], PLAYERS[player], COUNTRIES[country], value.map(f64::from), i64::from(*age))
            };
            world.submit(&events.iter().map(event).collect::<Vec<_>>());
        }
        Operation::SubmitToOtherGame => world.submit_to(&game(2), &[("hit", "ann", "FR", None, 0)]),
        Operation::Score(by, points) => world.command(score(player(by), points.into())),
        Operation::PutVariable(name, value) => {
            let definition = json!({ "value": value });
            world.command(json!({"vars": {"put": {"name": format!("v{name}"), "definition": definition}}}));
        }
        Operation::Post(by) => {
            let post = json!({"player": player(by), "kind": "post", "text": "hello"});
            world.command(json!({"feed": {"post": post}}));
        }
        Operation::Follow(other) => {
            world.command(json!({"feed": {"follow": {"player": "ann", "other": player(other)}}}));
        }
        Operation::AdvanceClock(seconds) => world.advance(seconds.into()),
        Operation::Receive(which) => clients[which % clients.len()].receive(),
        Operation::Disconnect(which) => clients[which % clients.len()].disconnect(),
        Operation::Connect(which) => clients[which % clients.len()].connect(world),
    }
}

/// Removes the version of the variables: a change that leaves a subscriber's values as they are is not sent, so the
/// version it has is that of the last message.
fn comparable((documents, state): (Vec<String>, String)) -> (Vec<String>, serde_json::Value) {
    let mut state: serde_json::Value = serde_json::from_str(&state).expect("a state is JSON");
    if state["topic"] == "vars" {
        state.as_object_mut().expect("an object").remove("version");
    }
    (documents, state)
}

proptest! {
    #[test]
    fn subscriber_has_the_same_state_as_a_new_subscriber(
        operations in prop::collection::vec(any_operation(), 1..40),
    ) {
        let mut world = World::new();
        let mut clients: Vec<TestClient> =
            topics().into_iter().map(|topic| TestClient::new(&world, topic)).collect();
        for operation in operations {
            run(&mut world, &mut clients, operation);
        }
        let new_world = world.without_subscriptions();
        for client in &mut clients {
            client.connect(&world);
            client.receive();
            let mut new_client = TestClient::new(&new_world, client.topic.clone());
            new_client.receive();
            prop_assert_eq!(comparable(client.read()), comparable(new_client.read()), "{:?}", client.topic);
        }
    }
}
