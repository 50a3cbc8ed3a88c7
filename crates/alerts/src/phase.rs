//! Decides whether the state of a rule changes. Pure: the time comes from the caller.
//!
//! Time is counted from evaluation to evaluation, each step at most twice as long as planned. So neither a clock that jumps nor
//! a server that was suspended makes a rule fire earlier.

use liveops::alerts::{AlertPhase, AlertRule, NoDataPolicy};

use crate::judge::Verdict;

/// How long a rule has been pending, and how long its cooldown still takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleClock {
    pending_ms: u64,
    cooldown_ms: u64,
}

impl RuleClock {
    /// Continues after a start: the time since the rule became pending, and since it has resolved, counts.
    pub(crate) fn restored(
        rule: &AlertRule,
        phase: AlertPhase,
        since_ms: u64,
        resolved_ms: Option<u64>,
    ) -> RuleClock {
        let cooldown_ms = u64::from(rule.cooldown_s) * 1_000;
        RuleClock {
            pending_ms: if phase == AlertPhase::Pending { since_ms } else { 0 },
            cooldown_ms: resolved_ms.map_or(0, |elapsed| cooldown_ms.saturating_sub(elapsed)),
        }
    }

    /// Counts the time since the last evaluation.
    pub(crate) fn pass(&mut self, phase: AlertPhase, elapsed_ms: u64) {
        if phase == AlertPhase::Pending {
            self.pending_ms = self.pending_ms.saturating_add(elapsed_ms);
        }
        self.cooldown_ms = self.cooldown_ms.saturating_sub(elapsed_ms);
    }

    /// Returns the new state, if it is another one.
    pub(crate) fn next(&self, rule: &AlertRule, phase: AlertPhase, verdict: Verdict) -> Option<AlertPhase> {
        let is_met = match (verdict, rule.no_data) {
            (Verdict::Met, _) | (Verdict::NoData, NoDataPolicy::Fire) => true,
            (Verdict::NotMet, _) | (Verdict::NoData, NoDataPolicy::Ok) => false,
            (Verdict::NoData, NoDataPolicy::Keep) | (Verdict::NoHistory, _) => return None,
        };
        let may_fire = self.cooldown_ms == 0 && self.pending_ms >= u64::from(rule.for_s) * 1_000;
        match (phase, is_met) {
            (AlertPhase::Ok | AlertPhase::Resolved, true) if may_fire => Some(AlertPhase::Firing),
            (AlertPhase::Ok | AlertPhase::Resolved, true) => Some(AlertPhase::Pending),
            (AlertPhase::Pending, true) => may_fire.then_some(AlertPhase::Firing),
            (AlertPhase::Pending, false) => Some(AlertPhase::Ok),
            (AlertPhase::Firing, false) => Some(AlertPhase::Resolved),
            (AlertPhase::Firing, true) | (AlertPhase::Ok | AlertPhase::Resolved, false) => None,
        }
    }

    /// The rule has entered another state.
    pub(crate) fn entered(&mut self, rule: &AlertRule, from: AlertPhase) {
        self.pending_ms = 0;
        if from == AlertPhase::Firing {
            self.cooldown_ms = u64::from(rule.cooldown_s) * 1_000;
        }
    }
}

#[cfg(test)]
mod tests {
    use liveops::alerts::AlertComparison;
    use liveops::vars::Json;
    use proptest::prelude::*;

    use super::*;

    fn rule(for_s: u32, cooldown_s: u32, no_data: NoDataPolicy) -> AlertRule {
        AlertRule {
            name: String::new(),
            message: String::new(),
            query: Json::parse("{}").expect("JSON"),
            compare: AlertComparison::default(),
            for_s,
            cooldown_s,
            no_data,
        }
    }

    /// The states after each minute.
    fn check(rule: &AlertRule, minutes: &str, expected: &str) {
        let (mut clock, mut phase) = (RuleClock::default(), AlertPhase::Ok);
        let mut states = String::new();
        for minute in minutes.chars() {
            clock.pass(phase, 60_000);
            let verdict = match minute {
                'x' => Verdict::Met,
                '.' => Verdict::NotMet,
                '?' => Verdict::NoData,
                _ => Verdict::NoHistory,
            };
            if let Some(next) = clock.next(rule, phase, verdict) {
                clock.entered(rule, phase);
                phase = next;
            }
            states.push(['o', 'p', 'F', 'r'][phase as usize]);
        }
        assert_eq!(states, expected, "{minutes}");
    }

    #[test]
    fn rule_fires_after_its_duration_and_resolves_at_once() {
        check(&rule(0, 0, NoDataPolicy::Ok), ".x.x", "oFrF");
        check(&rule(120, 0, NoDataPolicy::Ok), ".xx.xxxx.", "oppoppFFr");
    }

    #[test]
    fn rule_does_not_fire_again_during_its_cooldown() {
        check(&rule(0, 180, NoDataPolicy::Ok), "x.xxxxx", "FrppFFF");
        check(&rule(60, 180, NoDataPolicy::Ok), "xx.xxxx", "pFrppFF");
    }

    #[test]
    fn no_data_means_what_the_rule_says() {
        check(&rule(0, 0, NoDataPolicy::Ok), "x??x", "FrrF");
        check(&rule(0, 0, NoDataPolicy::Fire), ".?.", "oFr");
        check(&rule(0, 0, NoDataPolicy::Keep), "?x??.?", "oFFFrr");
        check(&rule(0, 0, NoDataPolicy::Fire), "-x-.", "oFFr");
    }

    #[test]
    fn restart_continues_to_count() {
        let rule = rule(300, 600, NoDataPolicy::Ok);
        let clock = RuleClock::restored(&rule, AlertPhase::Pending, 300_000, None);
        assert_eq!(clock.next(&rule, AlertPhase::Pending, Verdict::Met), Some(AlertPhase::Firing));
        let clock = RuleClock::restored(&rule, AlertPhase::Resolved, 100_000, Some(100_000));
        assert_eq!(clock.cooldown_ms, 500_000);
    }

    proptest! {
        #[test]
        fn every_firing_ends_with_one_resolution(
            verdicts in prop::collection::vec(0u8..4, 0..200),
            for_s in 0u32..400,
            cooldown_s in 0u32..400,
        ) {
            let rule = rule(for_s, cooldown_s, NoDataPolicy::Keep);
            let (mut clock, mut phase, mut fired, mut resolved) = (RuleClock::default(), AlertPhase::Ok, 0, 0);
            for verdict in verdicts {
                clock.pass(phase, 60_000);
                let verdict = [Verdict::Met, Verdict::NotMet, Verdict::NoData, Verdict::NoHistory][usize::from(verdict)];
                if let Some(next) = clock.next(&rule, phase, verdict) {
                    prop_assert_ne!(next, phase);
                    fired += i32::from(next == AlertPhase::Firing);
                    resolved += i32::from(phase == AlertPhase::Firing);
                    clock.entered(&rule, phase);
                    phase = next;
                }
            }
            prop_assert_eq!(fired - resolved, i32::from(phase == AlertPhase::Firing));
        }
    }
}
