//! The responses of players.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{Question, QuestionKind, SurveyDefinition};
use crate::Refusal;
use crate::game::LogPoint;
use crate::vars::{Json, JsonNode};

/// A player's response to a survey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SurveyResponse {
    pub(super) at_ms: i64,
    /// The offset of the command in the log, which orders responses of the same millisecond; 0 in records of earlier
    /// versions.
    #[serde(default)]
    pub(super) offset: u64,
    /// By the question's number.
    pub(super) answers: Box<[(u16, QuestionAnswer)]>,
}

/// An answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum QuestionAnswer {
    /// The option's number.
    #[serde(rename = "c")]
    Choice(u16),
    #[serde(rename = "s")]
    Scale(i16),
    #[serde(rename = "t")]
    Text(Box<str>),
}

impl SurveyResponse {
    /// Returns the time and the position in the log, by which responses are ordered.
    pub(super) fn order(&self) -> (i64, u64) {
        (self.at_ms, self.offset)
    }

    /// Checks answers against their questions. Questions may be left out, but not all of them.
    pub(super) fn read(
        definition: &SurveyDefinition,
        answers: &BTreeMap<String, Json>,
        at: LogPoint,
    ) -> Result<SurveyResponse, Refusal> {
        if answers.is_empty() {
            return Err(Refusal::invalid("answers", "must have at least one entry"));
        }
        let mut read = Vec::with_capacity(answers.len());
        for (key, json) in answers {
            let refuse = |why: String| Refusal::invalid(format!("answers.{key}"), why);
            let (number, question) =
                definition.question(key).ok_or_else(|| refuse("there is no such question".into()))?;
            let node = json.node().map_err(refuse)?;
            read.push((number, QuestionAnswer::read(question, &node).map_err(refuse)?));
        }
        read.sort_unstable_by_key(|(number, _)| *number);
        Ok(SurveyResponse { at_ms: at.ms, offset: at.offset, answers: read.into() })
    }

    /// Returns the memory that the response is charged. It decides whether there is room for a response, so it must not
    /// change: otherwise a replay of the log would decide differently.
    pub(super) fn bytes(&self, player: &str) -> usize {
        let text = |(_, answer): &(u16, QuestionAnswer)| {
            if let QuestionAnswer::Text(text) = answer { text.len() } else { 0 }
        };
        const EACH: usize = size_of::<(u16, QuestionAnswer)>();
        const WHOLE: usize = 56;
        WHOLE + player.len() + self.answers.iter().map(|answer| EACH + text(answer)).sum::<usize>()
    }

    /// Returns the answers by question key, as they were submitted.
    pub(super) fn json(&self, definition: &SurveyDefinition) -> Value {
        let answer = |(number, answer): &(u16, QuestionAnswer)| {
            let question = &definition.questions[usize::from(*number)];
            (question.key.clone(), answer.json(question))
        };
        Value::Object(self.answers.iter().map(answer).collect())
    }
}

impl QuestionAnswer {
    fn read(question: &Question, node: &JsonNode<'_>) -> Result<QuestionAnswer, String> {
        let (min, max) = question.bounds();
        match (question.kind, node) {
            (QuestionKind::Choice, JsonNode::String(text)) => {
                let number = question.options.iter().position(|option| option == text);
                let number = number.and_then(|number| u16::try_from(number).ok());
                number
                    .map(QuestionAnswer::Choice)
                    .ok_or_else(|| "must be one of the question's options".into())
            }
            (QuestionKind::Scale, JsonNode::Number(number)) => {
                let number = number.as_i64().filter(|number| (min..=max).contains(number));
                let number = number.and_then(|number| i16::try_from(number).ok());
                number
                    .map(QuestionAnswer::Scale)
                    .ok_or_else(|| format!("must be a whole number from {min} to {max}"))
            }
            (QuestionKind::Text, JsonNode::String(text)) => {
                let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
                let is_control = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
                if !(min..=max).contains(&count) || text.chars().any(is_control) {
                    return Err(format!("must have {min} to {max} characters and no control characters"));
                }
                Ok(QuestionAnswer::Text(text.as_ref().into()))
            }
            (QuestionKind::Choice | QuestionKind::Text, _) => Err("must be a string".into()),
            (QuestionKind::Scale, _) => Err("must be a number".into()),
        }
    }

    fn json(&self, question: &Question) -> Value {
        match self {
            QuestionAnswer::Choice(number) => question.options[usize::from(*number)].as_str().into(),
            QuestionAnswer::Scale(number) => (*number).into(),
            QuestionAnswer::Text(text) => (**text).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_without_an_offset_is_restored() {
        let response: SurveyResponse =
            serde_json::from_str(r#"{"at_ms":7,"answers":[[0,{"t":"so"}]]}"#).expect("a record");
        assert_eq!((response.order(), response.answers.len()), ((7, 0), 1));
        assert_eq!(response.bytes("ann"), 56 + 3 + size_of::<(u16, QuestionAnswer)>() + 2);
    }
}
