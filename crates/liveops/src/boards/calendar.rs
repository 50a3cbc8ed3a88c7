//! Windows of time: calendar days, weeks, months, seasons, all time, and the last 24 hours, 7 and 30 days.
//!
//! A window is a range of arrivals. A run is in all windows whose range holds it, so a new day is a new range and
//! nothing else, and so is a new season. A rolling window is one range whose beginning moves.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, Zoned};
use serde::{Deserialize, Serialize};

use super::runs::Arrival;

/// A kind of window. The numbers are stored and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Window {
    /// A day of the game's calendar.
    Day,
    /// From Monday on.
    Week,
    /// A month.
    Month,
    /// From one reset to the next.
    Season,
    /// From the board's beginning.
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

impl Window {
    /// All of them, in the order of their numbers.
    pub const ALL: [Window; 8] = [
        Window::Day,
        Window::Week,
        Window::Month,
        Window::Season,
        Window::All,
        Window::Hours24,
        Window::Days7,
        Window::Days30,
    ];

    /// The longest first: the first that a board has is the one that `rank` and `best` of an answer are about.
    pub const BY_LENGTH: [Window; 8] = [
        Window::All,
        Window::Season,
        Window::Month,
        Window::Days30,
        Window::Week,
        Window::Days7,
        Window::Day,
        Window::Hours24,
    ];

