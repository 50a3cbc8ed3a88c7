//! Thousands of random steps compared with a model that keeps plain lists and counts them each time.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use liveops::levels::{
    Decision, LevelCommand, LevelMode, LevelQuery, LevelRow, LevelState, LevelViewer, PackedLevel, SaveLevel,
};
use serde_json::{Value, json};

use super::world::{World, server};

const STEPS: u64 = 10_000;
const PLAYERS: [&str; 12] =
    ["ann", "bob", "cid", "dan", "eve", "fay", "gus", "hal", "ida", "jon", "k\"\\é", "leo"];
/// The first level, which is never removed.
const CROWDED: &str = "lev000000001";
const NAMES: [&str; 5] = ["cave", "hill", "lake", "moor", "cliff"];
const SIZES: [&str; 3] = ["big", "small", "tiny"];
const SOURCES: [&str; 3] = ["", "web", "app"];
const MODES: [LevelMode; 8] = [
    LevelMode::Popular,
    LevelMode::Newest,
    LevelMode::Recent,
    LevelMode::Today,
    LevelMode::Yesterday,
    LevelMode::Days7,
    LevelMode::Days30,
    LevelMode::Days90,
];

/// Deterministic pseudo-random numbers (SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % sides
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.roll(of.len() as u64) as usize]
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }
}

#[derive(Clone)]
struct Vote {
    player: String,
    rating: u32,
    date: Date,
}

#[derive(Clone)]
struct ModelLevel {
    id: String,
    made: u64,
    created_ms: i64,
    state: LevelState,
    name: String,
    player: String,
    fields: BTreeMap<String, String>,
    source: String,
    data: String,
    thumb: Option<String>,
    votes: Vec<Vote>,
    counters: BTreeMap<&'static str, u64>,
    flags: Vec<(String, String, u64)>,
    open: u64,
    kept_at: u64,
}

/// A level's id, its open flags, and players with reasons.
type QueueRow = (String, u64, Vec<(String, String)>);

#[derive(Default)]
struct Model {
    levels: Vec<ModelLevel>,
}

fn mean(votes: &[&Vote]) -> Option<f64> {
    let sum: u32 = votes.iter().map(|vote| vote.rating).sum();
    (!votes.is_empty()).then(|| f64::from(sum) / votes.len() as f64)
}

/// Numerator and denominator of the Bayesian average.
fn score(votes: &[&Vote]) -> (u64, u64) {
    let sum: u64 = votes.iter().map(|vote| u64::from(vote.rating)).sum();
    (sum + 55, votes.len() as u64 + 10)
}

impl ModelLevel {
    fn votes_of(&self, mode: LevelMode, today: Date) -> Vec<&Vote> {
        let back = |first: i64, last: i64| {
            let day = |back: i64| today.checked_sub(back.days()).expect("a date");
            let days = day(first)..=day(last);
            self.votes.iter().filter(|vote| days.contains(&vote.date)).collect()
        };
        match mode {
            LevelMode::Popular | LevelMode::Newest => self.votes.iter().collect(),
            LevelMode::Recent => self.votes.iter().rev().take(100).collect(),
            LevelMode::Today => back(0, 0),
            LevelMode::Yesterday => back(1, 1),
            LevelMode::Days7 => back(6, 0),
            LevelMode::Days30 => back(29, 0),
            LevelMode::Days90 => back(89, 0),
        }
    }

    fn row(&self, list: Option<(LevelMode, Date)>, with: (bool, bool)) -> Value {
        let all: Vec<&Vote> = self.votes.iter().collect();
        let ratio = |(sum, count): (u64, u64)| sum as f64 / count as f64;
        let counter = |name: &str| self.counters.get(name).copied().unwrap_or_default();
        let mut row = json!({
            "id": self.id, "name": self.name, "player": self.player, "player_name": "", "state": self.state,
            "fields": self.fields, "source": self.source,
            "created_at": format!("{:.3}", Timestamp::from_millisecond(self.created_ms).expect("a time")),
            "votes": all.len(), "rating": mean(&all), "score": ratio(score(&all)),
            "starts": counter("start"), "wins": counter("win"), "retries": counter("retry"),
            "quits": counter("quit"), "flags": counter("flag"),
        });
        let (data, thumb) = with;
        if let Some((mode, today)) =
            list.filter(|(mode, _)| !matches!(mode, LevelMode::Popular | LevelMode::Newest))
        {
            let votes = self.votes_of(mode, today);
            row["window"] =
                json!({ "votes": votes.len(), "rating": mean(&votes), "score": ratio(score(&votes)) });
        }
        if data && self.state != LevelState::Removed {
            row["data"] = json!(self.data);
        }
        if let Some(picture) = self.thumb.as_ref().filter(|_| thumb) {
            row["thumb"] = json!(picture);
        }
        row
    }

