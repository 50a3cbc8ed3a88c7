//! Experiments: which variant a viewer was assigned, and since when the assignment is the same.
//!
//! An experiment is a variable with a percentage condition. A viewer takes part if a percentage condition applies to
//! them apart from the percentage, so that chance decides: viewers whom the lists of the conditions leave out, or to whom
//! an earlier condition without a percentage applies, do not.

use super::definition::{Condition, Variable};
use super::timestamp::is_within;
use super::{VarDefinition, Vars, VarsViewer};

/// The name of the variant of viewers whom no condition matches.
pub const CONTROL: &str = "(value)";
/// Buckets of players: percentages have three decimals.
const BUCKETS: usize = 100_000;

/// A variable with a percentage condition.
#[derive(Clone, Debug)]
pub struct Experiment {
    name: String,
    variable: Variable,
    /// The time since which the assignment is the same, in milliseconds since 1970; `None` if the history does not
    /// reach back that far.
    pub since_ms: Option<i64>,
}

/// Whether players are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExperimentState {
    /// Its time has not come.
    Scheduled,
    /// Players are assigned.
    Running,
    /// Its time is over.
    Ended,
}

impl ExperimentState {
    /// Returns the name in responses.
    pub fn label(self) -> &'static str {
        match self {
            ExperimentState::Scheduled => "scheduled",
            ExperimentState::Running => "running",
            ExperimentState::Ended => "ended",
        }
    }
}

/// A variant and its planned share.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedVariant {
    /// The name of the condition, or [`CONTROL`].
    pub name: String,
    /// The share of those who take part; `None` if it depends on who they are.
    pub share: Option<f64>,
}

impl Vars {
    /// Returns the experiments by name.
    pub fn experiments(&self) -> impl Iterator<Item = Experiment> {
        self.variables.iter().filter(|(_, variable)| variable.definition().has_percent()).map(
            |(name, variable)| Experiment {
                name: name.clone(),
                variable: variable.clone(),
                since_ms: self.assigned_since(name, variable),
            },
        )
    }

    /// Returns one experiment; `None` if there is no such variable or it has no percentage condition.
    pub fn experiment(&self, name: &str) -> Option<Experiment> {
        let variable = self.variables.get(name).filter(|variable| variable.definition().has_percent())?;
        let since_ms = self.assigned_since(name, variable);
        Some(Experiment { name: name.to_owned(), variable: variable.clone(), since_ms })
    }

    fn assigned_since(&self, name: &str, now: &Variable) -> Option<i64> {
        let changes = self.history.newest().filter_map(|change| Some((change, change.changed.get(name)?)));
        let is_same = |before: &Option<Variable>| {
            before.as_ref().is_some_and(|before| assigns_equally(before.definition(), now.definition()))
        };
        let mut changes = changes.skip_while(|(_, diff)| is_same(&diff.before));
        changes.next().map(|(change, _)| change.at.ms())
    }
}

/// Returns true if two definitions give the same values to the same viewers.
fn assigns_equally(one: &VarDefinition, other: &VarDefinition) -> bool {
    let part = |it: &VarDefinition| {
        (it.value.clone(), it.default.clone(), it.conditions.clone(), it.starts_at, it.ends_at)
    };
    part(one) == part(other)
}

impl Experiment {
    /// Returns the variable's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the variable's description.
    pub fn description(&self) -> Option<&str> {
        self.variable.definition().description.as_deref()
    }

    /// Returns the cohorts that its conditions name.
    pub fn cohorts(&self) -> Vec<String> {
        self.variable.definition().cohorts().map(|(_, name)| name.to_owned()).collect()
    }

    /// Returns whether players are assigned.
    pub fn state(&self, now_ms: i64) -> ExperimentState {
        let VarDefinition { starts_at, ends_at, .. } = self.variable.definition();
        match (starts_at, ends_at) {
            (Some(starts_at), _) if now_ms < starts_at.ms() => ExperimentState::Scheduled,
            (_, Some(ends_at)) if now_ms >= ends_at.ms() => ExperimentState::Ended,
            _ => ExperimentState::Running,
        }
    }

    /// Returns the variants: the control, then one for each condition.
    pub fn variants(&self) -> Vec<PlannedVariant> {
        let conditions = &self.variable.definition().conditions;
        let shares = shares(&self.name, conditions);
        let names = [CONTROL].into_iter().chain(conditions.iter().map(|condition| &*condition.name));
        let share = |index: usize| shares.as_ref().map(|shares| shares[index]);
        names
            .enumerate()
            .map(|(index, name)| PlannedVariant { name: name.to_owned(), share: share(index) })
            .collect()
    }

    /// Returns the times at which the assignment changes, ascending, in milliseconds since 1970.
    pub fn transitions(&self) -> Vec<i64> {
        let mut times: Vec<i64> = self.variable.definition().transitions().collect();
        times.sort_unstable();
        times.dedup();
        times
    }

