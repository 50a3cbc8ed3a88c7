//! Deciding the commands that change surveys.

use std::collections::BTreeMap;

use serde_json::json;

use super::response::SurveyResponse;
use super::tally::QuestionTally;
use super::{RESPONSES_BYTES_MAX, SURVEYS_MAX, Survey, SurveyCommand, SurveyDefinition, Surveys};
use crate::game::{CommandContext, Game, LogPoint};
use crate::vars::{Json, TimestampMs, is_within};
use crate::{CommandResponse, Refusal, RefusalKind, check_player, is_key};

impl Game {
    pub(crate) fn apply_surveys(
        &mut self,
        context: &mut CommandContext<'_>,
        command: SurveyCommand,
    ) -> Result<CommandResponse, Refusal> {
        match command {
            SurveyCommand::Put { key, definition } => {
                let named = definition.audience.cohort.iter();
                let named = named.map(|name| ("audience.cohort".to_owned(), name.as_str()));
                self.cohorts.check_known("", named)?;
                self.surveys.put(context.at, key, definition)
            }
            SurveyCommand::Delete { key } => self.surveys.delete(&key),
            SurveyCommand::Answer { key, player, answers } => {
                self.check_signer(context, &player)?;
                self.surveys.answer(context.at, &key, &player, &answers)
            }
        }
    }

    /// A signed request may only act for the player of its session.
    fn check_signer(&self, context: &CommandContext<'_>, player: &str) -> Result<(), Refusal> {
        let Some(signed) = &context.by.signed else { return Ok(()) };
        match self.players.session(&signed.session, context.at.ms) {
            Some(session) if session.player == player => Ok(()),
            _ => Err(Refusal {
                field: Some("player".to_owned()),
                ..Refusal::forbidden("the request is signed by another player")
            }),
        }
    }
}

impl Surveys {
    fn put(
        &mut self,
        at: LogPoint,
        key: String,
        definition: SurveyDefinition,
    ) -> Result<CommandResponse, Refusal> {
        if !is_key(&key) {
            return Err(Refusal::invalid("key", "must have 1 to 100 letters, digits, `.`, `_` or `-`"));
        }
        definition.check(&key)?;
        let count = self.surveys.len();
        let answer = match self.surveys.get_mut(&key) {
            Some(survey) => survey.update(&key, definition)?,
            None if count >= SURVEYS_MAX => {
                return Err(Refusal::too_many(format!("a game can have at most {SURVEYS_MAX} surveys")));
            }
            None => {
                let survey = Survey::new(definition, at.ms);
                let answer = CommandResponse::created(&survey.admin_json(&key));
                self.surveys.insert(key.clone(), survey);
                answer
            }
        };
        self.unwritten.surveys.insert(key);
        Ok(answer)
    }

    fn delete(&mut self, key: &str) -> Result<CommandResponse, Refusal> {
        let survey = self.surveys.remove(key).ok_or_else(|| not_found(key))?;
        for (player, response) in survey.responses {
            self.bytes -= response.bytes(&player);
            self.unwritten.answers.insert((key.to_owned(), player));
        }
        self.unwritten.surveys.insert(key.to_owned());
        Ok(CommandResponse::no_content())
    }

    fn answer(
        &mut self,
        at: LogPoint,
        key: &str,
        player: &str,
        answers: &BTreeMap<String, Json>,
    ) -> Result<CommandResponse, Refusal> {
        let survey = self.surveys.get_mut(key).ok_or_else(|| not_found(key))?;
        check_player("player", player)?;
        if survey.responses.contains_key(player) {
            return Err(Refusal::conflict("this player has already answered this survey"));
        }
        let SurveyDefinition { starts_at, ends_at, .. } = survey.definition;
        if !is_within(at.ms, starts_at, ends_at) {
            return Err(not_open(key));
        }
        let response = SurveyResponse::read(&survey.definition, answers, at)?;
        let bytes = self.bytes + response.bytes(player);
        if bytes > RESPONSES_BYTES_MAX {
            return Err(Refusal::too_many(
                "there is no room for more responses in this game; remove a survey",
            ));
        }
        self.bytes = bytes;
        survey.add(player, response);
        self.unwritten.answers.insert((key.to_owned(), player.into()));
        Ok(CommandResponse::created(
            &json!({ "survey": key, "player": player, "at": TimestampMs::from_ms(at.ms) }),
        ))
    }
}

impl Survey {
    /// Changes the definition. Existing responses stay.
    fn update(&mut self, key: &str, definition: SurveyDefinition) -> Result<CommandResponse, Refusal> {
        if !self.responses.is_empty() && !self.definition.is_compatible_with(&definition) {
            let detail = "the survey has responses: questions and options can only be added at the end; \
                          remove the survey or use another key";
            return Err(Refusal { field: Some("questions".to_owned()), ..Refusal::conflict(detail) });
        }
        self.tallies.resize(definition.questions.len(), QuestionTally::default());
        self.definition = definition;
        Ok(CommandResponse::ok(&self.admin_json(key)))
    }
}

fn not_found(key: &str) -> Refusal {
    Refusal { field: Some("key".to_owned()), ..Refusal::not_found(format!("there is no survey `{key}`")) }
}

fn not_open(key: &str) -> Refusal {
    Refusal {
        kind: RefusalKind::NotFound,
        field: Some("key".to_owned()),
        detail: format!("the survey `{key}` is not open"),
    }
}
