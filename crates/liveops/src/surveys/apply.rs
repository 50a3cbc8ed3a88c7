//! Deciding the commands that change surveys.

use std::collections::BTreeMap;

use serde_json::json;

use super::given::Given;
use super::tally::Tally;
use super::{ANSWERS_BYTES_MAX, Command, Definition, SURVEYS_MAX, Survey, Surveys};
use crate::game::{At, Context, Game};
use crate::vars::{Json, Moment, is_within};
use crate::{Answer, Kind, Refusal, check_player, is_key};

impl Game {
    pub(crate) fn apply_surveys(
        &mut self,
        context: &mut Context<'_>,
        command: Command,
    ) -> Result<Answer, Refusal> {
        match command {
            Command::Put { key, definition } => self.surveys.put(context.at, key, definition),
            Command::Delete { key } => self.surveys.delete(&key),
            Command::Answer { key, player, answers } => {
                self.check_signer(context, &player)?;
                self.surveys.answer(context.at, &key, &player, &answers)
            }
        }
    }

    /// A signed request acts for its session's player alone.
    fn check_signer(&self, context: &Context<'_>, player: &str) -> Result<(), Refusal> {
        let Some(signed) = &context.by.signed else { return Ok(()) };
        match self.players.session(&signed.session, context.at.ms) {
            Some(session) if session.player == player => Ok(()),
            _ => Err(Refusal {
                field: Some("player".to_owned()),
                ..Refusal::forbidden("the request is signed by another player's session")
            }),
        }
    }
}

impl Surveys {
    fn put(&mut self, at: At, key: String, definition: Definition) -> Result<Answer, Refusal> {
        if !is_key(&key) {
            return Err(Refusal::invalid("key", "it has 1 to 100 letters, digits, `.`, `_` or `-`"));
        }
        definition.check(&key)?;
        let count = self.surveys.len();
        let answer = match self.surveys.get_mut(&key) {
            Some(survey) => survey.change(&key, definition)?,
            None if count >= SURVEYS_MAX => {
                return Err(Refusal::too_many(format!("a game has at most {SURVEYS_MAX} surveys")));
            }
            None => {
                let survey = Survey::new(definition, at.ms);
                let answer = Answer::created(&survey.json(&key));
                self.surveys.insert(key.clone(), survey);
                answer
            }
        };
        self.unwritten.surveys.insert(key);
        Ok(answer)
    }

    fn delete(&mut self, key: &str) -> Result<Answer, Refusal> {
        let survey = self.surveys.remove(key).ok_or_else(|| not_found(key))?;
        for (player, given) in survey.answers {
            self.bytes -= given.bytes(&player);
            self.unwritten.answers.insert((key.to_owned(), player));
        }
        self.unwritten.surveys.insert(key.to_owned());
        Ok(Answer::nothing())
    }

    fn answer(
        &mut self,
        at: At,
        key: &str,
        player: &str,
        answers: &BTreeMap<String, Json>,
    ) -> Result<Answer, Refusal> {
        let survey = self.surveys.get_mut(key).ok_or_else(|| not_found(key))?;
        check_player("player", player)?;
        if survey.answers.contains_key(player) {
            return Err(Refusal::conflict("this player has answered this survey already"));
        }
        let Definition { starts_at, ends_at, .. } = survey.definition;
        if !is_within(at.ms, starts_at, ends_at) {
            return Err(not_open(key));
        }
        let given = Given::read(&survey.definition, answers, at.ms)?;
        let bytes = self.bytes + given.bytes(player);
        if bytes > ANSWERS_BYTES_MAX {
            return Err(Refusal::too_many("the answers of this game have no more room; remove a survey"));
        }
        self.bytes = bytes;
        survey.add(player, given);
        self.unwritten.answers.insert((key.to_owned(), player.into()));
        Ok(Answer::created(&json!({ "survey": key, "player": player, "at": Moment::from_ms(at.ms) })))
    }
}

impl Survey {
    /// Takes a new definition. What was answered stays answered.
    fn change(&mut self, key: &str, definition: Definition) -> Result<Answer, Refusal> {
        if !self.answers.is_empty() && !self.definition.becomes(&definition) {
            let detail = "there are answers: questions and options may only be added at the end; \
                          remove the survey, or use another key";
            return Err(Refusal { field: Some("questions".to_owned()), ..Refusal::conflict(detail) });
        }
        self.tallies.resize(definition.questions.len(), Tally::default());
        self.definition = definition;
        Ok(Answer::ok(&self.json(key)))
    }
}

fn not_found(key: &str) -> Refusal {
    Refusal { field: Some("key".to_owned()), ..Refusal::not_found(format!("there is no survey `{key}`")) }
}

fn not_open(key: &str) -> Refusal {
    Refusal {
        kind: Kind::NotFound,
        field: Some("key".to_owned()),
        detail: format!("the survey `{key}` is not open now"),
    }
}
