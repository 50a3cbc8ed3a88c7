//! Sets of players by what they did.
//!
//! # Rules
//! - `{"event", "where", "at_least", "within_days"}`: the player had at least so many such events in the last days
//!   (of 24 hours, before the time of the evaluation).
//! - `{"property", "op", "value", "within_days"}`: the latest event that has the property, in the last days, meets the
//!   condition. Without such an event, the condition is on a missing value: only `!=` and `unset` hold.
//! - `and`, `or`, `not` combine rules. Only players with an event within `seen_within_days` can belong to the cohort.
//! - Erased players belong to no cohort.

use model::limits::PLAYER_BYTES_MAX;
use model::query::QueryError;
use model::rollup::hash_player;

use super::filter::{Condition, ConditionBudget, Test, read_comparison};
use super::limits::{COHORT_DAYS_MAX, COHORT_LIST_MAX, COHORT_RULES_MAX, CONDITION_DEPTH_MAX};
use super::players::PlayerSet;
use super::request::{Fields, Item, object};
use super::select::{EventPattern, Selector};
use super::walk::{PlayerQuestion, walk_players};
use super::{Context, FieldList, QuestionFailure};
use crate::columns::{Chunk, Field};

const DAY_MS: i64 = 86_400_000;
const DEFAULT_DAYS: u32 = 30;
const NAME_BYTES_MAX: usize = 64;
/// Bits of a row that rules can use; one is for "had any event".
const BITS_MAX: usize = COHORT_RULES_MAX - 1;

/// A cohort as a user defines it.
#[derive(Clone, Debug, PartialEq)]
pub struct CohortDefinition {
    /// How questions name it.
    pub name: String,
    members: Members,
}

#[derive(Clone, Debug, PartialEq)]
enum Members {
    /// These ids.
    List(Vec<String>),
    /// The players who meet the rule at the time of evaluation.
    Rule { rule: Rule, seen_within_days: u32 },
}

#[derive(Clone, Debug, PartialEq)]
enum Rule {
    All(Vec<Rule>),
    Any(Vec<Rule>),
    Not(Box<Rule>),
    Did { pattern: EventPattern, at_least: u32, days: u32 },
    Latest { field: Field, test: Test, days: u32 },
}

impl CohortDefinition {
    /// Parses `{"name", "condition", "seen_within_days"}` or `{"name", "players"}`.
    pub fn from_json(body: &[u8]) -> Result<CohortDefinition, QueryError> {
        let map = object(body)?;
        let mut fields = Fields::of_body(&map, "a cohort");
        let name = fields.required("name")?;
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if !is_plain(name.name(NAME_BYTES_MAX)?) {
            return Err(name.must_be("letters, digits, -, _ and . only"));
        }
        let name = name.text()?.to_owned();
        let members = match (fields.optional("players"), fields.optional("condition")) {
            (Some(players), None) => Members::List(read_list(&players)?),
            (None, Some(condition)) => read_rules(&condition, &mut fields)?,
            (Some(_), Some(_)) => {
                return Err(QueryError::new("players", "cannot be combined with `condition`; remove one"));
            }
            (None, None) => {
                return Err(QueryError::new("condition", "is required, unless `players` lists the players"));
            }
        };
        fields.end()?;
        Ok(CohortDefinition { name, members })
    }

    /// Returns true if the cohort is a list, so that evaluating it again changes nothing but links.
    pub fn is_list(&self) -> bool {
        matches!(self.members, Members::List(_))
    }

    /// Finds the players. `game_seed` is that of the hashes of the game's players.
    pub fn evaluate(&self, context: &Context<'_>, game_seed: u64) -> Result<PlayerSet, QuestionFailure> {
        match &self.members {
            Members::List(ids) => {
                let player = |id: &String| context.links.player(hash_player(game_seed, id.as_bytes()));
                Ok(ids.iter().map(player).collect())
            }
            Members::Rule { rule, seen_within_days } => evaluate(rule, *seen_within_days, context),
        }
    }
}

fn read_list(item: &Item) -> Result<Vec<String>, QueryError> {
    let ids = item.list("a list of player ids")?;
    if !(1..=COHORT_LIST_MAX).contains(&ids.len()) {
        return Err(item.must_be(&format!("a list of 1 to {COHORT_LIST_MAX} player ids")));
    }
    ids.iter().map(|id| id.name(PLAYER_BYTES_MAX).map(str::to_owned)).collect()
}

