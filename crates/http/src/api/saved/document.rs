//! A question as it is saved: checked by the parser that answers it.

use std::collections::BTreeMap;

use archive::questions::question::Question;
use liveops::is_key;
use model::query::QueryError;
use pipeline::catalog::Game;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::problem::Problem;

/// The kind of questions over rollups.
pub(super) const ROLLUP_KIND: &str = "query";
/// The version of the format.
const VERSION: u8 = 1;
/// Bytes of a view as JSON.
const VIEW_BYTES_MAX: usize = 16 << 10;
const TITLE_BYTES_MAX: usize = 200;
/// Columns of a dashboard.
const COLUMNS: u16 = 12;
const ROWS_MAX: u16 = 10_000;
const TILE_ROWS_MAX: u16 = 100;
/// The fields that say which time a question is about.
const RANGE_FIELDS: [&str; 3] = ["from", "to", "last"];

/// A question that can be asked again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuestionDocument {
    /// Version of the format: 1.
    v: u8,
    /// `query`, `explore`, `funnel`, `retention`, `paths`, `players`, `levels` or `heatmap`.
    kind: String,
    /// The body for the route of this kind, without its time and `compare`.
    #[schema(value_type = Object)]
    request: Map<String, Value>,
    /// The time: `{"last": "7d"}` or `{"from", "to"}`.
    #[schema(value_type = Object)]
    range: Map<String, Value>,
    /// Comparison with the `previous` period or the same period of the previous `year`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compare: Option<String>,
    /// How the answer is shown. Not read by the server.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    view: Map<String, Value>,
}

/// A question on a dashboard.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DashboardTile {
    /// Column of the left edge, 0 to 11.
    x: u16,
    /// Row of the upper edge.
    y: u16,
    /// Columns, 1 to 12.
    w: u16,
    /// Rows, 1 to 100.
    h: u16,
    /// Title, up to 200 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The question.
    question: QuestionDocument,
    /// The saved question that it was copied from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

impl QuestionDocument {
    /// Returns the kind.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the body for the route of its kind.
    pub(super) fn body(&self) -> Result<Vec<u8>, Problem> {
        let mut body = self.request.clone();
        body.extend(self.range.clone());
        body.extend(self.compare.iter().map(|compare| ("compare".to_owned(), Value::from(&**compare))));
        serde_json::to_vec(&body).map_err(|error| Problem::internal(error.to_string()))
    }

    /// Rejects a question that its parser rejects. Adds the cohorts that it names, with the field.
    pub(super) fn check(
        &self,
        path: &str,
        game: &Game,
        cohorts: &mut BTreeMap<String, String>,
    ) -> Result<(), Problem> {
        let invalid =
            |field: String, message: &str| Err(Problem::invalid(message).field(format!("{path}.{field}")));
        if self.v != VERSION {
            return invalid("v".to_owned(), "must be 1");
        }
        if let Some(name) = self.request.keys().find(|name| is_outside(name)) {
            return invalid(
                format!("request.{name}"),
                "belongs outside of `request`: to `range` or `compare`",
            );
        }
        if let Some(name) = self.range.keys().find(|name| !RANGE_FIELDS.contains(&name.as_str())) {
            return invalid(format!("range.{name}"), "unknown field; allowed: `from`, `to`, `last`");
        }
        if Value::from(self.view.clone()).to_string().len() > VIEW_BYTES_MAX {
            return invalid("view".to_owned(), &format!("must have at most {VIEW_BYTES_MAX} bytes as JSON"));
        }
        let body = self.body()?;
        let located = |error: QueryError| {
            let part = match error.field.as_str() {
                "question" => "kind".to_owned(),
                "compare" => "compare".to_owned(),
                field if RANGE_FIELDS.contains(&field) => format!("range.{field}"),
                field => format!("request.{field}"),
            };
            Problem::invalid(error.message).field(format!("{path}.{part}"))
        };
        if self.kind == ROLLUP_KIND {
            let declared = game.settings.declared();
            return pipeline::query::request::from_json(&body, &declared).map(drop).map_err(located);
        }
        let question = Question::from_json(&self.kind, &body).map_err(|mut error| {
            if error.field == "question" {
                error.message = format!("must be one of {ROLLUP_KIND}, {}", Question::KINDS.join(", "));
            }
            located(error)
        })?;
        let names = question.cohorts().into_iter();
        cohorts.extend(names.map(|name| (name.to_owned(), format!("{path}.request.where"))));
        Ok(())
    }
}

fn is_outside(name: &str) -> bool {
    RANGE_FIELDS.contains(&name) || name == "compare"
}

impl DashboardTile {
    /// Rejects a tile outside of the grid or with an invalid question.
    pub(super) fn check(
        &self,
        path: &str,
        game: &Game,
        cohorts: &mut BTreeMap<String, String>,
    ) -> Result<(), Problem> {
        let invalid =
            |field: &str, message: String| Err(Problem::invalid(message).field(format!("{path}.{field}")));
        if self.x >= COLUMNS {
            return invalid("x", format!("must be between 0 and {}", COLUMNS - 1));
        }
        if self.y > ROWS_MAX {
            return invalid("y", format!("must be at most {ROWS_MAX}"));
        }
        if self.w == 0 || self.w > COLUMNS - self.x {
            return invalid(
                "w",
                format!("must be between 1 and {}, so that the tile ends within the grid", COLUMNS - self.x),
            );
        }
        if !(1..=TILE_ROWS_MAX).contains(&self.h) {
            return invalid("h", format!("must be between 1 and {TILE_ROWS_MAX}"));
        }
        if self.title.as_ref().is_some_and(|title| title.len() > TITLE_BYTES_MAX) {
            return invalid("title", format!("must have at most {TITLE_BYTES_MAX} bytes"));
        }
        if self.source.as_ref().is_some_and(|source| !is_key(source)) {
            return invalid("source", "must be the id of a saved question".to_owned());
        }
        self.question.check(&format!("{path}.question"), game, cohorts)
    }
}
