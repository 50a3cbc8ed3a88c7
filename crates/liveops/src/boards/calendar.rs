//! Windows of time: calendar days, weeks, months, seasons, all time, and the last 24 hours, 7 and 30 days.
//!
//! A window is a range of arrivals. A run is in all windows whose range contains it, so that a new day or season is
//! just a new range. A rolling window is one range whose start moves.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};
use serde::{Deserialize, Serialize};

use super::runs::Arrival;

/// A kind of window. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BoardWindow {
    /// A day of the game's calendar.
    Day,
    /// A week of the game's calendar, from Monday.
    Week,
    /// A month of the game's calendar.
    Month,
    /// A season, from one reset to the next.
    Season,
    /// All time.
    All,
    /// The last 24 hours.
    #[serde(rename = "24h")]
    Hours24,
    /// The last 7 days of 24 hours.
    #[serde(rename = "7d")]
    Days7,
    /// The last 30 days of 24 hours.
    #[serde(rename = "30d")]
    Days30,
}

const HOUR_MS: i64 = 3_600_000;

impl BoardWindow {
    /// All kinds in the order of their numbers.
    pub const ALL: [BoardWindow; 8] = [
        BoardWindow::Day,
        BoardWindow::Week,
        BoardWindow::Month,
        BoardWindow::Season,
        BoardWindow::All,
        BoardWindow::Hours24,
        BoardWindow::Days7,
        BoardWindow::Days30,
    ];

    /// All kinds, longest first. `rank` and `best` of a response refer to the longest kind of the board.
    pub const BY_LENGTH: [BoardWindow; 8] = [
        BoardWindow::All,
        BoardWindow::Season,
        BoardWindow::Month,
        BoardWindow::Days30,
        BoardWindow::Week,
        BoardWindow::Days7,
        BoardWindow::Day,
        BoardWindow::Hours24,
    ];

    /// Returns the name in requests and responses.
    pub fn label(self) -> &'static str {
        ["day", "week", "month", "season", "all", "24h", "7d", "30d"][self as usize]
    }

    /// Returns the kind with this name.
    pub fn from_label(label: &str) -> Option<BoardWindow> {
        BoardWindow::ALL.into_iter().find(|window| window.label() == label)
    }

    /// Returns the length of a rolling window in milliseconds.
    pub fn rolling_ms(self) -> Option<i64> {
        match self {
            BoardWindow::Hours24 => Some(24 * HOUR_MS),
            BoardWindow::Days7 => Some(7 * 24 * HOUR_MS),
            BoardWindow::Days30 => Some(30 * 24 * HOUR_MS),
            _ => None,
        }
    }

    /// Returns how many past windows stay readable: 7 days, 4 weeks, 12 months, 12 seasons.
    pub fn retained(self) -> usize {
        match self {
            BoardWindow::Day => 7,
            BoardWindow::Week => 4,
            BoardWindow::Month | BoardWindow::Season => 12,
            _ => 0,
        }
    }

    /// Returns the range of the calendar window that contains a time: its first millisecond and that of the next
    /// window.
    fn range_at(self, ms: i64, zone: &TimeZone) -> (i64, i64) {
        let local = at(ms, zone);
        let date = local.date();
        let (first, length): (_, Span) = match self {
            BoardWindow::Day => (date, 1.day()),
            BoardWindow::Week => (date - i64::from(date.weekday().since(Weekday::Monday)).days(), 7.days()),
            BoardWindow::Month => (date.first_of_month(), 1.month()),
            _ => return (i64::MIN, i64::MAX),
        };
        let start = |date: jiff::civil::Date| {
            let zoned = date.to_zoned(zone.clone()).ok();
            zoned.map_or(ms, |zoned| zoned.timestamp().as_millisecond())
        };
        (start(first), first.checked_add(length).map_or(i64::MAX, start))
    }
}

