//! Conditions on events: what `where` means.
//!
//! # Comparison of values
//! A property has no declared type: one event can carry a text, another a number. A condition therefore says what it
//! compares with by the type of its own value.
//!
//! | condition's value | a text in the event | a number in the event | true or false in the event |
//! |---|---|---|---|
//! | text | `=` and `in`: the same bytes; `<`: order of bytes | compared if the condition's text is a number | equal if the condition's text is `true` or `false` |
//! | number | compared if the event's text is a number | compared | never |
//! | true or false | equal if the event's text is `true` or `false` | never | equal |
//!
//! `!=` is the opposite of `=`, so it selects events without the property as well. `<`, `<=`, `>`, `>=`, `contains` and
//! `in` select only events that have the property. `contains` looks for a part of a text, case-sensitively.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use model::query::QueryError;
use serde_json::Value as Json;

use super::limits::{
    CONDITION_DEPTH_MAX, CONDITIONS_MAX, IN_VALUES_MAX, OPERAND_BYTES_MAX, PROPERTY_BYTES_MAX,
};
use super::players::{PlayerLinks, PlayerSet};
use super::request::{Fields, Item};
use super::{Cohorts, FieldList};
use crate::columns::{ABSENT, Chunk, Column, Dictionary, Field, Value};

/// A condition on one event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    /// All of these; true if there are none.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Compare {
        field: Field,
        test: Test,
    },
    /// The event's player belongs to a cohort. `path` is the field of the request, for errors.
    Cohort {
        path: String,
        name: String,
    },
}

/// What a condition says about one value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Equal(Operand),
    NotEqual(Operand),
    Less(Operand),
    LessOrEqual(Operand),
    Greater(Operand),
    GreaterOrEqual(Operand),
    Contains(String),
    /// The search of players only.
    StartsWith(String),
    In(Vec<Operand>),
    Set,
    Unset,
}

/// A value that a condition compares with, in all types that it can be read as.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Operand {
    text: Option<String>,
    number: Option<f64>,
    flag: Option<bool>,
}

impl Condition {
    /// Returns the condition that every event meets.
    pub(super) fn always() -> Condition {
        Condition::All(Vec::new())
    }

    /// Reads the list `where` of an object, which may be absent.
    pub(super) fn read(fields: &mut Fields, budget: &mut ConditionBudget) -> Result<Condition, QueryError> {
        match fields.optional("where") {
            None => Ok(Condition::always()),
            Some(list) => Ok(Condition::All(read_list(&list, budget, 0)?)),
        }
    }

    /// Returns true if every event meets the condition.
    pub(super) fn is_always(&self) -> bool {
        matches!(self, Condition::All(conditions) if conditions.is_empty())
    }

    /// Inserts the cohorts that the condition names.
    pub(super) fn insert_cohorts<'c>(&'c self, names: &mut BTreeSet<&'c str>) {
        match self {
            Condition::All(conditions) | Condition::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.insert_cohorts(names));
            }
            Condition::Not(condition) => condition.insert_cohorts(names),
            Condition::Compare { .. } => {}
            Condition::Cohort { name, .. } => {
                names.insert(name);
            }
        }
    }

    /// Finds the columns and the players that the condition needs.
    pub(super) fn bind(&self, columns: &mut FieldList, cohorts: &Cohorts) -> Result<Matcher, QueryError> {
        let mut all = |conditions: &[Condition]| -> Result<Vec<Matcher>, QueryError> {
            conditions.iter().map(|condition| condition.bind(columns, cohorts)).collect()
        };
        Ok(match self {
            Condition::All(conditions) => Matcher::All(all(conditions)?),
            Condition::Any(conditions) => Matcher::Any(all(conditions)?),
            Condition::Not(condition) => Matcher::Not(Box::new(condition.bind(columns, cohorts)?)),
            Condition::Compare { field, test } => Matcher::Compare {
                column: columns.index(field),
                test: test.clone(),
                table: CodeTable::default(),
            },
            Condition::Cohort { path, name } => match cohorts.get(name) {
                Some(players) => Matcher::Players(Arc::clone(players)),
                None => return Err(QueryError::new(&**path, format!("no cohort is named \"{name}\""))),
            },
        })
    }
}

/// Counts the conditions of a request.
#[derive(Default)]
pub(super) struct ConditionBudget(usize);

impl ConditionBudget {
    pub(super) fn spend(&mut self, path: &str) -> Result<(), QueryError> {
        self.0 += 1;
        if self.0 <= CONDITIONS_MAX {
            return Ok(());
        }
        Err(QueryError::new(path, format!("a request must have at most {CONDITIONS_MAX} conditions")))
    }
}

