//! Measures the archive on generated events: measure_archive [EVENTS]
//!
//! 30 days, players and sessions as UUIDs, ids as UUIDv7, five properties. Prints user and system time of the process per
//! event: appended and cut once, merged once, and scanned; and bytes per event.

use std::sync::Arc;
use std::time::Instant;

use archive::columns::Field;
use archive::scan::{Order, ScanRequest, Source};
use archive::{Archive, ArchiveOptions};
use model::batch::{BatchBuilder, Endpoint, KeyClass, StoredEvent};
use model::query::Unbounded;
use wal::sim::Random;

const GAME: u32 = 1;
const SEED: u64 = 42;
const DAYS: u64 = 30;
const DAY_MS: u64 = 86_400_000;
const START_MS: u64 = 20_758 * DAY_MS;
const EVENTS_PER_BATCH: u64 = 100;
const EVENTS_PER_SESSION: u64 = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let events: u64 = std::env::args().nth(1).map_or(Ok(3_000_000), |count| count.parse())?;
    let folder = std::env::temp_dir().join(format!("playmeter-archive-{}", std::process::id()));
    let result = measure(events, &folder);
    std::fs::remove_dir_all(&folder)?;
    result
}

fn measure(events: u64, folder: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    for (name, merges) in [("written once", false), ("merged once", true)] {
        let of_game = folder.join(name);
        // Merged: each day is cut into four files.
        let part_rows = if merges { (events / DAYS / 4) as usize } else { usize::MAX };
        let options = ArchiveOptions { part_rows, memory_bytes_max: usize::MAX };
        let (archive, _) = Archive::open(Arc::new(wal::RealDisk), &of_game, options)?;
        let mut world = World::new(events);
        let (mut spent, mut offset) = (0.0, 0);
        for day in 0..DAYS {
            for number in 0..(events / DAYS / EVENTS_PER_BATCH) {
                let (batch, now_ms) = world.batch(day, number, events / DAYS);
                let before = seconds();
                archive.append(SEED, offset..offset + EVENTS_PER_BATCH, &batch)?;
                offset += EVENTS_PER_BATCH;
                if merges && number % 16 == 0 {
                    archive.maintain(now_ms as i64)?;
                }
                spent += seconds() - before;
            }
            let before = seconds();
            archive.flush(GAME)?;
            archive.maintain((START_MS + (day + 1) * DAY_MS) as i64)?;
            spent += seconds() - before;
        }
        let bytes = size(&of_game)?;
        println!(
            "{name}: {:.3} us, {:.1} bytes an event",
            spent * 1e6 / offset as f64,
            bytes as f64 / offset as f64
        );
        let texts = [Field::Event, Field::Player, Field::Country, Field::Property("score".into())];
        for (what, fields) in [("event + player + ts", &texts[..1]), ("4 columns", &texts[..])] {
            for order in [Order::Any, Order::ByPlayer] {
                scan(&archive, what, fields, order)?;
            }
        }
    }
    Ok(())
}

fn scan(
    archive: &Archive,
    what: &str,
    fields: &[Field],
    order: Order,
) -> Result<(), Box<dyn std::error::Error>> {
    let request = ScanRequest {
        times: 0..i64::MAX,
        fields: fields.to_vec(),
        events: None,
        players: 0..=u64::MAX,
        order,
    };
    let snapshot = archive.snapshot(GAME);
    let (mut best, mut rows) = (f64::MAX, 0);
    for _ in 0..3 {
        let (before, mut sum) = (seconds(), 0u64);
        rows = 0;
        let started = Instant::now();
        snapshot.scan(&request, &Unbounded, &mut |chunk| {
            rows += chunk.rows();
            sum = sum.wrapping_add(chunk.players[0]);
            Ok(())
        })?;
        std::hint::black_box((sum, started));
        best = best.min(seconds() - before);
    }
    println!("  scan {what}, {order:?}: {:.1} ns an event", best * 1e9 / rows as f64);
    Ok(())
}

/// Returns the user and system time of the process.
fn seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn size(folder: &std::path::Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() { size(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

/// Events of players who come back with several sessions.
struct World {
    random: Random,
    players: u64,
}

impl World {
    fn new(events: u64) -> World {
        World { random: Random::new(1), players: (events / 37).max(1) }
    }

    /// Returns a batch: the events of some sessions that run at the time.
    fn batch(&mut self, day: u64, number: u64, events_per_day: u64) -> (Vec<u8>, u64) {
        let now = START_MS + day * DAY_MS + number * EVENTS_PER_BATCH * DAY_MS / events_per_day;
        let mut batch = BatchBuilder::new(Endpoint::Events, KeyClass::Public, GAME, now as i64, 32 << 10);
        for _ in 0..EVENTS_PER_BATCH / EVENTS_PER_SESSION {
            let player = self.random.below(self.players);
            let session = uuid_text(mix(player * 1_000 + day));
            let player_text = uuid_text(mix(player));
            let country = ["US", "DE", "FR", "JP", "BR", "IN", "GB", "ES"][(mix(player) % 8) as usize];
            let platform = ["web", "ios", "android"][(mix(player + 1) % 3) as usize];
            let mut at = now.saturating_sub(self.random.below(60_000)).max(START_MS + day * DAY_MS);
            for _ in 0..EVENTS_PER_SESSION {
                at = (at + self.random.below(4_000)).min(START_MS + (day + 1) * DAY_MS - 1);
                self.event(&mut batch, at, &player_text, &session, country, platform);
            }
        }
        (batch.finish(&[]).0, now)
    }

    fn event(
        &mut self,
        batch: &mut BatchBuilder,
        at: u64,
        player: &str,
        session: &str,
        country: &str,
        platform: &str,
    ) {
        const NAMES: [&str; 12] = [
            "start",
            "win",
            "lose",
            "$play",
            "$session_start",
            "$ping",
            "buy",
            "open",
            "close",
            "hit",
            "jump",
            "share",
        ];
        let random = &mut self.random;
        let name = NAMES[(random.below(12) * random.below(12) / 12) as usize];
        let level = random.below(60).to_string();
        let props = format!(
            "{{\"score\":{},\"weapon\":\"{}\",\"combo\":{},\"won\":{},\"map\":\"map-{}\"}}",
            random.below(100_000),
            ["axe", "bow", "sword", "staff", "gun"][random.below(5) as usize],
            random.below(20),
            random.chance(50),
            random.below(40),
        );
        let id = u128::from(at) << 80 | u128::from(random.next()) << 12 & ((1 << 76) - 1) | 7 << 76;
        batch.push(&StoredEvent {
            id: Some(id),
            ts_ms: at as i64,
            name: name.as_bytes(),
            player: player.as_bytes(),
            session: session.as_bytes(),
            value: random.chance(30).then(|| random.below(1_000) as f64),
            dimensions: [country.as_bytes(), b"", platform.as_bytes(), b"1.4.2", level.as_bytes()],
            props: props.as_bytes(),
            ..StoredEvent::default()
        });
    }
}

fn mix(number: u64) -> u64 {
    Random::new(number).next()
}

fn uuid_text(number: u64) -> String {
    let (high, low) = (mix(number), mix(number + 1));
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{:04x}-{:012x}", low >> 48 & 0x3fff | 0x8000, low & 0xffff_ffff_ffff)
}
