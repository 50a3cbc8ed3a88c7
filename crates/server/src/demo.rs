//! Simulated players of the demo game, so that the dashboard shows live data before your own game sends any.
//!
//! Players arrive, play rounds and leave at a human rate. Their events take the same path as all others.

mod content;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use model::batch::{Endpoint, KeyClass};
use model::{Dimension, RawBatch, RawEvent};
use tracing::warn;
use wal::{Ack, Lane};

use http::AppState;
use http::RuntimeState;
use pipeline::catalog::{Access, Scopes};
use pipeline::ingest::{Claims, ClientInfo, IngestRequest};
use pipeline::time::now_ms;

/// The number of players in a quiet and in a busy minute.
const CROWD: (u32, u32) = (14, 30);
/// The interval of the simulation.
const STEP: Duration = Duration::from_millis(200);
/// The history that an empty game gets, so that the first chart has a shape.
const PAST_MINUTES: i64 = 60;

/// The last part of the history, which is sent second by second for the chart of the last seconds.
const SECONDS_SHOWN_MS: i64 = 130_000;

const COUNTRIES: [&str; 12] = ["FR", "US", "DE", "BR", "JP", "GB", "IN", "SE", "ES", "CA", "MX", "KR"];
const PLATFORMS: [&str; 4] = ["web", "android", "ios", "windows"];
const VERSIONS: [&str; 3] = ["1.4.2", "1.4.2", "1.4.1"];
const SOURCES: [&str; 4] = ["direct", "friends", "portal", "ad"];

/// Simulates players until the server stops.
pub(crate) async fn play(shared: Arc<AppState>, lane: Lane<Claims>) {
    let Some(game) = shared.catalog.game("demo") else { return };
    let access = Access { game, class: KeyClass::Secret, scopes: Scopes::ALL, person: false, key: 0 };
    let is_new = shared.log.durable_until() == 0;
    let runtime = RuntimeState { shared: Arc::clone(&shared), lane: lane.clone() };
    content::create(&runtime, &access).await;
    let mut world = World::new(now_ms() as u64);
    if is_new {
        let now = now_ms();
        let mut at = now - PAST_MINUTES * 60_000;
        while at < now {
            let step_ms = if now - at > SECONDS_SHOWN_MS { 60_000 } else { 1_000 };
            let until = (at + step_ms).min(now);
            send(&shared, &lane, &access, until, world.until(until, at)).await;
            at = until;
        }
    }
    let mut stopping = shared.stopping.clone();
    let mut last = now_ms();
    while !*stopping.borrow() {
        let now = now_ms();
        send(&shared, &lane, &access, now, world.until(now, last)).await;
        last = now;
        tokio::select! {
            () = tokio::time::sleep(STEP) => {}
            _ = stopping.changed() => {}
        }
    }
}

