//! The engine from the outside: what is applied, and what those are told who watch.

mod state;
mod stream;
mod world;

use liveops::Touched;
use liveops::vars::VarsViewer;
use model::query::{MetricQuery, Query, QueryDimension, Step, WindowLength};
use serde_json::json;

use super::{Page, Topic};
use world::{Follower, World};

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
    Topic::Page(Box::new(Page::Board {
        table: "race".into(),
        window: None,
        per_page: 10,
        newest: false,
        filter: Vec::new(),
        code: None,
    }))
}

fn feed() -> Topic {
    Topic::Page(Box::new(Page::Feed { player: "ann".into(), n: 20 }))
}

fn score(player: &str, score: u32) -> serde_json::Value {
    json!({"boards": {"submit": {"table": "race", "score": {"player": player, "score": score.to_string()}}}})
}

/// The values of these fields of all documents that have all of them, a line each.
fn read(follower: &Follower, fields: &[&str]) -> String {
    let mut lines = Vec::new();
    for (_, text) in follower.copy.read(true) {
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

fn check(follower: &mut Follower, fields: &[&str], expected: &str) {
    follower.take();
    assert_eq!(read(follower, fields), expected);
}

#[test]
fn a_query_is_a_document_for_each_point_and_each_total() {
    let mut world = World::new();
    let mut watch = world.watch(&hits());
    check(&mut watch, &["value"], "");
    world.post(&[("hit", "ann", "FR", None, 0), ("hit", "bo", "DE", None, 1), ("hit", "cy", "FR", None, 1)]);
    check(&mut watch, &["key", "total"], "{country:FR} 2, {country:DE} 1");
    let points = "{country:FR} 2027-01-15T07:58:00Z 0, {country:FR} 2027-01-15T07:59:00Z 1, \
                  {country:FR} 2027-01-15T08:00:00Z 1, {country:DE} 2027-01-15T07:58:00Z 0, \
                  {country:DE} 2027-01-15T07:59:00Z 1, {country:DE} 2027-01-15T08:00:00Z 0";
    check(&mut watch, &["key", "time", "value"], points);
    world.post(&[("hit", "ann", "FR", None, 0)]);
    assert_eq!(watch.take(), Some(2), "a point and a total");
}

#[test]
fn players_online_are_documents_of_now_and_of_each_minute() {
    let mut world = World::new();
    let mut watch = world.watch(&Topic::Online);
    check(&mut watch, &["online"], "0");
    world.post(&[("hit", "ann", "FR", None, 0), ("hit", "bo", "FR", None, 0)]);
    check(&mut watch, &["online"], "2");
    assert_eq!(read(&watch, &["players"]).split(", ").last(), Some("2"));
    world.pass(60);
    watch.take();
    assert_eq!(read(&watch, &["players"]).split(", ").count(), 60);
}

#[test]
fn each_of_the_last_events_is_a_document() {
    let mut world = World::new();
    let mut watch = world.watch(&Topic::Events);
    world.post(&[("hit", "ann", "FR", Some(2.0), 0), ("miss", "bo", "", None, 0)]);
    check(&mut watch, &["event", "player", "outcome"], "miss bo accepted, hit ann accepted");
    let erased = [Touched::Erased(vec!["ann".into()])];
    world.views.erase_recent_events(1, &erased);
    world.views.publish_command(1, &erased);
    world.work();
    check(&mut watch, &["event", "player"], "miss bo");
}

#[test]
fn the_accounting_is_a_document_for_each_endpoint() {
    let mut world = World::new();
    let mut watch = world.watch(&Topic::Load);
    world.post(&[("hit", "ann", "FR", None, 0)]);
    world.pass(1);
    check(&mut watch, &["endpoint", "accepted", "received"], "events 1 1");
}

#[test]
fn each_of_the_worst_flows_is_a_document() {
    let world = World::new();
    let mut watch = world.watch(&Topic::Flows);
    check(&mut watch, &["running"], "0");
    world.packets(r#"{"from":"ann","to":"bo","seq":1}"#);
    world.packets(r#"{"from":"cy","to":"dee","seq":1}"#);
    watch.take();
    assert_eq!(read(&watch, &["running"]), "0", "it is not looked at more than once a second");
    world.pass(1);
    check(&mut watch, &["running"], "2");
    assert_eq!(read(&watch, &["started"]).split(", ").count(), 2);
    world.packets(r#"{"from":"dee","to":"cy","bye":true}"#);
    world.pass(1);
    check(&mut watch, &["running"], "1");
    assert_eq!(read(&watch, &["moves"]), "0");
}

#[test]
fn a_board_is_told_in_its_order() {
    let mut world = World::new();
    let mut watch = world.watch(&board());
    check(&mut watch, &["error"], "there is no board `race`");
    for (player, points) in [("ann", 5), ("bo", 7), ("cy", 6)] {
        world.command(score(player, points));
    }
    check(&mut watch, &["rank", "player", "score"], "1 bo 7, 2 cy 6, 3 ann 5");
    world.command(score("ann", 9));
    check(&mut watch, &["rank", "player", "score"], "1 ann 9, 2 bo 7, 3 cy 6");
}

#[test]
fn a_feed_is_told_newest_first() {
    let mut world = World::new();
    world.command(json!({"feed": {"follow": {"player": "ann", "other": "bo"}}}));
    let mut watch = world.watch(&feed());
    for text in ["one", "two"] {
        let post = json!({"player": "bo", "kind": "post", "text": text});
        world.command(json!({"feed": {"post": post}}));
        world.pass(1);
    }
    check(&mut watch, &["text"], "two, one");
}

#[test]
fn everybody_has_variables_of_their_own() {
    let mut world = World::new();
    let condition = json!({"name": "french", "country": ["FR"], "value": "bonjour"});
    let definition = json!({"value": "hello", "conditions": [condition]});
    world.command(json!({"vars": {"put": {"name": "greeting", "definition": definition}}}));
    let who = |country: &str| {
        Topic::Vars(Box::new(VarsViewer { country: country.into(), ..VarsViewer::default() }))
    };
    let (mut french, mut other) = (world.watch(&who("FR")), world.watch(&who("DE")));
    check(&mut french, &["name", "value"], "greeting bonjour");
    check(&mut other, &["name", "value"], "greeting hello");
    world.command(json!({"vars": {"delete": {"name": "greeting"}}}));
    check(&mut french, &["name"], "");
}

#[test]
fn who_was_away_is_told_what_it_missed() {
    let mut world = World::new();
    let mut watch = world.watch(&hits());
    world.post(&[("hit", "ann", "FR", None, 0)]);
    check(&mut watch, &["total"], "1");
    let (resume, copy) = (watch.resume(), std::mem::take(&mut watch.copy));
    drop(watch);
    world.post(&[("hit", "ann", "FR", None, 0)]);
    let mut again = world.watch_from(&hits(), Some(&resume));
    assert!(again.watch.is_resumed());
    again.copy = copy;
    check(&mut again, &["total"], "2");
    assert_eq!(again.take(), None);
}

#[test]
fn what_comes_before_somebody_who_came_back_looks_is_told_with_what_it_missed() {
    let mut world = World::new();
    let mut watch = world.watch(&hits());
    world.post(&[("hit", "ann", "FR", None, 0)]);
    watch.take();
    let (resume, copy) = (watch.resume(), std::mem::take(&mut watch.copy));
    drop(watch);
    world.post(&[("hit", "ann", "FR", None, 0)]);
    let mut again = world.watch_from(&hits(), Some(&resume));
    assert_eq!(again.resume(), resume, "it was told nothing yet");
    again.copy = copy;
    world.post(&[("hit", "ann", "FR", None, 0)]);
    check(&mut again, &["total"], "3");
}

#[test]
fn who_was_away_too_long_is_told_so() {
    let mut world = World::new();
    let mut watch = world.watch(&hits());
    watch.take();
    let resume = watch.resume();
    let mut other = world.watch(&hits());
    for _ in 0..70 {
        world.post(&[("hit", "ann", "FR", None, 0)]);
        other.take();
    }
    assert!(!world.watch_from(&hits(), Some(&resume)).watch.is_resumed());
    let elsewhere = super::Resume { epoch: "d".into(), ..other.resume() };
    assert!(!world.watch_from(&hits(), Some(&elsewhere)).watch.is_resumed());
}

#[test]
fn who_is_slow_is_told_the_latest() {
    let mut world = World::new();
    let mut watch = world.watch(&hits());
    let mut fast = world.watch(&hits());
    watch.take();
    for _ in 0..100 {
        world.post(&[("hit", "ann", "FR", None, 0)]);
        fast.take();
    }
    assert_eq!(watch.take(), Some(4), "three points and a total");
    check(&mut watch, &["total"], "100");
    assert_eq!(watch.take(), None);
    assert_eq!(watch.watch.due(), None);
}

#[test]
fn a_thousand_equal_subscriptions_are_one_computation() {
    let mut world = World::new();
    let mut watches: Vec<Follower> = (0..1_000).map(|_| world.watch(&hits())).collect();
    assert_eq!(world.computations(), 1);
    world.post(&[("hit", "ann", "FR", None, 0)]);
    watches.iter_mut().for_each(|watch| check(watch, &["total"], "1"));
    assert_eq!(world.computations(), 2);
    let steps: Vec<_> = watches.iter_mut().map(|watch| watch.watch.take()).collect();
    assert!(steps.iter().all(Option::is_none));
}

#[test]
fn what_nobody_watches_computes_nothing() {
    let mut world = World::new();
    let watches: Vec<Follower> = (0..1_000).map(|n| world.watch(&minutes_of(&format!("m{n}")))).collect();
    let before = world.computations();
    world.post(&[("hit", "ann", "FR", None, 0)]);
    world.post_to(&world::game(2), &[("m7", "ann", "FR", None, 0)]);
    assert_eq!(world.computations(), before);
    world.post(&[("m7", "ann", "FR", None, 0)]);
    assert_eq!(world.computations(), before + 1);
    drop(watches);
    world.post(&[("m7", "ann", "FR", None, 0)]);
    assert_eq!(world.computations(), before + 1);
}

#[test]
fn who_wants_to_be_told_seldom_is_told_seldom() {
    let mut world = World::new();
    let mut seldom = world.watch_every(3_600_000, &hits());
    let mut at_once = world.watch(&hits());
    assert!(seldom.take().is_some() && at_once.take().is_some());
    for _ in 0..3 {
        world.post(&[("hit", "ann", "FR", None, 0)]);
        assert!(at_once.take().is_some());
        assert_eq!(seldom.take(), None);
    }
    assert!(seldom.watch.due().expect("something is new") > std::time::Instant::now());
}

#[test]
fn who_follows_somebody_is_told_of_what_they_do_and_nobody_else() {
    let mut world = World::new();
    world.command(json!({"feed": {"follow": {"player": "ann", "other": "bo"}}}));
    let mut watch = world.watch(&feed());
    watch.take();
    let before = world.computations();
    let post = |player: &str| json!({"feed": {"post": {"player": player, "kind": "post", "text": "hello"}}});
    world.command(post("cy"));
    assert_eq!(world.computations(), before);
    world.command(post("bo"));
    check(&mut watch, &["text"], "hello");
}