fn read_list(list: &Item, budget: &mut ConditionBudget, depth: usize) -> Result<Vec<Condition>, QueryError> {
    let items = list.list("a list of conditions")?;
    items.iter().map(|item| read_condition(item, budget, depth)).collect()
}

fn read_condition(item: &Item, budget: &mut ConditionBudget, depth: usize) -> Result<Condition, QueryError> {
    budget.spend(&item.path)?;
    if depth > CONDITION_DEPTH_MAX {
        let message = format!("conditions must be nested at most {CONDITION_DEPTH_MAX} deep");
        return Err(QueryError::new(&*item.path, message));
    }
    let mut fields = item.fields("a condition")?;
    let condition = if let Some(list) = fields.optional("and") {
        Condition::All(read_list(&list, budget, depth + 1)?)
    } else if let Some(list) = fields.optional("or") {
        Condition::Any(read_list(&list, budget, depth + 1)?)
    } else if let Some(negated) = fields.optional("not") {
        Condition::Not(Box::new(read_condition(&negated, budget, depth + 1)?))
    } else if let Some(cohort) = fields.optional("cohort") {
        Condition::Cohort { name: cohort.name(OPERAND_BYTES_MAX)?.to_owned(), path: cohort.path }
    } else if fields.has("property") || fields.has("op") || fields.has("value") {
        read_comparison(&mut fields)?
    } else {
        return Err(item.must_be("a condition: property, op and value, or one of and, or, not, cohort"));
    };
    fields.end()?;
    Ok(condition)
}

/// Reads `property`, `op` and `value`.
pub(super) fn read_comparison(fields: &mut Fields) -> Result<Condition, QueryError> {
    let field = fields.required("property")?.property()?;
    let op = fields.required("op")?;
    let name = op.text()?;
    if matches!(name, "set" | "unset") {
        if fields.has("value") {
            let message = format!("must not be set with the operator {name}");
            return Err(QueryError::new(fields.path_of("value"), message));
        }
        return Ok(Condition::Compare { field, test: if name == "set" { Test::Set } else { Test::Unset } });
    }
    let compare: fn(Operand) -> Test = match name {
        "=" => Test::Equal,
        "!=" => Test::NotEqual,
        "<" => Test::Less,
        "<=" => Test::LessOrEqual,
        ">" => Test::Greater,
        ">=" => Test::GreaterOrEqual,
        "contains" | "in" => Test::Equal,
        _ => return Err(op.must_be("one of =, !=, <, <=, >, >=, contains, in, set, unset")),
    };
    let value = fields.required("value")?;
    if matches!(field, Field::Player | Field::Anonymous) {
        check_ids(&value)?;
    }
    let test = match name {
        "contains" => Test::Contains(value.name(OPERAND_BYTES_MAX)?.to_owned()),
        "in" => {
            let values = value.list("a list of values")?;
            if !(1..=IN_VALUES_MAX).contains(&values.len()) {
                return Err(value.must_be(&format!("a list of 1 to {IN_VALUES_MAX} values")));
            }
            Test::In(values.iter().map(Operand::read).collect::<Result<_, _>>()?)
        }
        _ => {
            let operand = Operand::read(&value)?;
            if operand.text.is_none() && operand.number.is_none() && !matches!(name, "=" | "!=") {
                return Err(value.must_be("a string or a number, because true and false have no order"));
            }
            compare(operand)
        }
    };
    Ok(Condition::Compare { field, test })
}

/// Ids of players are compared as text only, so that an erasure finds every id in a stored question.
fn check_ids(value: &Item) -> Result<(), QueryError> {
    let is_id = |item: &Item| match item.value {
        Json::Number(_) | Json::Bool(_) => Err(item.must_be("a string, because ids of players are text")),
        // What else it must be depends on the operator.
        _ => Ok(()),
    };
    if value.value.is_array() {
        return value.list("a list of values")?.iter().try_for_each(is_id);
    }
    is_id(value)
}

impl Operand {
    pub(super) fn of_text(text: &str) -> Operand {
        Operand { number: number_in(text), flag: text.parse().ok(), text: Some(text.to_owned()) }
    }

    fn read(item: &Item) -> Result<Operand, QueryError> {
        match item.value {
            Json::String(text) if text.len() <= OPERAND_BYTES_MAX => Ok(Operand::of_text(text)),
            Json::String(_) => Err(item.must_be(&format!("at most {OPERAND_BYTES_MAX} bytes long"))),
            Json::Number(number) => Ok(Operand { text: None, number: number.as_f64(), flag: None }),
            Json::Bool(flag) => Ok(Operand { text: None, number: None, flag: Some(*flag) }),
            _ => Err(item.must_be("a string, a number, true or false")),
        }
    }

