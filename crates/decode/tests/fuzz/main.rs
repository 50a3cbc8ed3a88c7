//! Fuzzes every decoder with almost valid bytes.
//!
//! Inputs are mutated from the corpus and from a dictionary. An input that causes new behaviour is kept for further
//! mutation. The test looks for panics (of the decoder, or of a check of its guarantees) and hangs. The input is
//! printed; add it to the corpus together with the fix.

mod mutate;
mod targets;

#[path = "../support/samples.rs"]
mod samples;

use mutate::Mutator;
use std::time::{Duration, Instant};
use targets::Target;

/// Executions in every run of the tests.
const EXECUTIONS: u64 = 20_000;
const EXECUTIONS_LONG: u64 = 10_000_000;

fn fuzz(target: &Target, executions: u64) {
    let mut mutator = Mutator::new(target.seeds(), target.words);
    let (begin, mut slowest) = (Instant::now(), Duration::ZERO);
    for seed in &target.seeds() {
        run_target(target, seed);
    }
    for _ in 0..executions {
        let input = mutator.next();
        let (behaviour, time) = timed(target, &input);
        if time > slowest {
            // Measured twice, so that other work on the machine is not counted.
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
    let behaviour = run_target(target, input);
    (behaviour, begin.elapsed())
}

/// Runs the decoder and returns its behaviour as a number.
fn run_target(target: &Target, input: &[u8]) -> u64 {
    let print_on_panic = PrintOnPanic { target: target.name, input };
    let behaviour = (target.run)(input);
    drop(print_on_panic);
    behaviour
}

/// Prints the input of a decoder that panics.
struct PrintOnPanic<'a> {
    target: &'static str,
    input: &'a [u8],
}

impl Drop for PrintOnPanic<'_> {
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
            fn mutated_input_does_not_panic() {
                super::fuzz(&super::targets::$target(), super::EXECUTIONS);
            }

            #[test]
            #[ignore = "ten million executions take minutes; `make torture` runs them"]
            fn mutated_input_does_not_panic_in_a_long_run() {
                super::fuzz(&super::targets::$target(), super::EXECUTIONS_LONG);
            }
        })*
    };
}

fuzz! { ddp json lines tracker form statsd influx otlp otlp_json otlp_point csv stream rtcp flow capture }
