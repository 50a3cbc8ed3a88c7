//! Lists by time: entries of the same millisecond are ordered by log position, before and after a restart.

mod world;

use liveops::boards::{self, BoardQuery, BoardViewer};
use liveops::feed::{self, Achievement, FeedMode, FriendFilter, NewPost};
use liveops::levels::{self, LevelQuery, LevelState, PackedLevel, SaveLevel};
use liveops::{Caller, Command, Game, surveys, vars};
use serde_json::{Value, json};
use world::World;

const NOW: i64 = 1_800_000_000_000;
/// Neither sorted nor reverse sorted.
const PLAYERS: [&str; 5] = ["cid", "ann", "eve", "bob", "dan"];
const NEWEST_FIRST: [&str; 5] = ["dan", "bob", "eve", "ann", "cid"];

/// Compares a list, then again after a crash and after a restart from a checkpoint.
fn check(world: &mut World, list: impl Fn(&Game) -> Vec<String>, expected: &[&str]) {
    assert_eq!(world.read(&list), expected);
    world.restart();
    assert_eq!(world.read(&list), expected, "after a crash");
    world.checkpoint();
    world.restart();
    assert_eq!(world.read(&list), expected, "after a restart");
}

fn texts(list: &Value, field: &str) -> Vec<String> {
    let items = list.as_array().expect("a list").iter();
    items.map(|item| item[field].as_str().expect("a text").to_owned()).collect()
}

fn send(world: &mut World, command: Value) {
    let command: Command = serde_json::from_value(command).expect("a command");
    world.send(command).expect("the command is accepted");
}

fn put_achievement(world: &mut World, key: &str) {
    let achievement = Achievement { name: key.to_owned(), ..Achievement::default() };
    let put = feed::FeedCommand::PutAchievement { key: key.to_owned(), achievement };
    world.send(Command::Feed(put)).expect("an achievement");
}

#[test]
fn friends_with_an_achievement_are_listed_newest_grant_first() {
    let mut world = World::new(NOW);
    put_achievement(&mut world, "first");
    for player in PLAYERS {
        send(&mut world, json!({ "feed": { "grant": { "key": "first", "player": player } } }));
    }
    let friends = |game: &Game| {
        let list = game.feed.achievements(None, FriendFilter::Players(&PLAYERS), false);
        texts(&serde_json::to_value(list).expect("JSON")["achievements"][0]["friends"], "player")
    };
    check(&mut world, friends, &NEWEST_FIRST);
}

#[test]
fn sequence_orders_grants_of_several_achievements() {
    let mut world = World::new(NOW);
    put_achievement(&mut world, "first");
    put_achievement(&mut world, "second");
    for (player, key) in
        [("bob", "second"), ("ann", "first"), ("bob", "first"), ("ann", "second"), ("cid", "first")]
    {
        send(&mut world, json!({ "feed": { "grant": { "key": key, "player": player } } }));
    }
    let grants = |game: &Game| {
        let list = game.feed.achievements(None, FriendFilter::Players(&PLAYERS), false).with_sequence();
        let list = serde_json::to_value(list).expect("JSON");
        let mut grants = Vec::new();
        for achievement in list["achievements"].as_array().expect("a list") {
            for friend in achievement["friends"].as_array().expect("a list") {
                let sequence = friend["sequence"].as_u64().expect("a number");
                grants.push((sequence, format!("{} {}", friend["player"], achievement["key"])));
            }
        }
        grants.sort_unstable();
        grants.into_iter().rev().map(|(_, grant)| grant.replace('"', "")).collect()
    };
    check(&mut world, grants, &["cid first", "ann second", "bob first", "ann first", "bob second"]);
}

