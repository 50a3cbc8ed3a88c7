//! Queries stop when their bounds are reached.

use std::cell::Cell;

use super::*;

/// Allows some memory and some checks.
struct Bounds {
    bytes_max: usize,
    checks_left: Cell<usize>,
    bytes_seen: Cell<usize>,
}

impl Bounds {
    fn new(bytes_max: usize, checks: usize) -> Bounds {
        Bounds { bytes_max, checks_left: Cell::new(checks), bytes_seen: Cell::new(0) }
    }
}

impl QueryControl for Bounds {
    fn check(&self, bytes: usize) -> Result<(), QueryStopped> {
        self.bytes_seen.set(self.bytes_seen.get().max(bytes));
        if bytes > self.bytes_max {
            return Err(QueryStopped::Memory { bytes_max: self.bytes_max });
        }
        self.checks_left.set(self.checks_left.get().checked_sub(1).ok_or(QueryStopped::Cancelled)?);
        Ok(())
    }
}

fn run_within(query: &Query, store: &Store, bounds: &Bounds) -> Result<QueryResult, QueryStopped> {
    let plan = query.plan(0, "UTC").expect("the query is valid");
    run(&plan, GAME, store, None, bounds).map_err(|failure| match failure {
        QueryFailure::Stopped(stopped) => stopped,
        QueryFailure::Store(failure) => panic!("{failure}"),
    })
}

/// `countries` countries with 1,500 players each, more than are counted exactly.
fn players(countries: usize) -> Store {
    let mut store = Store::default();
    for country in 0..countries {
        let mut aggregate = Aggregate { count: 1_500, ..Aggregate::default() };
        for player in 0..1_500u64 {
            aggregate.players.insert(hash_player(7, &player.to_le_bytes()));
        }
        for minutes in [1, 60] {
            let cut = Cut::By(Dimension::Country).code();
            store
                .aggregates
                .insert((EVENTS.into(), cut, minutes, format!("c{country}"), 0), aggregate.clone());
        }
    }
    store
}

#[test]
fn query_stops_when_it_needs_too_much_memory() {
    let store = players(200);
    let by = vec![QueryDimension::BuiltIn(Dimension::Country)];
    for (metric, step) in [("players", Step::All), ("players", Step::Hour), ("online", Step::Hour)] {
        let query = Query { by: by.clone(), ..query_of(metric, None, &(0..120), "UTC", step) };
        let bounds = Bounds::new(usize::MAX, usize::MAX);
        let whole = run_within(&query, &store, &bounds).expect("it has no bounds");
        assert_eq!(whole.series.len(), 51, "{metric}");
        // One state of 200 countries takes 32 KiB each.
        let needed = bounds.bytes_seen.get();
        assert!((6 << 20..64 << 20).contains(&needed), "{metric}: {needed} bytes");
        let stopped = run_within(&query, &store, &Bounds::new(4 << 20, usize::MAX));
        assert_eq!(stopped, Err(QueryStopped::Memory { bytes_max: 4 << 20 }), "{metric}");
        assert_eq!(run_within(&query, &store, &Bounds::new(64 << 20, usize::MAX)), Ok(whole));
    }
}

#[test]
fn cancelled_query_stops_while_it_reads_an_empty_window() {
    let query = query_of("players", None, &(0..120_000_000), "UTC", Step::Month);
    let stopped = run_within(&query, &Store::default(), &Bounds::new(usize::MAX, 50));
    assert_eq!(stopped, Err(QueryStopped::Cancelled));
}
