//! The feed compared with a naive model, through random steps and restarts.

mod naive;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ports::records::{RecordWrite, Records};
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::naive::NaiveFeed;
use super::items::FeedLimits;
use super::*;
use crate::command::{Caller, Principal};
use crate::game::Touched;

const NOW: i64 = 1_800_000_000_000;
const PLAYERS: u64 = 12;

#[derive(Default)]
struct Store(Mutex<BTreeMap<Vec<u8>, Vec<u8>>>);

impl Records for Store {
    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.lock().get(key).cloned())
    }

    fn records(&self, prefix: &[u8], visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StoreError> {
        let records = self.0.lock();
        records.iter().filter(|(key, _)| key.starts_with(prefix)).for_each(|(key, value)| visit(key, value));
        Ok(())
    }
}

/// Deterministic pseudo-random numbers: SplitMix64, Steele, Lea and Flood 2014.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn player(&mut self) -> String {
        format!("p{}", self.roll(PLAYERS))
    }
}

/// A game and its model.
struct World {
    store: Arc<Store>,
    game: Game,
    model: NaiveFeed,
    limits: FeedLimits,
    now: i64,
    dice: Dice,
}

impl World {
    fn new(seed: u64, limits: FeedLimits) -> World {
        let store = Arc::new(Store::default());
        let game = open(&store, limits);
        World { store, game, model: NaiveFeed::default(), limits, now: NOW, dice: Dice(seed) }
    }

    fn apply(&mut self, command: FeedCommand) -> (Result<CommandResponse, Refusal>, Vec<Touched>) {
        let (mut touched, by) = (Vec::new(), Principal { caller: Caller::Server, signed: None });
        let at = LogPoint { offset: 1, ms: self.now };
        let mut context =
            CommandContext { at, by: &by, tz: "UTC", blob: &[], touched: &mut touched, page: None };
        (self.game.apply_feed(&mut context, command), touched)
    }

    fn restart(&mut self) {
        let mut writes = Vec::new();
        self.game.changes(1, &mut writes);
        for RecordWrite { key, value } in writes {
            match value {
                Some(value) => self.store.0.lock().insert(key, value),
                None => self.store.0.lock().remove(&key),
            };
        }
        self.game = open(&self.store, self.limits);
    }

    fn step(&mut self) {
        self.now += self.dice.roll(3) as i64;
        match self.dice.roll(24) {
            0..=11 => self.post(),
            12..=14 => self.grant(),
            15..=17 => self.follow(),
            18 => self.unfollow(),
            19 => self.catalogue(),
            20 if self.dice.roll(8) == 0 => self.erase(),
            _ => self.check_reader(),
        }
    }

    fn post(&mut self) {
        let player = self.dice.player();
        let name = ["", "", "Bo", "Cy"][self.dice.roll(4) as usize];
        let (at, details) = (self.now, self.dice.roll(6));
        let at = LogPoint { offset: 1, ms: at };
        let feed = &mut self.game.feed;
        let (at, details) = match self.dice.roll(3) {
            0 => {
                feed.post_score(at, &player, name, "board", &details.to_string());
                (at.ms, json!({ "kind": "score", "table": "board", "score": details.to_string() }))
            }
            1 => {
                feed.post_level(at, &player, name, &format!("l{details}"), "Title");
                (at.ms, json!({ "kind": "level", "level": format!("l{details}"), "text": "Title" }))
            }
            _ => self.post_custom(&player, name, details),
        };
        self.model.post(self.limits, at, &player, name, details);
    }

    /// Some posts have a time in the past.
    fn post_custom(&mut self, player: &str, name: &str, details: u64) -> (i64, Value) {
        let at = self.now - [0, 0, 40, 400][self.dice.roll(4) as usize];
        let props = if details < 2 { json!({ "n": details }) } else { json!({}) };
        let post = NewPost {
            player: player.into(),
            name: name.into(),
            kind: "trade".into(),
            text: format!("text {}", details / 2),
            props: serde_json::from_value(props.clone()).expect("an object"),
            at_ms: Some(at),
        };
        let text = post.text.clone();
        let expected = CommandResponse::created(&json!({ "id": self.model.next.to_string() }));
        let (outcome, touched) = self.apply(FeedCommand::Post(post));
        assert_eq!(outcome, Ok(expected));
        assert_eq!(touched, [Touched::Posted(player.to_owned())]);
        let mut item = json!({ "kind": "trade", "text": text });
        if details < 2 {
            item["props"] = props;
        }
        (at, item)
    }