async fn send(
    shared: &AppState,
    lane: &Lane<Claims>,
    access: &Access,
    received_ms: i64,
    events: Vec<RawEvent<'static>>,
) {
    if events.is_empty() {
        return;
    }
    let decoded = RawBatch { sent_at_ms: None, events: events.into_iter().map(Ok).collect() };
    let request = IngestRequest {
        endpoint: Endpoint::Demo,
        received_ms,
        client: ClientInfo::default(),
        ack: Ack::Disk,
        rejected: &[],
    };
    if let Err(failure) = shared.ingest.submit(lane, access, &request, &decoded).await {
        warn!(%failure, "events of simulated players were not accepted");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

struct World {
    random: Random,
    players: Vec<Player>,
    arrivals: u32,
}

struct Player {
    name: String,
    session: String,
    country: &'static str,
    platform: &'static str,
    version: &'static str,
    source: &'static str,
    level: u32,
    /// The next action; it happens at `at_ms`.
    next: Action,
    at_ms: i64,
    leaves_ms: i64,
    pings_ms: i64,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    Arrive,
    View,
    Start,
    Finish,
}

impl World {
    fn new(seed: u64) -> World {
        World { random: Random(seed | 1), players: Vec::new(), arrivals: 0 }
    }

    /// Returns the events between two points in time.
    fn until(&mut self, until_ms: i64, from_ms: i64) -> Vec<RawEvent<'static>> {
        let mut events = Vec::new();
        let wave = (until_ms as f64 / 420_000.0).sin() * 0.5 + 0.5;
        let crowd = CROWD.0 + ((CROWD.1 - CROWD.0) as f64 * wave) as u32;
        if (self.players.len() as u32) < crowd && self.random.below(4) == 0 {
            let player = self.arrive(from_ms);
            self.players.push(player);
        }
        while (self.players.len() as u32) < crowd / 2 {
            let player = self.arrive(from_ms);
            self.players.push(player);
        }
        for player in &mut self.players {
            while player.at_ms.min(player.pings_ms) <= until_ms && player.at_ms <= player.leaves_ms {
                player.act(&mut self.random, &mut events);
            }
        }
        for player in self
            .players
            .iter()
            .filter(|player| player.leaves_ms < player.at_ms && player.leaves_ms <= until_ms)
        {
            events.push(player.event("$session_end", player.leaves_ms, None, false));
        }
        self.players.retain(|player| player.leaves_ms >= player.at_ms || player.leaves_ms > until_ms);
        events
    }

    fn arrive(&mut self, at_ms: i64) -> Player {
        self.arrivals += 1;
        let random = &mut self.random;
        let at_ms = at_ms + i64::from(random.below(1500));
        // Names come back: some players return to the game.
        let number = if random.below(3) == 0 { random.below(400) } else { random.below(20_000) };
        Player {
            name: format!(
                "{}-{number}",
                random.of(&["ann", "bo", "chi", "dee", "eli", "fay", "gus", "hana"])
            ),
            session: format!("demo-{at_ms}-{}", self.arrivals),
            country: random.prefer_first(&COUNTRIES),
            platform: random.prefer_first(&PLATFORMS),
            version: random.of(&VERSIONS),
            source: random.prefer_first(&SOURCES),
            level: 1 + random.below(4),
            next: Action::Arrive,
            at_ms,
            leaves_ms: at_ms + 60_000 + i64::from(random.below(540_000)),
            pings_ms: at_ms + 60_000,
        }
    }
}

impl Player {
    fn act(&mut self, random: &mut Random, events: &mut Vec<RawEvent<'static>>) {
        if self.pings_ms < self.at_ms {
            events.push(self.event("$ping", self.pings_ms, None, false));
            self.pings_ms += 30_000;
            return;
        }
        let at_ms = self.at_ms;
        let (next, pause_ms) = match self.next {
            Action::Arrive => {
                events.push(self.event("$session_start", at_ms, None, false));
                (Action::View, 400)
            }
            Action::View => {
                events.push(self.event("$view", at_ms, None, false));
                (Action::Start, 2_000 + random.below(3_000))
            }
            Action::Start => {
                events.push(self.event("$play", at_ms, None, false));
                events.push(self.event("level_start", at_ms, None, true));
                (Action::Finish, 6_000 + random.below(22_000))
            }
            Action::Finish => {
                self.finish(random, at_ms, events);
                (Action::Start, 1_500 + random.below(5_000))
            }
        };
        self.next = next;
        self.at_ms += i64::from(pause_ms);
    }

    fn finish(&mut self, random: &mut Random, at_ms: i64, events: &mut Vec<RawEvent<'static>>) {
        let score = f64::from(self.level * 100 + random.below(900));
        if random.below(10) < 6 {
            events.push(self.event("level_win", at_ms, Some(score), true));
            self.level += 1;
        } else {
            events.push(self.event("level_retry", at_ms, None, true));
        }
        if random.below(9) == 0 {
            events.push(self.event("coins_spent", at_ms, Some(f64::from(10 * (1 + random.below(8)))), true));
        }
        if random.below(25) == 0 {
            events.push(self.event("shared", at_ms, None, false));
        }
    }

    fn event(&self, name: &'static str, at_ms: i64, value: Option<f64>, in_level: bool) -> RawEvent<'static> {
        let mut event = RawEvent {
            name: Some(Cow::Borrowed(name)),
            ts_ms: Some(at_ms),
            player: Some(Cow::Owned(self.name.clone())),
            session: Some(Cow::Owned(self.session.clone())),
            value,
            ..RawEvent::default()
        };
        let level = in_level.then(|| Cow::Owned(self.level.to_string()));
        let known =
            [self.country, self.source, self.platform, self.version].map(|text| Some(Cow::Borrowed(text)));
        for (place, value) in event.dimensions.iter_mut().zip(known) {
            *place = value;
        }
        event.dimensions[Dimension::Level as usize] = level;
        event
    }
}

/// A small generator (xorshift64*, Vigna 2016), not for secrets.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % u64::from(bound)) as u32
    }

    fn of(&mut self, values: &[&'static str]) -> &'static str {
        values[self.below(values.len() as u32) as usize]
    }

    fn prefer_first(&mut self, values: &[&'static str]) -> &'static str {
        let bound = values.len() as u32;
        values[self.below(bound).min(self.below(bound)) as usize]
    }
}
