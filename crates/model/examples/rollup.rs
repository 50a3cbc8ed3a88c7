//! Benchmark of rollups: nanoseconds per operation on their data structures.
//!
//! `cargo run --release -p playmeter-model --example rollup`

use std::hint::black_box;
use std::time::Instant;

use model::rollup::{
    Aggregate, Block, Bucket, DayBlock, Distinct, ExactSum, HourBlock, Quantiles, StoredBlock, hash_player,
};

/// Prints the fastest of several runs, in nanoseconds per operation. Repeats short runs until the clock can measure
/// them.
fn measure(what: &str, operations: usize, mut run: impl FnMut()) {
    let repeated = (100_000 / operations).clamp(1, 200);
    let nanoseconds = (0..15).map(|_| {
        let start = Instant::now();
        (0..repeated).for_each(|_| run());
        start.elapsed().as_nanos() as f64 / (operations * repeated) as f64
    });
    println!("{:>10.2} ns  {what}", nanoseconds.fold(f64::INFINITY, f64::min));
}

fn main() {
    let hashes: Vec<u64> = (0..1_000_000u64).map(|player| hash_player(1, &player.to_le_bytes())).collect();
    let integers: Vec<f64> = hashes.iter().map(|hash| (hash % 10_000) as f64).collect();
    let fractions: Vec<f64> = hashes.iter().map(|hash| (hash % 1_000_000) as f64 / 100.0).collect();
    hashing();
    sums(&integers, &fractions);
    players(&hashes);
    quantiles(&fractions);
    aggregates(&hashes, &integers);
    blocks(&hashes, &integers);
}

fn hashing() {
    for length in [8, 16, 24, 40] {
        let ids: Vec<Vec<u8>> =
            (0..1_000).map(|id: usize| id.to_le_bytes().repeat(5)[..length].to_vec()).collect();
        measure(&format!("hash_player, {length} bytes"), ids.len(), || {
            ids.iter().for_each(|id| {
                black_box(hash_player(1, id));
            });
        });
    }
}

fn sums(integers: &[f64], fractions: &[f64]) {
    for (what, values) in [("integer", integers), ("fraction", fractions)] {
        measure(&format!("ExactSum::add, {what}"), values.len(), || {
            let mut sum = ExactSum::default();
            values.iter().for_each(|value| sum.add(*value));
            black_box(sum.value());
        });
    }
}

fn players(hashes: &[u64]) {
    for count in [4, 100, 1_000] {
        let some = &hashes[..count];
        measure(&format!("Distinct::insert, first of {count}"), count * 100, || {
            (0..100).for_each(|_| drop(black_box(some.iter().copied().collect::<Distinct>())));
        });
        let mut known: Distinct = some.iter().copied().collect();
        measure(&format!("Distinct::insert, again of {count}"), count * 100, || {
            (0..100).for_each(|_| some.iter().for_each(|hash| known.insert(*hash)));
        });
    }
    let mut dense: Distinct = hashes.iter().copied().collect();
    let other = dense.clone();
    measure("Distinct::insert, registers", hashes.len(), || {
        hashes.iter().for_each(|hash| dense.insert(*hash))
    });
    measure("Distinct::merge, registers", 1, || dense.merge(black_box(&other)));
    measure("Distinct::count, registers", 1, || {
        black_box(dense.count());
    });
    let mut bytes = Vec::with_capacity(20_000);
    measure("Distinct::encode, registers", 1, || {
        bytes.clear();
        dense.encode(&mut bytes);
    });
    measure("Distinct::decode, registers", 1, || drop(black_box(Distinct::decode(&bytes))));
    println!("{:>10} B   registers as bytes", bytes.len());
}

fn quantiles(values: &[f64]) {
    measure("Bucket::of", values.len(), || {
        values.iter().for_each(|value| {
            black_box(Bucket::of(*value));
        });
    });
    for count in [1, 4, 30, 1_000_000] {
        let buckets: Vec<Bucket> = values[..count].iter().map(|value| Bucket::of(*value)).collect();
        let rounds = 1_000_000 / count;
        measure(&format!("Quantiles::add, first of {count}"), count * rounds, || {
            (0..rounds).for_each(|_| {
                let mut quantiles = Quantiles::default();
                buckets.iter().for_each(|bucket| quantiles.add(*bucket, 1));
                black_box(&quantiles);
            });
        });
    }
}

fn aggregates(hashes: &[u64], values: &[f64]) {
    let mut counter = Aggregate::default();
    measure("Aggregate::observe, counter", hashes.len(), || {
        hashes.iter().for_each(|_| black_box(&mut counter).observe(None, None));
    });
    let mut aggregate = Aggregate::default();
    measure("Aggregate::observe, player and value", hashes.len(), || {
        for (hash, value) in hashes.iter().zip(values) {
            aggregate.observe(Some(*hash), Some((*value, Bucket::of(*value))));
        }
    });
}

fn blocks(hashes: &[u64], values: &[f64]) {
    let mut counters = HourBlock::default();
    measure("HourBlock::apply, counter", 1_000_000, || {
        let delta = Aggregate { count: 1, ..Aggregate::default() };
        hashes.iter().for_each(|hash| counters.apply((hash % 60) as u8, 1 << 40, &delta));
    });
    store("an hour of counters", &counters);

    let mut block = HourBlock::default();
    measure("HourBlock::observe, 50 players a minute", 60 * 500, || {
        block = HourBlock::default();
        for event in 0..60 * 500 {
            let value = values[event];
            let player = hashes[event / 1_500 + event % 50];
            block.observe((event / 500) as u8, 1, Some(player), Some((value, Bucket::of(value))));
        }
    });
    store("an hour of 50 players and 500 values a minute", &block);

    let mut day = DayBlock::default();
    for (event, hash) in hashes.iter().enumerate() {
        day.observe((event % 24) as u8, 1, Some(*hash), None);
    }
    store("a day of a million players", &day);
}

fn store<const SLOTS: usize>(what: &str, block: &Block<SLOTS>) {
    let mut bytes = Vec::new();
    measure(&format!("encode {what}"), 1, || {
        bytes.clear();
        block.encode(&mut bytes);
    });
    measure(&format!("decode {what}"), 1, || drop(black_box(Block::<SLOTS>::decode(&bytes))));
    measure(&format!("counts of {what}"), 1, || {
        let stored = StoredBlock::<SLOTS>::open(&bytes);
        black_box(stored.map(|stored| stored.counts().iter().sum::<i64>()).ok());
    });
    measure(&format!("players of {what}"), 1, || {
        let stored = StoredBlock::<SLOTS>::open(&bytes);
        black_box(stored.and_then(|stored| stored.players_total()).ok().map(|players| players.count()));
    });
    println!("{:>10} B   {what}, {} B in memory", bytes.len(), size_of_val(block) + block.heap_bytes());
}
