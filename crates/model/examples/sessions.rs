//! Measures the sessions of many active players: `cargo run --release -p playmeter-model --example sessions -- 10000000`.

use std::time::Instant;

use model::sessions::{SessionSignal, Sessions};

fn main() {
    let players: u64 = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let mut sessions = Sessions::default();
    let start = Instant::now();
    for player in 0..players {
        let id = player.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at_s = 600_000_000 + (player * 1_700 / players) as u32;
        sessions.game(1).observe(id, SessionSignal::Activity, at_s);
    }
    println!("{players} players observed in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let snapshot = sessions.snapshot();
    let ms = start.elapsed().as_secs_f64() * 1e3;
    println!("snapshot of {:.1} MB in {ms:.0} ms", snapshot.len() as f64 / 1e6);
    let start = Instant::now();
    Sessions::restore(&snapshot).expect("it was just encoded");
    println!("restored in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
}
