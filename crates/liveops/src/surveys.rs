//! Surveys: questions that players answer once.
//!
//! Totals are updated with each response, so that reading results costs the same for any number of responses. A
//! response also becomes events with derived ids: [`Surveys::events`].

mod apply;
mod definition;
mod response;
mod tally;

pub use definition::{Question, QuestionKind, SurveyDefinition};
pub use tally::TEXTS_MAX;

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::subject::{RecordError, RecordWriter, Subject};
use crate::vars::{Json, TimestampMs, VarsViewer, is_within};
use crate::{ExportCursor, ExportPage};

use definition::event_name;
use response::{QuestionAnswer, SurveyResponse};
use tally::QuestionTally;

/// Surveys of one game.
pub(crate) const SURVEYS_MAX: usize = 200;
/// Memory of all responses of one game together.
pub(crate) const RESPONSES_BYTES_MAX: usize = 128 << 20;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurveyCommand {
    /// Creates or replaces a survey.
    Put {
        /// The survey's key.
        key: String,
        /// The complete definition.
        definition: SurveyDefinition,
    },
    /// Removes a survey with its responses.
    Delete {
        /// The survey's key.
        key: String,
    },
    /// Submits a player's response.
    Answer {
        /// The survey's key.
        key: String,
        /// The player's id.
        player: String,
        /// Answers by question key.
        answers: BTreeMap<String, Json>,
    },
}

/// The surveys of a game with their responses.
#[derive(Default)]
pub struct Surveys {
    surveys: BTreeMap<String, Survey>,
    bytes: usize,
    unwritten: UnwrittenSurveys,
}

struct Survey {
    definition: SurveyDefinition,
    /// The time of creation, which distinguishes surveys that reuse the key of a removed one.
    made_ms: i64,
    responses: HashMap<Box<str>, SurveyResponse>,
    /// One tally per question.
    tallies: Vec<QuestionTally>,
}

/// The changes that the next checkpoint writes.
#[derive(Default)]
struct UnwrittenSurveys {
    surveys: BTreeSet<String>,
    answers: BTreeSet<(String, Box<str>)>,
}

/// An event made from an answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerEvent {
    /// Derived from survey, question and player, so that the event counts once even if it is sent twice.
    pub id: u128,
    /// The time of the response, in milliseconds since 1970.
    pub ts_ms: i64,
    /// `survey.<survey>.<question>`.
    pub name: String,
    /// The number on a scale.
    pub value: Option<f64>,
    /// The chosen option.
    pub option: Option<String>,
}

impl Survey {
    fn new(definition: SurveyDefinition, made_ms: i64) -> Survey {
        let tallies = vec![QuestionTally::default(); definition.questions.len()];
        Survey { definition, made_ms, responses: HashMap::new(), tallies }
    }

    fn add(&mut self, player: &str, response: SurveyResponse) {
        for (number, answer) in &response.answers {
            self.tallies[usize::from(*number)].add(answer, player, response.order());
        }
        self.responses.insert(player.into(), response);
    }

    fn remove(&mut self, player: &str) -> Option<SurveyResponse> {
        let response = self.responses.remove(player)?;
        for (number, answer) in &response.answers {
            let tally = &mut self.tallies[usize::from(*number)];
            if tally.subtract(answer, player, response.order()) {
                *tally = tally_answers(&self.responses, *number);
            }
        }
        Some(response)
    }

