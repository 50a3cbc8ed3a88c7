//! The totals of one question, updated with each answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::definition::{Question, QuestionKind};
use super::response::QuestionAnswer;
use crate::vars::TimestampMs;

/// The last texts of a question that are shown.
pub const TEXTS_MAX: usize = 100;

/// The totals of one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QuestionTally {
    count: u64,
    /// By the option's number or the step of the scale.
    counts: BTreeMap<i64, u64>,
    /// The order ([`SurveyResponse::order`](super::response::SurveyResponse::order)) and the players of the last texts.
    texts: BTreeSet<((i64, u64), Box<str>)>,
}

impl QuestionTally {
    pub(super) fn add(&mut self, answer: &QuestionAnswer, player: &str, order: (i64, u64)) {
        self.count += 1;
        match answer.step() {
            Some(step) => *self.counts.entry(step).or_default() += 1,
            None => {
                self.texts.insert((order, player.into()));
                if self.texts.len() > TEXTS_MAX {
                    self.texts.pop_first();
                }
            }
        }
    }

    /// Subtracts an answer. Returns true if a shown text was removed while others are not shown, so that the tally must
    /// be recomputed.
    pub(super) fn subtract(&mut self, answer: &QuestionAnswer, player: &str, order: (i64, u64)) -> bool {
        self.count -= 1;
        let Some(step) = answer.step() else {
            return self.texts.remove(&(order, player.into())) && self.count > self.texts.len() as u64;
        };
        if let Some(count) = self.counts.get_mut(&step) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&step);
            }
        }
        false
    }

    /// Returns the results as JSON; `text_of` returns the text of a player.
    pub(super) fn json<'a>(&self, question: &Question, text_of: impl Fn(&str) -> Option<&'a str>) -> Value {
        let mut result = json!({
            "key": question.key, "kind": question.kind, "text": question.text, "count": self.count,
        });
        let count = |step: i64| self.counts.get(&step).copied().unwrap_or_default();
        match question.kind {
            QuestionKind::Choice => {
                let options = (0..).zip(&question.options);
                result["options"] =
                    options.map(|(step, option)| json!({ "option": option, "count": count(step) })).collect();
            }
            QuestionKind::Scale => {
                let (min, max) = question.bounds();
                result["mean"] = self.mean().into();
                result["counts"] =
                    (min..=max).map(|step| json!({ "value": step, "count": count(step) })).collect();
            }
            QuestionKind::Text => {
                let text = |((at_ms, _), player): &((i64, u64), Box<str>)| {
                    let text = text_of(player)?;
                    Some(json!({ "at": TimestampMs::from_ms(*at_ms), "player": player, "text": text }))
                };
                result["texts"] = self.texts.iter().rev().filter_map(text).collect();
            }
        }
        result
    }

    fn mean(&self) -> Option<f64> {
        let sum: i64 = self.counts.iter().map(|(step, count)| step * *count as i64).sum();
        (self.count > 0).then(|| sum as f64 / self.count as f64)
    }
}

impl QuestionAnswer {
    fn step(&self) -> Option<i64> {
        match self {
            QuestionAnswer::Choice(number) => Some((*number).into()),
            QuestionAnswer::Scale(number) => Some((*number).into()),
            QuestionAnswer::Text(_) => None,
        }
    }
}
