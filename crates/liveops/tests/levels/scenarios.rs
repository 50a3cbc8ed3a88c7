//! Short scenarios of players and moderators.

use liveops::levels::{LevelCommand, LevelMode, LevelQuery, LevelViewer, PackedLevel};
use liveops::{Caller, CommandResponse, Principal, Refusal};
use serde_json::Value;

use super::world::{World, decision, level, server, state};

const DAY_MS: i64 = 24 * 3600 * 1000;

/// Runs the lines of a scenario and compares the output:
///
/// ```text
/// ann saves cave [as draft] [FIELD=VALUE ...] [data TEXT]     bob rates cave 9     bob flags cave [WHY]
/// ann|mod sets cave to draft|published|removed                mod keeps|removes cave
/// cave is start|win|retry|quit|flag                           crowd rates cave 9 (as 90 players: 90 at the end)
/// N days|hours pass       restart       crash       ann is erased
/// list MODE [WORD=VALUE ...]     guest|ann|mod loads cave      queue      ann exports
/// ```
/// The output has refusals, repeated actions and everything that is read.
fn check(scene: &str, expected: &str) {
    let mut world = World::new();
    let shown: Vec<String> = scene.lines().filter_map(|line| play(&mut world, line.trim())).collect();
    let trim = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(trim(&shown.join("\n")), trim(expected), "\n{scene}");
}

fn id(name: &str) -> String {
    format!("{name:0<12}")
}

fn play(world: &mut World, line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["restart"] => {
            world.checkpoint();
            world.crash();
        }
        ["crash"] => world.crash(),
        [count, unit, "pass"] => {
            let unit_ms = if unit == "days" { DAY_MS } else { 3600 * 1000 };
            world.now_ms += count.parse::<i64>().expect("a number") * unit_ms;
        }
        ["clock", at] => world.now_ms = at.parse::<jiff::Timestamp>().expect("a time").as_millisecond(),
        ["zone", tz] => world.tz = tz.to_owned(),
        [player, "is", "erased"] => world.erase(player),
        [name, "is", state] => world.played(&id(name), &format!(r#"{{"state":"{state}"}}"#)),
        ["list", mode, ref conditions @ ..] => return Some(list(world, mode, conditions)),
        [viewer, "loads", name] => return Some(load(world, viewer, name)),
        ["queue"] => return Some(queue(world)),
        [player, "exports"] => return Some(export(world, player)),
        ["crowd", "rates", name, rating, count] => {
            for player in 0..count.parse().expect("a number") {
                rate(world, &format!("player {player}"), name, rating).expect("a vote");
            }
        }
        _ => return outcome(command(world, &words)),
    }
    None
}

fn command(world: &mut World, words: &[&str]) -> Result<CommandResponse, Refusal> {
    match words[..] {
        [player, "saves", name, ref rest @ ..] => save(world, player, name, rest),
        [player, "rates", name, rating] => rate(world, player, name, rating),
        [player, "flags", name, ref why @ ..] => {
            let (player, reason) = (player.to_owned(), why.join(" "));
            world.apply(server(), LevelCommand::Flag { id: id(name), player, reason }, &[])
        }
        [who, "sets", name, "to", word] => {
            let by = match who {
                "mod" => server(),
                "guest" => Principal { caller: Caller::Public, signed: None },
                player => world.session(player),
            };
            world.apply(by, LevelCommand::SetState { id: id(name), state: state(word) }, &[])
        }
        ["mod", verb, name] => {
            let decision = decision(verb.trim_end_matches('s'));
            world.apply(server(), LevelCommand::Decide { id: id(name), decision }, &[])
        }
        _ => panic!("unknown line {words:?}"),
    }
}

fn save(world: &mut World, player: &str, name: &str, rest: &[&str]) -> Result<CommandResponse, Refusal> {
    let (title, number) = name.split_once('#').unwrap_or((name, ""));
    let (mut save, mut blob) =
        level(&id(&format!("{title}{number}")), player, title, &format!("data of {title}"));
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match (*word, word.split_once('=')) {
            ("as", _) => save.state = state(rest.next().expect("a state")),
            ("data", _) => {
                let packed = PackedLevel::new(rest.next().expect("data"), None).expect("small data");
                (save.data, blob) = (packed.data, packed.blob);
            }
            (_, Some(("source", source))) => save.source = source.to_owned(),
            (_, Some((field, value))) => {
                save.fields.insert(field.to_owned(), value.to_owned());
            }
            other => panic!("unknown word {other:?}"),
        }
    }
    world.apply(server(), LevelCommand::Save(save), &blob)
}

