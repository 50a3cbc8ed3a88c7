//! Every limit of the product, in one place. Nothing that comes from outside may grow without one.

/// A request body as it arrives, before decompression.
pub const BODY_BYTES_MAX: usize = 10 << 20;
/// The same body after decompression.
pub const INFLATED_BYTES_MAX: usize = 64 << 20;
/// Events in one request.
pub const EVENTS_PER_REQUEST_MAX: usize = 10_000;
/// One event as it was sent, its properties included.
pub const EVENT_BYTES_MAX: usize = 64 << 10;

/// An event's name.
pub const NAME_BYTES_MAX: usize = 200;
/// The opaque ids of players and sessions.
pub const PLAYER_BYTES_MAX: usize = 128;
/// A dimension's value: source, platform, version, level.
pub const DIMENSION_BYTES_MAX: usize = 128;
/// How deep `props` may nest; `{"a": 1}` has depth 1.
pub const PROPS_DEPTH_MAX: usize = 3;
/// Keys in `props`, those of inner objects included.
pub const PROPS_KEYS_MAX: usize = 64;
/// One key of `props`.
pub const PROP_KEY_BYTES_MAX: usize = 128;
/// One string value of `props`, unescaped.
pub const PROP_STRING_BYTES_MAX: usize = 1_024;
/// How deep any JSON may nest; one level deeper is malformed.
pub const JSON_DEPTH_MAX: usize = 32;

/// Phones have wrong clocks; more than a day ahead after correction is not believed.
pub const FUTURE_MS_MAX: i64 = 24 * 3_600_000;
/// The default lateness bound of a game, and the widest there is: ids are remembered for 7 days after receipt, so what
/// is sent again after a longer silence counts again, and no game may widen that further. An import has no bound.
pub const LATE_DAYS_MAX: u32 = 30;
/// The same in milliseconds.
pub const LATE_MS_MAX: i64 = LATE_DAYS_MAX as i64 * 24 * 3_600_000;
/// How long an event id is remembered.
pub const ID_WINDOW_MS: i64 = 7 * 24 * 3_600_000;

/// Values a metric keeps per dimension and day unless its game says otherwise; the rest is counted in `(other)`.
pub const VALUES_PER_DIMENSION: u32 = 1_000;
/// The most values that a game can ask for.
pub const VALUES_PER_DIMENSION_MAX: u32 = 10_000;
/// Dimensions that a game may declare beside the built-in ones, at a time.
pub const DECLARED_MAX: usize = 16;
/// The last number of a declared dimension: so many names can be declared in the life of a game.
pub const DECLARED_NUMBER_MAX: u8 = 200;
/// A declared dimension's name.
pub const DECLARED_NAME_BYTES_MAX: usize = 64;
/// Anonymous ids of one game that are linked to players.
pub const IDENTITIES_MAX: usize = 1_000_000;
/// Combinations of all dimensions' values that a metric keeps per day; the rest is counted in `(other)`.
pub const TUPLES_MAX: usize = 10_000;
/// Event names that a game keeps per day; the rest is counted in `(other)`.
pub const METRICS_MAX: usize = 1_000;
/// A player is online until this long after the last event.
pub const ONLINE_MS: i64 = 180_000;
/// A session ends after this long without an event.
pub const SESSION_SILENCE_MS: i64 = 30 * 60_000;

/// Points in one answer of a query: times multiplied by series.
pub const QUERY_POINTS_MAX: usize = 1_000_000;
/// Metrics in one query.
pub const QUERY_METRICS_MAX: usize = 10;
/// Bytes of a query as JSON.
pub const QUERY_BYTES_MAX: usize = 64 << 10;
/// Series that a query with `by` answers with, `(other)` not counted, unless it asks for another number.
pub const QUERY_TOP: usize = 50;
/// The most series it can ask for.
pub const QUERY_TOP_MAX: usize = 1_000;
/// Bytes of a query's formula.
pub const QUERY_FORMULA_BYTES_MAX: usize = 1_000;

/// Flows that run at the same time in one installation. A packet that would open one more is refused.
pub const FLOWS_MAX: usize = 262_144;
/// Those of one game, unless the installation says otherwise: half, so that no game takes the room of all others.
pub const FLOWS_PER_GAME: u32 = FLOWS_MAX as u32 / 2;
/// The id of one end of a flow.
pub const FLOW_END_BYTES_MAX: usize = 128;
