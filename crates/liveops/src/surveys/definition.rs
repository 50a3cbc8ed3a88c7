//! What a survey asks, of whom, and when.

use serde::{Deserialize, Serialize};

use crate::vars::{Audience, Moment, check_window};
use crate::{Refusal, check_text, is_key};

/// Questions of one survey.
const QUESTIONS_MAX: usize = 30;
/// Options of a choice.
const OPTIONS_MAX: usize = 50;
/// Bytes of an option: it is a dimension's value in charts.
const OPTION_BYTES_MAX: usize = model::limits::DIMENSION_BYTES_MAX;
const TITLE_BYTES_MAX: usize = 200;
const TEXT_BYTES_MAX: usize = 500;
/// Steps of a scale.
const SCALE_STEPS_MAX: i64 = 101;
/// The ends of a scale lie within this of zero.
const SCALE_END_MAX: i64 = 1_000;
/// The most characters that a text may be allowed.
const CHARACTERS_MAX: i64 = 2_000;
/// The characters of a text that says nothing about them.
const CHARACTERS: i64 = 1_000;

/// A survey as its makers wrote it, and as the log and the records keep it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// For people.
    pub title: String,
    /// In the order in which they are asked.
    pub questions: Vec<Question>,
    /// Who is asked; without it, everybody.
    #[serde(default)]
    pub audience: Audience,
    /// Before this it is not due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Moment>,
    /// From here on it is not due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<Moment>,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Names it in answers and charts.
    pub key: String,
    /// How it is answered.
    pub kind: Kind,
    /// What is asked.
    pub text: String,
    /// Of a choice: what can be chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Of a scale: its lower end, 1 if not given. Of a text: its fewest characters, 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// Of a scale: its upper end, 5 if not given. Of a text: its most characters, 1,000 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}

/// How a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// With one of several options.
    Choice,
    /// With a whole number between two ends.
    Scale,
    /// In the player's own words.
    Text,
}

impl Question {
    /// From where to where an answer's number or length may go.
    pub(super) fn bounds(&self) -> (i64, i64) {
        let most = if self.kind == Kind::Text { CHARACTERS } else { 5 };
        (self.min.unwrap_or(1), self.max.unwrap_or(most))
    }

    fn check(&self, at: &str) -> Result<(), Refusal> {
        check_text(&format!("{at}.text"), &self.text, TEXT_BYTES_MAX)?;
        match self.kind {
            Kind::Choice => self.check_options(at),
            Kind::Scale | Kind::Text if !self.options.is_empty() => {
                Err(Refusal::invalid(format!("{at}.options"), "only a choice has options"))
            }
            Kind::Scale | Kind::Text => self.check_bounds(at),
        }
    }

    fn check_options(&self, at: &str) -> Result<(), Refusal> {
        let fault = |field: &str, why: String| Err(Refusal::invalid(format!("{at}.{field}"), why));
        if self.min.is_some() || self.max.is_some() {
            let field = if self.min.is_some() { "min" } else { "max" };
            return fault(field, "a choice has options, not bounds".to_owned());
        }
        if !(2..=OPTIONS_MAX).contains(&self.options.len()) {
            return fault("options", format!("there are 2 to {OPTIONS_MAX}"));
        }
        for (index, option) in self.options.iter().enumerate() {
            let field = format!("options[{index}]");
            check_text(&format!("{at}.{field}"), option, OPTION_BYTES_MAX)?;
            if option.is_empty() || self.options[..index].contains(option) {
                return fault(&field, "it is not empty, and unlike the others".to_owned());
            }
        }
        Ok(())
    }

    fn check_bounds(&self, at: &str) -> Result<(), Refusal> {
        let (least, most) = self.bounds();
        let (lowest, highest, widest) = match self.kind {
            Kind::Text => (1, CHARACTERS_MAX, CHARACTERS_MAX),
            _ => (-SCALE_END_MAX, SCALE_END_MAX, SCALE_STEPS_MAX),
        };
        let fault = |field: &str, why: String| Err(Refusal::invalid(format!("{at}.{field}"), why));
        if !(lowest..=highest).contains(&least) {
            return fault("min", format!("it is {lowest} to {highest}"));
        }
        let is_empty = most < least || (self.kind == Kind::Scale && most == least);
        if !(lowest..=highest).contains(&most) || is_empty || most - least >= widest {
            return fault(
                "max",
                format!("it is at most {highest}, above `min`, with at most {widest} steps"),
            );
        }
        Ok(())
    }

    /// Whether answers to `self` are answers to `other`, too: options may only be added.
    fn becomes(&self, other: &Question) -> bool {
        self.key == other.key
            && self.kind == other.kind
            && other.options.starts_with(&self.options)
            && (self.kind == Kind::Text || self.bounds() == other.bounds())
    }
}

impl Definition {
    /// Refuses what a survey may not be. `key` is its own.
    pub(super) fn check(&self, key: &str) -> Result<(), Refusal> {
        check_text("title", &self.title, TITLE_BYTES_MAX)?;
        if !(1..=QUESTIONS_MAX).contains(&self.questions.len()) {
            return Err(Refusal::invalid("questions", format!("there are 1 to {QUESTIONS_MAX}")));
        }
        for (index, question) in self.questions.iter().enumerate() {
            let at = format!("questions[{index}]");
            self.check_question_key(key, index).map_err(|why| Refusal::invalid(format!("{at}.key"), why))?;
            question.check(&at)?;
        }
        self.audience.check("audience.")?;
        check_window("", self.starts_at, self.ends_at)
    }

    fn check_question_key(&self, survey: &str, index: usize) -> Result<(), String> {
        let key = &self.questions[index].key;
        if !is_key(key) {
            return Err("it has 1 to 100 letters, digits, `.`, `_` or `-`".to_owned());
        }
        if event_name(survey, key).len() > model::limits::NAME_BYTES_MAX {
            return Err(format!("`{}` is too long a name for its events", event_name(survey, key)));
        }
        if self.questions[..index].iter().any(|earlier| earlier.key == *key) {
            return Err("an earlier question has this key".to_owned());
        }
        Ok(())
    }

    /// Whether answers to `self` are answers to `other`, too: questions and options may only be added behind.
    pub(super) fn becomes(&self, other: &Definition) -> bool {
        self.questions.len() <= other.questions.len()
            && self.questions.iter().zip(&other.questions).all(|(own, new)| own.becomes(new))
    }

    /// The question of this key, with its number.
    pub(super) fn question(&self, key: &str) -> Option<(u16, &Question)> {
        let mut numbered = (0..).zip(&self.questions);
        numbered.find(|(_, question)| question.key == key)
    }
}

/// What the events are called that answers to a question become.
pub(super) fn event_name(survey: &str, question: &str) -> String {
    format!("survey.{survey}.{question}")
}
