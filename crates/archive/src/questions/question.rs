//! Questions of any kind, for callers that store and repeat them.

use std::collections::BTreeSet;

use model::query::QueryError;

use super::answer::Answer;
use super::explore::Explore;
use super::funnel::Funnel;
use super::levels::{Heatmap, Levels};
use super::paths::Paths;
use super::retention::Retention;
use super::search::PlayerSearch;
use super::{Context, QuestionFailure};

/// A question that needs nothing but its request.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Counts and measures by time and property.
    Explore(Explore),
    /// How far players get in a sequence of steps.
    Funnel(Funnel),
    /// How many players come back.
    Retention(Retention),
    /// What players do before or after an event.
    Paths(Paths),
    /// Players by id and property.
    Players(PlayerSearch),
    /// How players fare in each level.
    Levels(Levels),
    /// Where on a map things happen.
    Heatmap(Heatmap),
}

impl Question {
    /// The kinds of questions, as routes and stored questions name them.
    pub const KINDS: [&str; 7] = ["explore", "funnel", "retention", "paths", "players", "levels", "heatmap"];

    /// Parses a request of one of [`Question::KINDS`].
    pub fn from_json(kind: &str, body: &[u8]) -> Result<Question, QueryError> {
        Ok(match kind {
            "explore" => Question::Explore(Explore::from_json(body)?),
            "funnel" => Question::Funnel(Funnel::from_json(body)?),
            "retention" => Question::Retention(Retention::from_json(body)?),
            "paths" => Question::Paths(Paths::from_json(body)?),
            "players" => Question::Players(PlayerSearch::from_json(body)?),
            "levels" => Question::Levels(Levels::from_json(body)?),
            "heatmap" => Question::Heatmap(Heatmap::from_json(body)?),
            _ => {
                let message = format!("must be one of {}", Question::KINDS.join(", "));
                return Err(QueryError::new("question", message));
            }
        })
    }

    /// Returns the names of the cohorts that the question needs in [`Context::cohorts`].
    pub fn cohorts(&self) -> BTreeSet<&str> {
        match self {
            Question::Explore(question) => question.cohorts(),
            Question::Funnel(question) => question.cohorts(),
            Question::Retention(question) => question.cohorts(),
            Question::Paths(question) => question.cohorts(),
            Question::Players(question) => question.cohorts(),
            Question::Levels(question) => question.cohorts(),
            Question::Heatmap(question) => question.cohorts(),
        }
    }

    /// Answers the question.
    pub fn run(&self, context: &Context<'_>) -> Result<Box<dyn Answer>, QuestionFailure> {
        Ok(match self {
            Question::Explore(question) => Box::new(question.run(context)?),
            Question::Funnel(question) => Box::new(question.run(context)?),
            Question::Retention(question) => Box::new(question.run(context)?),
            Question::Paths(question) => Box::new(question.run(context)?),
            Question::Players(question) => Box::new(question.run(context)?),
            Question::Levels(question) => Box::new(question.run(context)?),
            Question::Heatmap(question) => Box::new(question.run(context)?),
        })
    }
}
