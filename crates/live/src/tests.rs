//! Subscriptions to a whole `Live`: data is applied, and subscribers receive the changes.

mod state;
mod stream_replica;
mod world;

use std::time::{Duration, Instant};

use liveops::Touched;
use liveops::vars::VarsViewer;
use model::query::{MetricQuery, Query, QueryDimension, Step, WindowLength};
use pipeline::query::pool::{QueryLimits, QueryPool};
use serde_json::json;

use super::{PageTopic, ResumePoint, Topic};
use stream_replica::StreamReplica;
use world::{TestSubscriber, World};

fn hits() -> Topic {
    minutes_of("hit")
}

fn minutes_of(metric: &str) -> Topic {
    let hit = MetricQuery { metric: metric.into(), ..MetricQuery::default() };
    let query = Query {
        metrics: vec![hit],
        last: WindowLength::parse("3m"),
        step: Some(Step::Minute),
        by: vec![QueryDimension::BuiltIn(model::Dimension::Country)],
        ..Query::default()
    };
    Topic::Query(Box::new(query))
}

fn board() -> Topic {
    Topic::Page(Box::new(PageTopic::Board {
        table: "race".into(),
        window: None,
        per_page: 10,
        newest: false,
        filter: Vec::new(),
        code: None,
    }))
}

fn feed() -> Topic {
    Topic::Page(Box::new(PageTopic::Feed { player: "ann".into(), n: 20 }))
}

fn score(player: &str, score: u32) -> serde_json::Value {
    json!({"boards": {"submit": {"table": "race", "score": {"player": player, "score": score.to_string()}}}})
}

/// Returns the values of these fields for each document that has all of them.
fn read(subscriber: &TestSubscriber, fields: &[&str]) -> String {
    let mut lines = Vec::new();
    for (_, text) in subscriber.replica.read(true) {
        let value = |field: &&str| {
            let head = format!("{field}=");
            let of = |part: &str| part.strip_prefix(&head).map(str::to_owned);
            text.lines().find_map(of)
        };
        let values: Option<Vec<String>> = fields.iter().map(value).collect();
        lines.extend(values.map(|values| values.join(" ")));
    }
    lines.join(", ").replace('"', "")
}

fn check(subscriber: &mut TestSubscriber, fields: &[&str], expected: &str) {
    subscriber.receive();
    assert_eq!(read(subscriber, fields), expected);
}

#[test]
fn query_has_a_document_for_each_point_and_each_total() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&hits());
    check(&mut subscriber, &["value"], "");
    world.submit(&[
        ("hit", "ann", "FR", None, 0),
        ("hit", "bo", "DE", None, 1),
        ("hit", "cy", "FR", None, 1),
    ]);
    check(&mut subscriber, &["key", "total"], "{country:FR} 2, {country:DE} 1");
    let points = "{country:FR} 2027-01-15T07:58:00Z 0, {country:FR} 2027-01-15T07:59:00Z 1, \
                  {country:FR} 2027-01-15T08:00:00Z 1, {country:DE} 2027-01-15T07:58:00Z 0, \
                  {country:DE} 2027-01-15T07:59:00Z 1, {country:DE} 2027-01-15T08:00:00Z 0";
    check(&mut subscriber, &["key", "time", "value"], points);
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    assert_eq!(subscriber.receive(), Some(2), "a point and a total");
}

#[test]
fn online_has_a_document_for_now_and_for_each_minute() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&Topic::Online);
    check(&mut subscriber, &["online"], "0");
    world.submit(&[("hit", "ann", "FR", None, 0), ("hit", "bo", "FR", None, 0)]);
    check(&mut subscriber, &["online"], "2");
    assert_eq!(read(&subscriber, &["players"]).split(", ").last(), Some("2"));
    world.advance(60);
    subscriber.receive();
    assert_eq!(read(&subscriber, &["players"]).split(", ").count(), 60);
}

#[test]
fn new_subscriber_sees_everything_applied_before() {
    let mut world = World::new();
    let _first = world.subscribe_every(250, &Topic::Online);
    for online in 1..=20 {
        world.apply_hit(&format!("player-{online}"));
        let mut newcomer = world.subscribe_every(250, &Topic::Online);
        check(&mut newcomer, &["online"], &online.to_string());
    }
}

#[test]
fn events_has_a_document_for_each_recent_event() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&Topic::Events);
    world.submit(&[("hit", "ann", "FR", Some(2.0), 0), ("miss", "bo", "", None, 0)]);
    check(&mut subscriber, &["event", "player", "outcome"], "miss bo accepted, hit ann accepted");
    let erased = [Touched::Erased(vec!["ann".into()])];
    world.views.erase_recent_events(1, &erased);
    world.views.publish_command(1, &erased);
    world.run_due();
    check(&mut subscriber, &["event", "player"], "miss bo");
}