#[test]
fn feed_pages_are_newest_first() {
    let mut world = World::new(NOW);
    for player in PLAYERS {
        send(&mut world, json!({ "feed": { "follow": { "player": "reader", "other": player } } }));
    }
    for player in PLAYERS {
        let post = NewPost {
            player: player.to_owned(),
            name: String::new(),
            kind: "trade".to_owned(),
            text: player.to_owned(),
            props: Default::default(),
            at_ms: Some(NOW),
        };
        world.send(Command::Feed(feed::FeedCommand::Post(post))).expect("a post");
    }
    for mode in [FeedMode::Latest, FeedMode::Fair] {
        let page = |game: &Game| {
            let page = game.feed.page("reader", mode, 10, None).expect("the store answers");
            texts(&serde_json::to_value(page).expect("JSON")["items"], "text")
        };
        check(&mut world, page, &NEWEST_FIRST);
    }
}

#[test]
fn players_of_a_feed_item_are_newest_first() {
    let mut world = World::new(NOW);
    put_achievement(&mut world, "first");
    for player in PLAYERS {
        send(&mut world, json!({ "feed": { "follow": { "player": "reader", "other": player } } }));
        send(&mut world, json!({ "feed": { "grant": { "key": "first", "player": player } } }));
    }
    let players = |game: &Game| {
        let page = game.feed.page("reader", FeedMode::Latest, 10, None).expect("the store answers");
        texts(&serde_json::to_value(page).expect("JSON")["items"][0]["players"], "player")
    };
    check(&mut world, players, &NEWEST_FIRST);
}

#[test]
fn survey_texts_are_newest_first() {
    let mut world = World::new(NOW);
    let definition = json!({ "title": "", "questions": [{ "key": "why", "kind": "text", "text": "" }] });
    send(&mut world, json!({ "surveys": { "put": { "key": "mood", "definition": definition } } }));
    for player in PLAYERS {
        let answer = json!({ "key": "mood", "player": player, "answers": { "why": player } });
        send(&mut world, json!({ "surveys": { "answer": answer } }));
    }
    let texts = |game: &Game| {
        let results = game.surveys.results("mood").expect("the survey");
        texts(&results["questions"][0]["texts"], "text")
    };
    check(&mut world, texts, &NEWEST_FIRST);
}

#[test]
fn newest_survey_texts_are_kept() {
    let mut world = World::new(NOW);
    let definition = json!({ "title": "", "questions": [{ "key": "why", "kind": "text", "text": "" }] });
    send(&mut world, json!({ "surveys": { "put": { "key": "mood", "definition": definition } } }));
    let player = |number: usize| format!("{:03}", number * 37 % 200);
    for number in 0..surveys::TEXTS_MAX + 50 {
        let answer = json!({ "key": "mood", "player": player(number), "answers": { "why": "so" } });
        send(&mut world, json!({ "surveys": { "answer": answer } }));
    }
    let players = |game: &Game| {
        let results = game.surveys.results("mood").expect("the survey");
        texts(&results["questions"][0]["texts"], "player")
    };
    let newest: Vec<String> = (50..surveys::TEXTS_MAX + 50).rev().map(player).collect();
    let newest: Vec<&str> = newest.iter().map(String::as_str).collect();
    check(&mut world, players, &newest);
}

fn with_levels() -> World {
    let mut world = World::new(NOW);
    for player in PLAYERS {
        let packed = PackedLevel::new(player, None).expect("small data");
        let save = SaveLevel {
            id: format!("{player:0<12}"),
            name: player.to_owned(),
            player: player.to_owned(),
            player_name: String::new(),
            fields: Default::default(),
            source: String::new(),
            state: LevelState::Published,
            data: packed.data,
            thumb: None,
        };
        let command = Command::Levels(levels::LevelCommand::Save(save));
        world.send_blob(Caller::Server, command, &packed.blob).expect("a level");
    }
    world
}

#[test]
fn level_lists_are_newest_first() {
    let mut world = with_levels();
    for mode in [levels::LevelMode::Newest, levels::LevelMode::Popular, levels::LevelMode::Recent] {
        let names = |game: &Game| {
            let page = game.levels.list(&LevelQuery::of(mode), NOW, "UTC").expect("a page");
            page.levels.into_iter().map(|found| found.row().expect("a row").name).collect()
        };
        check(&mut world, names, &NEWEST_FIRST);
    }
    let of_two = |game: &Game| {
        let friends = Some(vec!["ann".to_owned(), "cid".to_owned()]);
        let list = LevelQuery { friends, ..LevelQuery::of(levels::LevelMode::Newest) };
        let page = game.levels.list(&list, NOW, "UTC").expect("a page");
        page.levels.into_iter().map(|found| found.row().expect("a row").name).collect()
    };
    check(&mut world, of_two, &["ann", "cid"]);
}