fn rate(world: &mut World, player: &str, name: &str, rating: &str) -> Result<CommandResponse, Refusal> {
    let rating = rating.parse().expect("a small number");
    world.apply(server(), LevelCommand::Rate { id: id(name), player: player.to_owned(), rating }, &[])
}

fn outcome(outcome: Result<CommandResponse, Refusal>) -> Option<String> {
    match outcome {
        Err(refusal) => Some(match refusal.field {
            Some(field) => format!("{:?} {field}: {}", refusal.kind, refusal.detail),
            None => format!("{:?}: {}", refusal.kind, refusal.detail),
        }),
        Ok(answer) => {
            let answer: Value = serde_json::from_str(&answer.json).expect("JSON");
            let is = |field: &str| answer[field] == true;
            let words = [("duplicate", "there is"), ("changed", "changed"), ("already", "flagged already")];
            let (_, text) = words.iter().find(|(field, _)| is(field))?;
            Some(format!("{text} {}", answer["id"].as_str().expect("an id").trim_end_matches('0')))
        }
    }
}

fn list(world: &World, mode: &str, conditions: &[&str]) -> String {
    let mut list = LevelQuery::of(LevelMode::from_label(mode).expect("a mode"));
    let time = |text: &str| text.parse::<jiff::Timestamp>().expect("a time").as_millisecond();
    for condition in conditions {
        let (word, value) = condition.split_once('=').expect("WORD=VALUE");
        match word {
            "page" => list.page = value.parse().expect("a number"),
            "per" => list.per_page = value.parse().expect("a number"),
            "player" => list.player = Some(value.to_owned()),
            "friends" => list.friends = Some(value.split(',').map(str::to_owned).collect()),
            "source" => list.source = Some(value.to_owned()),
            "from" => list.from_ms = Some(time(value)),
            "to" => list.to_ms = Some(time(value)),
            "all" => {
                list.all_states = true;
                list.viewer = viewer(value);
            }
            field => list.filters.push((field.to_owned(), value.to_owned())),
        }
    }
    let game = world.game();
    let game = game.read();
    match game.levels.list(&list, world.now_ms, &world.tz) {
        Err(refused) => refused.to_string(),
        Ok(page) => {
            let rows = page.levels.into_iter().map(|found| found.row().expect("a row"));
            let names: Vec<String> = rows.map(|row| row.id.trim_end_matches('0').to_owned()).collect();
            format!("{} of {}", names.join(" "), page.total)
        }
    }
}

fn viewer(word: &str) -> LevelViewer {
    match word {
        "guest" => LevelViewer::Public,
        "mod" => LevelViewer::Moderator,
        player => LevelViewer::Player(player.to_owned()),
    }
}

fn load(world: &World, who: &str, name: &str) -> String {
    let Some(row) = world.load(&id(name), &viewer(who)) else { return "nothing".to_owned() };
    let data = row.data.unwrap_or("no data".to_owned());
    let rating = row.rating.map_or("none".to_owned(), |rating| format!("{rating:.2}"));
    let counts = format!("{} {} {} {} {}", row.starts, row.wins, row.retries, row.quits, row.flags);
    format!("{:?} {data}, {} votes {rating} {:.2}, {counts}", row.state, row.votes, row.score)
}

fn queue(world: &World) -> String {
    let game = world.game();
    let queue = game.read().levels.queue(1, 20);
    let item = |item: &liveops::levels::ModerationItem| {
        let reasons = item.reasons.iter().map(|it| format!("{}: {}", it.player, it.reason));
        let reasons = reasons.collect::<Vec<_>>().join(", ");
        format!("{} {} [{reasons}]", item.id.trim_end_matches('0'), item.open_flags)
    };
    format!("{} wait: {}", queue.total, queue.items.iter().map(item).collect::<Vec<_>>().join("; "))
}