    fn grant(&mut self) {
        let (player, key) = (self.dice.player(), format!("a{}", self.dice.roll(4)));
        let command = FeedCommand::Grant { key: key.clone(), player: player.clone(), name: String::new() };
        let status = self.apply(command).0.map(|answer| answer.status).ok();
        let grant = (player.clone(), key.clone());
        let expected = match (self.model.catalogue.contains(&key), self.model.grants.contains_key(&grant)) {
            (false, _) => None,
            (true, true) => Some(200),
            (true, false) => Some(201),
        };
        assert_eq!(status, expected);
        if expected == Some(201) {
            self.model.grants.insert(grant, self.now);
            let details = json!({ "kind": "achievement", "achievement": key });
            self.model.post(self.limits, self.now, &player, "", details);
        }
    }

    fn follow(&mut self) {
        let (player, other) = (self.dice.player(), self.dice.player());
        let (outcome, touched) =
            self.apply(FeedCommand::Follow { player: player.clone(), other: other.clone() });
        assert_eq!(outcome.is_ok(), player != other);
        let is_new = player != other && self.model.follows.insert((player.clone(), other));
        assert_eq!(touched, if is_new { vec![Touched::Follows(player)] } else { vec![] });
    }

    fn unfollow(&mut self) {
        let (player, other) = (self.dice.player(), self.dice.player());
        let command = FeedCommand::Unfollow { player: player.clone(), other: other.clone() };
        assert_eq!(self.apply(command).0, Ok(CommandResponse::no_content()));
        self.model.follows.remove(&(player, other));
        self.model.remove_idle_names();
    }

    fn catalogue(&mut self) {
        let key = format!("a{}", self.dice.roll(4));
        if self.dice.roll(3) > 0 {
            let achievement = Achievement { name: key.to_uppercase(), ..Achievement::default() };
            let put = FeedCommand::PutAchievement { key: key.clone(), achievement };
            assert!(self.apply(put).0.is_ok());
            self.model.catalogue.insert(key);
        } else {
            let outcome = self.apply(FeedCommand::DeleteAchievement { key: key.clone() }).0;
            assert_eq!(outcome.is_ok(), self.model.catalogue.remove(&key));
        }
    }

    fn erase(&mut self) {
        let player = self.dice.player();
        self.game.feed.erase_player(&player);
        self.model.erase(&player);
        let nothing = json!({ "name": "", "achievements": [], "follows": [], "items": [] });
        assert_eq!(self.game.feed.export_player(&player).expect("a store"), nothing);
    }

    /// Compares all pages and lists of one reader.
    fn check_reader(&mut self) {
        let reader = self.dice.player();
        let mode = [FeedMode::Latest, FeedMode::Fair][self.dice.roll(2) as usize];
        let n = 1 + self.dice.roll(6) as usize;
        let as_of = self.model.next;
        let (mut from, mut cursor) = (0, None);
        loop {
            let (expected, next) = self.model.page(&reader, mode, n, from, as_of);
            let page = self.page(&reader, mode, n, cursor);
            assert_eq!(page["items"], json!(self.with_names(expected)), "{reader} {mode:?} {n}");
            assert_eq!(page["next"].is_string(), next.is_some(), "{reader} {mode:?} {n}");
            let Some(next) = next else { break };
            (from, cursor) = (next, page["next"].as_str().and_then(Cursor::parse));
        }
        self.check_state_of(&reader);
    }

    fn page(&self, reader: &str, mode: FeedMode, n: usize, cursor: Option<Cursor>) -> Value {
        let page = self.game.feed.page(reader, mode, n, cursor).expect("the store can be read");
        serde_json::to_value(page.expect("the cursor is of this mode")).expect("JSON")
    }

    /// Achievements in the catalogue have their name as text.
    fn with_names(&self, mut items: Vec<Value>) -> Vec<Value> {
        for item in &mut items {
            let key = item["achievement"].as_str().unwrap_or_default().to_owned();
            if self.model.catalogue.contains(&key) {
                item["text"] = key.to_uppercase().into();
            }
        }
        items
    }

    fn check_state_of(&mut self, player: &str) {
        let feed = &self.game.feed;
        let follows = self.model.follows.iter().filter(|(one, _)| one == player).map(|(_, other)| &**other);
        let follows: Vec<&str> = follows.collect();
        assert_eq!(feed.follows(player), follows);
        let followers = self.model.follows.iter().filter(|(_, other)| other == player).count();
        assert_eq!(feed.followers(player) as usize, followers);
        assert_eq!(feed.item_count(), self.model.items.len());
        let friends: Vec<Vec<&str>> = vec![follows, vec!["p1", "p2", "nobody", "p1"]];
        for (index, ids) in friends.iter().enumerate() {
            let filter =
                if index == 0 { FriendFilter::FollowedBy(player) } else { FriendFilter::Players(ids) };
            let list = serde_json::to_value(feed.achievements(Some(player), filter, false)).expect("JSON");
            assert_eq!(list, self.achievements(player, ids));
        }
    }

