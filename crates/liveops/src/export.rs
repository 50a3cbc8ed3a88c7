//! The live-ops of a game as rows of JSON, a page at a time, for the export of a game.

use model::ports::counters::StoreError;
use serde_json::{Value, json};

use crate::Game;
use crate::boards::BoardViewer;
use crate::saved::SavedKind;

/// A part of a game's live-ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportPart {
    /// The variables with their definitions.
    Vars,
    /// The boards with their settings.
    Boards,
    /// The players of each board with their scores in every window.
    Scores,
    /// The banned players.
    Bans,
    /// The levels with their data, ratings and flags.
    Levels,
    /// The achievements.
    Achievements,
    /// The players who act in the feed, with their names, achievements, follows and items.
    Feed,
    /// The surveys with their questions.
    Surveys,
    /// The responses to surveys.
    SurveyResponses,
    /// The alert rules with their state, without secrets.
    Alerts,
    /// The cohorts with their definitions.
    Cohorts,
    /// The saved questions.
    Questions,
    /// The dashboards with their tiles.
    Dashboards,
    /// The links between the ids of players.
    Links,
}

impl ExportPart {
    /// All parts.
    pub const ALL: [ExportPart; 14] = [
        ExportPart::Vars,
        ExportPart::Boards,
        ExportPart::Scores,
        ExportPart::Bans,
        ExportPart::Levels,
        ExportPart::Achievements,
        ExportPart::Feed,
        ExportPart::Surveys,
        ExportPart::SurveyResponses,
        ExportPart::Alerts,
        ExportPart::Cohorts,
        ExportPart::Questions,
        ExportPart::Dashboards,
        ExportPart::Links,
    ];

    /// Returns the name of the part in an export.
    pub fn label(self) -> &'static str {
        match self {
            ExportPart::Vars => "vars",
            ExportPart::Boards => "boards",
            ExportPart::Scores => "scores",
            ExportPart::Bans => "bans",
            ExportPart::Levels => "levels",
            ExportPart::Achievements => "achievements",
            ExportPart::Feed => "feed",
            ExportPart::Surveys => "surveys",
            ExportPart::SurveyResponses => "survey_responses",
            ExportPart::Alerts => "alerts",
            ExportPart::Cohorts => "cohorts",
            ExportPart::Questions => "questions",
            ExportPart::Dashboards => "dashboards",
            ExportPart::Links => "links",
        }
    }
}

/// A place in a part: its meaning is that of the part's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportCursor {
    /// The name of the outer item, such as a board.
    pub(crate) outer: String,
    /// The number of the next inner item.
    pub(crate) next: u32,
}

/// Rows of a part, and where the next ones begin; `None` after the last.
pub struct ExportPage {
    /// The rows.
    pub rows: Vec<Value>,
    /// The place to continue.
    pub next: Option<ExportCursor>,
}

impl From<Vec<Value>> for ExportPage {
    fn from(rows: Vec<Value>) -> ExportPage {
        ExportPage { rows, next: None }
    }
}

impl Game {
    /// Returns the rows of a part from a place on, about `limit`. Parts whose size has a limit are one page. What changes
    /// between two pages may be missing or appear as it was before or after the change.
    pub fn export(
        &self,
        part: ExportPart,
        from: &ExportCursor,
        limit: usize,
        now_ms: i64,
    ) -> Result<ExportPage, StoreError> {
        Ok(match part {
            ExportPart::Vars => {
                let definitions = serde_json::to_value(self.vars.definitions()).expect("text and numbers");
                let definitions = definitions.as_object().cloned().unwrap_or_default().into_iter();
                let rows = definitions.map(|(name, variable)| json!({ "name": name, "variable": variable }));
                rows.collect::<Vec<Value>>().into()
            }
            ExportPart::Boards => {
                let boards = self.boards.boards(BoardViewer::All).into_iter();
                boards.map(|board| json!(board)).collect::<Vec<Value>>().into()
            }
            ExportPart::Scores => self.boards.export_scores(from, limit, now_ms),
            ExportPart::Bans => self.boards.export_bans().into(),
            ExportPart::Levels => self.levels.export_levels(from, limit)?,
            ExportPart::Achievements => self.feed.export_achievements().into(),
            ExportPart::Feed => self.feed.export_players(from, limit)?,
            ExportPart::Surveys => self.surveys.all().as_array().cloned().unwrap_or_default().into(),
            ExportPart::SurveyResponses => self.surveys.export_responses(from),
            ExportPart::Alerts => self.alerts.export().into(),
            ExportPart::Cohorts => {
                self.cohorts.iter().map(|(_, cohort)| cohort.json()).collect::<Vec<Value>>().into()
            }
            ExportPart::Questions => self.saved.export(SavedKind::Question).into(),
            ExportPart::Dashboards => self.saved.export(SavedKind::Dashboard).into(),
            ExportPart::Links => self.players.export_links(from, limit)?,
        })
    }
}
