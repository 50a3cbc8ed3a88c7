//! The server's clock, and times as text.
//!
//! The time is that of the system clock without its jumps: one wrong reading ends no session, closes no day of a board and
//! deletes nothing. See [`SteadyClock`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use model::steady_clock::SteadyClock;
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

/// The time for which the system clock must keep a new course before the server follows it.
const SETTLE: Duration = Duration::from_secs(5 * 60);
/// The same for what is deleted because of its age, from the start of the process on.
const DELETION_SETTLE: Duration = Duration::from_secs(60 * 60);

struct Clocks {
    time: Option<SteadyClock>,
    deletion: Option<SteadyClock>,
}

static CLOCKS: Mutex<Clocks> = Mutex::new(Clocks { time: None, deletion: None });

/// Returns milliseconds since 1970-01-01 UTC.
pub fn now_ms() -> i64 {
    now_us() / 1_000
}

/// Returns microseconds since 1970-01-01 UTC.
pub fn now_us() -> i64 {
    let mut clocks = CLOCKS.lock();
    // Read under the lock, so that readings are in order.
    let (system_us, monotonic_us) = (system_us(), monotonic_us());
    let clock = clocks.time.get_or_insert_with(|| SteadyClock::new(SETTLE.as_micros() as i64));
    clock.read(system_us, monotonic_us)
}

/// Returns the time by which data is old enough to be deleted, in milliseconds since 1970-01-01 UTC. `None` until the
/// system clock has run steadily for an hour: nothing may be deleted because of its age before that.
pub fn deletion_now_ms() -> Option<u64> {
    let mut clocks = CLOCKS.lock();
    let (system_us, monotonic_us) = (system_us(), monotonic_us());
    let clock = clocks.deletion.get_or_insert_with(|| SteadyClock::new(deletion_settle().as_micros() as i64));
    clock.read_settled(system_us, monotonic_us).map(|us| (us / 1_000).max(0) as u64)
}

/// Returns seconds since 1970-01-01 UTC.
pub fn now_s() -> u64 {
    now_ms().max(0) as u64 / 1000
}

#[cfg(not(feature = "fault-injection"))]
fn deletion_settle() -> Duration {
    DELETION_SETTLE
}

/// Returns the time for which the clock must run steadily, which tests set in seconds.
#[cfg(feature = "fault-injection")]
fn deletion_settle() -> Duration {
    let seconds = std::env::var("PLAYMETER_INJECTED_DELETION_SETTLE").ok();
    seconds.and_then(|seconds| seconds.parse().ok()).map_or(DELETION_SETTLE, Duration::from_secs)
}

fn system_us() -> i64 {
    let system_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64);
    #[cfg(feature = "fault-injection")]
    let system_us = system_us + injected_error_us();
    system_us
}

/// Returns the time since the machine started, including the time that it was suspended.
fn monotonic_us() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Returns the error of the system clock, which tests write to a file as a number of seconds.
#[cfg(feature = "fault-injection")]
fn injected_error_us() -> i64 {
    static FILE: std::sync::LazyLock<Option<std::ffi::OsString>> =
        std::sync::LazyLock::new(|| std::env::var_os("PLAYMETER_INJECTED_CLOCK_ERROR"));
    let error_s = |file: &std::ffi::OsString| std::fs::read_to_string(file).ok()?.trim().parse().ok();
    FILE.as_ref().and_then(error_s).map_or(0, |seconds: i64| seconds * 1_000_000)
}

/// Formats milliseconds since 1970 as RFC 3339 in UTC. A fraction appears only if it is not zero.
pub fn rfc3339(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

/// Parses RFC 3339 or milliseconds since 1970 to milliseconds since 1970.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Ok(ms) = text.parse::<i64>() {
        return Some(ms);
    }
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}
