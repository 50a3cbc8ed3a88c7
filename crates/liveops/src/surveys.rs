//! Surveys: questions to players, answered once.
//!
//! What all answers come to is kept with each answer, so results cost the same however many there are. An answer also
//! becomes events, whose ids follow from it: [`Surveys::events`].

mod apply;
mod definition;
mod given;
mod tally;

pub use definition::{Definition, Kind, Question};
pub use tally::TEXTS_MAX;

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::subject::{Changes, Damaged, Subject};
use crate::vars::{Json, Moment, Who, is_within};

use definition::event_name;
use given::{Given, Said};
use tally::Tally;

/// Surveys of one game.
pub const SURVEYS_MAX: usize = 200;
/// Memory of all answers of one game together.
pub const ANSWERS_BYTES_MAX: usize = 128 << 20;

/// The commands of this subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Writes a survey.
    Put {
        /// Its key.
        key: String,
        /// All of it.
        definition: Definition,
    },
    /// Removes a survey with its answers.
    Delete {
        /// Its key.
        key: String,
    },
    /// Answers a survey.
    Answer {
        /// Its key.
        key: String,
        /// Who answers.
        player: String,
        /// By the questions' keys.
        answers: BTreeMap<String, Json>,
    },
}

/// The surveys of a game with their answers.
#[derive(Default)]
pub struct Surveys {
    surveys: BTreeMap<String, Survey>,
    bytes: usize,
    unwritten: Unwritten,
}

struct Survey {
    definition: Definition,
    /// Another survey of the same key, after this one was removed, was made later.
    made_ms: i64,
    answers: HashMap<Box<str>, Given>,
    /// Of each question.
    tallies: Vec<Tally>,
}

/// What the next checkpoint writes.
#[derive(Default)]
struct Unwritten {
    surveys: BTreeSet<String>,
    answers: BTreeSet<(String, Box<str>)>,
}

/// An event that an answer to a question becomes.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerEvent {
    /// The same for the same player, question and survey: sent twice, it counts once.
    pub id: u128,
    /// When the player answered, milliseconds since 1970.
    pub ts_ms: i64,
    /// `survey.<survey>.<question>`.
    pub name: String,
    /// The number on a scale.
    pub value: Option<f64>,
    /// The option that was chosen.
    pub option: Option<String>,
}

impl Survey {
    fn new(definition: Definition, made_ms: i64) -> Survey {
        let tallies = vec![Tally::default(); definition.questions.len()];
        Survey { definition, made_ms, answers: HashMap::new(), tallies }
    }

    fn add(&mut self, player: &str, given: Given) {
        for (number, said) in &given.answers {
            self.tallies[usize::from(*number)].add(said, player, given.at_ms);
        }
        self.answers.insert(player.into(), given);
    }

    fn remove(&mut self, player: &str) -> Option<Given> {
        let given = self.answers.remove(player)?;
        for (number, said) in &given.answers {
            let tally = &mut self.tallies[usize::from(*number)];
            if tally.subtract(said, player, given.at_ms) {
                *tally = tally_of(&self.answers, *number);
            }
        }
        Some(given)
    }