fn export(world: &World, player: &str) -> String {
    let game = world.game();
    let export = game.read().levels.export_player(player).expect("the store answers");
    let texts = |list: &str, words: &[&str]| {
        let items = export[list].as_array().expect("a list").iter();
        let item =
            |item: &Value| words.iter().map(|word| item[word].to_string()).collect::<Vec<_>>().join(" ");
        items.map(item).collect::<Vec<_>>().join(", ")
    };
    let levels = texts("levels", &["name", "state", "data"]);
    let ratings = texts("ratings", &["level", "rating", "day"]);
    format!("{levels} | {ratings} | {}", texts("flags", &["level", "reason"])).replace('"', "")
}

#[test]
fn saved_level_is_loaded_with_its_data() {
    check(
        "ann saves cave
         guest loads cave
         restart
         guest loads cave
         guest loads hill",
        "Published data of cave, 0 votes none 5.50, 0 0 0 0 0
         Published data of cave, 0 votes none 5.50, 0 0 0 0 0
         nothing",
    );
}

#[test]
fn one_10_does_not_beat_ninety_9s() {
    check(
        "ann saves one
         ann saves ninety
         bob rates one 10
         crowd rates ninety 9 90
         list popular
         list recent
         list today
         guest loads ninety",
        "ninety one of 2
         ninety one of 2
         ninety one of 2
         Published data of ninety, 90 votes 9.00 8.65, 0 0 0 0 0",
    );
}

#[test]
fn saving_the_same_level_again_returns_the_first_one() {
    check(
        "ann saves cave
         ann saves cave#2
         bob saves cave#3
         ann saves cave#4 data other
         mod removes cave
         ann saves cave#5
         list newest",
        "there is cave
         there is cave
         cave4 cave3 of 2",
    );
}

#[test]
fn vote_counts_on_its_day() {
    check(
        "ann saves a
         ann saves b
         bob rates a 9
         cid rates b 2
         1 days pass
         cid rates a 3
         list today
         list yesterday
         6 days pass
         list 7d
         list today
         1 days pass
         list 7d
         list 30d
         82 days pass
         list 90d
         1 days pass
         list 90d
         list popular",
        "a of 1
         a b of 2
         a of 1
         of 0
         of 0
         a b of 2
         a of 1
         of 0
         a b of 2",
    );
}

#[test]
fn changed_vote_no_longer_counts_on_its_earlier_day() {
    check(
        "ann saves a
         bob rates a 9
         1 days pass
         list yesterday
         bob rates a 9
         list today
         bob rates a 2
         list yesterday
         list today
         guest loads a",
        "a of 1
          of 0
         changed a
          of 0
         a of 1
         Published data of a, 1 votes 2.00 5.18, 0 0 0 0 0",
    );
}

#[test]
fn days_follow_the_time_zone_of_the_game() {
    check(
        "zone Asia/Kathmandu
         clock 2026-11-20T18:14:00Z
         ann saves a
         bob rates a 9
         clock 2026-11-20T18:15:00Z
         list today
         list yesterday
         clock 2026-11-21T18:15:00Z
         list yesterday",
        " of 0
         a of 1
          of 0",
    );
}

#[test]
fn equal_scores_are_ordered_by_votes_then_newest_first() {
    check(
        "ann saves a
         ann saves b
         ann saves c
         ann saves d
         bob rates a 7
         cid rates a 4
         list popular
         list newest
         list newest per=3 page=2
         list newest per=3 page=9",
        "a d c b of 4
         d c b a of 4
         a of 4
          of 4",
    );
}

#[test]
fn all_given_conditions_must_hold() {
    check(
        "ann saves a size=big mood=dark source=web
         bob saves b size=big mood=light source=web
         1 hours pass
         cid saves c size=big mood=dark source=app
         list newest size=big
         list newest size=big mood=dark
         list newest size=big mood=dark source=web
         list newest size=small
         list newest colour=red
         list newest source=web player=bob
         list newest friends=ann,cid,none,ann
         list newest friends=ann,cid size=big player=cid
         list newest friends=ann player=cid
         list newest player=none
         clock 2026-11-20T23:00:00Z
         list newest from=2026-11-20T00:00:00Z to=2026-11-20T01:00:00Z
         list popular from=2026-11-20T01:00:00Z
         list popular to=2026-11-20T00:00:00Z
         list popular from=2026-11-21T00:00:00Z to=2026-11-20T00:00:00Z",
        "c b a of 3
         c a of 2
         a of 1
          of 0
          of 0
         b of 1
         c a of 2
         c of 1
          of 0
          of 0
         b a of 2
         c of 1
          of 0
          of 0",
    );
}

