//! All limits of the product, in one place. Nothing that comes from outside may grow without a limit.

/// Bytes of a request body as received, before decompression.
pub const BODY_BYTES_MAX: usize = 10 << 20;
/// Bytes of a request body after decompression.
pub const INFLATED_BYTES_MAX: usize = 64 << 20;
/// Events in one request.
pub const EVENTS_PER_REQUEST_MAX: usize = 10_000;
/// Bytes of one event as sent, including its properties.
pub const EVENT_BYTES_MAX: usize = 64 << 10;

/// Bytes of an event name.
pub const NAME_BYTES_MAX: usize = 200;
/// Bytes of a player id or session id.
pub const PLAYER_BYTES_MAX: usize = 128;
/// Bytes of a dimension's value: source, platform, version, level.
pub const DIMENSION_BYTES_MAX: usize = 128;
/// Nesting depth of `props`; `{"a": 1}` has depth 1.
pub const PROPS_DEPTH_MAX: usize = 3;
/// Keys in `props`, including those of nested objects.
pub const PROPS_KEYS_MAX: usize = 64;
/// Bytes of one key of `props`.
pub const PROP_KEY_BYTES_MAX: usize = 128;
/// Bytes of one string value of `props`, unescaped.
pub const PROP_STRING_BYTES_MAX: usize = 1_024;
/// Nesting depth of any JSON; one level deeper is malformed.
pub const JSON_DEPTH_MAX: usize = 32;

/// Phone clocks are often wrong: a corrected time further ahead than this is replaced by the time of receipt.
pub const FUTURE_MS_MAX: i64 = 24 * 3_600_000;
/// The default lateness bound of a game, which is also the maximum. Ids are kept for 7 days after receipt, so an
/// event sent again after a longer silence counts twice; no game may widen that further. Imports have no bound.
pub const LATE_DAYS_MAX: u32 = 30;
/// The deduplication window: how long an event id is kept.
pub const ID_WINDOW_MS: i64 = 7 * 24 * 3_600_000;

/// Values that a metric keeps per dimension and day unless the game sets another number; the rest counts in
/// `(other)`.
pub const VALUES_PER_DIMENSION: u32 = 1_000;
/// The maximum that a game can set for [`VALUES_PER_DIMENSION`].
pub const VALUES_PER_DIMENSION_MAX: u32 = 10_000;
/// Dimensions that a game may have declared at a time, in addition to the built-in ones.
pub const DECLARED_MAX: usize = 16;
/// The highest number of a declared dimension, and so the number of names that a game can declare over its
/// lifetime.
pub const DECLARED_NUMBER_MAX: u8 = 200;
/// Bytes of a declared dimension's name.
pub const DECLARED_NAME_BYTES_MAX: usize = 64;
/// Anonymous ids of one game that can be linked to players.
pub(crate) const IDENTITIES_MAX: usize = 1_000_000;
/// Combinations of dimension values that a metric keeps per day; the rest counts in `(other)`.
pub const TUPLES_MAX: usize = 10_000;
/// Event names of a game with rows of their own, unless the settings say otherwise; the rest counts in `(other)`.
pub const EVENT_NAMES_PER_GAME: u32 = 1_000;
/// The limits of the setting for [`EVENT_NAMES_PER_GAME`].
pub const EVENT_NAMES_PER_GAME_RANGE: std::ops::RangeInclusive<u32> = 100..=5_000;
/// Event names that have rows on one day at most: ingest decides which names have rows, and may replace each once a day.
pub const METRICS_MAX: usize = 2 * *EVENT_NAMES_PER_GAME_RANGE.end() as usize;
/// A time of receipt this long before a later one means that the clock was ahead, in milliseconds.
pub const CLOCK_BACK_MS: i64 = 10 * 60_000;
/// A player counts as online for this long after the last event.
pub(crate) const ONLINE_MS: i64 = 180_000;
/// A session ends after this long without an event.
pub(crate) const SESSION_TIMEOUT_MS: i64 = 30 * 60_000;

/// Points in one query result: times multiplied by series.
pub const QUERY_POINTS_MAX: usize = 1_000_000;
/// Metrics in one query.
pub(crate) const QUERY_METRICS_MAX: usize = 10;
/// Bytes of a query as JSON.
pub const QUERY_BYTES_MAX: usize = 64 << 10;
/// Series in the result of a query with `by` that sets no `top`, not counting `(other)`.
pub const QUERY_TOP: usize = 50;
/// The maximum of `top`.
pub const QUERY_TOP_MAX: usize = 1_000;
/// Bytes of a query's formula.
pub(crate) const QUERY_FORMULA_BYTES_MAX: usize = 1_000;

/// Flows that run at the same time in one installation. A packet that would open one more is rejected.
pub const FLOWS_MAX: usize = 262_144;
/// The default limit of flows per game: half of [`FLOWS_MAX`], so that one game cannot use up the room of all
/// others.
pub const FLOWS_PER_GAME: u32 = FLOWS_MAX as u32 / 2;
/// Bytes of the id of one end of a flow.
pub const FLOW_END_BYTES_MAX: usize = 128;