#[test]
fn flagged_levels_are_oldest_first_and_their_reasons_newest_first() {
    let mut world = with_levels();
    for level in ["eve", "cid"] {
        for player in PLAYERS {
            let flag = json!({ "id": format!("{level:0<12}"), "player": player, "reason": player });
            send(&mut world, json!({ "levels": { "flag": flag } }));
        }
    }
    let levels = |game: &Game| -> Vec<String> {
        game.levels.queue(1, 20).items.into_iter().map(|item| item.level.name).collect()
    };
    check(&mut world, levels, &["cid", "eve"]);
    let reasons = |game: &Game| -> Vec<String> {
        game.levels.queue(1, 20).items[0].reasons.iter().map(|reason| reason.reason.clone()).collect()
    };
    check(&mut world, reasons, &NEWEST_FIRST);
}

fn newest_rows(game: &Game, table: &str) -> Vec<String> {
    let query = BoardQuery { newest: true, ..BoardQuery::default() };
    let page = game.boards.page(table, BoardViewer::All, &query, NOW).expect("a page");
    page.rows.into_iter().map(|row| row.player).collect()
}

#[test]
fn board_rows_are_newest_first() {
    let mut world = World::new(NOW);
    for keep in ["best", "last", "sum", "all"] {
        send(&mut world, json!({ "boards": { "define": { "table": keep, "change": { "keep": keep } } } }));
        for player in PLAYERS {
            let score = json!({ "player": player, "score": "7" });
            send(&mut world, json!({ "boards": { "submit": { "table": keep, "score": score } } }));
        }
        check(&mut world, |game| newest_rows(game, keep), &NEWEST_FIRST);
    }
}

#[test]
fn quarantine_is_oldest_first_and_accepted_scores_keep_their_arrival() {
    let mut world = World::new(NOW);
    let change = json!({ "mode": "open", "checks": { "min_play_s": 1 } });
    send(&mut world, json!({ "boards": { "define": { "table": "fast", "change": change } } }));
    for player in PLAYERS {
        let score =
            boards::SubmittedScore { player: player.to_owned(), score: "7".to_owned(), ..Default::default() };
        let submit = boards::BoardCommand::Submit { table: "fast".to_owned(), score, list: None };
        world.send_as(Caller::Public, Command::Boards(submit)).expect("a score");
    }
    let waiting = |game: &Game| game.boards.quarantine("fast").expect("the board");
    let players = |game: &Game| waiting(game).into_iter().map(|item| item.row.player).collect::<Vec<_>>();
    check(&mut world, players, &PLAYERS);
    let ids: Vec<String> = world.read(waiting).into_iter().map(|item| item.id).collect();
    for at in [3, 0, 4, 2, 1] {
        let decide = json!({ "table": "fast", "id": ids[at], "accept": true });
        send(&mut world, json!({ "boards": { "decide": decide } }));
    }
    check(&mut world, |game| newest_rows(game, "fast"), &NEWEST_FIRST);
}

#[test]
fn variable_history_is_newest_first() {
    let mut world = World::new(NOW);
    for name in PLAYERS {
        let put = vars::VarsCommand::Put {
            name: name.to_owned(),
            definition: serde_json::from_value(json!({ "value": 1 })).expect("a definition"),
            expected_version: None,
        };
        world.send(Command::Vars(put)).expect("a variable");
    }
    let names = |game: &Game| -> Vec<String> {
        let history = serde_json::to_value(game.vars.history(10)).expect("JSON");
        let changes = history.as_array().expect("a list").iter();
        changes.flat_map(|change| change["changed"].as_object().expect("an object").keys().cloned()).collect()
    };
    check(&mut world, names, &NEWEST_FIRST);
}