#[test]
fn draft_is_visible_to_its_maker_only() {
    check(
        "ann saves a as draft
         ann saves b
         list newest
         list newest player=ann
         list newest player=ann all=ann
         list newest player=ann all=mod
         list newest player=ann all=bob
         list newest all=mod
         guest loads a
         bob loads a
         ann loads a
         bob rates a 5
         bob flags a
         bob sets a to published
         guest sets a to published
         ann sets a to published
         list newest
         ann sets b to draft
         list newest
         ann saves c as removed",
        "b of 1
         b of 1
         b a of 2
         b a of 2
         only the player and moderators can see drafts and removed levels
         `all` requires `player`: drafts and removed levels can only be listed for one player
         nothing
         nothing
         Draft data of a, 0 votes none 5.50, 0 0 0 0 0
         NotFound: there is no level with this id
         NotFound: there is no level with this id
         Forbidden: the request is signed by another player
         Forbidden: the request must be signed by the level's maker
         b a of 2
         a of 1
         Invalid state: must be draft or published",
    );
}

#[test]
fn removed_level_is_hidden_from_others() {
    check(
        "ann saves a mood=dark
         bob rates a 9
         bob flags a
         a is win
         mod removes a
         restart
         list popular
         list today
         list newest mood=dark
         queue
         guest loads a
         ann loads a
         bob rates a 3
         bob flags a
         ann sets a to published
         mod keeps a
         mod sets a to draft
         a is win
         mod loads a",
        " of 0
          of 0
          of 0
         0 wait: 
         nothing
         Removed no data, 0 votes none 5.50, 0 1 0 0 1
         NotFound: there is no level with this id
         NotFound: there is no level with this id
         Conflict: this level was permanently removed
         Conflict: this level was permanently removed
         Conflict: this level was permanently removed
         Removed no data, 0 votes none 5.50, 0 1 0 0 1",
    );
}

#[test]
fn events_count_for_existing_levels() {
    check(
        "a is start
         ann saves a
         a is start
         a is start
         a is win
         a is retry
         a is quit
         a is flag
         a is dancing
         nowhere is start
         crash
         guest loads a
         restart
         a is start
         guest loads a
         queue",
        "Published data of a, 0 votes none 5.50, 2 1 1 1 1
         Published data of a, 0 votes none 5.50, 3 1 1 1 1
         1 wait: a 1 []",
    );
}

