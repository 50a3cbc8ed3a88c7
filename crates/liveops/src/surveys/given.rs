//! What a player answered.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::definition::{Definition, Kind, Question};
use crate::Refusal;
use crate::vars::{Json, Node};

/// All answers of one player to one survey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Given {
    pub(super) at_ms: i64,
    /// By the question's number.
    pub(super) answers: Box<[(u16, Said)]>,
}

/// An answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Said {
    /// The option's number.
    #[serde(rename = "c")]
    Choice(u16),
    #[serde(rename = "s")]
    Scale(i16),
    #[serde(rename = "t")]
    Text(Box<str>),
}

impl Given {
    /// Checks answers against their questions. A question may stay unanswered, but not all of them.
    pub(super) fn read(
        definition: &Definition,
        answers: &BTreeMap<String, Json>,
        at_ms: i64,
    ) -> Result<Given, Refusal> {
        if answers.is_empty() {
            return Err(Refusal::invalid("answers", "there is at least one"));
        }
        let mut read = Vec::with_capacity(answers.len());
        for (key, json) in answers {
            let refuse = |why: String| Refusal::invalid(format!("answers.{key}"), why);
            let (number, question) =
                definition.question(key).ok_or_else(|| refuse("there is no such question".into()))?;
            let node = json.node().map_err(refuse)?;
            read.push((number, Said::read(question, &node).map_err(refuse)?));
        }
        read.sort_unstable_by_key(|(number, _)| *number);
        Ok(Given { at_ms, answers: read.into() })
    }

    /// What it costs in memory, roughly.
    pub(super) fn bytes(&self, player: &str) -> usize {
        let text = |(_, said): &(u16, Said)| if let Said::Text(text) = said { text.len() } else { 0 };
        const EACH: usize = size_of::<(u16, Said)>();
        const WHOLE: usize = size_of::<(Box<str>, Given)>() + 16;
        WHOLE + player.len() + self.answers.iter().map(|said| EACH + text(said)).sum::<usize>()
    }

    /// As it was sent: by the questions' keys.
    pub(super) fn json(&self, definition: &Definition) -> Value {
        let answer = |(number, said): &(u16, Said)| {
            let question = &definition.questions[usize::from(*number)];
            (question.key.clone(), said.json(question))
        };
        Value::Object(self.answers.iter().map(answer).collect())
    }
}

impl Said {
    fn read(question: &Question, node: &Node<'_>) -> Result<Said, String> {
        let (least, most) = question.bounds();
        match (question.kind, node) {
            (Kind::Choice, Node::Text(text)) => {
                let number = question.options.iter().position(|option| option == text);
                let number = number.and_then(|number| u16::try_from(number).ok());
                number.map(Said::Choice).ok_or_else(|| "it is one of the question's options".into())
            }
            (Kind::Scale, Node::Number(number)) => {
                let number = number.as_i64().filter(|number| (least..=most).contains(number));
                let number = number.and_then(|number| i16::try_from(number).ok());
                number.map(Said::Scale).ok_or_else(|| format!("it is a whole number from {least} to {most}"))
            }
            (Kind::Text, Node::Text(text)) => {
                let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
                let is_control = |char: char| char.is_control() && !matches!(char, '\n' | '\t');
                if !(least..=most).contains(&count) || text.chars().any(is_control) {
                    return Err(format!(
                        "it has {least} to {most} characters, none of them control characters"
                    ));
                }
                Ok(Said::Text(text.as_ref().into()))
            }
            (Kind::Choice | Kind::Text, _) => Err("it is a text".into()),
            (Kind::Scale, _) => Err("it is a number".into()),
        }
    }

    fn json(&self, question: &Question) -> Value {
        match self {
            Said::Choice(number) => question.options[usize::from(*number)].as_str().into(),
            Said::Scale(number) => (*number).into(),
            Said::Text(text) => (**text).into(),
        }
    }
}