#[test]
fn load_has_a_document_for_each_endpoint() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&Topic::Load);
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    world.advance(1);
    check(&mut subscriber, &["endpoint", "accepted", "received"], "events 1 1");
}

#[test]
fn flows_has_a_document_for_each_of_the_worst_flows() {
    let world = World::new();
    let mut subscriber = world.subscribe(&Topic::Flows);
    check(&mut subscriber, &["running"], "0");
    world.packets(r#"{"from":"ann","to":"bo","seq":1}"#);
    world.packets(r#"{"from":"cy","to":"dee","seq":1}"#);
    subscriber.receive();
    assert_eq!(read(&subscriber, &["running"]), "0", "flows are computed at most once a second");
    world.advance(1);
    check(&mut subscriber, &["running"], "2");
    assert_eq!(read(&subscriber, &["started"]).split(", ").count(), 2);
    world.packets(r#"{"from":"dee","to":"cy","bye":true}"#);
    world.advance(1);
    check(&mut subscriber, &["running"], "1");
    assert_eq!(read(&subscriber, &["moves"]), "0");
}

#[test]
fn board_rows_are_in_rank_order() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&board());
    check(&mut subscriber, &["error"], "there is no board `race`");
    for (player, points) in [("ann", 5), ("bo", 7), ("cy", 6)] {
        world.command(score(player, points));
    }
    check(&mut subscriber, &["rank", "player", "score"], "1 bo 7, 2 cy 6, 3 ann 5");
    world.command(score("ann", 9));
    check(&mut subscriber, &["rank", "player", "score"], "1 ann 9, 2 bo 7, 3 cy 6");
}

#[test]
fn feed_items_are_newest_first() {
    let mut world = World::new();
    world.command(json!({"feed": {"follow": {"player": "ann", "other": "bo"}}}));
    let mut subscriber = world.subscribe(&feed());
    for text in ["one", "two"] {
        let post = json!({"player": "bo", "kind": "post", "text": text});
        world.command(json!({"feed": {"post": post}}));
        world.advance(1);
    }
    check(&mut subscriber, &["text"], "two, one");
}

#[test]
fn each_subscriber_gets_the_variables_of_its_viewer() {
    let mut world = World::new();
    let condition = json!({"name": "french", "country": ["FR"], "value": "bonjour"});
    let definition = json!({"value": "hello", "conditions": [condition]});
    world.command(json!({"vars": {"put": {"name": "greeting", "definition": definition}}}));
    let vars_in = |country: &str| {
        Topic::Vars(Box::new(VarsViewer { country: country.into(), ..VarsViewer::default() }))
    };
    let (mut french, mut other) = (world.subscribe(&vars_in("FR")), world.subscribe(&vars_in("DE")));
    check(&mut french, &["name", "value"], "greeting bonjour");
    check(&mut other, &["name", "value"], "greeting hello");
    world.command(json!({"vars": {"delete": {"name": "greeting"}}}));
    check(&mut french, &["name"], "");
}

#[test]
fn resumed_subscription_gets_the_missed_changes() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&hits());
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    check(&mut subscriber, &["total"], "1");
    let (resume, replica) = (subscriber.resume_point(), std::mem::take(&mut subscriber.replica));
    drop(subscriber);
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    let mut again = world.resume(&hits(), Some(&resume));
    assert!(again.subscription.is_resumed());
    again.replica = replica;
    check(&mut again, &["total"], "2");
    assert_eq!(again.receive(), None);
}

#[test]
fn changes_after_resuming_are_delivered_with_the_missed_ones() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&hits());
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    subscriber.receive();
    let (resume, replica) = (subscriber.resume_point(), std::mem::take(&mut subscriber.replica));
    drop(subscriber);
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    let mut again = world.resume(&hits(), Some(&resume));
    assert_eq!(again.resume_point(), resume, "nothing was delivered yet");
    again.replica = replica;
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    check(&mut again, &["total"], "3");
}

#[test]
fn resuming_too_late_or_in_another_epoch_is_reported() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&hits());
    subscriber.receive();
    let resume = subscriber.resume_point();
    let mut other = world.subscribe(&hits());
    for _ in 0..70 {
        world.submit(&[("hit", "ann", "FR", None, 0)]);
        other.receive();
    }
    assert!(!world.resume(&hits(), Some(&resume)).subscription.is_resumed());
    let elsewhere = ResumePoint { epoch: "d".into(), ..other.resume_point() };
    assert!(!world.resume(&hits(), Some(&elsewhere)).subscription.is_resumed());
}

#[test]
fn slow_subscriber_gets_the_newest_state_in_one_step() {
    let mut world = World::new();
    let mut subscriber = world.subscribe(&hits());
    let mut fast = world.subscribe(&hits());
    subscriber.receive();
    for _ in 0..100 {
        world.submit(&[("hit", "ann", "FR", None, 0)]);
        fast.receive();
    }
    assert_eq!(subscriber.receive(), Some(4), "three points and a total");
    check(&mut subscriber, &["total"], "100");
    assert_eq!(subscriber.receive(), None);
    assert_eq!(subscriber.subscription.due(), None);
}