#[test]
fn invalid_props_are_ignored() {
    let mut world = World::new();
    play(&mut world, "ann saves a");
    for props in ["", "{}", "[]", "null", "{\"state\":1}", "{\"state\":null}", "{\"state\":\"Win\"}", "{"] {
        world.played(&id("a"), props);
    }
    world.played("A00000000000", r#"{"state":"win"}"#);
    world.played(&id("a"), r#"{"more":[1,{"state":"quit"}],"state":"w\u0069n"}"#);
    assert_eq!(load(&world, "guest", "a"), "Published data of a, 0 votes none 5.50, 0 1 0 0 0");
}

#[test]
fn flagged_level_is_kept_or_removed_by_a_moderator() {
    check(
        "ann saves a
         ann saves b
         ann saves c
         bob flags a too rude
         bob flags b
         cid flags b copied
         cid flags b again
         queue
         restart
         queue
         mod keeps b
         queue
         bob flags b
         queue
         dan flags b still copied
         b is flag
         queue
         mod removes b
         mod keeps c
         queue
         bob flags nothing",
        "flagged already b
         2 wait: b 2 [cid: copied, bob: ]; a 1 [bob: too rude]
         2 wait: b 2 [cid: copied, bob: ]; a 1 [bob: too rude]
         1 wait: a 1 [bob: too rude]
         flagged already b
         1 wait: a 1 [bob: too rude]
         2 wait: b 2 [dan: still copied]; a 1 [bob: too rude]
         1 wait: a 1 [bob: too rude]
         NotFound: there is no level with this id",
    );
}

#[test]
fn signed_request_acts_for_its_own_player_only() {
    let mut world = World::new();
    play(&mut world, "ann saves a");
    let rate = |player: &str| LevelCommand::Rate { id: id("a"), player: player.to_owned(), rating: 5 };
    let flag =
        |player: &str| LevelCommand::Flag { id: id("a"), player: player.to_owned(), reason: String::new() };
    let own = |world: &mut World, command: LevelCommand, blob: &[u8]| {
        let by = world.session("bob");
        outcome(world.apply(by, command, blob))
    };
    let refused = Some("Forbidden: the request is signed by another player".to_owned());
    assert_eq!(own(&mut world, rate("ann"), &[]), refused);
    assert_eq!(own(&mut world, rate("bob"), &[]), None);
    assert_eq!(own(&mut world, flag("ann"), &[]), refused);
    assert_eq!(own(&mut world, flag("bob"), &[]), None);
    let (save, blob) = level(&id("b"), "ann", "b", "data");
    assert_eq!(own(&mut world, LevelCommand::Save(save), &blob), refused);
    let (save, blob) = level(&id("b"), "bob", "b", "data");
    assert_eq!(own(&mut world, LevelCommand::Save(save), &blob), None);
}

#[test]
fn level_enters_the_feed_when_first_published() {
    let mut world = World::new();
    for (line, shown) in [
        ("ann saves a", 1),
        ("ann saves a#2", 1),
        ("ann saves b as draft", 1),
        ("ann sets b to published", 2),
        ("ann sets b to draft", 2),
        ("restart", 2),
        ("ann sets b to published", 2),
        ("mod removes b", 2),
    ] {
        play(&mut world, line);
        assert_eq!(world.game().read().feed.item_count(), shown, "{line}");
    }
}

#[test]
fn export_has_all_data_of_a_player() {
    check(
        "ann saves a
         ann saves b as draft
         ann saves c
         mod removes c
         bob saves d
         ann rates d 7
         ann rates a 10
         1 days pass
         ann flags d mine
         restart
         ann exports
         bob exports
         none exports",
        "a published data of a, b draft data of b, c removed null | a00000000000 10 2026-11-20, d00000000000 7 2026-11-20 | d00000000000 mine
         d published data of d |  |
          |  |",
    );
}

#[test]
fn erasure_leaves_only_counts() {
    let mut world = World::new();
    let scene = "ann saves secret-level data secret-data
                 bob saves b
                 ann rates b 9
                 bob rates b 3
                 ann flags b secret-reason
                 bob rates secret-level 3
                 bob flags secret-level
                 ann is erased";
    for line in scene.lines() {
        play(&mut world, line.trim());
    }
    assert_eq!(export(&world, "ann"), " |  | ");
    assert_eq!(load(&world, "mod", "secret-level"), "nothing");
    let b = "Published data of b, 1 votes 3.00 5.27, 0 0 0 0 1";
    assert_eq!(load(&world, "guest", "b"), b);
    world.crash();
    assert_eq!(load(&world, "guest", "b"), b);
    assert_eq!(queue(&world), "1 wait: b 1 []");
    let bytes = world.records.bytes();
    for word in ["ann", "secret"] {
        assert!(!bytes.windows(word.len()).any(|window| window == word.as_bytes()), "{word} is still there");
    }
}

#[test]
fn data_is_removed_with_the_last_level_that_has_it() {
    let mut world = World::new();
    let data = PackedLevel::new("some-data", None).expect("small data").blob;
    let is_kept = |world: &World| world.records.bytes().windows(data.len()).any(|window| window == data);
    for (line, kept) in [
        ("ann saves a data some-data", true),
        ("bob saves b data some-data", true),
        ("mod removes a", true),
        ("ann saves c data other", true),
        ("bob is erased", false),
    ] {
        play(&mut world, line);
        play(&mut world, "restart");
        assert_eq!(is_kept(&world), kept, "{line}");
    }
    assert_eq!(load(&world, "guest", "c"), "Published other, 0 votes none 5.50, 0 0 0 0 0");
}