fn read_rules(condition: &Item, fields: &mut Fields) -> Result<Members, QueryError> {
    let rule = read_rule(condition, &mut ConditionBudget::default(), 0)?;
    if rule.bits() > BITS_MAX {
        let message = format!(
            "must have at most {BITS_MAX} rules; a rule about the latest value of a property counts as two"
        );
        return Err(QueryError::new("condition", message));
    }
    let seen = fields.optional("seen_within_days");
    let seen = seen.map(|seen| seen.integer(1..=COHORT_DAYS_MAX.into())).transpose()?;
    let seen_within_days = seen.map_or(rule.days().max(DEFAULT_DAYS), |days| days as u32);
    Ok(Members::Rule { rule, seen_within_days })
}

fn read_rule(item: &Item, budget: &mut ConditionBudget, depth: usize) -> Result<Rule, QueryError> {
    budget.spend(&item.path)?;
    if depth > CONDITION_DEPTH_MAX {
        let message = format!("rules must be nested at most {CONDITION_DEPTH_MAX} deep");
        return Err(QueryError::new(&*item.path, message));
    }
    let mut fields = item.fields("a rule")?;
    let rule = if let Some(list) = fields.optional("and") {
        Rule::All(read_rule_list(&list, budget, depth)?)
    } else if let Some(list) = fields.optional("or") {
        Rule::Any(read_rule_list(&list, budget, depth)?)
    } else if let Some(negated) = fields.optional("not") {
        Rule::Not(Box::new(read_rule(&negated, budget, depth + 1)?))
    } else if fields.has("property") {
        let days = read_days(&mut fields)?;
        match read_comparison(&mut fields)? {
            Condition::Compare { field, test } => Rule::Latest { field, test, days },
            _ => unreachable!("a comparison is read as one"),
        }
    } else if fields.has("event") {
        let days = read_days(&mut fields)?;
        let at_least = fields.optional("at_least").map(|count| count.integer(1..=1_000_000)).transpose()?;
        let pattern = EventPattern::read(&mut fields, budget)?;
        let mut cohorts = std::collections::BTreeSet::new();
        pattern.filter.insert_cohorts(&mut cohorts);
        if let Some(name) = cohorts.first() {
            let message = format!("must not name the cohort \"{name}\": a cohort cannot depend on another");
            return Err(QueryError::new(fields.path_of("where"), message));
        }
        Rule::Did { pattern, at_least: at_least.map_or(1, |count| count as u32), days }
    } else {
        return Err(item.must_be("a rule: about an event, about a property, or one of and, or, not"));
    };
    fields.end()?;
    Ok(rule)
}

fn read_rule_list(list: &Item, budget: &mut ConditionBudget, depth: usize) -> Result<Vec<Rule>, QueryError> {
    let items = list.list("a list of rules")?;
    if items.is_empty() {
        return Err(list.must_be("a list of at least one rule"));
    }
    items.iter().map(|item| read_rule(item, budget, depth + 1)).collect()
}

fn read_days(fields: &mut Fields) -> Result<u32, QueryError> {
    let days =
        fields.optional("within_days").map(|days| days.integer(1..=COHORT_DAYS_MAX.into())).transpose()?;
    Ok(days.map_or(DEFAULT_DAYS, |days| days as u32))
}

impl Rule {
    fn each<'r>(&'r self, visit: &mut dyn FnMut(&'r Rule)) {
        match self {
            Rule::All(rules) | Rule::Any(rules) => rules.iter().for_each(|rule| rule.each(visit)),
            Rule::Not(rule) => {
                visit(self);
                rule.each(visit);
            }
            leaf => visit(leaf),
        }
    }

    /// Returns the number of patterns of events that the rule needs.
    fn bits(&self) -> usize {
        let mut bits = 0;
        self.each(&mut |rule| match rule {
            Rule::Did { .. } => bits += 1,
            Rule::Latest { .. } => bits += 2,
            _ => {}
        });
        bits
    }

    /// Returns the days that the rule looks back.
    fn days(&self) -> u32 {
        let mut longest = 0;
        self.each(&mut |rule| {
            if let Rule::Did { days, .. } | Rule::Latest { days, .. } = rule {
                longest = longest.max(*days);
            }
        });
        longest
    }

    /// Returns true if a player without any of the events of the rule may meet it.
    fn needs_all_events(&self) -> bool {
        let mut needs = false;
        self.each(&mut |rule| needs |= matches!(rule, Rule::Not(_) | Rule::Latest { .. }));
        needs
    }
}