fn at(ms: i64, zone: &TimeZone) -> Zoned {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MIN).to_zoned(zone.clone())
}

/// A window with its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WindowInstance {
    /// Its number on the board, which identifies its lists. Never reused.
    pub id: u32,
    /// Its start in the calendar.
    begins: Arrival,
    /// The first arrival in it: after `begins` if the kind was declared during this window.
    pub from: Arrival,
    /// The first arrival after it.
    pub until: Arrival,
    /// The number of a season, from 1 on; 0 for other kinds.
    #[serde(default)]
    pub season: u32,
}

impl WindowInstance {
    #[inline]
    pub(super) fn contains(&self, arrival: Arrival) -> bool {
        self.from <= arrival && arrival < self.until
    }
}

/// The windows of a board.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct BoardCalendar {
    /// Per kind: when it was declared, and its windows, newest first.
    kinds: Vec<DeclaredWindow>,
    last_id: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct DeclaredWindow {
    window: BoardWindow,
    /// Runs before it are not in these windows.
    since: Arrival,
    instances: Vec<WindowInstance>,
}

impl BoardCalendar {
    /// Declares these kinds and removes all others. Runs before `now` do not count for a new kind. Returns the removed
    /// windows.
    pub(super) fn declare(&mut self, windows: &[BoardWindow], now: Arrival) -> Vec<WindowInstance> {
        let (kept, removed) = self.kinds.drain(..).partition(|kind| windows.contains(&kind.window));
        self.kinds = kept;
        for window in windows {
            if !self.kinds.iter().any(|kind| kind.window == *window) {
                self.kinds.push(DeclaredWindow { window: *window, since: now, instances: Vec::new() });
            }
        }
        self.kinds.sort_by_key(|kind| kind.window);
        let removed: Vec<DeclaredWindow> = removed;
        removed.into_iter().flat_map(|kind| kind.instances).collect()
    }

    /// Returns the declared kinds.
    pub(super) fn windows(&self) -> impl Iterator<Item = BoardWindow> {
        self.kinds.iter().map(|kind| kind.window)
    }

    /// Returns the longest declared kind.
    pub(super) fn longest(&self) -> Option<BoardWindow> {
        BoardWindow::BY_LENGTH.into_iter().find(|window| self.kind(*window).is_some())
    }

    /// Returns the length of the longest rolling kind, in milliseconds.
    pub(super) fn longest_rolling_ms(&self) -> Option<i64> {
        self.windows().filter_map(BoardWindow::rolling_ms).max()
    }

    fn kind(&self, window: BoardWindow) -> Option<&DeclaredWindow> {
        self.kinds.iter().find(|kind| kind.window == window)
    }

    /// Returns true if a window must be opened before a command at `now` is decided.
    pub(super) fn is_due(&self, now: Arrival) -> bool {
        let due = |kind: &DeclaredWindow| kind.instances.first().is_none_or(|it| it.until <= now);
        self.kinds.iter().any(due)
    }

    /// Opens the windows that contain `now`. Returns those that are no longer retained.
    pub(super) fn open_windows(&mut self, now: Arrival, tz: &str) -> Vec<WindowInstance> {
        let zone = TimeZone::get(tz).unwrap_or(TimeZone::UTC);
        let mut dropped = Vec::new();
        for kind in &mut self.kinds {
            let newest = kind.instances.first().copied();
            if newest.is_some_and(|newest| newest.until > now) {
                continue;
            }
            self.last_id += 1;
            let instance = kind.next(self.last_id, newest, now, &zone);
            kind.instances.insert(0, instance);
            dropped.extend(kind.instances.drain((1 + kind.window.retained()).min(kind.instances.len())..));
        }
        dropped
    }