    fn achievements(&self, player: &str, friends: &[&str]) -> Value {
        let listed = self.model.catalogue.iter().map(|key| {
            let granted = |player: &str| self.model.grants.get(&(player.to_owned(), key.clone())).copied();
            let ids: BTreeSet<&str> = friends.iter().copied().collect();
            let details = json!({ "kind": "achievement", "achievement": key });
            let number = |id: &str| {
                let mut items = self.model.items.iter();
                items.find(|item| item.player == id && item.details == details).map(|item| item.number)
            };
            let mut having: Vec<(i64, &str)> =
                ids.into_iter().filter_map(|id| Some((-granted(id)?, id))).collect();
            having.sort_by_key(|(at, id)| (*at, Reverse(number(id)), *id));
            let name = |id: &str| self.model.names.get(id).cloned().unwrap_or_default();
            let friend =
                |(at, id): &(i64, &str)| json!({ "player": id, "name": name(id), "at": rfc3339(-at) });
            let mut listed = json!({
                "key": key, "name": key.to_uppercase(), "points": 0,
                "friends": having.iter().map(friend).collect::<Vec<_>>(), "friends_count": having.len(),
            });
            if let Some(at) = granted(player) {
                listed["granted_at"] = rfc3339(at).into();
            }
            listed
        });
        json!({ "achievements": listed.collect::<Vec<_>>() })
    }
}

fn open(store: &Arc<Store>, limits: FeedLimits) -> Game {
    let records: Arc<dyn Records> = Arc::clone(store) as Arc<dyn Records>;
    let mut game = Game::new(1, &records);
    game.feed.limits = limits;
    for (key, value) in &*store.0.lock() {
        if Game::is_restored(key[4]) {
            game.restore(key[4], &key[5..], value).expect("a valid record");
        }
    }
    game.finish_restore();
    game
}

#[test]
fn ten_thousand_random_steps_agree_with_a_naive_model() {
    let limits = FeedLimits {
        items_per_player: 9,
        equal_items: 2,
        items: 70,
        items_per_record: 3,
        ..FeedLimits::default()
    };
    let mut world = World::new(1, limits);
    for step in 0..10_000 {
        world.step();
        if step % 61 == 0 {
            world.restart();
        }
    }
    let players: Vec<String> = (0..PLAYERS).map(|number| format!("p{number}")).collect();
    players.iter().for_each(|player| world.check_state_of(player));
    players.iter().for_each(|player| world.game.feed.erase_player(player));
    (0..4).for_each(|key| drop(world.apply(FeedCommand::DeleteAchievement { key: format!("a{key}") })));
    world.restart();
    let left: Vec<Vec<u8>> = world.store.0.lock().keys().map(|key| key[4..].to_vec()).collect();
    assert_eq!(left, [b"\x04n"], "only the record of the counters is left");
    assert_eq!((world.game.feed.actors.len(), world.game.feed.item_count()), (0, 0));
}

#[test]
fn refusal_names_the_field_that_reached_a_limit() {
    let limits = FeedLimits { follows: 2, players: 5, ..FeedLimits::default() };
    let mut world = World::new(4, limits);
    let achievement = Achievement { name: "First".into(), ..Achievement::default() };
    world.apply(FeedCommand::PutAchievement { key: "first".into(), achievement }).0.expect("an achievement");
    let follow =
        |player: &str, other: &str| FeedCommand::Follow { player: player.into(), other: other.into() };
    let grant =
        |player: &str| FeedCommand::Grant { key: "first".into(), player: player.into(), name: String::new() };
    let mut check = |command: FeedCommand, expected: &str| {
        let item = match world.apply(command).0 {
            Ok(answer) => answer.status.to_string(),
            Err(refusal) => format!("{:?} {}", refusal.kind, refusal.field.unwrap_or_default()),
        };
        assert_eq!(item, expected);
    };
    check(follow("ann", "bo"), "204");
    check(follow("bo", "cy"), "204");
    check(follow("cy", "ann"), "TooMany other");
    check(FeedCommand::Unfollow { player: "bo".into(), other: "cy".into() }, "204");
    check(follow("cy", "ann"), "204");
    check(grant("di"), "201");
    check(grant("ed"), "201");
    check(grant("flo"), "TooMany player");
    check(grant("di"), "200");
    check(FeedCommand::Unfollow { player: "cy".into(), other: "ann".into() }, "204");
    check(grant("flo"), "201");
}

