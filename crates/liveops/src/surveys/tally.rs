//! What all answers to one question come to, kept up to date with each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::definition::{Kind, Question};
use super::given::Said;
use crate::vars::Moment;

/// The last texts of a question that are shown.
pub const TEXTS_MAX: usize = 100;

/// The answers to one question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    count: u64,
    /// By the option's number or the step of the scale.
    counts: BTreeMap<i64, u64>,
    /// When and who, of the last texts.
    texts: BTreeSet<(i64, Box<str>)>,
}

impl Tally {
    pub(super) fn add(&mut self, said: &Said, player: &str, at_ms: i64) {
        self.count += 1;
        match said.step() {
            Some(step) => *self.counts.entry(step).or_default() += 1,
            None => {
                self.texts.insert((at_ms, player.into()));
                if self.texts.len() > TEXTS_MAX {
                    self.texts.pop_first();
                }
            }
        }
    }

    /// Takes an answer back. True: a shown text went while others wait to be shown, so the tally has to be made anew.
    pub(super) fn subtract(&mut self, said: &Said, player: &str, at_ms: i64) -> bool {
        self.count -= 1;
        let Some(step) = said.step() else {
            return self.texts.remove(&(at_ms, player.into())) && self.count > self.texts.len() as u64;
        };
        if let Some(count) = self.counts.get_mut(&step) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&step);
            }
        }
        false
    }

    /// The result as people see it; `text_of` finds what somebody wrote.
    pub(super) fn json<'a>(&self, question: &Question, text_of: impl Fn(&str) -> Option<&'a str>) -> Value {
        let mut result = json!({
            "key": question.key, "kind": question.kind, "text": question.text, "count": self.count,
        });
        let count = |step: i64| self.counts.get(&step).copied().unwrap_or_default();
        match question.kind {
            Kind::Choice => {
                let options = (0..).zip(&question.options);
                result["options"] =
                    options.map(|(step, option)| json!({ "option": option, "count": count(step) })).collect();
            }
            Kind::Scale => {
                let (least, most) = question.bounds();
                result["mean"] = self.mean().into();
                result["counts"] =
                    (least..=most).map(|step| json!({ "value": step, "count": count(step) })).collect();
            }
            Kind::Text => {
                let text = |(at_ms, player): &(i64, Box<str>)| {
                    let text = text_of(player)?;
                    Some(json!({ "at": Moment::from_ms(*at_ms), "player": player, "text": text }))
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

impl Said {
    fn step(&self) -> Option<i64> {
        match self {
            Said::Choice(number) => Some((*number).into()),
            Said::Scale(number) => Some((*number).into()),
            Said::Text(_) => None,
        }
    }
}