    /// Sets the time back after the clock was ahead. `moved` returns the new arrival of what arrived since `now`. Removes
    /// and returns the calendar windows that begin after `now`.
    pub(super) fn turn_back(
        &mut self,
        now: Arrival,
        moved: impl Fn(Arrival) -> Arrival,
    ) -> Vec<(BoardWindow, WindowInstance)> {
        let mut closed = Vec::new();
        for kind in &mut self.kinds {
            kind.since = moved(kind.since);
            if kind.window == BoardWindow::Season {
                for season in &mut kind.instances {
                    (season.begins, season.from) = (moved(season.begins), moved(season.from));
                    season.until = moved(season.until);
                }
                continue;
            }
            let future = kind.instances.iter().take_while(|it| it.begins > now).count();
            closed.extend(kind.instances.drain(..future).map(|instance| (kind.window, instance)));
            kind.instances.iter_mut().for_each(|instance| instance.from = moved(instance.from));
        }
        closed
    }

    /// Closes the season at `now` and opens the next one. Returns its number and the windows that are no longer
    /// retained.
    pub(super) fn reset(&mut self, now: Arrival) -> Option<(u32, Vec<WindowInstance>)> {
        let kind = self.kinds.iter_mut().find(|kind| kind.window == BoardWindow::Season)?;
        self.last_id += 1;
        let newest = kind.instances.first_mut()?;
        newest.until = now;
        let season = newest.season + 1;
        kind.instances.insert(
            0,
            WindowInstance { id: self.last_id, begins: now, from: now, until: Arrival::NEVER, season },
        );
        let kept = (1 + BoardWindow::Season.retained()).min(kind.instances.len());
        Some((season, kind.instances.drain(kept..).collect()))
    }

    /// Returns the calendar windows that contain a run of this arrival.
    #[inline]
    pub(super) fn containing(&self, arrival: Arrival) -> impl Iterator<Item = (BoardWindow, u32)> {
        self.kinds.iter().filter(|kind| kind.window < BoardWindow::Hours24).filter_map(move |kind| {
            // Nearly always the newest one matches.
            let instance = kind.instances.iter().find(|it| it.from <= arrival)?;
            instance.contains(arrival).then_some((kind.window, instance.id))
        })
    }

    /// Returns the window of a kind that contains `now`, if it is open. A rolling kind has one window.
    pub(super) fn current(&self, window: BoardWindow, now: Arrival) -> Option<WindowInstance> {
        let instances = &self.kind(window)?.instances;
        match window.rolling_ms() {
            Some(_) => instances.first().copied(),
            None => instances.iter().find(|it| it.begins <= now && now < it.until).copied(),
        }
    }

    pub(super) fn has(&self, id: u32) -> bool {
        self.all().any(|(_, instance)| instance.id == id)
    }

    /// Returns the season of this number.
    pub(super) fn season(&self, season: u32) -> Option<WindowInstance> {
        self.kind(BoardWindow::Season)?.instances.iter().find(|it| it.season == season).copied()
    }

    /// Returns the number of the open season; 0 if the board has none.
    pub(super) fn current_season(&self) -> u32 {
        let newest = self.kind(BoardWindow::Season).and_then(|kind| kind.instances.first());
        newest.map_or(0, |it| it.season)
    }