    fn text_of(&self, player: &str, number: u16) -> Option<&str> {
        let mut answers = self.answers.get(player)?.answers.iter();
        match answers.find(|(own, _)| *own == number)? {
            (_, Said::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// What the survey is to those who answer it.
    fn question_sheet(&self, key: &str) -> Value {
        let Definition { title, questions, starts_at, ends_at, .. } = &self.definition;
        let mut sheet = json!({ "key": key, "title": title, "questions": questions });
        for (name, moment) in [("starts_at", starts_at), ("ends_at", ends_at)] {
            if let Some(moment) = moment {
                sheet[name] = json!(moment);
            }
        }
        sheet
    }

    /// What the survey is to those who made it.
    fn json(&self, key: &str) -> Value {
        let mut json = self.question_sheet(key);
        json["audience"] = json!(self.definition.audience);
        json["answers"] = self.answers.len().into();
        json
    }
}

fn tally_of(answers: &HashMap<Box<str>, Given>, number: u16) -> Tally {
    let mut tally = Tally::default();
    for (player, given) in answers {
        let said = given.answers.iter().filter(|(own, _)| *own == number);
        said.for_each(|(_, said)| tally.add(said, player, given.at_ms));
    }
    tally
}

impl Surveys {
    /// The surveys that somebody is to answer now, as a JSON list.
    pub fn due(&self, who: &Who, now_ms: i64) -> Value {
        let is_due = |survey: &Survey| {
            let Definition { audience, starts_at, ends_at, .. } = &survey.definition;
            is_within(now_ms, *starts_at, *ends_at)
                && audience.has(who)
                && !survey.answers.contains_key(who.player.as_str())
        };
        let due = self.surveys.iter().filter(|(_, survey)| is_due(survey));
        due.map(|(key, survey)| survey.question_sheet(key)).collect()
    }

    /// All surveys, as a JSON list for those who made them.
    pub fn all(&self) -> Value {
        self.surveys.iter().map(|(key, survey)| survey.json(key)).collect()
    }

    /// What the answers to a survey come to.
    pub fn results(&self, key: &str) -> Option<Value> {
        let survey = self.surveys.get(key)?;
        let numbered = (0..).zip(&survey.definition.questions).zip(&survey.tallies);
        let question = |((number, question), tally): ((u16, &Question), &Tally)| {
            tally.json(question, |player| survey.text_of(player, number))
        };
        Some(json!({
            "key": key,
            "title": survey.definition.title,
            "answers": survey.answers.len(),
            "questions": numbered.map(question).collect::<Value>(),
        }))
    }

    /// The events that a player's answers to a survey become.
    pub fn events(&self, key: &str, player: &str) -> Vec<AnswerEvent> {
        let Some(survey) = self.surveys.get(key) else { return Vec::new() };
        let Some(given) = survey.answers.get(player) else { return Vec::new() };
        let event = |(number, said): &(u16, Said)| {
            let question = &survey.definition.questions[usize::from(*number)];
            AnswerEvent {
                id: event_id(key, survey.made_ms, &question.key, player),
                ts_ms: given.at_ms,
                name: event_name(key, &question.key),
                value: if let Said::Scale(number) = said { Some((*number).into()) } else { None },
                option: match said {
                    Said::Choice(number) => Some(question.options[usize::from(*number)].clone()),
                    _ => None,
                },
            }
        };
        given.answers.iter().map(event).collect()
    }

    /// Everything that a player answered.
    pub fn export_player(&self, player: &str) -> Value {
        let answered = self.surveys.iter().filter_map(|(key, survey)| {
            let given = survey.answers.get(player)?;
            let at = Moment::from_ms(given.at_ms);
            Some(json!({ "survey": key, "at": at, "answers": given.json(&survey.definition) }))
        });
        answered.collect()
    }

    /// Forgets everything that a player answered, in the results too.
    pub fn erase_player(&mut self, player: &str) {
        for (key, survey) in &mut self.surveys {
            if let Some(given) = survey.remove(player) {
                self.bytes -= given.bytes(player);
                self.unwritten.answers.insert((key.clone(), player.into()));
            }
        }
    }
}

/// 128 bits of SHA-256 over what makes an answer the same answer, parted by zero bytes, which none of it has.
fn event_id(survey: &str, made_ms: i64, question: &str, player: &str) -> u128 {
    let text = [survey, &made_ms.to_string(), question, player].join("\0");
    let digest = Sha256::digest(text);
    u128::from_be_bytes(*digest.first_chunk().expect("a digest has 32 bytes"))
}

/// The kinds of records. Stored, never reused; surveys are read before their answers.
const SURVEY: u8 = b'd';
const ANSWERS: u8 = b'p';

/// A survey's record.
#[derive(Serialize, Deserialize)]
struct Record<D> {
    made_ms: i64,
    definition: D,
}

impl Subject for Surveys {
    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), Damaged> {
        let damaged = || Damaged("a record of the surveys has a key that is not known".to_owned());
        let (kind, name) = key.split_first().ok_or_else(damaged)?;
        let name = std::str::from_utf8(name).map_err(|_| damaged())?;
        match *kind {
            SURVEY => {
                let Record { made_ms, definition } = serde_json::from_slice(value)?;
                self.surveys.insert(name.to_owned(), Survey::new(definition, made_ms));
            }
            ANSWERS => {
                let (name, player) = name.split_once('\0').ok_or_else(damaged)?;
                let given: Given = serde_json::from_slice(value)?;
                let survey = self.surveys.get_mut(name).ok_or_else(damaged)?;
                if given.answers.iter().any(|(number, _)| usize::from(*number) >= survey.tallies.len()) {
                    return Err(Damaged("an answer is to a question that there is not".to_owned()));
                }
                self.bytes += given.bytes(player);
                survey.add(player, given);
            }
            _ => return Err(damaged()),
        }
        Ok(())
    }

    fn changes(&mut self, changes: &mut Changes<'_>) {
        let json = |value: Result<Vec<u8>, _>| value.expect("records have text keys");
        for name in std::mem::take(&mut self.unwritten.surveys) {
            let key = [&[SURVEY], name.as_bytes()].concat();
            match self.surveys.get(&name) {
                Some(Survey { made_ms, definition, .. }) => {
                    changes.put(&key, json(serde_json::to_vec(&Record { made_ms: *made_ms, definition })));
                }
                None => changes.remove(&key),
            }
        }
        for (name, player) in std::mem::take(&mut self.unwritten.answers) {
            let key = [&[ANSWERS], name.as_bytes(), b"\0", player.as_bytes()].concat();
            match self.surveys.get(&name).and_then(|survey| survey.answers.get(&player)) {
                Some(given) => changes.put(&key, json(serde_json::to_vec(given))),
                None => changes.remove(&key),
            }
        }
    }
}