    fn equals(&self, value: Value<'_>) -> bool {
        match (value, &self.text) {
            (Value::Text(text), Some(own)) => text == own,
            (Value::Text(text), None) => match self.flag {
                Some(flag) => text.parse() == Ok(flag),
                None => self.number == number_in(text),
            },
            (Value::Number(number), _) => self.number == Some(number),
            (Value::Flag(flag), _) => self.flag == Some(flag),
        }
    }

    /// Compares the value with the operand.
    fn order(&self, value: Value<'_>) -> Option<Ordering> {
        match (value, &self.text) {
            (Value::Text(text), Some(own)) => Some(text.cmp(own)),
            (Value::Text(text), None) => number_in(text)?.partial_cmp(&self.number?),
            (Value::Number(number), _) => number.partial_cmp(&self.number?),
            (Value::Flag(_), _) => None,
        }
    }
}

/// Returns the number that a text is.
fn number_in(text: &str) -> Option<f64> {
    let starts_like_one =
        text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.'));
    if starts_like_one { text.parse().ok().filter(|number: &f64| number.is_finite()) } else { None }
}

impl Test {
    pub(super) fn matches(&self, value: Option<Value<'_>>) -> bool {
        let Some(value) = value else { return matches!(self, Test::NotEqual(_) | Test::Unset) };
        match self {
            Test::Equal(operand) => operand.equals(value),
            Test::NotEqual(operand) => !operand.equals(value),
            Test::Less(operand) => operand.order(value).is_some_and(Ordering::is_lt),
            Test::LessOrEqual(operand) => operand.order(value).is_some_and(Ordering::is_le),
            Test::Greater(operand) => operand.order(value).is_some_and(Ordering::is_gt),
            Test::GreaterOrEqual(operand) => operand.order(value).is_some_and(Ordering::is_ge),
            Test::Contains(part) => matches!(value, Value::Text(text) if text.contains(&**part)),
            Test::StartsWith(start) => matches!(value, Value::Text(text) if text.starts_with(&**start)),
            Test::In(operands) => operands.iter().any(|operand| operand.equals(value)),
            Test::Set => true,
            Test::Unset => false,
        }
    }
}

/// Returns the column with this name in requests.
pub(super) fn field_from_label(label: &str) -> Option<Field> {
    Some(match label {
        "event" => Field::Event,
        "id" => Field::Id,
        "player" => Field::Player,
        "anonymous" => Field::Anonymous,
        "session" => Field::Session,
        "value" => Field::Value,
        "country" => Field::Country,
        "platform" => Field::Platform,
        "version" => Field::Version,
        "source" => Field::Source,
        "level" => Field::Level,
        "received" => Field::Received,
        _ => {
            let name = label.strip_prefix("props.")?;
            return (1..=PROPERTY_BYTES_MAX).contains(&name.len()).then(|| Field::Property(name.into()));
        }
    })
}

/// Returns the name of a column in requests and answers.
pub(super) fn label(field: &Field) -> String {
    let fixed = match field {
        Field::Event => "event",
        Field::Id => "id",
        Field::Player => "player",
        Field::Anonymous => "anonymous",
        Field::Session => "session",
        Field::Value => "value",
        Field::Country => "country",
        Field::Platform => "platform",
        Field::Version => "version",
        Field::Source => "source",
        Field::Level => "level",
        Field::Received => "received",
        Field::Property(name) => return format!("props.{name}"),
    };
    fixed.to_owned()
}

/// A condition that knows its columns.
pub(super) enum Matcher {
    All(Vec<Matcher>),
    Any(Vec<Matcher>),
    Not(Box<Matcher>),
    Compare { column: usize, test: Test, table: CodeTable<u8> },
    Players(Arc<PlayerSet>),
}

