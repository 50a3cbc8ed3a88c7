//! 10,000 random steps compared with a naive model of variables, with restarts in between.

mod world;

use std::collections::BTreeMap;

use liveops::RefusalKind;
use liveops::vars::{CHANGES_MAX, TimestampMs, VarsCommand, VarsViewer, bucket};
use serde_json::{Value, json};
use world::{Dice, World};

const NOW: i64 = 1_800_000_000_000;
const STEPS: usize = 10_000;

/// A variable of the model.
#[derive(Clone, PartialEq)]
struct Variable {
    value: u64,
    default: Option<u64>,
    from_s: Option<i64>,
    conditions: Vec<Condition>,
}

#[derive(Clone, PartialEq)]
struct Condition {
    value: u64,
    country: Option<&'static str>,
    percent: Option<u64>,
    until_s: Option<i64>,
}

type State = BTreeMap<String, Variable>;

fn moment(seconds: i64) -> String {
    TimestampMs::from_ms(NOW + seconds * 1_000).to_string()
}

impl Variable {
    fn roll(dice: &mut Dice) -> Variable {
        let conditions = (0..dice.roll(3)).map(|_| Condition::roll(dice)).collect();
        Variable {
            value: dice.roll(5),
            default: dice.once_in(2).then(|| dice.roll(5)),
            from_s: dice.once_in(4).then(|| dice.roll(20_000) as i64),
            conditions,
        }
    }

    fn json(&self) -> Value {
        let mut json = json!({ "value": self.value });
        if let Some(default) = self.default {
            json["default"] = default.into();
        }
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().enumerate();
            json["conditions"] = conditions.map(|(index, condition)| condition.json(index)).collect();
        }
        if let Some(from_s) = self.from_s {
            json["starts_at"] = moment(from_s).into();
        }
        json
    }

    fn value(&self, name: &str, viewer: &VarsViewer, at_s: i64) -> Value {
        if self.from_s.is_some_and(|from_s| at_s < from_s) {
            return self.default.map_or(Value::Null, Value::from);
        }
        for condition in &self.conditions {
            let country = condition.country.is_none_or(|country| country == viewer.country);
            let percent = condition.percent.is_none_or(|percent| {
                !viewer.player.is_empty() && bucket(name, &viewer.player) < percent * 1_000
            });
            if country && percent && condition.until_s.is_none_or(|until_s| at_s < until_s) {
                return condition.value.into();
            }
        }
        self.value.into()
    }
}

impl Condition {
    fn roll(dice: &mut Dice) -> Condition {
        Condition {
            value: dice.roll(5),
            country: dice.once_in(2).then(|| *dice.pick(&["FR", "DE"])),
            percent: dice.once_in(2).then(|| 1 + dice.roll(100)),
            until_s: dice.once_in(4).then(|| dice.roll(20_000) as i64),
        }
    }

    fn json(&self, index: usize) -> Value {
        let mut json = json!({ "name": format!("c{index}"), "value": self.value });
        if let Some(country) = self.country {
            json["country"] = json!([country]);
        }
        if let Some(percent) = self.percent {
            json["percent"] = json!({ "from": 0.0, "to": percent as f64 });
        }
        if let Some(until_s) = self.until_s {
            json["ends_at"] = moment(until_s).into();
        }
        json
    }
}

/// All versions.
struct Model {
    versions: Vec<State>,
}

impl Model {
    fn now(&self) -> &State {
        self.versions.last().expect("there is version 0")
    }

    fn version(&self) -> u64 {
        self.versions.len() as u64 - 1
    }

    /// Returns the new version or the expected kind of refusal.
    fn write(&mut self, state: State) -> Result<u64, RefusalKind> {
        if state != *self.now() {
            self.versions.push(state);
        }
        Ok(self.version())
    }
}

fn name(dice: &mut Dice) -> String {
    format!("var_{}", dice.roll(12))
}

/// Returns an expected version, usually a valid one.
fn expected(dice: &mut Dice, model: &Model) -> Option<u64> {
    match dice.roll(8) {
        0 => Some(dice.roll(model.version() + 2)),
        1 | 2 => Some(model.version()),
        _ => None,
    }
}

