//! Every decoder against bytes that are nearly right.
//!
//! Inputs are mutated from the corpus and from a dictionary. One that makes a decoder behave in a way that none before
//! did is kept to be mutated further. What is looked for: a panic (of the decoder, or of a check of what it promises)
//! and a hang. The input is printed; put it into the corpus together with the repair.

mod mutate;
mod targets;

#[path = "../support/samples.rs"]
mod samples;

use mutate::Mutator;
use std::time::{Duration, Instant};
use targets::Target;

/// With every run of the tests.
const SHORT: u64 = 20_000;
const LONG: u64 = 10_000_000;

fn fuzz(target: &Target, executions: u64) {
    let mut mutator = Mutator::new(target.seeds(), target.words);
    let (begin, mut slowest) = (Instant::now(), Duration::ZERO);
    for seed in &target.seeds() {
        observe(target, seed);
    }
    for _ in 0..executions {
        let input = mutator.next();
        let (behaviour, time) = timed(target, &input);
        if time > slowest {
            // Twice, so that what the machine did beside it is not counted.
            slowest = slowest.max(time.min(timed(target, &input).1));
        }
        mutator.learn(behaviour, input);
    }
    let (seconds, kinds) = (begin.elapsed().as_secs_f64(), mutator.behaviours());
    println!(
        "{}: {executions} executions in {seconds:.1} s, {kinds} behaviours, slowest {slowest:?}",
        target.name
    );
}

fn timed(target: &Target, input: &[u8]) -> (u64, Duration) {
    let begin = Instant::now();
    let behaviour = observe(target, input);
    (behaviour, begin.elapsed())
}

/// Runs the decoder and says what it did, as a number.
fn observe(target: &Target, input: &[u8]) -> u64 {
    let shown = Shown { target: target.name, input };
    let behaviour = (target.run)(input);
    drop(shown);
    behaviour
}

/// Prints the input of a decoder that panics.
struct Shown<'a> {
    target: &'static str,
    input: &'a [u8],
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{} panics at b\"{}\"", self.target, self.input.escape_ascii());
        }
    }
}

macro_rules! fuzz {
    ($($target:ident)*) => {
        $(mod $target {
            #[test]
            fn spoilt_input_is_read_without_a_panic() {
                super::fuzz(&super::targets::$target(), super::SHORT);
            }

            #[test]
            #[ignore = "ten million executions take minutes; `make torture` runs them"]
            fn spoilt_input_is_read_without_a_panic_for_long() {
                super::fuzz(&super::targets::$target(), super::LONG);
            }
        })*
    };
}

fuzz! { ddp json lines tracker form statsd influx otlp otlp_json otlp_point csv stream rtcp flow capture }