impl Matcher {
    /// Sets the entry of each row that does not meet the condition to 0. Entries are 0 or 1.
    pub(super) fn narrow(&mut self, chunk: &Chunk, links: &PlayerLinks, mask: &mut [u8]) {
        match self {
            Matcher::All(matchers) => matchers.iter_mut().for_each(|one| one.narrow(chunk, links, mask)),
            Matcher::Any(matchers) => {
                let mut any = vec![0; mask.len()];
                for matcher in matchers {
                    let mut one = mask.to_vec();
                    matcher.narrow(chunk, links, &mut one);
                    any.iter_mut().zip(&one).for_each(|(any, one)| *any |= one);
                }
                mask.copy_from_slice(&any);
            }
            Matcher::Not(matcher) => {
                let mut one = mask.to_vec();
                matcher.narrow(chunk, links, &mut one);
                mask.iter_mut().zip(&one).for_each(|(mask, one)| *mask &= one ^ 1);
            }
            Matcher::Compare { column, test, table } => {
                narrow_column(&chunk.columns[*column], test, table, mask);
            }
            Matcher::Players(players) => {
                let mut last = (0, u8::from(players.contains(0)));
                for (player, mask) in chunk.players.iter().zip(mask) {
                    if *player != last.0 {
                        last = (*player, u8::from(players.contains(links.player(*player))));
                    }
                    *mask &= last.1;
                }
            }
        }
    }
}

fn narrow_column(column: &Column, test: &Test, table: &mut CodeTable<u8>, mask: &mut [u8]) {
    match column {
        Column::Absent => {
            if !test.matches(None) {
                mask.fill(0);
            }
        }
        Column::Coded { codes, dictionary } => {
            let table = table.of(dictionary, |value| u8::from(test.matches(value)));
            let absent = table.len() - 1;
            for (mask, code) in mask.iter_mut().zip(codes) {
                *mask &= table[if *code == ABSENT { absent } else { *code as usize }];
            }
        }
        Column::Numbers(values) => narrow_numbers(values, test, mask),
        Column::Uuids(_) => {
            for (row, mask) in mask.iter_mut().enumerate().filter(|(_, mask)| **mask != 0) {
                *mask &= u8::from(test.matches(column.value(row)));
            }
        }
    }
}

/// NaN, which stands for a row without a value, is neither less nor greater than any number, nor equal to it.
fn narrow_numbers(values: &[f64], test: &Test, mask: &mut [u8]) {
    let each = |mask: &mut [u8], keep: &dyn Fn(f64) -> bool| {
        mask.iter_mut().zip(values).for_each(|(mask, value)| *mask &= u8::from(keep(*value)));
    };
    macro_rules! compare {
        ($operand:expr, $op:tt) => {{
            let limit = $operand.number.unwrap_or(f64::NAN);
            mask.iter_mut().zip(values).for_each(|(mask, value)| *mask &= u8::from(*value $op limit));
        }};
    }
    match test {
        Test::Equal(operand) => compare!(operand, ==),
        Test::NotEqual(operand) => compare!(operand, !=),
        Test::Less(operand) => compare!(operand, <),
        Test::LessOrEqual(operand) => compare!(operand, <=),
        Test::Greater(operand) => compare!(operand, >),
        Test::GreaterOrEqual(operand) => compare!(operand, >=),
        Test::Set => each(mask, &|value| !value.is_nan()),
        Test::Unset => each(mask, &f64::is_nan),
        Test::Contains(_) | Test::StartsWith(_) => mask.fill(0),
        Test::In(operands) => each(mask, &|value| {
            !value.is_nan() && operands.iter().any(|operand| operand.number == Some(value))
        }),
    }
}

/// Something known of each entry of a dictionary, computed once for all chunks that share it. The last item is that of
/// rows without a value.
pub(super) struct CodeTable<T> {
    dictionary: Option<Arc<Dictionary>>,
    items: Vec<T>,
}

impl<T> Default for CodeTable<T> {
    fn default() -> CodeTable<T> {
        CodeTable { dictionary: None, items: Vec::new() }
    }
}

impl<T: Copy> CodeTable<T> {
    pub(super) fn of(
        &mut self,
        dictionary: &Arc<Dictionary>,
        mut item: impl FnMut(Option<Value<'_>>) -> T,
    ) -> &mut [T] {
        if !self.dictionary.as_ref().is_some_and(|own| Arc::ptr_eq(own, dictionary)) {
            self.items.clear();
            self.items.extend((0..dictionary.len()).map(|code| item(Some(dictionary.value(code as u32)))));
            self.items.push(item(None));
            self.dictionary = Some(Arc::clone(dictionary));
        }
        &mut self.items
    }

    /// Returns the item of a code of the dictionary that was looked at last.
    #[inline]
    pub(super) fn item(&self, code: u32) -> T {
        self.items[if code == ABSENT { self.items.len() - 1 } else { code as usize }]
    }

    #[inline]
    pub(super) fn set(&mut self, code: u32, item: T) {
        let last = self.items.len() - 1;
        self.items[if code == ABSENT { last } else { code as usize }] = item;
    }
}
