//! The time of lists and votes with 100,000 levels. The bounds are far above the usual times, for busy machines.

use std::hint::black_box;
use std::time::{Duration, Instant};

use liveops::levels::{LevelCommand, LevelMode, LevelQuery};

use super::world::{World, level, server};

const LEVELS: u64 = 100_000;

fn id(number: u64) -> String {
    format!("lev{number:09}")
}

fn full() -> World {
    let mut world = World::new();
    for number in 0..LEVELS {
        let player = format!("player {}", number % 20_000);
        let (mut save, blob) = level(&id(number), &player, &format!("level {number}"), "data");
        save.fields.insert("size".to_owned(), format!("{}", number % 10));
        save.fields.insert("seed".to_owned(), format!("{number}"));
        world.apply(server(), LevelCommand::Save(save), &blob).expect("saved");
    }
    for vote in 0..2 * LEVELS {
        rate(&mut world, vote * 7919 % LEVELS, vote % 5_000, vote * 31 % 10);
    }
    world
}

fn rate(world: &mut World, number: u64, player: u64, rating: u64) {
    let (player, rating) = (format!("player {player}"), rating as u8 + 1);
    world.apply(server(), LevelCommand::Rate { id: id(number), player, rating }, &[]).expect("a vote");
}

fn timed<T>(what: &str, times: u32, mut work: impl FnMut(u32) -> T) -> Duration {
    let start = Instant::now();
    (0..times).for_each(|n| drop(black_box(work(n))));
    let each = start.elapsed() / times;
    println!("{what}: {each:?}");
    each
}

fn modes() -> impl Iterator<Item = LevelMode> {
    ["popular", "newest", "recent", "today", "yesterday", "7d", "30d", "90d"]
        .into_iter()
        .map(|label| LevelMode::from_label(label).expect("a mode"))
}

#[test]
fn lists_of_a_hundred_thousand_levels_are_fast_while_votes_are_cast() {
    let mut world = full();
    let game = world.game();
    let list = |world: &World, list: &LevelQuery| {
        let page = game.read().levels.list(list, world.now_ms, "UTC").expect("a page");
        assert!(page.levels.len() <= 20);
        page.total
    };
    for mode in modes() {
        let first = LevelQuery { thumbs: false, ..LevelQuery::of(mode) };
        let what = format!("{}, first of the day", mode.label());
        assert!(timed(&what, 1, |_| list(&world, &first)) < Duration::from_millis(500));
        let what = format!("{}, page 1 after a vote", mode.label());
        let each = timed(&what, 200, |n| {
            rate(&mut world, u64::from(n) * 13, 77, u64::from(n) % 10);
            list(&world, &first)
        });
        assert!(each < Duration::from_millis(5), "{}: {each:?}", mode.label());
        let deep = LevelQuery { page: 4_999, ..first.clone() };
        let each = timed(&format!("{}, page 4,999", mode.label()), 20, |_| list(&world, &deep));
        assert!(each < Duration::from_millis(50));
        let tenth = LevelQuery { filters: vec![("size".to_owned(), "3".to_owned())], ..first.clone() };
        let each = timed(&format!("{}, a tenth of all", mode.label()), 20, |_| list(&world, &tenth));
        assert!(each < Duration::from_millis(50));
        let one = LevelQuery { filters: vec![("seed".to_owned(), "3".to_owned())], ..first.clone() };
        let each = timed(&format!("{}, one of all", mode.label()), 200, |_| list(&world, &one));
        assert!(each < Duration::from_millis(2));
    }
    timed("checkpoint of all", 1, |_| world.checkpoint());
    assert!(timed("start", 1, |_| world.crash()) < Duration::from_secs(10));
}
