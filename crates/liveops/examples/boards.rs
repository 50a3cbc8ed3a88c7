//! Measures a large board: `cargo run --release -p playmeter-liveops --example boards -- [rank|restart] [--players N]`
//!
//! `rank`: a board with one window of all time that keeps the last score, so that each score moves its player's row.
//! Every player submits a score, then random players submit random scores and read their ranks.
//!
//! `restart`: the records of such a board, and the time to restore it from them.
//!
//! The last line is a JSON object of all figures. Times are CPU times of the thread, except `restart_s`.

use std::fs;
use std::hint::black_box;
use std::time::Instant;

use liveops::RecordWriter;
use liveops::boards::{Arrival, Board, BoardConfig, BoardWindow, KeepRule, Run, SubmitMode};
use model::ports::records::RecordWrite;

/// Scores and ranks to measure.
const OPERATIONS: u64 = 3_000_000;
/// 2026-11-20.
const NOW_MS: i64 = 1_795_132_800_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| arguments.iter().position(|it| it == name).and_then(|at| arguments.get(at + 1));
    let players = after("--players").and_then(|number| number.parse().ok()).unwrap_or(10_000_000);
    let figures = match arguments.first().map(String::as_str) {
        Some("rank") => rank(players),
        Some("restart") => restart(players),
        _ => return eprintln!("boards rank|restart [--players N]"),
    };
    figures.iter().for_each(|(name, value)| println!("{value:>16.4} {name}"));
    let all: Vec<String> = figures.iter().map(|(name, value)| format!(r#""{name}":{value:.4}"#)).collect();
    println!("{{{}}}", all.join(","));
}

type Figures = Vec<(&'static str, f64)>;

struct Play {
    board: Board,
    turn: u64,
    random: u64,
}

impl Play {
    fn new() -> Play {
        let config = BoardConfig {
            keep: KeepRule::Last,
            windows: vec![BoardWindow::All],
            ..BoardConfig::new(SubmitMode::Server)
        };
        let board = Board::new(1, "large", config, Arrival::first_of(NOW_MS), "UTC");
        Play { board, turn: 0, random: 1 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }

    /// Submits a random score, about a hundred per millisecond.
    fn submit(&mut self, player: u64) {
        let score = self.random(1_000_000_000) as i64;
        self.turn += 1;
        let arrival = Arrival(Arrival::first_of(NOW_MS + self.turn as i64 / 100).0 + self.turn % 100);
        let player = self.board.find_or_add_player(&id(player), "");
        self.board.add_run(player, &Run { score, arrival, ..Run::default() });
        self.board.clock = arrival.next();
    }

    fn rank(&self, player: u64) -> Option<usize> {
        self.board.rank_of(self.board.roster.find(&id(player))?, BoardWindow::All)
    }

    fn fill(&mut self, players: u64) {
        // Players appear in a mixed order: multiplication by an odd number modulo a power of two.
        let all = players.next_power_of_two();
        let order = (0..all).map(|at| at.wrapping_mul(0x9E37_79B9) & (all - 1)).filter(|at| *at < players);
        order.for_each(|player| self.submit(player));
    }
}

fn id(player: u64) -> String {
    format!("player-{player:012}")
}

fn rank(players: u64) -> Figures {
    let before = resident_bytes();
    let mut play = Play::new();
    let filled = cpu_us(|| play.fill(players)) / players as f64;
    // A checkpoint would drain the list of changes, too.
    drop(play.board.runs.drain_changed());
    let each = |resident: f64| resident / players as f64;
    let (resident, bytes) = (resident_bytes() - before, play.board.memory());
    let submit = cpu_us(|| {
        (0..OPERATIONS).for_each(|_| {
            let player = play.random(players);
            play.submit(player);
        });
    });
    let rank = cpu_us(|| {
        (0..OPERATIONS).for_each(|_| {
            let player = play.random(players);
            black_box(play.rank(player));
        });
    });
    let after = play.board.memory();
    let [submit, rank] = [submit, rank].map(|us| us / OPERATIONS as f64);
    vec![
        ("submit_and_rank_us", submit + rank),
        ("submit_us", submit),
        ("rank_us", rank),
        ("first_submit_us", filled),
        ("resident_bytes_per_player", each(resident)),
        ("ranks_bytes_per_player", each(bytes.ranks as f64)),
        ("ranks_bytes_per_player_after_changes", each(after.ranks as f64)),
        ("lookup_bytes_per_player", each(bytes.lookup as f64)),
        ("ids_bytes_per_player", each(bytes.texts as f64)),
    ]
}

fn restart(players: u64) -> Figures {
    let mut play = Play::new();
    play.fill(players);
    let started = Instant::now();
    let records = checkpoint(&mut play.board);
    let whole_s = started.elapsed().as_secs_f64();
    let bytes: usize = records.iter().filter_map(|it| it.value.as_ref()).map(Vec::len).sum();
    let changes = 20_000;
    (0..changes).for_each(|_| {
        let player = play.random(players);
        play.submit(player);
    });
    let mut few = Vec::new();
    let cpu = cpu_us(|| few = checkpoint(&mut play.board));
    let written: usize = few.iter().filter_map(|it| it.value.as_ref()).map(Vec::len).sum();
    drop(play);
    let started = Instant::now();
    let mut board = read(&records);
    let read_s = started.elapsed().as_secs_f64();
    board.finish_restore(std::iter::empty());
    let restart_s = started.elapsed().as_secs_f64();
    assert_eq!(u64::from(board.roster.len()), players);
    vec![
        ("restart_s", restart_s),
        ("of_it_read_s", read_s),
        ("stored_bytes_per_player", bytes as f64 / players as f64),
        ("checkpoint_of_all_s", whole_s),
        ("checkpoint_us_per_score", cpu / f64::from(changes)),
        ("checkpoint_bytes_per_score", written as f64 / f64::from(changes)),
    ]
}

fn checkpoint(board: &mut Board) -> Vec<RecordWrite> {
    let mut writes = Vec::new();
    board.write_changes(&mut RecordWriter::new(1, 2, &mut writes));
    writes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    writes
}

/// Restores a board from its records. A key is game and subject (5 bytes), kind, board (4 bytes), and the rest.
fn read(records: &[RecordWrite]) -> Board {
    let mut records = records.iter().filter_map(|it| Some((&it.key[5..], it.value.as_ref()?)));
    let (_, first) = records.next().expect("the settings come first");
    let mut board = Board::restore(1, first).expect("its settings");
    for (key, value) in records {
        board.restore_record(key[0], &key[5..], value).expect("a record");
    }
    board
}

fn cpu_us(work: impl FnOnce()) -> f64 {
    let before = cpu_ns();
    work();
    (cpu_ns() - before) / 1e3
}

/// Returns the CPU time of this thread.
fn cpu_ns() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

fn resident_bytes() -> f64 {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: f64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096.0
}