    fn text_of(&self, player: &str, number: u16) -> Option<&str> {
        let mut answers = self.responses.get(player)?.answers.iter();
        match answers.find(|(own, _)| *own == number)? {
            (_, QuestionAnswer::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the survey as players see it.
    fn public_json(&self, key: &str) -> Value {
        let SurveyDefinition { title, questions, starts_at, ends_at, .. } = &self.definition;
        let mut sheet = json!({ "key": key, "title": title, "questions": questions });
        for (name, moment) in [("starts_at", starts_at), ("ends_at", ends_at)] {
            if let Some(moment) = moment {
                sheet[name] = json!(moment);
            }
        }
        sheet
    }

    /// Returns the survey as the game's developers see it.
    fn admin_json(&self, key: &str) -> Value {
        let mut json = self.public_json(key);
        json["audience"] = json!(self.definition.audience);
        json["answers"] = self.responses.len().into();
        json
    }
}

fn tally_answers(answers: &HashMap<Box<str>, SurveyResponse>, number: u16) -> QuestionTally {
    let mut tally = QuestionTally::default();
    for (player, response) in answers {
        let answer = response.answers.iter().filter(|(own, _)| *own == number);
        answer.for_each(|(_, answer)| tally.add(answer, player, response.order()));
    }
    tally
}

impl Surveys {
    /// Returns the cohorts that audiences name.
    pub fn cohorts(&self) -> impl Iterator<Item = &str> {
        self.surveys.values().flat_map(|survey| survey.definition.audience.cohort.iter().map(String::as_str))
    }

    /// Returns the surveys whose audiences name a cohort.
    pub(crate) fn users_of_cohort(&self, cohort: &str) -> Vec<&str> {
        let names = |survey: &Survey| survey.definition.audience.cohort.iter().any(|name| name == cohort);
        self.surveys.iter().filter(|(_, survey)| names(survey)).map(|(key, _)| key.as_str()).collect()
    }

    /// Returns the surveys that the viewer should answer now, as a JSON list.
    pub fn due(&self, viewer: &VarsViewer, now_ms: i64) -> Value {
        let is_due = |survey: &Survey| {
            let SurveyDefinition { audience, starts_at, ends_at, .. } = &survey.definition;
            is_within(now_ms, *starts_at, *ends_at)
                && audience.matches(viewer)
                && !survey.responses.contains_key(viewer.player.as_str())
        };
        let due = self.surveys.iter().filter(|(_, survey)| is_due(survey));
        due.map(|(key, survey)| survey.public_json(key)).collect()
    }

    /// Returns all surveys as a JSON list for the game's developers.
    pub fn all(&self) -> Value {
        self.surveys.iter().map(|(key, survey)| survey.admin_json(key)).collect()
    }

    /// Returns the results of a survey.
    pub fn results(&self, key: &str) -> Option<Value> {
        let survey = self.surveys.get(key)?;
        let numbered = (0..).zip(&survey.definition.questions).zip(&survey.tallies);
        let question = |((number, question), tally): ((u16, &Question), &QuestionTally)| {
            tally.json(question, |player| survey.text_of(player, number))
        };
        Some(json!({
            "key": key,
            "title": survey.definition.title,
            "answers": survey.responses.len(),
            "questions": numbered.map(question).collect::<Value>(),
        }))
    }

    /// Returns the events made from a player's response.
    pub fn events(&self, key: &str, player: &str) -> Vec<AnswerEvent> {
        let Some(survey) = self.surveys.get(key) else { return Vec::new() };
        let Some(response) = survey.responses.get(player) else { return Vec::new() };
        let event = |(number, answer): &(u16, QuestionAnswer)| {
            let question = &survey.definition.questions[usize::from(*number)];
            AnswerEvent {
                id: event_id(key, survey.made_ms, &question.key, player),
                ts_ms: response.at_ms,
                name: event_name(key, &question.key),
                value: if let QuestionAnswer::Scale(number) = answer { Some((*number).into()) } else { None },
                option: match answer {
                    QuestionAnswer::Choice(number) => Some(question.options[usize::from(*number)].clone()),
                    _ => None,
                },
            }
        };
        response.answers.iter().map(event).collect()
    }

    /// Returns all responses of a player.
    pub fn export_player(&self, player: &str) -> Value {
        let answered = self.surveys.iter().filter_map(|(key, survey)| {
            let response = survey.responses.get(player)?;
            let at = TimestampMs::from_ms(response.at_ms);
            Some(json!({ "survey": key, "at": at, "answers": response.json(&survey.definition) }))
        });
        answered.collect()
    }

    /// Returns the responses to the next survey.
    pub(crate) fn export_responses(&self, from: &ExportCursor) -> ExportPage {
        let Some((key, survey)) = self.surveys.range(from.outer.clone()..).next() else {
            return Vec::new().into();
        };
        let rows = survey.responses.iter().map(|(player, response)| {
            let at = TimestampMs::from_ms(response.at_ms);
            json!({ "survey": key, "player": &**player, "at": at, "answers": response.json(&survey.definition) })
        });
        let next = Some(ExportCursor { outer: format!("{key}\0"), next: 0 });
        ExportPage { rows: rows.collect(), next }
    }

    /// Erases all responses of a player, also from the results.
    pub fn erase_player(&mut self, player: &str) {
        for (key, survey) in &mut self.surveys {
            if let Some(response) = survey.remove(player) {
                self.bytes -= response.bytes(player);
                self.unwritten.answers.insert((key.clone(), player.into()));
            }
        }
    }
}

/// 128 bits of SHA-256 over the parts that identify an answer, separated by zero bytes, which none of them contains.
fn event_id(survey: &str, made_ms: i64, question: &str, player: &str) -> u128 {
    let text = [survey, &made_ms.to_string(), question, player].join("\0");
    let digest = Sha256::digest(text);
    u128::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
}

/// The kinds of records. Stored, never reused; surveys are read before their responses.
const SURVEY: u8 = b'd';
const ANSWERS: u8 = b'p';

/// The record of a survey.
#[derive(Serialize, Deserialize)]
struct SurveyRecord<D> {
    made_ms: i64,
    definition: D,
}

impl Subject for Surveys {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecordError> {
        let damaged = || RecordError("unknown record key of surveys".to_owned());
        let (kind, name) = key.split_first().ok_or_else(damaged)?;
        let name = std::str::from_utf8(name).map_err(|_| damaged())?;
        match *kind {
            SURVEY => {
                let SurveyRecord { made_ms, definition } = serde_json::from_slice(value)?;
                self.surveys.insert(name.to_owned(), Survey::new(definition, made_ms));
            }
            ANSWERS => {
                let (name, player) = name.split_once('\0').ok_or_else(damaged)?;
                let response: SurveyResponse = serde_json::from_slice(value)?;
                let survey = self.surveys.get_mut(name).ok_or_else(damaged)?;
                if response.answers.iter().any(|(number, _)| usize::from(*number) >= survey.tallies.len()) {
                    return Err(RecordError(
                        "an answer belongs to a question that does not exist".to_owned(),
                    ));
                }
                self.bytes += response.bytes(player);
                survey.add(player, response);
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }

    fn write_changes(&mut self, writer: &mut RecordWriter<'_>) {
        let json = |value: Result<Vec<u8>, _>| value.expect("records have text keys");
        for name in std::mem::take(&mut self.unwritten.surveys) {
            let key = [&[SURVEY], name.as_bytes()].concat();
            match self.surveys.get(&name) {
                Some(Survey { made_ms, definition, .. }) => {
                    writer
                        .put(&key, json(serde_json::to_vec(&SurveyRecord { made_ms: *made_ms, definition })));
                }
                None => writer.remove(&key),
            }
        }
        for (name, player) in std::mem::take(&mut self.unwritten.answers) {
            let key = [&[ANSWERS], name.as_bytes(), b"\0", player.as_bytes()].concat();
            match self.surveys.get(&name).and_then(|survey| survey.responses.get(&player)) {
                Some(response) => writer.put(&key, json(serde_json::to_vec(response))),
                None => writer.remove(&key),
            }
        }
    }
}