    fn meets(&self, list: &LevelQuery) -> bool {
        let same = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|wanted| wanted == has);
        (self.state == LevelState::Published || list.all_states)
            && same(&list.player, &self.player)
            && same(&list.source, &self.source)
            && list.friends.as_ref().is_none_or(|friends| friends.contains(&self.player))
            && list.from_ms.is_none_or(|from| from <= self.created_ms)
            && list.to_ms.is_none_or(|to| self.created_ms < to)
            && list.filters.iter().all(|(field, value)| self.fields.get(field) == Some(value))
    }
}

/// Orders the better level first.
fn compare(mode: LevelMode, today: Date, one: &ModelLevel, other: &ModelLevel) -> Ordering {
    if mode == LevelMode::Newest {
        return (other.created_ms, other.made).cmp(&(one.created_ms, one.made));
    }
    let (votes, others) = (one.votes_of(mode, today), other.votes_of(mode, today));
    let ((sum, count), (other_sum, other_count)) = (score(&votes), score(&others));
    (other_sum * count)
        .cmp(&(sum * other_count))
        .then(others.len().cmp(&votes.len()))
        .then(other.made.cmp(&one.made))
}

impl Model {
    fn list(&self, list: &LevelQuery, today: Date) -> (usize, Vec<Value>) {
        let is_of_days = list.mode as usize >= LevelMode::Today as usize;
        let listed = |level: &&ModelLevel| {
            level.meets(list) && !(is_of_days && level.votes_of(list.mode, today).is_empty())
        };
        let mut levels: Vec<&ModelLevel> = self.levels.iter().filter(listed).collect();
        levels.sort_by(|one, other| compare(list.mode, today, one, other));
        let page =
            levels.iter().skip(((list.page - 1) * list.per_page) as usize).take(list.per_page as usize);
        let rows = page.map(|level| level.row(Some((list.mode, today)), (list.data, list.thumbs)));
        (levels.len(), rows.collect())
    }

    fn queue(&self) -> Vec<QueueRow> {
        let waits = |level: &&ModelLevel| level.open > 0;
        let mut levels: Vec<&ModelLevel> = self.levels.iter().filter(waits).collect();
        levels.sort_by_key(|level| (std::cmp::Reverse(level.open), level.made));
        let item = |level: &ModelLevel| {
            let open = level.flags.iter().rev().filter(|flag| flag.2 > level.kept_at).take(20);
            let reasons = open.map(|flag| (flag.0.clone(), flag.1.clone()));
            (level.id.clone(), level.open, reasons.collect())
        };
        levels.into_iter().map(item).collect()
    }

    fn published(&mut self, id: &str) -> Option<&mut ModelLevel> {
        self.levels.iter_mut().find(|level| level.id == id && level.state == LevelState::Published)
    }

    fn there(&mut self, id: &str) -> Option<&mut ModelLevel> {
        self.levels.iter_mut().find(|level| level.id == id && level.state != LevelState::Removed)
    }
}

impl ModelLevel {
    fn remove(&mut self) {
        self.state = LevelState::Removed;
        (self.votes, self.flags, self.open, self.thumb) = (Vec::new(), Vec::new(), 0, None);
        self.kept_at = 0;
    }
}

struct Run {
    dice: Dice,
    world: World,
    model: Model,
    ids: u64,
}

impl Run {
    fn today(&self) -> Date {
        let zone = TimeZone::get(&self.world.tz).expect("a zone");
        Timestamp::from_millisecond(self.world.now_ms).expect("a time").to_zoned(zone).date()
    }