fn evaluate(rule: &Rule, seen_within_days: u32, context: &Context<'_>) -> Result<PlayerSet, QuestionFailure> {
    let ago = |days: u32| context.now_ms - i64::from(days) * DAY_MS;
    let (mut patterns, mut from) = (Vec::new(), Vec::new());
    rule.each(&mut |rule| match rule {
        Rule::Did { pattern, days, .. } => {
            patterns.push(pattern.clone());
            from.push(ago(*days));
        }
        Rule::Latest { field, test, days } => {
            for test in [Test::Set, test.clone()] {
                let filter = Condition::Compare { field: field.clone(), test };
                patterns.push(EventPattern { event: None, filter });
                from.push(ago(*days));
            }
        }
        _ => {}
    });
    let needs_seen = rule.needs_all_events() || seen_within_days < rule.days();
    if needs_seen {
        patterns.push(EventPattern { event: None, filter: Condition::always() });
        from.push(ago(seen_within_days));
    }
    let first = from.iter().min().copied().unwrap_or(context.now_ms);
    let mut columns = FieldList::default();
    // Events of erased players have no id any more.
    let has_id = Condition::Compare { field: Field::Player, test: Test::Set };
    let selector = Selector::new(&patterns, &has_id, &mut columns, context.cohorts)?;
    let mut walk = CohortWalk { rule, selector, from, needs_seen, players: Vec::new() };
    let events = walk.selector.events();
    walk_players(&mut walk, context, columns, first..context.now_ms + 1, events)?;
    Ok(walk.players.into_iter().collect())
}

struct CohortWalk<'a> {
    rule: &'a Rule,
    selector: Selector,
    /// The time from which events meet each pattern.
    from: Vec<i64>,
    needs_seen: bool,
    players: Vec<u64>,
}

/// For each pattern, the number of events that met it. For the second one of a latest value: whether the latest one
/// did.
type Counted = [u32; COHORT_RULES_MAX];

impl PlayerQuestion for CohortWalk<'_> {
    type State = Counted;
    type Row = u16;

    fn select(&mut self, chunk: &Chunk, context: &Context<'_>, rows: &mut Vec<u32>) {
        self.selector.select(chunk, context.links);
        std::mem::swap(rows, &mut self.selector.rows);
    }

    fn read(&mut self, _: &Chunk, row: usize) -> u16 {
        self.selector.bits[row]
    }

    fn step(&mut self, state: &mut Counted, _: u64, time_ms: i64, bits: u16) {
        let mut at = 0;
        let from = &self.from;
        let is_met = |at: usize| bits >> at & 1 == 1 && time_ms >= from[at];
        self.rule.each(&mut |rule| match rule {
            Rule::Did { .. } => {
                state[at] = state[at].saturating_add(u32::from(is_met(at)));
                at += 1;
            }
            Rule::Latest { .. } => {
                if is_met(at) {
                    (state[at], state[at + 1]) = (1, u32::from(is_met(at + 1)));
                }
                at += 2;
            }
            _ => {}
        });
        if self.needs_seen && is_met(at) {
            state[at] = 1;
        }
    }

    fn finish(&mut self, player: u64, state: &Counted) {
        let seen = self.from.len() - 1;
        if (!self.needs_seen || state[seen] == 1) && holds(self.rule, state, &mut 0) {
            self.players.push(player);
        }
    }

    fn bytes(&self) -> usize {
        2 * self.players.capacity() * size_of::<u64>()
    }
}

/// Evaluates the rule. `at` is the first pattern of the rule, and is moved behind its last.
fn holds(rule: &Rule, state: &Counted, at: &mut usize) -> bool {
    match rule {
        // Every rule is visited, because each moves `at`.
        Rule::All(rules) => rules.iter().filter(|rule| holds(rule, state, at)).count() == rules.len(),
        Rule::Any(rules) => rules.iter().filter(|rule| holds(rule, state, at)).count() > 0,
        Rule::Not(rule) => !holds(rule, state, at),
        Rule::Did { at_least, .. } => {
            *at += 1;
            state[*at - 1] >= *at_least
        }
        Rule::Latest { test, .. } => {
            *at += 2;
            if state[*at - 2] == 1 { state[*at - 1] == 1 } else { test.matches(None) }
        }
    }
}
