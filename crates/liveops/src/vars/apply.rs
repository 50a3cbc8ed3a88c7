//! Deciding the commands that change variables.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::definition::Variable;
use super::history::{Change, Changed};
use super::moment::Moment;
use super::schema::Budget;
use super::{Command, Definition, VARS_BYTES_MAX, VARS_MAX, Vars};
use crate::game::{Context, Game, Touched};
use crate::{Answer, Refusal, is_key};

/// What variables of these names become; `None`: they go.
type Writes = BTreeMap<String, Option<Variable>>;

impl Game {
    pub(crate) fn apply_vars(
        &mut self,
        context: &mut Context<'_>,
        command: Command,
    ) -> Result<Answer, Refusal> {
        let before = self.vars.version();
        let answer = self.vars.apply(context, command)?;
        if self.vars.version() != before {
            context.touched.push(Touched::Vars);
        }
        Ok(answer)
    }
}

impl Vars {
    fn apply(&mut self, context: &Context<'_>, command: Command) -> Result<Answer, Refusal> {
        match command {
            Command::Put { name, definition, expected_version } => {
                self.expect(expected_version)?;
                check_name("name", &name)?;
                definition.check("", &Budget::new())?;
                self.write(context, BTreeMap::from([(name.clone(), Some(definition.into()))]), None)?;
                Ok(Answer::ok(&json!({ "version": self.version(), "name": name })))
            }
            Command::PutMany { vars, expected_version } => {
                self.expect(expected_version)?;
                self.write(context, checked(vars)?, None)?;
                Ok(self.answer())
            }
            Command::Delete { name } => {
                self.definition(&name).ok_or_else(|| not_found(&name))?;
                self.write(context, BTreeMap::from([(name, None)]), None)?;
                Ok(self.answer())
            }
            Command::RollBack { version, expected_version } => {
                self.expect(expected_version)?;
                let writes = self.back_to(version)?;
                self.write(context, writes, Some(version))?;
                Ok(self.answer())
            }
        }
    }

    fn answer(&self) -> Answer {
        Answer::ok(&json!({ "version": self.version() }))
    }

    fn expect(&self, expected_version: Option<u64>) -> Result<(), Refusal> {
        match expected_version {
            Some(expected) if expected != self.version() => {
                let detail = format!("the version is {}, not {expected}", self.version());
                Err(Refusal { field: Some("expected_version".to_owned()), ..Refusal::conflict(detail) })
            }
            _ => Ok(()),
        }
    }

    fn back_to(&self, version: u64) -> Result<Writes, Refusal> {
        if version == self.version() {
            return Ok(Writes::new());
        }
        let before = self.history.before(version).ok_or_else(|| Refusal {
            field: Some("version".to_owned()),
            ..Refusal::not_found(format!("what the variables were at version {version} is not known"))
        })?;
        Ok(before.into_iter().map(|(name, variable)| (name.to_owned(), variable.cloned())).collect())
    }

    /// Writes what differs, as one change. When nothing does, there is no new version.
    fn write(
        &mut self,
        context: &Context<'_>,
        mut writes: Writes,
        rolled_back_to: Option<u64>,
    ) -> Result<(), Refusal> {
        writes.retain(|name, after| self.variables.get(name) != after.as_ref());
        if writes.is_empty() {
            return Ok(());
        }
        self.check_room(&writes)?;
        let version = self.version() + 1;
        let changed = writes.into_iter().map(|(name, after)| {
            let before = self.set(&name, after.clone());
            self.unwritten.variables.insert(name.clone());
            (name, Changed { before, after })
        });
        let changed = changed.collect();
        let at = Moment::from_ms(context.at.ms);
        let change = Change { version, at, by: context.by.caller, rolled_back_to, changed };
        self.unwritten.versions.extend(self.history.push(change));
        self.unwritten.versions.insert(version);
        self.version.store(version, Ordering::Release);
        Ok(())
    }

    fn check_room(&self, writes: &Writes) -> Result<(), Refusal> {
        let (mut count, mut bytes) = (self.variables.len(), self.bytes);
        for (name, after) in writes {
            if let Some(before) = self.variables.get(name) {
                (count, bytes) = (count - 1, bytes - before.bytes());
            }
            if let Some(after) = after {
                (count, bytes) = (count + 1, bytes + after.bytes());
            }
        }
        if count > VARS_MAX {
            return Err(Refusal::too_many(format!("a game has at most {VARS_MAX} variables")));
        }
        if bytes > VARS_BYTES_MAX && bytes > self.bytes {
            let detail = format!("the variables of a game have at most {VARS_BYTES_MAX} bytes together");
            return Err(Refusal::too_many(detail));
        }
        Ok(())
    }

    /// Puts or removes a variable; gives back what was there.
    pub(super) fn set(&mut self, name: &str, after: Option<Variable>) -> Option<Variable> {
        if let Some(after) = &after {
            self.bytes += after.bytes();
            after.definition().edges().for_each(|edge| *self.edges.entry(edge).or_default() += 1);
        }
        let before = match after {
            Some(after) => self.variables.insert(name.to_owned(), after),
            None => self.variables.remove(name),
        };
        if let Some(before) = &before {
            self.bytes -= before.bytes();
            before.definition().edges().for_each(|edge| self.forget_edge(edge));
        }
        before
    }

    fn forget_edge(&mut self, edge: i64) {
        let Some(count) = self.edges.get_mut(&edge) else { return };
        *count -= 1;
        if *count == 0 {
            self.edges.remove(&edge);
        }
    }
}

fn checked(vars: BTreeMap<String, Option<Definition>>) -> Result<Writes, Refusal> {
    if vars.is_empty() {
        return Err(Refusal::invalid("vars", "it names at least one variable"));
    }
    let budget = Budget::new();
    let check = |(name, definition): (String, Option<Definition>)| {
        check_name(&format!("vars.{name}"), &name)?;
        if let Some(definition) = &definition {
            definition.check(&format!("vars.{name}."), &budget)?;
        }
        Ok((name, definition.map(Variable::from)))
    };
    vars.into_iter().map(check).collect()
}

fn check_name(field: &str, name: &str) -> Result<(), Refusal> {
    if is_key(name) {
        return Ok(());
    }
    Err(Refusal::invalid(field, "a name has 1 to 100 letters, digits, `.`, `_` or `-`"))
}

fn not_found(name: &str) -> Refusal {
    Refusal { field: Some("name".to_owned()), ..Refusal::not_found(format!("there is no variable `{name}`")) }
}
