//! Deciding the commands that change variables.

use std::collections::BTreeMap;

use serde_json::json;

use super::definition::Variable;
use super::history::{VariableDiff, VarsChange};
use super::schema::CheckBudget;
use super::timestamp::TimestampMs;
use super::{VARS_BYTES_MAX, VARS_MAX, VarDefinition, Vars, VarsCommand};
use crate::cohorts::Cohorts;
use crate::game::{CommandContext, Game, Touched};
use crate::{CommandResponse, Refusal, is_key};

/// New variables by name; `None` removes.
type VarWrites = BTreeMap<String, Option<Variable>>;

impl Game {
    pub(crate) fn apply_vars(
        &mut self,
        context: &mut CommandContext<'_>,
        command: VarsCommand,
    ) -> Result<CommandResponse, Refusal> {
        let before = self.vars.version();
        let answer = self.vars.apply(context, command, &self.cohorts)?;
        if self.vars.version() != before {
            context.touched.push(Touched::Vars);
        }
        Ok(answer)
    }
}

impl Vars {
    fn apply(
        &mut self,
        context: &CommandContext<'_>,
        command: VarsCommand,
        cohorts: &Cohorts,
    ) -> Result<CommandResponse, Refusal> {
        match command {
            VarsCommand::Put { name, definition, expected_version } => {
                self.check_version(expected_version)?;
                check_name("name", &name)?;
                definition.check("", &CheckBudget::new())?;
                cohorts.check_known("", definition.cohorts())?;
                self.write(context, BTreeMap::from([(name.clone(), Some(definition.into()))]), None)?;
                Ok(CommandResponse::ok(&json!({ "version": self.version(), "name": name })))
            }
            VarsCommand::PutMany { vars, expected_version } => {
                self.check_version(expected_version)?;
                let writes = checked(vars)?;
                for (name, variable) in &writes {
                    let named = variable.iter().flat_map(|variable| variable.definition().cohorts());
                    cohorts.check_known(&format!("vars.{name}."), named)?;
                }
                self.write(context, writes, None)?;
                Ok(self.answer())
            }
            VarsCommand::Delete { name } => {
                self.definition(&name).ok_or_else(|| not_found(&name))?;
                self.write(context, BTreeMap::from([(name, None)]), None)?;
                Ok(self.answer())
            }
            VarsCommand::RollBack { version, expected_version } => {
                self.check_version(expected_version)?;
                let writes = self.rollback_writes(version)?;
                for variable in writes.values().flatten() {
                    let named = variable.definition().cohorts();
                    cohorts.check_known("", named.map(|(_, name)| ("version".to_owned(), name)))?;
                }
                self.write(context, writes, Some(version))?;
                Ok(self.answer())
            }
        }
    }

    fn answer(&self) -> CommandResponse {
        CommandResponse::ok(&json!({ "version": self.version() }))
    }

    fn check_version(&self, expected_version: Option<u64>) -> Result<(), Refusal> {
        match expected_version {
            Some(expected) if expected != self.version() => {
                let detail = format!("the version is {}, not {expected}", self.version());
                Err(Refusal { field: Some("expected_version".to_owned()), ..Refusal::conflict(detail) })
            }
            _ => Ok(()),
        }
    }

    fn rollback_writes(&self, version: u64) -> Result<VarWrites, Refusal> {
        if version == self.version() {
            return Ok(VarWrites::new());
        }
        let before = self.history.before(version).ok_or_else(|| Refusal {
            field: Some("version".to_owned()),
            ..Refusal::not_found(format!("the variables of version {version} are no longer known"))
        })?;
        Ok(before.into_iter().map(|(name, variable)| (name.to_owned(), variable.cloned())).collect())
    }

    /// Writes the variables that differ, as one change. If none does, the version stays.
    fn write(
        &mut self,
        context: &CommandContext<'_>,
        mut writes: VarWrites,
        rolled_back_to: Option<u64>,
    ) -> Result<(), Refusal> {
        writes.retain(|name, after| self.variables.get(name) != after.as_ref());
        if writes.is_empty() {
            return Ok(());
        }
        self.check_capacity(&writes)?;
        let version = self.version() + 1;
        let changed = writes.into_iter().map(|(name, after)| {
            let before = self.set(&name, after.clone());
            self.unwritten.variables.insert(name.clone());
            (name, VariableDiff { before, after })
        });
        let changed = changed.collect();
        let at = TimestampMs::from_ms(context.at.ms);
        let change = VarsChange { version, at, by: context.by.caller, rolled_back_to, changed };
        self.unwritten.versions.extend(self.history.push(change));
        self.unwritten.versions.insert(version);
        self.version = version;
        Ok(())
    }

    fn check_capacity(&self, writes: &VarWrites) -> Result<(), Refusal> {
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
            return Err(Refusal::too_many(format!("a game can have at most {VARS_MAX} variables")));
        }
        if bytes > VARS_BYTES_MAX && bytes > self.bytes {
            let detail = format!("the variables of a game can have at most {VARS_BYTES_MAX} bytes together");
            return Err(Refusal::too_many(detail));
        }
        Ok(())
    }

    /// Puts or removes a variable and returns the previous one.
    pub(super) fn set(&mut self, name: &str, after: Option<Variable>) -> Option<Variable> {
        if let Some(after) = &after {
            self.bytes += after.bytes();
            after
                .definition()
                .transitions()
                .for_each(|transition| *self.transitions.entry(transition).or_default() += 1);
            for (_, cohort) in after.definition().cohorts() {
                *self.cohorts.entry(cohort.to_owned()).or_default() += 1;
            }
        }
        let before = match after {
            Some(after) => self.variables.insert(name.to_owned(), after),
            None => self.variables.remove(name),
        };
        if let Some(before) = &before {
            self.bytes -= before.bytes();
            before.definition().transitions().for_each(|transition| self.remove_transition(transition));
            before.definition().cohorts().for_each(|(_, cohort)| self.remove_cohort(cohort));
        }
        before
    }

    fn remove_cohort(&mut self, cohort: &str) {
        let Some(count) = self.cohorts.get_mut(cohort) else { return };
        *count -= 1;
        if *count == 0 {
            self.cohorts.remove(cohort);
        }
    }

    fn remove_transition(&mut self, transition: i64) {
        let Some(count) = self.transitions.get_mut(&transition) else { return };
        *count -= 1;
        if *count == 0 {
            self.transitions.remove(&transition);
        }
    }
}

fn checked(vars: BTreeMap<String, Option<VarDefinition>>) -> Result<VarWrites, Refusal> {
    if vars.is_empty() {
        return Err(Refusal::invalid("vars", "must name at least one variable"));
    }
    let budget = CheckBudget::new();
    let check = |(name, definition): (String, Option<VarDefinition>)| {
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
    Err(Refusal::invalid(field, "a name must have 1 to 100 letters, digits, `.`, `_` or `-`"))
}

fn not_found(name: &str) -> Refusal {
    Refusal { field: Some("name".to_owned()), ..Refusal::not_found(format!("there is no variable `{name}`")) }
}