#[test]
fn export_has_all_data_of_one_player_only() {
    let mut world = World::new(5, FeedLimits::default());
    let achievement = Achievement { name: "First".into(), ..Achievement::default() };
    world.apply(FeedCommand::PutAchievement { key: "first".into(), achievement }).0.expect("an achievement");
    let at = LogPoint { offset: 1, ms: NOW };
    for (player, score) in [("bo", "7"), ("cy", "8")] {
        world.game.feed.post_score(at, player, &player.to_uppercase(), "board", score);
        let grant = FeedCommand::Grant { key: "first".into(), player: player.into(), name: String::new() };
        world.apply(grant).0.expect("a grant");
    }
    world.apply(FeedCommand::Follow { player: "bo".into(), other: "cy".into() }).0.expect("a follow");
    world.restart();
    let at = rfc3339(NOW);
    let bo = json!([{ "player": "bo", "name": "BO" }]);
    let expected = json!({
        "name": "BO",
        "achievements": [{ "achievement": "first", "granted_at": at }],
        "follows": ["cy"],
        "items": [
            { "id": "1", "kind": "achievement", "at": at, "achievement": "first", "text": "First", "players": bo, "players_count": 1 },
            { "id": "0", "kind": "score", "at": at, "table": "board", "score": "7", "players": bo, "players_count": 1 },
        ],
    });
    assert_eq!(world.game.feed.export_player("bo").expect("a store"), expected);
}

/// Compares consecutive pages while items are added in between.
fn check_paging(seed: u64, mode: FeedMode) {
    let limits = FeedLimits { equal_items: 1_000, items_per_record: 3, ..FeedLimits::default() };
    let mut world = World::new(seed, limits);
    (0..400).for_each(|_| world.step());
    let reader = world.dice.player();
    let n = 1 + world.dice.roll(7) as usize;
    let as_of = world.model.next;
    let (mut read, mut cursor) = (Vec::new(), None);
    loop {
        let page = world.page(&reader, mode, n, cursor);
        read.extend(page["items"].as_array().expect("a list").iter().map(|item| item["id"].clone()));
        cursor = page["next"].as_str().and_then(Cursor::parse);
        if cursor.is_none() {
            break;
        }
        (0..world.dice.roll(20)).for_each(|_| world.post());
        if world.dice.roll(3) == 0 {
            world.restart();
        }
    }
    let (mut expected, mut from) = (Vec::new(), Some(0));
    while let Some(start) = from {
        let (page, next) = world.model.page(&reader, mode, n, start, as_of);
        expected.extend(page.iter().map(|item| item["id"].clone()));
        from = next;
    }
    assert_eq!(read, expected, "seed {seed} {mode:?}");
    let unique: BTreeSet<String> = read.iter().map(Value::to_string).collect();
    assert_eq!(unique.len(), read.len(), "seed {seed} {mode:?}");
}

#[test]
fn paging_shows_each_item_once_while_items_are_added() {
    for seed in 0..25 {
        check_paging(seed, FeedMode::Latest);
        check_paging(seed, FeedMode::Fair);
    }
}

#[test]
fn expensive_page_ends_early_and_the_next_one_continues() {
    let mut world = World::new(3, FeedLimits::default());
    for player in 0..3_000 {
        let other = format!("q{player}");
        let follow = FeedCommand::Follow { player: "reader".into(), other: other.clone() };
        world.apply(follow).0.expect("a follow");
        for score in 0..60 {
            let at = LogPoint { offset: 1, ms: NOW + player * 60 + score };
            world.game.feed.post_score(at, &other, "", "board", &score.to_string());
        }
    }
    for mode in [FeedMode::Latest, FeedMode::Fair] {
        let (mut scores, mut pages, mut cursor) = (Vec::new(), 0, None);
        loop {
            let page = world.page("reader", mode, 100, cursor);
            for item in page["items"].as_array().expect("a list") {
                assert_eq!(item["players_count"], 3_000);
                assert_eq!(item["players"].as_array().map(Vec::len), Some(1_000));
                scores.push(item["score"].as_str().map(|score| score.parse::<i64>().expect("a number")));
            }
            pages += 1;
            cursor = page["next"].as_str().and_then(Cursor::parse);
            if cursor.is_none() {
                break;
            }
        }
        assert!(pages > 1, "{mode:?}");
        assert_eq!(scores, (0..60).rev().map(Some).collect::<Vec<_>>(), "{mode:?}");
    }
}
