//! The progress of an import: a line that is updated in place on a terminal, otherwise a line every few seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::count::Count;
use crossterm::terminal::{Clear, ClearType, size};

const TERMINAL_INTERVAL: Duration = Duration::from_millis(100);
const PLAIN_INTERVAL: Duration = Duration::from_secs(5);
/// Time constant of the smoothed rate in seconds.
const RATE_SMOOTHING_S: f64 = 3.0;
const BAR_CELLS: usize = 10;
/// The width of a terminal that does not report one.
const DEFAULT_COLUMNS: usize = 80;
/// Longer names are truncated at the start, to leave room for the numbers.
const NAME_CHARS: usize = 24;

/// Writes the progress to standard error.
pub(crate) struct Progress {
    name: String,
    is_terminal: bool,
    start: Instant,
    /// The fraction of the file that was read at the start.
    fraction_at_start: Option<f64>,
    last_update: Instant,
    last_events: u64,
    rate: SmoothedRate,
}

/// Events a second, smoothed.
#[derive(Default)]
struct SmoothedRate(Option<f64>);

impl Progress {
    /// Creates the progress of an import that starts after `events` earlier events.
    pub(crate) fn new(name: &str, events: u64) -> Progress {
        let now = Instant::now();
        Progress {
            name: name.to_owned(),
            is_terminal: std::io::stderr().is_terminal(),
            start: now,
            fraction_at_start: None,
            last_update: now,
            last_events: events,
            rate: SmoothedRate::default(),
        }
    }

    /// Writes the progress if the interval has passed.
    pub(crate) fn update(&mut self, events: u64, fraction: Option<f64>) {
        let first = *self.fraction_at_start.get_or_insert(fraction.unwrap_or_default());
        let elapsed = self.last_update.elapsed();
        if elapsed < if self.is_terminal { TERMINAL_INTERVAL } else { PLAIN_INTERVAL } {
            return;
        }
        let rate = self.rate.add(events - self.last_events, elapsed.as_secs_f64());
        (self.last_update, self.last_events) = (Instant::now(), events);
        let left = fraction.and_then(|fraction| time_left(self.start.elapsed(), first, fraction));
        let line = format_line(&self.name, events, rate, fraction, left);
        self.write(&line);
    }

    /// Clears the line on a terminal.
    pub(crate) fn clear(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r{}", Clear(ClearType::CurrentLine));
        }
    }

    fn write(&self, line: &str) {
        let mut stderr = std::io::stderr();
        // A closed standard error must not stop the import.
        let _ = if self.is_terminal {
            // Some terminals report a width of 0.
            let columns = size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
            let visible: String = line.chars().take(columns.unwrap_or(DEFAULT_COLUMNS) - 1).collect();
            write!(stderr, "\r{visible}{}", Clear(ClearType::UntilNewLine)).and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{line}")
        };
    }
}

impl SmoothedRate {
    fn add(&mut self, events: u64, seconds: f64) -> f64 {
        let now = events as f64 / seconds;
        let weight = (seconds / RATE_SMOOTHING_S).min(1.0);
        *self.0.insert(self.0.map_or(now, |previous| previous + weight * (now - previous)))
    }
}

/// Estimates the remaining time from the speed since the start.
fn time_left(elapsed: Duration, first: f64, fraction: f64) -> Option<Duration> {
    let done = fraction - first;
    (done > 0.0).then(|| Duration::try_from_secs_f64(elapsed.as_secs_f64() * (1.0 - fraction) / done).ok())?
}

fn format_line(name: &str, events: u64, rate: f64, fraction: Option<f64>, left: Option<Duration>) -> String {
    let mut line = truncated_name(name);
    if let Some(fraction) = fraction {
        let cells = (fraction * BAR_CELLS as f64) as usize;
        line += &format!("  [{:.<BAR_CELLS$}] {:3.0} %", "#".repeat(cells), fraction * 100.0);
    }
    line += &format!("  {} events  {}/s", Count(events), Count(rate as u64));
    if let Some(left) = left {
        line += &format!("  {} left", clock(left));
    }
    line
}

/// Truncates a long path at the start.
fn truncated_name(name: &str) -> String {
    let excess = name.chars().count().saturating_sub(NAME_CHARS);
    if excess == 0 {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(excess + 1).collect::<String>())
    }
}

/// Formats a duration as `1:02:03` or `2:03`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_fraction_count_rate_and_time_left() {
        let text = format_line("a.ndjson", 1_234_567, 98_765.4, Some(0.25), Some(Duration::from_secs(83)));
        assert_eq!(text, "a.ndjson  [##........]  25 %  1,234,567 events  98,765/s  1:23 left");
        assert_eq!(format_line("standard input", 0, 0.0, None, None), "standard input  0 events  0/s");
    }

    #[test]
    fn long_name_is_truncated_at_the_start() {
        assert_eq!(truncated_name("a.ndjson"), "a.ndjson");
        assert_eq!(truncated_name("/srv/exports/2024/january/événements.ndjson"), "…nuary/événements.ndjson");
    }

    #[test]
    fn time_left_is_estimated_from_the_speed_since_the_start() {
        let ten = Duration::from_secs(10);
        assert_eq!(time_left(ten, 0.0, 0.25), Some(Duration::from_secs(30)));
        assert_eq!(time_left(ten, 0.5, 0.75), Some(ten));
        assert_eq!(time_left(ten, 0.5, 0.5), None);
        assert_eq!(time_left(ten, 0.0, 1.0), Some(Duration::ZERO));
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
    }

    #[test]
    fn rate_is_smoothed_over_the_last_seconds() {
        let mut rate = SmoothedRate::default();
        assert_eq!(rate.add(100, 1.0), 100.0);
        assert_eq!(rate.add(400, 1.0), 200.0);
        assert_eq!(rate.add(3_000, 10.0), 300.0);
    }
}