    fn some_id(&mut self) -> String {
        let others = self.model.levels.len() as u64 - 1;
        if others == 0 || self.dice.chance(2) {
            return "nothere00000".to_owned();
        }
        self.model.levels[self.dice.roll(others) as usize + 1].id.clone()
    }

    fn step(&mut self) {
        match self.dice.roll(1000) {
            0..170 => self.save(),
            170..600 => self.rate(),
            600..750 => self.play(),
            750..800 => self.flag(),
            800..830 => self.decide(),
            830..870 => self.set_state(),
            870..875 => self.erase(),
            875..980 => self.pass(),
            980..985 => self.world.tz = self.dice.one(&["UTC", "Europe/Paris", "Asia/Kathmandu"]).to_owned(),
            985..993 => self.world.crash(),
            _ => {
                self.world.checkpoint();
                self.world.crash();
            }
        }
    }

    fn save(&mut self) {
        let player = self.dice.one(&PLAYERS);
        self.save_as(player, 20);
    }

    fn save_as(&mut self, player: &str, drafts_percent: u64) {
        self.ids += 1;
        let (id, player) = (format!("lev{:09}", self.ids), player.to_owned());
        let name = self.dice.one(&NAMES).to_owned();
        let data = format!("data {}", self.dice.roll(3));
        let thumb = self.dice.chance(20).then(|| format!("data:image/png;base64,{}", self.dice.roll(2)));
        let state = if self.dice.chance(drafts_percent) { LevelState::Draft } else { LevelState::Published };
        let mut fields = BTreeMap::new();
        if self.dice.chance(80) {
            fields.insert("size".to_owned(), self.dice.one(&SIZES).to_owned());
        }
        if self.dice.chance(50) {
            fields.insert("dark".to_owned(), "yes".to_owned());
        }
        let source = self.dice.one(&SOURCES).to_owned();
        let packed = PackedLevel::new(&data, thumb.as_deref()).expect("small data");
        let save = SaveLevel {
            id: id.clone(),
            name: name.clone(),
            player: player.clone(),
            player_name: String::new(),
            fields: fields.clone(),
            source: source.clone(),
            state,
            data: packed.data,
            thumb: packed.thumb,
        };
        let answer = self.world.apply(server(), LevelCommand::Save(save), &packed.blob).expect("saved");
        let answer: Value = serde_json::from_str(&answer.json).expect("JSON");
        let same = |level: &&ModelLevel| (&level.player, &level.name, &level.data) == (&player, &name, &data);
        if let Some(first) = self.model.levels.iter().find(same) {
            return assert_eq!((&answer["id"], &answer["duplicate"]), (&json!(first.id), &json!(true)));
        }
        assert_eq!((&answer["id"], &answer["duplicate"]), (&json!(id), &json!(false)));
        let (made, created_ms) = (self.world.offset, self.world.now_ms);
        let (votes, counters, flags, open, kept_at) = (Vec::new(), BTreeMap::new(), Vec::new(), 0, 0);
        self.model.levels.push(ModelLevel {
            id,
            made,
            created_ms,
            state,
            name,
            player,
            fields,
            source,
            data,
            thumb,
            votes,
            counters,
            flags,
            open,
            kept_at,
        });
    }

    fn rate(&mut self) {
        // One level that is never removed gets more than a hundred votes.
        let id = if self.dice.chance(20) { CROWDED.to_owned() } else { self.some_id() };
        let player = format!("rater {}", self.dice.roll(300));
        let player = if self.dice.chance(30) { self.dice.one(&PLAYERS).to_owned() } else { player };
        let (rating, date) = (self.dice.roll(10) as u32 + 1, self.today());
        let command = LevelCommand::Rate { id: id.clone(), player: player.clone(), rating: rating as u8 };
        let outcome = self.world.apply(server(), command, &[]);
        let Some(level) = self.model.published(&id) else {
            return drop(outcome.expect_err("nothing to rate"));
        };
        let before = level.votes.iter().position(|vote| vote.player == player);
        let is_same = before.is_some_and(|at| level.votes[at].rating == rating);
        if !is_same {
            before.map(|at| level.votes.remove(at));
            level.votes.push(Vote { player, rating, date });
        }
        let answer = outcome.expect("a vote");
        assert_eq!(answer.status, if before.is_none() { 201 } else { 200 });
        let answer: Value = serde_json::from_str(&answer.json).expect("JSON");
        assert_eq!(answer["changed"], before.is_some() && !is_same);
        let mean = mean(&level.votes.iter().collect::<Vec<_>>()).expect("a vote");
        // A number that was parsed from text may differ in its last bit.
        assert!((answer["rating"].as_f64().expect("a number") - mean).abs() < 1e-12);
    }

