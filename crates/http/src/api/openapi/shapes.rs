//! Shapes that are read and written by hand, for the sake of speed, as the description shows them.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// One thing that happened.
#[derive(Serialize, ToSchema)]
pub struct Event {
    /// The name, 1 to 200 bytes. Names that start with `$` are reserved.
    event: String,
    /// A UUID made by the client; the same id is counted once in seven days. Without it a repeat cannot be told.
    id: Option<String>,
    /// RFC 3339 or milliseconds since 1970; absent: when it was received.
    ts: Option<String>,
    /// Up to 128 bytes.
    player: Option<String>,
    /// Up to 128 bytes.
    session: Option<String>,
    /// A finite number.
    value: Option<f64>,
    /// Anything else: 64 keys, three deep.
    #[schema(value_type = Option<Object>)]
    props: Option<Value>,
    /// Where the player came from.
    source: Option<String>,
    /// `web`, `ios`, `android` ...; filled in from the user agent.
    platform: Option<String>,
    /// The game's version.
    version: Option<String>,
    /// The level played.
    level: Option<String>,
    /// ISO 3166, two letters; filled in from the address.
    country: Option<String>,
}

/// What became of a request, event by event.
#[derive(Serialize, ToSchema)]
pub struct Receipt {
    /// Taken and, with `ack=disk`, durable.
    accepted: u32,
    /// Were there before.
    duplicate: u32,
    /// Older than the game takes.
    late: u32,
    /// Over a quota.
    limited: u32,
    /// Broke a rule.
    invalid: u32,
    /// The log's end after this request.
    position: String,
    /// The events that were not accepted.
    results: Vec<NotAccepted>,
}

/// One event that was not accepted.
#[derive(Serialize, ToSchema)]
pub struct NotAccepted {
    /// Its index in the request.
    i: u32,
    /// Its id, if it could be read.
    id: Option<String>,
    /// `duplicate`, `late`, `limited` or `invalid`.
    outcome: String,
    /// Why, as one word.
    reason: String,
}

/// A question over rollups.
#[derive(Serialize, ToSchema)]
pub struct Query {
    /// An event's name, or `events`, `players`, `sessions`, `views`, `plays`, `play_time_s`, `online`.
    metric: Option<String>,
    /// `count`, `sum`, `min`, `max`, `avg`, `uniques`, `p10`, `p50`, `p90`, `p99` or `last`.
    measure: Option<String>,
    /// Several at once, each with a name: `[{"as": "A", "metric": "plays"}]`.
    #[schema(value_type = Option<Vec<Object>>)]
    metrics: Option<Value>,
    /// Of the names in `metrics`: `A / B`.
    formula: Option<String>,
    /// RFC 3339 or milliseconds since 1970.
    from: Option<String>,
    /// RFC 3339 or milliseconds since 1970.
    to: Option<String>,
    /// Instead of both: `60m`, `24h`, `7d`.
    last: Option<String>,
    /// `minute`, `hour`, `day`, `week`, `month`, `auto` or `all`.
    step: Option<String>,
    /// Dimensions to break down by.
    by: Option<Vec<String>>,
    /// Values by dimension: `{"platform": ["web"]}`.
    #[schema(value_type = Option<Object>)]
    r#where: Option<Value>,
    /// So many series; the rest is `(other)`.
    top: Option<u32>,
    /// An IANA time zone; the game's by default.
    tz: Option<String>,
    /// `previous` or `year`.
    compare: Option<String>,
}

/// The answer to a question.
#[derive(Serialize, ToSchema)]
pub struct QueryAnswer {
    /// As asked, or as `auto` chose.
    step: String,
    /// The zone of the buckets.
    tz: String,
    /// When each bucket begins.
    times: Vec<String>,
    /// One line for each value of the breakdown.
    #[schema(value_type = Vec<Object>)]
    series: Value,
    /// What the answer contains: `{"position": "0/1048576", "time": "..."}`.
    #[schema(value_type = Object)]
    as_of: Value,
}

/// Why a request was refused (RFC 9457).
#[derive(Serialize, ToSchema)]
pub struct Problem {
    /// The kind, for programs.
    r#type: String,
    /// The kind, for people.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What is wrong and what to do.
    detail: String,
    /// The field, parameter or header that is wrong.
    field: Option<String>,
}
