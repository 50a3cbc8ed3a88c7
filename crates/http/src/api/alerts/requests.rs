//! Request bodies of alert rules.

use alerts::RuleQuery;
use liveops::alerts::{AlertComparison, AlertRule, NoDataPolicy, TargetWrite};
use liveops::vars::{Json, TimestampMs};
use model::query::{NumberedDimension, QueryError, WindowLength};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::commands::refusal_problem;
use crate::problem::Problem;

/// All fields of a rule. Fields that you leave out are reset to their defaults.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutAlertRequest {
    /// Display name, up to 200 bytes.
    #[serde(default)]
    name: String,
    /// Text that notifications contain, up to 2,000 bytes.
    #[serde(default)]
    message: String,
    /// The body of `POST /v1/query` with `last` (its `step` is ignored), or that of a question with its `kind`: `explore`, or
    /// `funnel`, `retention` or `levels` with `value`, the place of a number in the answer as a JSON pointer.
    #[schema(value_type = serde_json::Value)]
    query: Json,
    /// The condition.
    #[schema(value_type = AlertCondition)]
    compare: AlertComparison,
    /// Seconds for which the condition must be met. Default: 0.
    #[serde(default)]
    for_s: u32,
    /// Seconds after it has resolved in which the rule does not fire again. Default: 0.
    #[serde(default)]
    cooldown_s: u32,
    /// What it means that the query has no value: `ok` (the default), `fire`, or `keep` the state.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    no_data: NoDataPolicy,
    /// Up to 10 targets.
    #[serde(default)]
    pub(super) targets: Vec<AlertTargetBody>,
}

/// The condition of a rule: exactly one of `op` with `value`, `band`, `previous` and `no_data_s`.
#[derive(Serialize, ToSchema)]
pub(crate) struct AlertCondition {
    /// `>`, `>=`, `<`, `<=`, `=` or `!=`.
    op: Option<String>,
    /// The value to compare with.
    value: Option<f64>,
    /// Outside of the values of the same minutes in the last weeks: `{"weeks": 4, "width": 3}`. The band is their mean
    /// with `width` standard deviations on both sides, each at least a tenth of the mean.
    #[schema(value_type = Option<Object>)]
    band: Option<serde_json::Value>,
    /// Compared with the period before: `{"op": ">=", "factor": 2, "min": 10}`. With `min`, one of both values must be at
    /// least that.
    #[schema(value_type = Option<Object>)]
    previous: Option<serde_json::Value>,
    /// No event or sample of the metric for this many seconds, from 60 on.
    no_data_s: Option<u32>,
}

/// A target of a rule.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AlertTargetBody {
    /// Id within the rule. Default: the position in the list, from 1 on. A target with the id of an existing one keeps its
    /// URL and its secret unless you send others.
    id: Option<String>,
    /// `webhook`, `slack` or `email`.
    #[schema(value_type = String)]
    kind: liveops::alerts::TargetKind,
    /// URL of a webhook or of Slack.
    pub(super) url: Option<String>,
    /// Mail address.
    to: Option<String>,
    /// Secret of a webhook, `whsec_` and 24 to 64 bytes in base64. By default the server creates one; the response shows it
    /// once.
    secret: Option<String>,
}

/// The end of a mute.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MuteAlertRequest {
    /// Until when no notifications are sent, RFC 3339; `null` ends the mute.
    #[schema(value_type = Option<String>)]
    pub(super) until: Option<TimestampMs>,
}

/// A rule to replay.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PreviewAlertRequest {
    /// As in `PUT /v1/alerts/{key}`.
    #[schema(value_type = serde_json::Value)]
    query: Json,
    /// As in `PUT /v1/alerts/{key}`.
    #[schema(value_type = AlertCondition)]
    compare: AlertComparison,
    /// As in `PUT /v1/alerts/{key}`.
    #[serde(default)]
    for_s: u32,
    /// As in `PUT /v1/alerts/{key}`.
    #[serde(default)]
    cooldown_s: u32,
    /// As in `PUT /v1/alerts/{key}`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    no_data: NoDataPolicy,
    /// Range up to now, at most `31d`. Default: `24h`.
    last: Option<String>,
}

impl PutAlertRequest {
    /// Returns the rule and the targets as they are written.
    pub(super) fn split(self) -> (AlertRule, Vec<AlertTargetBody>) {
        let PutAlertRequest { name, message, query, compare, for_s, cooldown_s, no_data, targets } = self;
        (AlertRule { name, message, query, compare, for_s, cooldown_s, no_data }, targets)
    }
}

impl PreviewAlertRequest {
    /// Returns the rule and the number of minutes to replay.
    pub(super) fn split(self) -> Result<(AlertRule, u32), Problem> {
        let PreviewAlertRequest { query, compare, for_s, cooldown_s, no_data, last } = self;
        let length = WindowLength::parse(last.as_deref().unwrap_or("24h"));
        let length = length.map(|length| u64::from(length.days) * 1_440 + u64::from(length.minutes));
        let length =
            length.and_then(|minutes| u32::try_from(minutes).ok()).filter(|minutes| *minutes <= 31 * 1_440);
        let problem = || Problem::invalid("must be a duration up to 31d, such as 24h or 28d").field("last");
        let (name, message) = (String::new(), String::new());
        let rule = AlertRule { name, message, query, compare, for_s, cooldown_s, no_data };
        Ok((rule, length.ok_or_else(problem)?))
    }
}

impl AlertTargetBody {
    pub(super) fn into_write(self, new_secret: Option<String>) -> TargetWrite {
        let AlertTargetBody { id, kind, url, to, secret } = self;
        TargetWrite { id, kind, url, to, secret, new_secret }
    }

    /// Returns true if the server may have to create a secret.
    pub(super) fn needs_secret(&self) -> bool {
        self.kind == liveops::alerts::TargetKind::Webhook && self.secret.is_none()
    }
}

/// Checks a rule and returns its query.
pub(super) fn check_rule(rule: &AlertRule, declared: &[NumberedDimension]) -> Result<RuleQuery, Problem> {
    rule.check().map_err(refusal_problem)?;
    let query = RuleQuery::parse(rule.query.text(), declared).map_err(|error| {
        let field = if error.field == "body" { "query".to_owned() } else { format!("query.{}", error.field) };
        Problem::from(QueryError { field, ..error })
    })?;
    query.for_condition(&rule.compare).map_err(|error| {
        let field = format!("compare.{}", error.field);
        Problem::from(QueryError { field, ..error })
    })
}
