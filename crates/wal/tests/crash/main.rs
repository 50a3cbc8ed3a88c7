//! Power cuts, kills and disk failures: acknowledged entries are there once and in order, and rejected ones are not.

mod harness;

use harness::{Plan, run};
#[cfg(feature = "fault-injection")]
use wal::InjectedFault;
use wal::sim::{Fault, FaultKind, Random};

/// Runs plans by seed until `images` images were checked; panics with the seed that failed.
fn check(images: u64, plan: impl Fn(u64) -> Plan) {
    let (mut checked, mut seed, mut rewritten) = (0, 0, 0);
    while checked < images {
        let outcome = run(&plan(seed));
        checked += outcome.images;
        rewritten += outcome.rewritten;
        if let Some(failure) = outcome.failure {
            panic!("seed {seed}: {failure}");
        }
        seed += 1;
    }
    assert!(rewritten > seed / 2, "only {rewritten} segments were rewritten in {seed} runs");
}

#[test]
fn acknowledged_entries_survive_a_power_cut_at_any_moment_exactly_once() {
    check(20_000, Plan::new);
}

fn with_fault(seed: u64) -> Plan {
    let mut random = Random::new(seed ^ 0xfa17);
    let kinds = [FaultKind::Broken, FaultKind::NoSpace, FaultKind::ShortWrite, FaultKind::Interrupted];
    let kind = kinds[random.below(kinds.len() as u64) as usize];
    let fault = Fault { at: random.below(60), kind, permanent: random.chance(50) };
    Plan { fault: Some(fault), images_per_operation: 1, steps: 30, ..Plan::new(seed) }
}

#[test]
fn no_entry_is_acknowledged_before_it_is_durable_whichever_operation_fails() {
    let mut kinds = std::collections::BTreeMap::new();
    for seed in 0..600 {
        let plan = with_fault(seed);
        let outcome = run(&plan);
        if let Some(failure) = outcome.failure {
            panic!("seed {seed}, {:?}: {failure}", plan.fault);
        }
        let hit = kinds.entry(format!("{:?}", plan.fault.map(|fault| fault.kind))).or_insert((0, 0, 0));
        hit.0 += outcome.stopped as u32;
        hit.1 += outcome.rejected as u32;
        hit.2 += 1;
    }
    // A harness whose faults have no effect proves nothing.
    assert!(kinds["Some(Broken)"].0 > 50, "{kinds:?}");
    assert!(kinds["Some(NoSpace)"].1 > 20, "{kinds:?}");
    assert!(kinds["Some(ShortWrite)"].1 > 20, "{kinds:?}");
    assert_eq!(kinds["Some(Interrupted)"].1 + kinds["Some(Interrupted)"].0, 0, "{kinds:?}");
}

#[cfg(feature = "fault-injection")]
#[test]
fn acknowledgement_before_the_sync_is_detected() {
    let failures = with_injected_fault(InjectedFault::AckBeforeSync);
    assert!(failures.len() >= 15, "only {} of 20 runs detected it", failures.len());
    assert!(failures.iter().all(|failure| failure.contains("acknowledged")), "{failures:?}");
}

#[cfg(feature = "fault-injection")]
#[test]
fn rename_of_a_segment_before_its_sync_is_detected() {
    let failures = with_injected_fault(InjectedFault::NameBeforeSync);
    assert!(failures.len() >= 5, "only {} of 20 runs detected it", failures.len());
}

#[cfg(feature = "fault-injection")]
fn with_injected_fault(injected_fault: InjectedFault) -> Vec<String> {
    (0..20)
        .filter_map(|seed| run(&Plan { injected_fault: Some(injected_fault), ..Plan::new(seed) }).failure)
        .collect()
}