    /// Returns the rolling kinds with their numbers and the first arrival that each can contain.
    pub(super) fn rolling(&self) -> impl Iterator<Item = (BoardWindow, u32, Arrival)> {
        let rolling = self.kinds.iter().filter(|kind| kind.window.rolling_ms().is_some());
        rolling.filter_map(|kind| Some((kind.window, kind.instances.first()?.id, kind.since)))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (BoardWindow, WindowInstance)> {
        self.kinds.iter().flat_map(|kind| kind.instances.iter().map(|it| (kind.window, *it)))
    }
}

impl DeclaredWindow {
    fn next(&self, id: u32, newest: Option<WindowInstance>, now: Arrival, zone: &TimeZone) -> WindowInstance {
        let (start, end) = self.window.range_at(now.ms(), zone);
        // When the time zone changes, days still follow each other without gap or overlap.
        let begins = Arrival::first_of(start).max(newest.map_or(Arrival(0), |it| it.until));
        let from = begins.max(self.since);
        let until = if end == i64::MAX { Arrival::NEVER } else { Arrival::first_of(end) };
        let season = newest.map_or(0, |it| it.season) + u32::from(self.window == BoardWindow::Season);
        WindowInstance { id, begins, from, until, season }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens windows at each time, and compares the range of the newest one.
    fn check(window: BoardWindow, tz: &str, times: &[&str], expected: &str) {
        let ms = |text: &str| text.parse::<Timestamp>().expect("a time").as_millisecond();
        let mut calendar = BoardCalendar::default();
        calendar.declare(&[window], Arrival(0));
        let mut now = Arrival(0);
        for time in times {
            now = Arrival::first_of(ms(time));
            if calendar.is_due(now) {
                calendar.open_windows(now, tz);
            }
        }
        let found = calendar.current(window, now).expect("the window is open");
        let text =
            |arrival: Arrival| Timestamp::from_millisecond(arrival.ms()).expect("in range").to_string();
        assert_eq!(format!("{} {}", text(found.from), text(found.until)), expected);
    }

    #[test]
    fn days_weeks_and_months_follow_the_calendar_of_the_game() {
        check(
            BoardWindow::Day,
            "UTC",
            &["2026-03-29T12:00:00Z"],
            "2026-03-29T00:00:00Z 2026-03-30T00:00:00Z",
        );
        check(
            BoardWindow::Week,
            "UTC",
            &["2026-03-29T12:00:00Z"],
            "2026-03-23T00:00:00Z 2026-03-30T00:00:00Z",
        );
        check(
            BoardWindow::Week,
            "UTC",
            &["2026-03-30T00:00:00Z"],
            "2026-03-30T00:00:00Z 2026-04-06T00:00:00Z",
        );
        check(
            BoardWindow::Month,
            "Asia/Kolkata",
            &["2026-02-28T18:30:00Z"],
            "2026-02-28T18:30:00Z 2026-03-31T18:30:00Z",
        );
    }

    #[test]
    fn day_may_have_23_or_25_hours() {
        let tz = "Europe/Berlin";
        check(BoardWindow::Day, tz, &["2026-03-29T12:00:00Z"], "2026-03-28T23:00:00Z 2026-03-29T22:00:00Z");
        check(BoardWindow::Day, tz, &["2026-10-25T12:00:00Z"], "2026-10-24T22:00:00Z 2026-10-25T23:00:00Z");
    }

    #[test]
    fn old_windows_are_dropped() {
        let mut calendar = BoardCalendar::default();
        calendar.declare(&[BoardWindow::Day, BoardWindow::All], Arrival(0));
        let day = |number: i64| Arrival::first_of(1_800_000_000_000 + number * 24 * HOUR_MS);
        let dropped: Vec<usize> =
            (0..10).map(|number| calendar.open_windows(day(number), "UTC").len()).collect();
        assert_eq!(dropped, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(calendar.current(BoardWindow::Day, day(1)), None);
        assert!(calendar.current(BoardWindow::Day, day(2)).is_some());
        assert_eq!(calendar.all().count(), 9);
    }

    #[test]
    fn reset_closes_the_season_and_opens_the_next() {
        let mut calendar = BoardCalendar::default();
        calendar.declare(&[BoardWindow::Season], Arrival(0));
        calendar.open_windows(Arrival(5), "UTC");
        assert_eq!(calendar.reset(Arrival(9)), Some((2, Vec::new())));
        assert!(calendar.season(1).is_some_and(|it| it.contains(Arrival(8)) && !it.contains(Arrival(9))));
        assert!(calendar.season(2).is_some_and(|it| it.contains(Arrival(9))));
        assert_eq!(calendar.current_season(), 2);
    }
}