#[test]
fn thousand_equal_subscriptions_share_one_computation() {
    let mut world = World::new();
    let mut subscribers: Vec<TestSubscriber> = (0..1_000).map(|_| world.subscribe(&hits())).collect();
    assert_eq!(world.computations(), 1);
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    subscribers.iter_mut().for_each(|subscriber| check(subscriber, &["total"], "1"));
    assert_eq!(world.computations(), 2);
    let steps: Vec<_> =
        subscribers.iter_mut().map(|subscriber| subscriber.subscription.next_delivery()).collect();
    assert!(steps.iter().all(Option::is_none));
}

#[test]
fn channel_without_subscribers_or_changes_is_not_computed() {
    let mut world = World::new();
    let subscribers: Vec<TestSubscriber> =
        (0..1_000).map(|n| world.subscribe(&minutes_of(&format!("m{n}")))).collect();
    let before = world.computations();
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    world.submit_to(&world::game(2), &[("m7", "ann", "FR", None, 0)]);
    assert_eq!(world.computations(), before);
    world.submit(&[("m7", "ann", "FR", None, 0)]);
    assert_eq!(world.computations(), before + 1);
    drop(subscribers);
    world.submit(&[("m7", "ann", "FR", None, 0)]);
    assert_eq!(world.computations(), before + 1);
}

#[test]
fn long_interval_delays_deliveries() {
    let mut world = World::new();
    let mut seldom = world.subscribe_every(3_600_000, &hits());
    let mut at_once = world.subscribe(&hits());
    assert!(seldom.receive().is_some() && at_once.receive().is_some());
    for _ in 0..3 {
        world.submit(&[("hit", "ann", "FR", None, 0)]);
        assert!(at_once.receive().is_some());
        assert_eq!(seldom.receive(), None);
    }
    assert!(seldom.subscription.due().expect("there are changes") > std::time::Instant::now());
}

#[test]
fn feed_is_computed_only_for_followers_of_the_actor() {
    let mut world = World::new();
    world.command(json!({"feed": {"follow": {"player": "ann", "other": "bo"}}}));
    let mut subscriber = world.subscribe(&feed());
    subscriber.receive();
    let before = world.computations();
    let post = |player: &str| json!({"feed": {"post": {"player": player, "kind": "post", "text": "hello"}}});
    world.command(post("cy"));
    assert_eq!(world.computations(), before);
    world.command(post("bo"));
    check(&mut subscriber, &["text"], "hello");
}

#[test]
fn stream_that_ends_while_a_full_state_is_computed_resumes_without_a_loss() {
    let mut world = World::new();
    let topics = [Topic::Online, hits()];
    let expected = |world: &World| {
        let mut fresh = StreamReplica::default();
        fresh.connect_to(world, &topics);
        fresh.receive();
        [0, 1].map(|number| fresh.read_subscription(number))
    };
    let mut client = StreamReplica::default();
    client.connect_to(&world, &topics);
    let channel = world.channel(&hits());
    let computing = channel.hold_source();
    client.receive();
    assert_ne!(client.read_subscription(0), serde_json::Value::Null, "the other state is sent");
    assert_eq!(client.read_subscription(1), serde_json::Value::Null, "it is being computed");
    client.disconnect();
    drop(computing);
    client.connect_to(&world, &topics);
    client.receive();
    assert_eq!([0, 1].map(|number| client.read_subscription(number)), expected(&world));

    // The same after the changes that the client missed are no longer kept.
    let mut other = world.subscribe(&hits());
    for _ in 0..70 {
        world.submit(&[("hit", "ann", "FR", None, 0)]);
        other.receive();
    }
    let computing = channel.hold_source();
    client.receive();
    client.disconnect();
    drop(computing);
    client.connect_to(&world, &topics);
    world.submit(&[("hit", "bo", "FR", None, 0)]);
    for _ in 0..2 {
        client.receive();
    }
    assert_eq!([0, 1].map(|number| client.read_subscription(number)), expected(&world));
}

#[test]
fn channel_whose_computation_panicked_is_computed_again() {
    let queries = QueryPool::start(QueryLimits::default()).expect("threads can be started");
    let mut world = World::with_queries(&queries);
    let mut subscriber = world.subscribe(&hits());
    subscriber.receive();
    world.channel(&hits()).set_expensive();
    world.inject_panic();
    world.submit(&[("hit", "ann", "FR", None, 0)]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while read(&subscriber, &["total"]) != "1" {
        assert!(Instant::now() < deadline, "it is not computed again");
        std::thread::sleep(Duration::from_millis(5));
        world.run_due();
        subscriber.receive();
    }
    assert!(!world.is_panic_pending(), "a computation has panicked");
    queries.stop();
}
