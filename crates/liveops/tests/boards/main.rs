//! Boards compared with a naive model that keeps every run and sorts, for every keep rule and window, over days, bans,
//! resets and restarts.

mod model;
mod world;

use liveops::boards::{BoardCommand, BoardQuery, BoardWindow, SubmittedScore};
use model::{KeepRule, Model, Shape};
use world::{Random, World};

/// Steps of one world of six boards.
const STEPS: usize = 10_000;
/// 2026-03-20, nine days before a day of 23 hours in Berlin.
const START_MS: i64 = 1_773_964_800_000;

/// Applies random steps to both and compares every response.
fn check(seed: u64, steps: usize) {
    let mut random = Random(seed);
    let mut world = World::new();
    let shapes = [
        Shape { keep: KeepRule::Best, ascending: false, decimals: 0 },
        Shape { keep: KeepRule::Best, ascending: true, decimals: 2 },
        Shape { keep: KeepRule::Last, ascending: false, decimals: 1 },
        Shape { keep: KeepRule::Sum, ascending: false, decimals: 0 },
        Shape { keep: KeepRule::Sum, ascending: true, decimals: 3 },
        Shape { keep: KeepRule::All, ascending: false, decimals: 0 },
    ];
    let mut models: Vec<Model> =
        shapes.into_iter().enumerate().map(|(at, shape)| Model::new(at, shape)).collect();
    let mut now_ms = START_MS;
    models.iter_mut().for_each(|model| model.define(&mut world, now_ms));
    let mut last_checked = 0;
    for step in 0..steps {
        now_ms += random.pause_ms();
        // Commands of different connections overtake each other, and clocks are corrected.
        let now_ms = now_ms - if random.below(10) == 0 { random.below(9 * 60_000) as i64 } else { 0 };
        let at = random.below(models.len() as u64) as usize;
        let case = format!("seed {seed}, step {step}, {:?}", models[at].shape);
        match random.below(1_000) {
            0..600 => models[at].submit(&mut world, &mut random, now_ms, &case),
            600..960 => models[at].read(&world, &mut random, now_ms, &case),
            960..970 => models[at].reset(&mut world, now_ms, &case),
            970..985 => ban(&mut world, &mut models, &mut random, now_ms),
            985..988 => models[at].redeclare(&mut world, &mut random, now_ms),
            988..990 => erase(&mut world, &mut models, &mut random),
            990..996 => world.checkpoint(),
            _ => world.restart(),
        }
        last_checked = step;
    }
    assert_eq!(last_checked + 1, steps);
}

fn ban(world: &mut World, models: &mut [Model], random: &mut Random, now_ms: i64) {
    let player = random.player();
    let is_banned = models[0].banned.contains(&player);
    world.ban(&player, !is_banned, now_ms);
    for model in models {
        if is_banned {
            model.banned.remove(&player);
        } else {
            model.banned.insert(player.clone());
        }
    }
}

fn erase(world: &mut World, models: &mut [Model], random: &mut Random) {
    let player = random.player();
    world.erase(&player);
    models.iter_mut().for_each(|model| model.runs.retain(|run| run.player != player));
}

#[test]
fn boards_agree_with_a_naive_model() {
    check(1, STEPS);
}

#[test]
fn boards_agree_with_a_naive_model_for_other_seeds() {
    (2..6).for_each(|seed| check(seed, STEPS / 10));
}

#[test]
#[ignore = "a million steps take minutes; `make torture` runs them"]
fn boards_agree_with_a_naive_model_for_a_million_steps() {
    (100..150).for_each(|seed| check(seed, 2 * STEPS));
}

#[test]
fn clock_that_was_ahead_leaves_no_board_in_the_future() {
    const DAY_MS: i64 = 86_400_000;
    for keep in [KeepRule::Best, KeepRule::Last, KeepRule::Sum, KeepRule::All] {
        let mut world = World::new();
        Model::new(0, Shape { keep, ascending: false, decimals: 0 }).define(&mut world, START_MS);
        let submit = |world: &mut World, player: &str, score: i64, ms: i64| {
            let score = SubmittedScore {
                player: player.into(),
                score: score.to_string(),
                ..SubmittedScore::default()
            };
            let submit = BoardCommand::Submit { table: "board-0".into(), score, list: None };
            world.send(submit, ms).expect("a score");
        };
        submit(&mut world, "ann", 1, START_MS);
        submit(&mut world, "bo", 20, START_MS + 40 * DAY_MS);
        submit(&mut world, "cy", 30, START_MS + 40 * DAY_MS + 1);
        world
            .send(BoardCommand::Reset { table: "board-0".into() }, START_MS + 40 * DAY_MS + 2)
            .expect("a reset");
        submit(&mut world, "ed", 2, START_MS + 40 * DAY_MS + 3);
        submit(&mut world, "bo", 5, START_MS + 1_000);
        let rows = |world: &World, window: BoardWindow, ms: i64| {
            let query = BoardQuery { window: Some(window), per_page: 10, ..BoardQuery::default() };
            let page = world.page("board-0", &query, ms).expect("a page");
            assert!(page.rows.iter().all(|row| row.at <= ms), "{keep:?} {window:?}");
            page.rows.iter().map(|row| format!("{} {}", row.player, row.score)).collect::<Vec<_>>().join(", ")
        };
        let all = match keep {
            KeepRule::Best => "cy 30, bo 20, ed 2, ann 1",
            KeepRule::Last => "cy 30, bo 5, ed 2, ann 1",
            KeepRule::Sum => "cy 30, bo 25, ed 2, ann 1",
            KeepRule::All => "cy 30, bo 20, bo 5, ed 2, ann 1",
        };
        for _ in 0..2 {
            for window in [BoardWindow::All, BoardWindow::Month, BoardWindow::Week, BoardWindow::Day] {
                assert_eq!(rows(&world, window, START_MS + 2_000), all, "{keep:?} {window:?}");
            }
            assert_eq!(rows(&world, BoardWindow::Season, START_MS + 2_000), "bo 5, ed 2", "{keep:?}");
            // What left the rolling windows while the clock was ahead does not return on every board.
            let rolling = rows(&world, BoardWindow::Hours24, START_MS + 2_000);
            assert!(rolling == all || rolling == all.trim_end_matches(", ann 1"), "{keep:?} {rolling}");
            world.restart();
        }
        let tomorrow = START_MS + DAY_MS;
        submit(&mut world, "di", 7, tomorrow);
        assert_eq!(rows(&world, BoardWindow::Day, tomorrow), "di 7", "{keep:?}");
        assert_eq!(rows(&world, BoardWindow::Hours24, tomorrow + DAY_MS - 1), "di 7", "{keep:?}");
    }
}

#[test]
fn erasure_leaves_no_record() {
    let (mut world, mut random) = (World::new(), Random(7));
    let mut model = Model::new(0, Shape { keep: KeepRule::Best, ascending: false, decimals: 0 });
    model.define(&mut world, START_MS);
    for step in 0..2_000 {
        model.submit(&mut world, &mut random, START_MS + step, "erasure");
        if step % 50 == 0 {
            world.checkpoint();
        }
        if step == 1_000 {
            world.restart();
        }
    }
    assert!(world.mentions("player-7"));
    world.erase("player-7");
    assert!(!world.mentions("player-7"), "it is in no record");
    assert!(world.mentions("player-8"));
}
