//! How far an import is: one line that is written over at a terminal, else a line every few seconds.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::count::Count;
use crossterm::terminal::{Clear, ClearType, size};

const AT_TERMINAL: Duration = Duration::from_millis(100);
const ELSEWHERE: Duration = Duration::from_secs(5);
/// The rate is that of about the last so many seconds.
const RATE_OVER_S: f64 = 3.0;
const BAR_CELLS: usize = 10;
/// The width of a terminal that does not say it.
const COLUMNS: usize = 80;
/// So much of the end of a name is shown, so that there is room for the rest.
const NAME_CHARS: usize = 24;

/// Tells on standard error.
pub struct Progress {
    name: String,
    is_terminal: bool,
    began: Instant,
    /// The part of the file that was read when it began.
    part_first: Option<f64>,
    told: Instant,
    events_told: u64,
    rate: Rate,
}

/// Events a second, smoothed.
#[derive(Default)]
struct Rate(Option<f64>);

impl Progress {
    /// Nothing was told yet. `events` were taken before.
    pub fn new(name: &str, events: u64) -> Progress {
        let now = Instant::now();
        Progress {
            name: name.to_owned(),
            is_terminal: std::io::stderr().is_terminal(),
            began: now,
            part_first: None,
            told: now,
            events_told: events,
            rate: Rate::default(),
        }
    }

    /// Tells, if it is time to.
    pub fn tell(&mut self, events: u64, part: Option<f64>) {
        let first = *self.part_first.get_or_insert(part.unwrap_or_default());
        let elapsed = self.told.elapsed();
        if elapsed < if self.is_terminal { AT_TERMINAL } else { ELSEWHERE } {
            return;
        }
        let rate = self.rate.add(events - self.events_told, elapsed.as_secs_f64());
        (self.told, self.events_told) = (Instant::now(), events);
        let left = part.and_then(|part| left(self.began.elapsed(), first, part));
        let line = line(&self.name, events, rate, part, left);
        self.write(&line);
    }

    /// Leaves the line free for what comes next.
    pub fn end(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r{}", Clear(ClearType::CurrentLine));
        }
    }

    fn write(&self, line: &str) {
        let mut stderr = std::io::stderr();
        // Whoever reads it may have gone; that is no reason to stop.
        let _ = if self.is_terminal {
            // Some terminals do not know how wide they are.
            let columns = size().ok().map(|(columns, _)| usize::from(columns)).filter(|columns| *columns > 0);
            let shown: String = line.chars().take(columns.unwrap_or(COLUMNS) - 1).collect();
            write!(stderr, "\r{shown}{}", Clear(ClearType::UntilNewLine)).and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{line}")
        };
    }
}

impl Rate {
    fn add(&mut self, events: u64, seconds: f64) -> f64 {
        let now = events as f64 / seconds;
        let weight = (seconds / RATE_OVER_S).min(1.0);
        *self.0.insert(self.0.map_or(now, |before| before + weight * (now - before)))
    }
}

/// The time that the rest takes if it goes on as it went since the first part.
fn left(elapsed: Duration, first: f64, part: f64) -> Option<Duration> {
    let done = part - first;
    (done > 0.0).then(|| Duration::try_from_secs_f64(elapsed.as_secs_f64() * (1.0 - part) / done).ok())?
}

fn line(name: &str, events: u64, rate: f64, part: Option<f64>, left: Option<Duration>) -> String {
    let mut line = end_of(name);
    if let Some(part) = part {
        let cells = (part * BAR_CELLS as f64) as usize;
        line += &format!("  [{:.<BAR_CELLS$}] {:3.0} %", "#".repeat(cells), part * 100.0);
    }
    line += &format!("  {} events  {}/s", Count(events), Count(rate as u64));
    if let Some(left) = left {
        line += &format!("  {} left", clock(left));
    }
    line
}

/// `a/long/path/to.ndjson` is told by its end.
fn end_of(name: &str) -> String {
    let over = name.chars().count().saturating_sub(NAME_CHARS);
    if over == 0 {
        name.to_owned()
    } else {
        format!("…{}", name.chars().skip(over + 1).collect::<String>())
    }
}

/// `1:02:03`, `2:03`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_how_fast_and_how_long_it_takes() {
        let told = line("a.ndjson", 1_234_567, 98_765.4, Some(0.25), Some(Duration::from_secs(83)));
        assert_eq!(told, "a.ndjson  [##........]  25 %  1,234,567 events  98,765/s  1:23 left");
        assert_eq!(line("standard input", 0, 0.0, None, None), "standard input  0 events  0/s");
    }

    #[test]
    fn a_long_name_is_told_by_its_end() {
        assert_eq!(end_of("a.ndjson"), "a.ndjson");
        assert_eq!(end_of("/srv/exports/2024/january/événements.ndjson"), "…nuary/événements.ndjson");
    }

    #[test]
    fn the_time_left_is_that_of_the_rest_at_the_speed_since_it_began() {
        let ten = Duration::from_secs(10);
        assert_eq!(left(ten, 0.0, 0.25), Some(Duration::from_secs(30)));
        assert_eq!(left(ten, 0.5, 0.75), Some(ten));
        assert_eq!(left(ten, 0.5, 0.5), None);
        assert_eq!(left(ten, 0.0, 1.0), Some(Duration::ZERO));
        assert_eq!(clock(Duration::from_secs(3_723)), "1:02:03");
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::default();
        assert_eq!(rate.add(100, 1.0), 100.0);
        assert_eq!(rate.add(400, 1.0), 200.0);
        assert_eq!(rate.add(3_000, 10.0), 300.0);
    }
}
