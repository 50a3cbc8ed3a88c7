//! The definition of a survey: questions, audience and time.

use serde::{Deserialize, Serialize};

use crate::vars::{Audience, TimestampMs, check_window};
use crate::{Refusal, check_text, is_key};

/// Questions of one survey.
const QUESTIONS_MAX: usize = 30;
/// Options of a choice.
const OPTIONS_MAX: usize = 50;
/// Bytes of an option, which becomes the value of a dimension.
const OPTION_BYTES_MAX: usize = model::limits::DIMENSION_BYTES_MAX;
const TITLE_BYTES_MAX: usize = 200;
const TEXT_BYTES_MAX: usize = 500;
/// Steps of a scale.
const SCALE_STEPS_MAX: i64 = 101;
/// The greatest absolute value on a scale.
const SCALE_END_MAX: i64 = 1_000;
/// The greatest `max` of a text, in characters.
const CHARACTERS_MAX: i64 = 2_000;
/// The default `max` of a text, in characters.
const CHARACTERS: i64 = 1_000;

/// A survey as it was written, and as the log and the records store it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SurveyDefinition {
    /// The display title.
    pub title: String,
    /// Questions in their order.
    pub questions: Vec<Question>,
    /// The audience; by default all players.
    #[serde(default)]
    pub audience: Audience,
    /// Before this time, the survey is not due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<TimestampMs>,
    /// From this time on, the survey is not due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<TimestampMs>,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The key in answers and charts.
    pub key: String,
    /// The kind of answer.
    pub kind: QuestionKind,
    /// The text of the question.
    pub text: String,
    /// The options of a choice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The lower end of a scale, or the least characters of a text; by default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// The upper end of a scale, by default 5; or the most characters of a text, by default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}

/// The kind of answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// One of several options.
    Choice,
    /// A whole number between two ends.
    Scale,
    /// A text.
    Text,
}

impl Question {
    /// Returns the bounds of an answer's number or length.
    pub(super) fn bounds(&self) -> (i64, i64) {
        let max = if self.kind == QuestionKind::Text { CHARACTERS } else { 5 };
        (self.min.unwrap_or(1), self.max.unwrap_or(max))
    }

    fn check(&self, path: &str) -> Result<(), Refusal> {
        check_text(&format!("{path}.text"), &self.text, TEXT_BYTES_MAX)?;
        match self.kind {
            QuestionKind::Choice => self.check_options(path),
            QuestionKind::Scale | QuestionKind::Text if !self.options.is_empty() => {
                Err(Refusal::invalid(format!("{path}.options"), "only a choice can have options"))
            }
            QuestionKind::Scale | QuestionKind::Text => self.check_bounds(path),
        }
    }

    fn check_options(&self, path: &str) -> Result<(), Refusal> {
        let error = |field: &str, message: String| Err(Refusal::invalid(format!("{path}.{field}"), message));
        if self.min.is_some() || self.max.is_some() {
            let field = if self.min.is_some() { "min" } else { "max" };
            return error(field, "a choice cannot have bounds".to_owned());
        }
        if !(2..=OPTIONS_MAX).contains(&self.options.len()) {
            return error("options", format!("must have 2 to {OPTIONS_MAX} entries"));
        }
        for (index, option) in self.options.iter().enumerate() {
            let field = format!("options[{index}]");
            check_text(&format!("{path}.{field}"), option, OPTION_BYTES_MAX)?;
            if option.is_empty() || self.options[..index].contains(option) {
                return error(&field, "must not be empty and must differ from the other options".to_owned());
            }
        }
        Ok(())
    }

    fn check_bounds(&self, path: &str) -> Result<(), Refusal> {
        let (min, max) = self.bounds();
        let (lowest, highest, widest) = match self.kind {
            QuestionKind::Text => (1, CHARACTERS_MAX, CHARACTERS_MAX),
            _ => (-SCALE_END_MAX, SCALE_END_MAX, SCALE_STEPS_MAX),
        };
        let error = |field: &str, message: String| Err(Refusal::invalid(format!("{path}.{field}"), message));
        if !(lowest..=highest).contains(&min) {
            return error("min", format!("must be between {lowest} and {highest}"));
        }
        let is_empty = max < min || (self.kind == QuestionKind::Scale && max == min);
        if !(lowest..=highest).contains(&max) || is_empty || max - min >= widest {
            return error(
                "max",
                format!("must be at most {highest} and greater than `min`, with at most {widest} steps"),
            );
        }
        Ok(())
    }

    /// Returns true if answers to `self` are valid for `other`: options may only be added at the end.
    fn is_compatible_with(&self, other: &Question) -> bool {
        self.key == other.key
            && self.kind == other.kind
            && other.options.starts_with(&self.options)
            && (self.kind == QuestionKind::Text || self.bounds() == other.bounds())
    }
}

impl SurveyDefinition {
    /// Refuses an invalid survey with this key.
    pub(super) fn check(&self, key: &str) -> Result<(), Refusal> {
        check_text("title", &self.title, TITLE_BYTES_MAX)?;
        if !(1..=QUESTIONS_MAX).contains(&self.questions.len()) {
            return Err(Refusal::invalid("questions", format!("must have 1 to {QUESTIONS_MAX} entries")));
        }
        for (index, question) in self.questions.iter().enumerate() {
            let path = format!("questions[{index}]");
            self.check_question_key(key, index)
                .map_err(|message| Refusal::invalid(format!("{path}.key"), message))?;
            question.check(&path)?;
        }
        self.audience.check("audience.")?;
        check_window("", self.starts_at, self.ends_at)
    }

    fn check_question_key(&self, survey: &str, index: usize) -> Result<(), String> {
        let key = &self.questions[index].key;
        if !is_key(key) {
            return Err("must have 1 to 100 letters, digits, `.`, `_` or `-`".to_owned());
        }
        if event_name(survey, key).len() > model::limits::NAME_BYTES_MAX {
            return Err(format!(
                "the event name `{}` is too long; choose shorter keys",
                event_name(survey, key)
            ));
        }
        if self.questions[..index].iter().any(|earlier| earlier.key == *key) {
            return Err("an earlier question has the same key".to_owned());
        }
        Ok(())
    }

    /// Returns true if responses to `self` are valid for `other`: questions and options may only be added at the end.
    pub(super) fn is_compatible_with(&self, other: &SurveyDefinition) -> bool {
        self.questions.len() <= other.questions.len()
            && self.questions.iter().zip(&other.questions).all(|(own, new)| own.is_compatible_with(new))
    }

    /// Returns the question with this key, and its number.
    pub(super) fn question(&self, key: &str) -> Option<(u16, &Question)> {
        let mut numbered = (0..).zip(&self.questions);
        numbered.find(|(_, question)| question.key == key)
    }
}

/// Returns the name of the events made from answers to a question.
pub(super) fn event_name(survey: &str, question: &str) -> String {
    format!("survey.{survey}.{question}")
}