    fn play(&mut self) {
        let (id, state) = (self.some_id(), self.dice.one(&["start", "win", "retry", "quit", "flag", "fly"]));
        self.world.played(&id, &json!({ "state": state, "more": 1 }).to_string());
        let Some(level) = self.model.there(&id).filter(|_| state != "fly") else { return };
        *level.counters.entry(state).or_default() += 1;
        level.open += u64::from(state == "flag");
    }

    fn flag(&mut self) {
        let (id, player) = (self.some_id(), self.dice.one(&PLAYERS).to_owned());
        let reason = format!("reason {}", self.dice.roll(5));
        let command = LevelCommand::Flag { id: id.clone(), player: player.clone(), reason: reason.clone() };
        let outcome = self.world.apply(server(), command, &[]);
        let offset = self.world.offset;
        let Some(level) = self.model.published(&id) else {
            return drop(outcome.expect_err("nothing to flag"));
        };
        let already = level.flags.iter().any(|flag| flag.0 == player);
        assert_eq!(outcome.expect("a flag").status, if already { 200 } else { 201 });
        if !already {
            level.flags.push((player, reason, offset));
            level.open += 1;
            *level.counters.entry("flag").or_default() += 1;
        }
    }

    fn decide(&mut self) {
        let (id, keeps) = (self.some_id(), self.dice.chance(80));
        let decision = if keeps { Decision::Keep } else { Decision::Remove };
        let outcome = self.world.apply(server(), LevelCommand::Decide { id: id.clone(), decision }, &[]);
        let offset = self.world.offset;
        let Some(level) = self.model.there(&id) else { return drop(outcome.expect_err("nothing to decide")) };
        outcome.expect("a decision");
        if keeps {
            (level.open, level.kept_at) = (0, offset);
        } else {
            level.remove();
        }
    }

    fn set_state(&mut self) {
        let id = self.some_id();
        let state = [LevelState::Draft, LevelState::Published, LevelState::Published, LevelState::Removed];
        let state = state[self.dice.roll(4) as usize];
        let outcome = self.world.apply(server(), LevelCommand::SetState { id: id.clone(), state }, &[]);
        let Some(level) = self.model.there(&id) else { return drop(outcome.expect_err("nothing to change")) };
        outcome.expect("a change");
        level.state = state;
        if state == LevelState::Removed {
            level.remove();
        }
    }

    fn erase(&mut self) {
        let player = self.dice.one(&PLAYERS);
        self.world.erase(player);
        self.model.levels.retain(|level| level.player != player);
        for level in &mut self.model.levels {
            level.votes.retain(|vote| vote.player != player);
            level.flags.retain(|flag| flag.0 != player);
        }
    }

    /// Some hours, at times some days; now and then the clock steps back a little.
    fn pass(&mut self) {
        let minutes = match self.dice.roll(20) {
            0 => 60 * 24 * self.dice.roll(40) as i64,
            1 => -(self.dice.roll(10) as i64),
            _ => self.dice.roll(10 * 60) as i64,
        };
        self.world.now_ms += minutes * 60_000;
    }

