//! Limits of questions. A request beyond them is rejected with an error that names the field.

/// Bytes of a request.
pub const REQUEST_BYTES_MAX: usize = 256 << 10;
/// Conditions in one request, over all its filters.
pub const CONDITIONS_MAX: usize = 100;
/// How deep groups of conditions may be nested.
pub const CONDITION_DEPTH_MAX: usize = 5;
/// Values in the list of one `in` condition.
pub const IN_VALUES_MAX: usize = 1_000;
/// Bytes of a text that a condition compares with.
pub const OPERAND_BYTES_MAX: usize = 1_024;
/// Bytes of a property's name, with the dots of nested objects.
pub const PROPERTY_BYTES_MAX: usize = 400;
/// Properties that a question can be broken down by.
pub const BY_MAX: usize = 2;
/// Steps of a funnel.
pub const FUNNEL_STEPS: std::ops::RangeInclusive<usize> = 2..=12;
/// Seconds between the first and the last step of a funnel: 10 years.
pub const FUNNEL_WINDOW_S_MAX: u64 = 315_576_000;
/// Periods of a retention table, the first of them included.
pub const RETENTION_PERIODS_MAX: usize = 120;
/// Events before or after the starting event of a path.
pub const PATH_DEPTH_MAX: usize = 10;
/// Nodes at each distance of a path, beside `(other)`.
pub const PATH_TOP_MAX: usize = 20;
/// Event names that paths can ignore.
pub const PATH_EXCLUDED_MAX: usize = 50;
/// Conditions about events or latest values in the definition of a cohort.
pub const COHORT_RULES_MAX: usize = 16;
/// Days that the definition of a cohort looks back.
pub const COHORT_DAYS_MAX: u32 = 3_660;
/// Players of a cohort that is a list.
pub const COHORT_LIST_MAX: usize = 100_000;
/// Players in one page of a search, and events in one page of a timeline.
pub const PAGE_MAX: usize = 1_000;
/// Columns and rows of a heatmap.
pub const HEAT_CELLS_MAX: usize = 256;
/// Levels in one answer.
pub const LEVELS_MAX: usize = 10_000;
/// Distinct players are counted exactly up to this number, then estimated by HyperLogLog.
pub const UNIQUES_EXACT_MAX: usize = 100_000;
/// Quantiles are exact up to this number of values, then within 1 %.
pub const QUANTILE_EXACT_MAX: usize = 4_096;