    /// The word in requests and answers.
    pub fn label(self) -> &'static str {
        ["day", "week", "month", "season", "all", "24h", "7d", "30d"][self as usize]
    }

    /// The window of this word.
    pub fn from_label(label: &str) -> Option<Window> {
        Window::ALL.into_iter().find(|window| window.label() == label)
    }

    /// How long a rolling window is, milliseconds.
    pub fn rolling_ms(self) -> Option<i64> {
        match self {
            Window::Hours24 => Some(24 * HOUR_MS),
            Window::Days7 => Some(7 * 24 * HOUR_MS),
            Window::Days30 => Some(30 * 24 * HOUR_MS),
            _ => None,
        }
    }

    /// How many earlier ones stay readable: 7 days, 4 weeks, 12 months, 12 seasons.
    pub fn kept(self) -> usize {
        match self {
            Window::Day => 7,
            Window::Week => 4,
            Window::Month | Window::Season => 12,
            _ => 0,
        }
    }

    /// The calendar window of this kind that holds a time: its first millisecond and that of the next one.
    fn around(self, ms: i64, zone: &TimeZone) -> (i64, i64) {
        let here = at(ms, zone);
        let date = here.date();
        let (first, length): (_, Span) = match self {
            Window::Day => (date, 1.day()),
            Window::Week => (date - i64::from(date.weekday().since(Weekday::Monday)).days(), 7.days()),
            Window::Month => (date.first_of_month(), 1.month()),
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
pub struct Instance {
    /// Its number on the board, by which its lists are known. Never reused.
    pub id: u32,
    /// Where it begins in the calendar.
    begins: Arrival,
    /// The first arrival in it: later, when it was declared in the midst of it.
    pub from: Arrival,
    /// The first arrival after it.
    pub until: Arrival,
    /// Of a season: which one, from 1 on.
    #[serde(default)]
    pub season: u32,
}

impl Instance {
    /// Whether it holds a run that came then.
    #[inline]
    pub fn holds(&self, arrival: Arrival) -> bool {
        self.from <= arrival && arrival < self.until
    }
}

/// The windows of a board.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calendar {
    /// Per kind: when it was declared, and its windows, newest first.
    kinds: Vec<Declared>,
    last_id: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Declared {
    window: Window,
    /// Runs before it are not in these windows.
    since: Arrival,
    instances: Vec<Instance>,
}

impl Calendar {
    /// Declares kinds of windows and gives up others. A kind that is new counts from `now` on.
    ///
    /// Tells the windows that are gone.
    pub fn declare(&mut self, windows: &[Window], now: Arrival) -> Vec<Instance> {
        let (kept, gone) = self.kinds.drain(..).partition(|kind| windows.contains(&kind.window));
        self.kinds = kept;
        for window in windows {
            if !self.kinds.iter().any(|kind| kind.window == *window) {
                self.kinds.push(Declared { window: *window, since: now, instances: Vec::new() });
            }
        }
        self.kinds.sort_by_key(|kind| kind.window);
        let gone: Vec<Declared> = gone;
        gone.into_iter().flat_map(|kind| kind.instances).collect()
    }

    /// Which kinds there are.
    pub fn windows(&self) -> impl Iterator<Item = Window> {
        self.kinds.iter().map(|kind| kind.window)
    }

    /// The longest kind that there is.
    pub fn longest(&self) -> Option<Window> {
        Window::BY_LENGTH.into_iter().find(|window| self.kind(*window).is_some())
    }

    /// The longest rolling kind that there is, milliseconds.
    pub fn longest_rolling_ms(&self) -> Option<i64> {
        self.windows().filter_map(Window::rolling_ms).max()
    }

    fn kind(&self, window: Window) -> Option<&Declared> {
        self.kinds.iter().find(|kind| kind.window == window)
    }

    /// Whether a window has to begin or to be forgotten before something is decided at `now`.
    pub fn is_due(&self, now: Arrival) -> bool {
        let due = |kind: &Declared| kind.instances.first().is_none_or(|it| it.until <= now);
        self.kinds.iter().any(due)
    }

    /// Begins the windows that hold `now`. Tells those that are forgotten.
    pub fn begin(&mut self, now: Arrival, tz: &str) -> Vec<Instance> {
        let zone = TimeZone::get(tz).unwrap_or(TimeZone::UTC);
        let mut forgotten = Vec::new();
        for kind in &mut self.kinds {
            let newest = kind.instances.first().copied();
            if newest.is_some_and(|newest| newest.until > now) {
                continue;
            }
            self.last_id += 1;
            let instance = kind.next(self.last_id, newest, now, &zone);
            kind.instances.insert(0, instance);
            forgotten.extend(kind.instances.drain((1 + kind.window.kept()).min(kind.instances.len())..));
        }
        forgotten
    }

    /// Ends the season at `now` and begins the next one. Tells its number and what is forgotten.
    pub fn reset(&mut self, now: Arrival) -> Option<(u32, Vec<Instance>)> {
        let kind = self.kinds.iter_mut().find(|kind| kind.window == Window::Season)?;
        self.last_id += 1;
        let newest = kind.instances.first_mut()?;
        newest.until = now;
        let season = newest.season + 1;
        kind.instances
            .insert(0, Instance { id: self.last_id, begins: now, from: now, until: Arrival::NEVER, season });
        let kept = (1 + Window::Season.kept()).min(kind.instances.len());
        Some((season, kind.instances.drain(kept..).collect()))
    }

    /// The windows that hold a run that came then, apart from rolling ones.
    #[inline]
    pub fn holding(&self, arrival: Arrival) -> impl Iterator<Item = (Window, u32)> {
        self.kinds.iter().filter(|kind| kind.window < Window::Hours24).filter_map(move |kind| {
            // The newest is nearly always the one.
            let instance = kind.instances.iter().find(|it| it.from <= arrival)?;
            instance.holds(arrival).then_some((kind.window, instance.id))
        })
    }

    /// The window of a kind that is current at `now`, if it has begun; the one of a rolling kind.
    pub fn current(&self, window: Window, now: Arrival) -> Option<Instance> {
        let instances = &self.kind(window)?.instances;
        match window.rolling_ms() {
            Some(_) => instances.first().copied(),
            None => instances.iter().find(|it| it.begins <= now && now < it.until).copied(),
        }
    }

    /// Whether there is a window of this number.
    pub fn has(&self, id: u32) -> bool {
        self.all().any(|(_, instance)| instance.id == id)
    }

    /// The season of this number.
    pub fn season(&self, season: u32) -> Option<Instance> {
        self.kind(Window::Season)?.instances.iter().find(|it| it.season == season).copied()
    }

    /// The season that is not closed; 0 when the board has none.
    pub fn current_season(&self) -> u32 {
        let newest = self.kind(Window::Season).and_then(|kind| kind.instances.first());
        newest.map_or(0, |it| it.season)
    }

    /// Each rolling kind with its number and the first arrival that it ever takes.
    pub fn rolling(&self) -> impl Iterator<Item = (Window, u32, Arrival)> {
        let rolling = self.kinds.iter().filter(|kind| kind.window.rolling_ms().is_some());
        rolling.filter_map(|kind| Some((kind.window, kind.instances.first()?.id, kind.since)))
    }

    /// All windows that there are.
    pub fn all(&self) -> impl Iterator<Item = (Window, Instance)> {
        self.kinds.iter().flat_map(|kind| kind.instances.iter().map(|it| (kind.window, *it)))
    }
}

impl Declared {
    fn next(&self, id: u32, newest: Option<Instance>, now: Arrival, zone: &TimeZone) -> Instance {
        let (start, end) = self.window.around(now.ms(), zone);
        // After a change of the time zone, days follow each other without gap and without overlap.
        let begins = Arrival::first_of(start).max(newest.map_or(Arrival(0), |it| it.until));
        let from = begins.max(self.since);
        let until = if end == i64::MAX { Arrival::NEVER } else { Arrival::first_of(end) };
        let season = newest.map_or(0, |it| it.season) + u32::from(self.window == Window::Season);
        Instance { id, begins, from, until, season }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins windows at each time, and tells the range of the newest of a kind.
    fn check(window: Window, tz: &str, times: &[&str], expected: &str) {
        let ms = |text: &str| text.parse::<Timestamp>().expect("a time").as_millisecond();
        let mut calendar = Calendar::default();
        calendar.declare(&[window], Arrival(0));
        let mut now = Arrival(0);
        for time in times {
            now = Arrival::first_of(ms(time));
            if calendar.is_due(now) {
                calendar.begin(now, tz);
            }
        }
        let found = calendar.current(window, now).expect("it has begun");
        let text =
            |arrival: Arrival| Timestamp::from_millisecond(arrival.ms()).expect("in range").to_string();
        assert_eq!(format!("{} {}", text(found.from), text(found.until)), expected);
    }

    #[test]
    fn days_weeks_and_months_are_those_of_the_games_calendar() {
        check(Window::Day, "UTC", &["2026-03-29T12:00:00Z"], "2026-03-29T00:00:00Z 2026-03-30T00:00:00Z");
        check(Window::Week, "UTC", &["2026-03-29T12:00:00Z"], "2026-03-23T00:00:00Z 2026-03-30T00:00:00Z");
        check(Window::Week, "UTC", &["2026-03-30T00:00:00Z"], "2026-03-30T00:00:00Z 2026-04-06T00:00:00Z");
        check(
            Window::Month,
            "Asia/Kolkata",
            &["2026-02-28T18:30:00Z"],
            "2026-02-28T18:30:00Z 2026-03-31T18:30:00Z",
        );
    }

    #[test]
    fn a_day_may_have_23_or_25_hours() {
        let tz = "Europe/Berlin";
        check(Window::Day, tz, &["2026-03-29T12:00:00Z"], "2026-03-28T23:00:00Z 2026-03-29T22:00:00Z");
        check(Window::Day, tz, &["2026-10-25T12:00:00Z"], "2026-10-24T22:00:00Z 2026-10-25T23:00:00Z");
    }

    #[test]
    fn windows_that_are_too_old_are_forgotten() {
        let mut calendar = Calendar::default();
        calendar.declare(&[Window::Day, Window::All], Arrival(0));
        let day = |number: i64| Arrival::first_of(1_800_000_000_000 + number * 24 * HOUR_MS);
        let forgotten: Vec<usize> = (0..10).map(|number| calendar.begin(day(number), "UTC").len()).collect();
        assert_eq!(forgotten, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(calendar.current(Window::Day, day(1)), None);
        assert!(calendar.current(Window::Day, day(2)).is_some());
        assert_eq!(calendar.all().count(), 9);
    }

    #[test]
    fn a_reset_closes_the_season_and_begins_the_next() {
        let mut calendar = Calendar::default();
        calendar.declare(&[Window::Season], Arrival(0));
        calendar.begin(Arrival(5), "UTC");
        assert_eq!(calendar.reset(Arrival(9)), Some((2, Vec::new())));
        assert!(calendar.season(1).is_some_and(|it| it.holds(Arrival(8)) && !it.holds(Arrival(9))));
        assert!(calendar.season(2).is_some_and(|it| it.holds(Arrival(9))));
        assert_eq!(calendar.current_season(), 2);
    }
}