    /// Returns the place of a viewer's variant in [`Experiment::variants`]; `None` if the viewer does not take part.
    pub fn assign(&self, viewer: &VarsViewer, time_ms: i64) -> Option<usize> {
        let definition = self.variable.definition();
        if viewer.player.is_empty() || !is_within(time_ms, definition.starts_at, definition.ends_at) {
            return None;
        }
        let mut takes_part = false;
        for (index, condition) in definition.conditions.iter().enumerate() {
            if !condition.applies(viewer, time_ms) {
                continue;
            }
            match &condition.percent {
                None => return takes_part.then_some(index + 1),
                Some(percent) if percent.contains(&self.name, &viewer.player) => return Some(index + 1),
                Some(_) => takes_part = true,
            }
        }
        takes_part.then_some(0)
    }
}

/// Returns the planned shares of the control and of each condition, if all conditions are percentages of the same
/// players in the same order.
fn shares(name: &str, conditions: &[Condition]) -> Option<Vec<f64>> {
    let first = conditions.first()?;
    let salt = |condition: &Condition| {
        condition.percent.as_ref().map(|percent| percent.salt.clone().unwrap_or_else(|| name.to_owned()))
    };
    let is_comparable =
        |condition: &Condition| salt(condition) == salt(first) && condition.has_audience_of(first);
    salt(first)?;
    if !conditions.iter().all(is_comparable) {
        return None;
    }
    let mut owners = vec![0; BUCKETS];
    for (index, condition) in conditions.iter().enumerate().rev() {
        let range = condition.percent.as_ref().map_or(0..0, |percent| percent.buckets());
        owners[range].fill(index + 1);
    }
    let mut shares = vec![0.0; conditions.len() + 1];
    owners.into_iter().for_each(|owner: usize| shares[owner] += 1.0 / BUCKETS as f64);
    Some(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(definition: &str) -> Experiment {
        let definition: VarDefinition = serde_json::from_str(definition).expect("a definition");
        Experiment { name: "button".to_owned(), variable: definition.into(), since_ms: None }
    }

    fn count(experiment: &Experiment, country: &str) -> Vec<usize> {
        let mut counts = vec![0; experiment.variants().len() + 1];
        for number in 0..10_000 {
            let viewer = VarsViewer {
                player: format!("p{number}"),
                country: country.to_owned(),
                ..VarsViewer::default()
            };
            counts[experiment.assign(&viewer, 0).map_or(0, |variant| variant + 1)] += 1;
        }
        counts
    }

    fn near(found: usize, share: f64) -> bool {
        (found as f64 / 10_000.0 - share).abs() < 0.02
    }

    #[test]
    fn players_are_assigned_in_the_planned_shares() {
        let experiment = experiment(
            r#"{"value": 1, "conditions": [{"name": "a", "value": 2, "percent": {"to": 20}},
                {"name": "b", "value": 3, "percent": {"from": 10, "to": 50}}]}"#,
        );
        let shares: Vec<f64> = experiment.variants().iter().filter_map(|variant| variant.share).collect();
        assert!(
            shares.iter().zip([0.5, 0.2, 0.3]).all(|(found, share)| (found - share).abs() < 1e-9),
            "{shares:?}"
        );
        let counts = count(&experiment, "");
        assert_eq!(counts[0], 0, "all players take part");
        assert!(counts[1..].iter().zip(&shares).all(|(found, share)| near(*found, *share)), "{counts:?}");
    }

    #[test]
    fn players_outside_of_the_audience_do_not_take_part() {
        let experiment = experiment(
            r#"{"value": 1, "conditions": [{"name": "tester", "value": 9, "country": ["IS"]},
                {"name": "a", "value": 2, "country": ["FR", "IS"], "percent": {"to": 50}}]}"#,
        );
        assert_eq!(count(&experiment, "DE"), [10_000, 0, 0, 0]);
        assert_eq!(count(&experiment, "IS"), [10_000, 0, 0, 0]);
        let counts = count(&experiment, "FR");
        assert!(counts[0] == 0 && near(counts[1], 0.5) && near(counts[3], 0.5), "{counts:?}");
        assert!(experiment.variants().iter().all(|variant| variant.share.is_none()));
    }

    #[test]
    fn state_follows_the_times_of_the_variable() {
        let experiment = experiment(
            r#"{"value": 1, "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2026-02-01T00:00:00Z",
                "conditions": [{"name": "a", "value": 2, "percent": {"to": 50}}]}"#,
        );
        let at = |time: &str| time.parse::<jiff::Timestamp>().expect("a time").as_millisecond();
        for (time, state) in [
            ("2025-12-31T23:59:59Z", ExperimentState::Scheduled),
            ("2026-01-01T00:00:00Z", ExperimentState::Running),
            ("2026-02-01T00:00:00Z", ExperimentState::Ended),
        ] {
            assert_eq!(experiment.state(at(time)), state, "{time}");
        }
        let viewer = VarsViewer { player: "p1".into(), ..VarsViewer::default() };
        assert_eq!(experiment.assign(&viewer, at("2025-12-31T23:59:59Z")), None);
        assert!(experiment.assign(&viewer, at("2026-01-01T00:00:00Z")).is_some());
    }
}