    fn some_list(&mut self) -> LevelQuery {
        let dice = &mut self.dice;
        let mode = MODES[dice.roll(8) as usize];
        let mut list =
            LevelQuery { page: 1 + dice.roll(3), per_page: 1 + dice.roll(30), ..LevelQuery::of(mode) };
        list.player = dice.chance(15).then(|| dice.one(&PLAYERS).to_owned());
        list.friends = dice.chance(15).then(|| (0..3).map(|_| dice.one(&PLAYERS).to_owned()).collect());
        list.source = dice.chance(15).then(|| dice.one(&SOURCES[1..]).to_owned());
        if dice.chance(30) {
            list.filters.push(("size".to_owned(), dice.one(&SIZES).to_owned()));
        }
        if dice.chance(15) {
            list.filters.push(("dark".to_owned(), "yes".to_owned()));
        }
        let ago = |dice: &mut Dice, now_ms: i64| now_ms - dice.roll(30 * 24 * 60) as i64 * 60_000;
        list.from_ms = dice.chance(15).then(|| ago(dice, self.world.now_ms));
        list.to_ms = dice.chance(15).then(|| ago(dice, self.world.now_ms));
        (list.data, list.thumbs) = (dice.chance(20), dice.chance(50));
        if let Some(player) = list.player.clone().filter(|_| dice.chance(50)) {
            list.all_states = true;
            list.viewer = if dice.chance(50) { LevelViewer::Player(player) } else { LevelViewer::Moderator };
        }
        list
    }

    fn compare(&mut self) {
        let list = self.some_list();
        let page = self.world.list(&list);
        let (total, expected) = self.model.list(&list, self.today());
        let row = |row: LevelRow| serde_json::to_value(row).expect("JSON");
        let levels: Vec<Value> =
            page.levels.into_iter().map(|found| row(found.row().expect("data"))).collect();
        assert_eq!((page.total, levels), (total, expected), "{list:?}");
    }

    fn compare_all(&mut self) {
        for level in &self.model.levels {
            let row = self.world.load(&level.id, &LevelViewer::Moderator).expect("a level");
            assert_eq!(serde_json::to_value(row).expect("JSON"), level.row(None, (true, true)));
            let is_seen = self.world.load(&level.id, &LevelViewer::Public).is_some();
            assert_eq!(is_seen, level.state == LevelState::Published);
        }
        let game = self.world.game();
        let queue = game.read().levels.queue(1, u64::MAX);
        let rows = queue.items.into_iter().map(|item| {
            let reasons = item.reasons.into_iter().map(|reason| (reason.player, reason.reason));
            (item.id, item.open_flags, reasons.collect::<Vec<_>>())
        });
        assert_eq!(rows.collect::<Vec<_>>(), self.model.queue());
        for player in PLAYERS {
            let export = game.read().levels.export_player(player).expect("the store answers");
            self.compare_export(player, &export);
        }
    }

    fn compare_export(&self, player: &str, export: &Value) {
        let count = |list: &str| export[list].as_array().expect("a list").len();
        let levels = &self.model.levels;
        assert_eq!(count("levels"), levels.iter().filter(|level| level.player == player).count());
        let votes = levels.iter().flat_map(|level| &level.votes);
        assert_eq!(count("ratings"), votes.filter(|vote| vote.player == player).count());
        let flags = levels.iter().flat_map(|level| &level.flags);
        assert_eq!(count("flags"), flags.filter(|flag| flag.0 == player).count());
    }
}

fn run(seed: u64, steps: u64) -> Run {
    let mut run = Run { dice: Dice(seed), world: World::new(), model: Model::default(), ids: 0 };
    run.save_as("maker", 0);
    for step in 0..steps {
        run.step();
        run.compare();
        if step % 250 == 0 {
            run.compare_all();
        }
    }
    run.world.checkpoint();
    run.world.crash();
    run.compare_all();
    run
}

#[test]
fn ten_thousand_random_steps_agree_with_plain_lists() {
    let run = run(1, STEPS);
    let (levels, votes) = (run.model.levels.len(), run.model.levels[0].votes.len());
    assert!(levels > 50 && votes > 200, "a run that shows something: {levels} levels, {votes} votes");
}

#[test]
fn other_seeds_agree_with_plain_lists() {
    for seed in 2..7 {
        run(seed, 500);
    }
}

#[test]
#[ignore = "a million steps take minutes; `make torture` runs them"]
fn a_million_steps_agree_with_plain_lists() {
    (100..150).for_each(|seed| drop(run(seed, 2 * STEPS)));
}
