//! The pacer beside a simulated server whose live commits take longer the more is sent.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A server whose live commits take `base_latency` and longer the nearer the rate comes to its capacity.
struct SimulatedServer {
    base_latency: Duration,
    /// Events per second.
    capacity: f64,
    /// The batches of the last window, as (time, events).
    window: VecDeque<(Duration, usize)>,
}

impl SimulatedServer {
    fn new(base_latency_ms: f64, capacity: f64) -> SimulatedServer {
        let base_latency = Duration::from_secs_f64(base_latency_ms / 1e3);
        SimulatedServer { base_latency, capacity, window: VecDeque::new() }
    }

    /// Accepts events and returns the latency of live commits during the last second.
    fn submit(&mut self, now: Duration, events: usize) -> Duration {
        self.window.push_back((now, events));
        while self.window.front().is_some_and(|(at, _)| *at + WINDOW < now) {
            self.window.pop_front();
        }
        let events: usize = self.window.iter().map(|(_, events)| events).sum();
        let load = (events as f64 / self.capacity).min(0.999);
        self.base_latency.div_f64(1.0 - load).min(Duration::from_secs(1))
    }
}

/// One import.
#[derive(Default)]
struct SimulatedImport {
    now: Duration,
    pacer: Pacer,
    sent: u64,
    /// The time during which live commits took longer than allowed.
    above: Duration,
}

impl SimulatedImport {
    fn run(&mut self, server: &mut SimulatedServer, seconds: u64) -> &mut SimulatedImport {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            let events = self.pacer.batch_size();
            let began = self.now;
            self.now += self.pacer.wait(self.now, events);
            let commit = server.submit(self.now, events);
            self.now += commit;
            self.sent += events as u64;
            self.pacer.update(self.now, Some(commit));
            if commit > SLOWER_ABOVE {
                self.above += self.now - began;
            }
        }
        self
    }
}

/// The rate at which commits of the simulated server have this latency.
fn rate_at(server: &SimulatedServer, commit: Duration) -> f64 {
    server.capacity * (1.0 - server.base_latency.as_secs_f64() / commit.as_secs_f64())
}

#[test]
fn the_rate_is_as_high_as_live_commits_allow() {
    let mut server = SimulatedServer::new(1.0, 200_000.0);
    let (low, high) = (rate_at(&server, FASTER_BELOW), rate_at(&server, SLOWER_ABOVE));
    let mut import = SimulatedImport::default();
    let rate = import.run(&mut server, 60).pacer.rate();
    assert!(rate > 0.6 * low && rate < 1.2 * high, "{rate} beside {low} to {high}");
    import.above = Duration::ZERO;
    import.run(&mut server, 60);
    assert!(import.above < Duration::from_secs(6), "above the limit for {:?} of a minute", import.above);
}

#[test]
fn the_rate_follows_a_disk_that_becomes_slow_and_fast_again() {
    let mut import = SimulatedImport::default();
    let before = import.run(&mut SimulatedServer::new(1.0, 200_000.0), 60).pacer.rate();
    let slow = import.run(&mut SimulatedServer::new(30.0, 200_000.0), 20).pacer.rate();
    assert!(slow <= RATE_MIN, "{slow}: the disk alone takes 30 ms");
    let after = import.run(&mut SimulatedServer::new(1.0, 200_000.0), 60).pacer.rate();
    assert!(after > 0.6 * before, "{after} after {before}");
}

#[test]
fn without_live_commits_the_rate_rises_to_its_maximum() {
    let mut pacer = Pacer::default();
    for second in 0..200 {
        pacer.wait(Duration::from_secs(second), 100_000_000);
        pacer.update(Duration::from_secs(second), None);
    }
    assert_eq!(pacer.rate(), RATE_MAX);
}

#[test]
fn between_the_limits_the_rate_stays() {
    let mut pacer = Pacer::default();
    for second in 1..100 {
        pacer.wait(Duration::from_secs(second), 10_000_000);
        pacer.update(Duration::from_secs(second), Some(Duration::from_millis(5 + second % 6)));
    }
    assert_eq!(pacer.rate(), RATE_FIRST);
}

#[test]
fn a_rate_that_is_not_reached_does_not_rise() {
    let mut pacer = Pacer::default();
    for second in 1..100 {
        assert_eq!(pacer.wait(Duration::from_secs(second), 100), Duration::ZERO);
        pacer.update(Duration::from_secs(second), Some(Duration::from_millis(1)));
    }
    assert_eq!(pacer.rate(), RATE_FIRST);
}

#[test]
fn the_rate_is_lowered_from_the_actual_rate_once_per_window() {
    let mut pacer = Pacer::default();
    let slow = Some(Duration::from_millis(11));
    pacer.wait(Duration::ZERO, 4_000);
    pacer.update(Duration::from_secs(1), slow);
    assert_eq!(pacer.rate(), 4_000.0 * SLOWER);
    pacer.update(Duration::from_millis(1_900), slow);
    assert_eq!(pacer.rate(), 4_000.0 * SLOWER, "the window still contains earlier commits");
    pacer.wait(Duration::from_millis(1_900), 10_000);
    pacer.update(Duration::from_millis(2_000), slow);
    assert_eq!(pacer.rate(), 4_000.0 * SLOWER * SLOWER);
}

#[test]
fn unused_time_is_not_made_up_for() {
    let mut pacer = Pacer::default();
    let minute = Duration::from_secs(60);
    assert_eq!(pacer.wait(minute, 1_000), Duration::ZERO);
    assert_eq!(pacer.wait(minute, 1_000), Duration::from_millis(100), "a tenth of 10,000 per second");
}

proptest! {
    #[test]
    fn the_rate_stays_within_its_limits(
        latencies in prop::collection::vec((0u64..3_000, prop::option::of(0u64..100)), 1..300),
    ) {
        let (mut pacer, mut now) = (Pacer::default(), Duration::ZERO);
        for (pause_ms, commit_ms) in latencies {
            let events = pacer.batch_size();
            prop_assert!((EVENTS_MIN..=EVENTS_MAX).contains(&events));
            let wait = pacer.wait(now, events);
            prop_assert!(wait <= Duration::from_secs(4), "no batch waits for long: {wait:?}");
            now += wait + Duration::from_millis(pause_ms);
            let before = pacer.rate();
            pacer.update(now, commit_ms.map(Duration::from_millis));
            prop_assert!((RATE_MIN..=RATE_MAX).contains(&pacer.rate()));
            prop_assert!(pacer.rate() <= before * FASTER);
        }
    }

    #[test]
    fn live_commits_of_any_server_are_rarely_above_the_limit(
        base_latency_ms in 0.1f64..4.0,
        capacity in 20_000.0f64..2_000_000.0,
    ) {
        let mut server = SimulatedServer::new(base_latency_ms, capacity);
        let mut import = SimulatedImport::default();
        import.run(&mut server, 60);
        import.above = Duration::ZERO;
        import.run(&mut server, 60);
        prop_assert!(import.above < Duration::from_secs(15), "{:?} of a minute above the limit", import.above);
        prop_assert!(import.sent > 100_000, "{} in two minutes", import.sent);
    }
}