/// Applies one random command to both and returns their outcomes.
fn step(
    dice: &mut Dice,
    model: &mut Model,
    world: &mut World,
) -> (Result<u64, RefusalKind>, Result<u64, RefusalKind>) {
    let expected_version = expected(dice, model);
    let conflict = expected_version.is_some_and(|expected| expected != model.version());
    let mut state = model.now().clone();
    let (command, outcome) = match dice.roll(10) {
        0..5 => {
            let (name, variable) = (name(dice), Variable::roll(dice));
            let definition = serde_json::from_value(variable.json()).expect("it is a definition");
            state.insert(name.clone(), variable);
            (VarsCommand::Put { name, definition, expected_version }, Ok(state))
        }
        5..7 => {
            let mut vars = BTreeMap::new();
            for _ in 0..1 + dice.roll(4) {
                let (name, variable) = (name(dice), dice.once_in(2).then(|| Variable::roll(dice)));
                let json = variable.as_ref().map_or(Value::Null, Variable::json);
                vars.insert(name.clone(), serde_json::from_value(json).expect("it is a definition"));
                match variable {
                    Some(variable) => state.insert(name, variable),
                    None => state.remove(&name),
                };
            }
            (VarsCommand::PutMany { vars, expected_version }, Ok(state))
        }
        7..9 => {
            let name = name(dice);
            let outcome = state.remove(&name).map(|_| state).ok_or(RefusalKind::NotFound);
            (VarsCommand::Delete { name }, outcome)
        }
        _ => {
            let version = dice.roll(model.version() + 2);
            let known = version <= model.version() && version + CHANGES_MAX as u64 >= model.version();
            let state = model.versions.get(version as usize).filter(|_| known).cloned();
            (VarsCommand::RollBack { version, expected_version }, state.ok_or(RefusalKind::NotFound))
        }
    };
    let checks_version = !matches!(command, VarsCommand::Delete { .. });
    let outcome = if conflict && checks_version { Err(RefusalKind::Conflict) } else { outcome };
    let modelled = outcome.and_then(|state| model.write(state));
    let outcome = world.send(liveops::Command::Vars(command)).map_err(|refusal| refusal.kind);
    let outcome = outcome.map(|answer| {
        let answer: Value = serde_json::from_str(&answer.json).expect("an answer is JSON");
        answer["version"].as_u64().expect("it names the version")
    });
    (modelled, outcome)
}

fn compare(model: &Model, world: &World, dice: &mut Dice) {
    let at_s = dice.roll(20_000) as i64;
    let country = *dice.pick(&["", "FR", "DE"]);
    let player = if dice.once_in(5) { String::new() } else { format!("player-{}", dice.roll(1_000)) };
    let viewer = VarsViewer { player, country: country.into(), ..VarsViewer::default() };
    let now_ms = NOW + at_s * 1_000;
    let values: BTreeMap<&String, Value> =
        model.now().iter().map(|(name, variable)| (name, variable.value(name, &viewer, at_s))).collect();
    world.read(|game| {
        assert_eq!(game.vars.version(), model.version());
        assert_eq!(game.vars.json(&viewer, now_ms), serde_json::to_string(&values).unwrap());
        let transitions = model.now().values().flat_map(|variable| {
            let conditions = variable.conditions.iter().filter_map(|condition| condition.until_s);
            conditions.chain(variable.from_s).filter(|transition| *transition > at_s)
        });
        let next = game.vars.next_change_ms(now_ms).map(|ms| (ms - NOW) / 1_000);
        assert_eq!(next, transitions.min());
    });
}

fn compare_history(model: &Model, world: &World) {
    let json = |version: u64, name: &str| model.versions[version as usize].get(name).map(Variable::json);
    world.read(|game| {
        let history = game.vars.history(usize::MAX);
        assert_eq!(history.len() as u64, model.version().min(CHANGES_MAX as u64));
        for (change, version) in history.iter().zip((0..=model.version()).rev()) {
            assert_eq!(change.version, version);
            let changed = serde_json::to_value(&change.changed).expect("it is JSON");
            for (name, it) in changed.as_object().expect("it is an object") {
                assert_eq!(it["before"], json(version - 1, name).unwrap_or_default(), "{version} {name}");
                assert_eq!(it["after"], json(version, name).unwrap_or_default(), "{version} {name}");
            }
        }
    });
}

#[test]
fn ten_thousand_random_steps_agree_with_a_naive_model() {
    let mut dice = Dice(1);
    let mut model = Model { versions: vec![State::new()] };
    let mut world = World::new(NOW);
    for number in 0..STEPS {
        let (modelled, outcome) = step(&mut dice, &mut model, &mut world);
        assert_eq!(outcome, modelled, "step {number}");
        compare(&model, &world, &mut dice);
        if dice.once_in(50) {
            world.checkpoint();
        }
        if dice.once_in(100) {
            world.restart();
            compare(&model, &world, &mut dice);
        }
        if number % 1_000 == 999 {
            compare_history(&model, &world);
        }
    }
    assert!(model.version() as usize > 3 * CHANGES_MAX, "the history was evicted several times");
}
