//! The pacer beside a server that is made up: the more is sent, the longer live commits take.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A server whose live commits take `at_rest` and longer the nearer the rate comes to what it can take.
struct Server {
    at_rest: Duration,
    /// Events a second.
    capacity: f64,
    /// Rates of the last window, as (when, events).
    window: VecDeque<(Duration, usize)>,
}

impl Server {
    fn new(at_rest_ms: f64, capacity: f64) -> Server {
        let at_rest = Duration::from_secs_f64(at_rest_ms / 1e3);
        Server { at_rest, capacity, window: VecDeque::new() }
    }

    /// Takes events and says how long live commits took during the last second.
    fn take(&mut self, now: Duration, events: usize) -> Duration {
        self.window.push_back((now, events));
        while self.window.front().is_some_and(|(at, _)| *at + WINDOW < now) {
            self.window.pop_front();
        }
        let events: usize = self.window.iter().map(|(_, events)| events).sum();
        let load = (events as f64 / self.capacity).min(0.999);
        self.at_rest.div_f64(1.0 - load).min(Duration::from_secs(1))
    }
}

/// One import: the time, the pacer and what it was told.
#[derive(Default)]
struct Run {
    now: Duration,
    pacer: Pacer,
    sent: u64,
    /// Time in which live commits took more than allowed.
    above: Duration,
}

impl Run {
    fn beside(&mut self, server: &mut Server, seconds: u64) -> &mut Run {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            let events = self.pacer.events();
            let began = self.now;
            self.now += self.pacer.wait(self.now, events);
            let commit = server.take(self.now, events);
            self.now += commit;
            self.sent += events as u64;
            self.pacer.hear(self.now, Some(commit));
            if commit > SLOWER_ABOVE {
                self.above += self.now - began;
            }
        }
        self
    }
}

/// The rate at which commits of the made-up server take so long.
fn rate_at(server: &Server, commit: Duration) -> f64 {
    server.capacity * (1.0 - server.at_rest.as_secs_f64() / commit.as_secs_f64())
}

#[test]
fn it_goes_as_fast_as_live_commits_allow_and_no_faster() {
    let mut server = Server::new(1.0, 200_000.0);
    let (low, high) = (rate_at(&server, FASTER_BELOW), rate_at(&server, SLOWER_ABOVE));
    let mut run = Run::default();
    let rate = run.beside(&mut server, 60).pacer.rate();
    assert!(rate > 0.6 * low && rate < 1.2 * high, "{rate} beside {low} to {high}");
    run.above = Duration::ZERO;
    run.beside(&mut server, 60);
    assert!(run.above < Duration::from_secs(6), "above the limit for {:?} of a minute", run.above);
}

#[test]
fn a_disk_that_becomes_slow_has_it_slow_down_and_a_fast_one_speed_up_again() {
    let mut run = Run::default();
    let before = run.beside(&mut Server::new(1.0, 200_000.0), 60).pacer.rate();
    let slow = run.beside(&mut Server::new(30.0, 200_000.0), 20).pacer.rate();
    assert!(slow <= RATE_MIN, "{slow}: nothing else helps a disk that takes 30 ms by itself");
    let after = run.beside(&mut Server::new(1.0, 200_000.0), 60).pacer.rate();
    assert!(after > 0.6 * before, "{after} after {before}");
}

#[test]
fn where_nobody_waits_it_goes_as_fast_as_it_can() {
    let mut pacer = Pacer::default();
    for second in 0..200 {
        pacer.wait(Duration::from_secs(second), 100_000_000);
        pacer.hear(Duration::from_secs(second), None);
    }
    assert_eq!(pacer.rate(), RATE_MAX);
}

#[test]
fn between_the_limits_it_stays_as_it_is() {
    let mut pacer = Pacer::default();
    for second in 1..100 {
        pacer.wait(Duration::from_secs(second), 10_000_000);
        pacer.hear(Duration::from_secs(second), Some(Duration::from_millis(5 + second % 6)));
    }
    assert_eq!(pacer.rate(), RATE_FIRST);
}

#[test]
fn a_rate_that_is_not_reached_does_not_rise() {
    let mut pacer = Pacer::default();
    for second in 1..100 {
        assert_eq!(pacer.wait(Duration::from_secs(second), 100), Duration::ZERO);
        pacer.hear(Duration::from_secs(second), Some(Duration::from_millis(1)));
    }
    assert_eq!(pacer.rate(), RATE_FIRST);
}

#[test]
fn it_goes_down_from_what_was_done_once_a_window() {
    let mut pacer = Pacer::default();
    let slow = Some(Duration::from_millis(11));
    pacer.wait(Duration::ZERO, 4_000);
    pacer.hear(Duration::from_secs(1), slow);
    assert_eq!(pacer.rate(), 4_000.0 * SLOWER);
    pacer.hear(Duration::from_millis(1_900), slow);
    assert_eq!(pacer.rate(), 4_000.0 * SLOWER, "the window still has what was before");
    pacer.wait(Duration::from_millis(1_900), 10_000);
    pacer.hear(Duration::from_millis(2_000), slow);
    assert_eq!(pacer.rate(), 4_000.0 * SLOWER * SLOWER);
}

#[test]
fn time_that_was_not_used_is_not_made_up_for() {
    let mut pacer = Pacer::default();
    let minute = Duration::from_secs(60);
    assert_eq!(pacer.wait(minute, 1_000), Duration::ZERO);
    assert_eq!(pacer.wait(minute, 1_000), Duration::from_millis(100), "a tenth of 10,000 a second");
}

proptest! {
    #[test]
    fn whatever_it_hears_it_stays_within_its_limits(
        heard in prop::collection::vec((0u64..3_000, prop::option::of(0u64..100)), 1..300),
    ) {
        let (mut pacer, mut now) = (Pacer::default(), Duration::ZERO);
        for (pause_ms, commit_ms) in heard {
            let events = pacer.events();
            prop_assert!((EVENTS_MIN..=EVENTS_MAX).contains(&events));
            let wait = pacer.wait(now, events);
            prop_assert!(wait <= Duration::from_secs(4), "no request waits for long: {wait:?}");
            now += wait + Duration::from_millis(pause_ms);
            let before = pacer.rate();
            pacer.hear(now, commit_ms.map(Duration::from_millis));
            prop_assert!((RATE_MIN..=RATE_MAX).contains(&pacer.rate()));
            prop_assert!(pacer.rate() <= before * FASTER);
        }
    }

    #[test]
    fn beside_any_server_live_commits_are_soon_left_alone(
        at_rest_ms in 0.1f64..4.0,
        capacity in 20_000.0f64..2_000_000.0,
    ) {
        let mut server = Server::new(at_rest_ms, capacity);
        let mut run = Run::default();
        run.beside(&mut server, 60);
        run.above = Duration::ZERO;
        run.beside(&mut server, 60);
        prop_assert!(run.above < Duration::from_secs(12), "{:?} of a minute above the limit", run.above);
        prop_assert!(run.sent > 100_000, "{} in two minutes", run.sent);
    }
}
