//! The result of a query as JSON, and as flat rows in CSV or NDJSON.
//!
//! The encoding is written by hand: a chart of a day by the minute has 1,440 times and as many numbers, and most of the
//! work of a general serializer for each of them can be done once in advance.

use jiff::Timestamp;
use model::csv::push_csv_text;
use model::query::{BucketTimes, ComparedWindow, QueryResult, Series};
use serde_json::Value;

/// The length of a time with its quotes and the comma after it.
const TIME_BYTES: usize = r#""2026-11-19T00:00:00+01:00","#.len();
const MINUTES_OF_DAY: i64 = 24 * 60;
/// The largest integer up to which `f64` represents all integers exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
/// Maximum size of a result as rows: each row repeats the key of its series.
const ROWS_BYTES_MAX: usize = 128 << 20;
/// The longest number as text.
const NUMBER_BYTES: usize = 24;

/// The result as rows would be larger than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rows take more than {} MiB; ask for fewer series, a larger step or a shorter range", ROWS_BYTES_MAX >> 20)]
pub struct RowsTooLarge;

/// Encodes a result, computed at `now_ms`, as JSON.
pub fn json(answer: &QueryResult, now_ms: i64) -> Vec<u8> {
    let compared = answer.compare.as_ref().map_or(0, |compared| points(&compared.times, &compared.series));
    let mut out = Vec::with_capacity(512 + points(&answer.times, &answer.series) + compared);
    out.extend_from_slice(b"{\"step\":\"");
    out.extend_from_slice(answer.step.label().as_bytes());
    out.extend_from_slice(b"\",\"tz\":");
    put_text(&mut out, &answer.tz);
    out.push(b',');
    put_window(&mut out, &answer.times, &answer.series);
    if let Some(ComparedWindow { times, series }) = &answer.compare {
        out.extend_from_slice(b",\"compare\":{");
        put_window(&mut out, times, series);
        out.push(b'}');
    }
    out.extend_from_slice(b",\"as_of\":{\"position\":\"0/");
    out.extend_from_slice(itoa::Buffer::new().format(answer.as_of).as_bytes());
    out.extend_from_slice(b"\",\"time\":");
    put_text(&mut out, &crate::time::rfc3339(now_ms));
    out.extend_from_slice(b"}}");
    out
}

/// Encodes a result as CSV (RFC 4180): a line for each time of each series. Missing values are empty. With a
/// comparison, the column `window` is `current` or `previous`.
///
/// # Errors
///
/// [`RowsTooLarge`] if the lines would take more than 128 MiB.
pub fn csv(answer: &QueryResult) -> Result<Vec<u8>, RowsTooLarge> {
    let mut out = Vec::new();
    out.extend_from_slice(b"time");
    let first = answer.series.first();
    if answer.compare.is_some() {
        out.extend_from_slice(b",window");
    }
    if first.is_some_and(|series| series.name.is_some()) {
        out.extend_from_slice(b",name");
    }
    for (by, _) in first.map_or(&[][..], |series| &series.key) {
        out.push(b',');
        push_csv_text(&mut out, by.label());
    }
    out.extend_from_slice(b",value\r\n");
    each_row_window(answer, |times, series, window| put_csv_lines(&mut out, times, series, window))?;
    Ok(out)
}

/// Encodes a result as NDJSON: an object for each time of each series, with the columns of [`csv`] as fields. Missing
/// values are `null`.
///
/// # Errors
///
/// [`RowsTooLarge`] if the lines would take more than 128 MiB.
pub fn ndjson(answer: &QueryResult) -> Result<Vec<u8>, RowsTooLarge> {
    let mut out = Vec::new();
    each_row_window(answer, |times, series, window| put_json_lines(&mut out, times, series, window))?;
    Ok(out)
}

/// Returns one time of a result, as [`json`] encodes it.
pub fn time(times: &BucketTimes, index: usize) -> String {
    let offset = times.offsets.iter().rfind(|offset| offset.from <= index).map_or(0, |offset| offset.minutes);
    let mut formatter = TimeFormatter::new(offset, times.utc);
    let text = formatter.text(times.minutes[index]);
    String::from_utf8_lossy(&text[1..text.len() - 2]).into_owned()
}

/// Returns one value of a result, as [`json`] encodes it.
pub fn number(value: Option<f64>) -> Value {
    match value {
        Some(value) if is_whole(value) => Value::from(value as i64),
        value => Value::from(value),
    }
}

/// Estimates the size of the times and values in bytes.
fn points(times: &BucketTimes, series: &[Series]) -> usize {
    times.minutes.len() * (TIME_BYTES + 8 * series.len()) + 128 * series.len()
}

fn put_window(out: &mut Vec<u8>, times: &BucketTimes, series: &[Series]) {
    out.extend_from_slice(b"\"times\":[");
    each_time(times, |text| out.extend_from_slice(text));
    end_list(out);
    out.extend_from_slice(b",\"series\":[");
    for series in series {
        put_series(out, series);
    }
    end_list(out);
}

fn put_series(out: &mut Vec<u8>, series: &Series) {
    out.push(b'{');
    if let Some(name) = &series.name {
        out.extend_from_slice(b"\"name\":");
        put_text(out, name);
        out.push(b',');
    }
    out.extend_from_slice(b"\"key\":{");
    for (index, (by, value)) in series.key.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
        out.extend_from_slice(by.label().as_bytes());
        out.extend_from_slice(b"\":");
        put_text(out, value);
    }
    out.extend_from_slice(b"},\"values\":[");
    for value in &series.values {
        put_number(out, *value, b"null");
        out.push(b',');
    }
    end_list(out);
    out.extend_from_slice(b",\"total\":");
    put_number(out, series.total, b"null");
    out.extend_from_slice(b"},");
}

/// Closes a list whose items each end with a comma.
fn end_list(out: &mut Vec<u8>) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(b']');
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing a string to memory cannot fail");
}

fn is_whole(value: f64) -> bool {
    value.trunc() == value && value.abs() <= WHOLE_MAX
}

/// Writes the shortest number that parses to the same value.
#[inline]
fn put_number(out: &mut Vec<u8>, value: Option<f64>, missing: &[u8]) {
    match value {
        Some(value) if (0.0..10.0).contains(&value) && is_whole(value) => out.push(b'0' + value as u8),
        Some(value) if is_whole(value) => {
            out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        }
        Some(value) if value.is_finite() => {
            out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
        }
        _ => out.extend_from_slice(missing),
    }
}

/// Calls `put` for the series of the result and for those of its comparison, with the label of the window.
fn each_row_window(
    answer: &QueryResult,
    mut put: impl FnMut(&BucketTimes, &[Series], Option<&str>) -> Result<(), RowsTooLarge>,
) -> Result<(), RowsTooLarge> {
    let window = answer.compare.as_ref().map(|_| "current");
    put(&answer.times, &answer.series, window)?;
    match &answer.compare {
        Some(ComparedWindow { times, series }) => put(times, series, Some("previous")),
        None => Ok(()),
    }
}

/// Reserves the memory of the rows of one series, each with a time, the text between time and value, and a value.
fn reserve_rows(out: &mut Vec<u8>, times: &BucketTimes, middle: &[u8]) -> Result<(), RowsTooLarge> {
    let bytes = times.minutes.len() * (TIME_BYTES + middle.len() + NUMBER_BYTES);
    if out.len() + bytes > ROWS_BYTES_MAX {
        return Err(RowsTooLarge);
    }
    out.reserve(bytes);
    Ok(())
}

fn put_csv_lines(
    out: &mut Vec<u8>,
    times: &BucketTimes,
    series: &[Series],
    window: Option<&str>,
) -> Result<(), RowsTooLarge> {
    for series in series {
        let mut middle = Vec::new();
        let labels = window.into_iter().chain(series.name.as_deref());
        for label in labels.chain(series.key.iter().map(|(_, value)| &value[..])) {
            middle.push(b',');
            push_csv_text(&mut middle, label);
        }
        middle.push(b',');
        reserve_rows(out, times, &middle)?;
        let mut values = series.values.iter();
        each_time(times, |text| {
            out.extend_from_slice(&text[1..text.len() - 2]);
            out.extend_from_slice(&middle);
            put_number(out, values.next().copied().flatten(), b"");
            out.extend_from_slice(b"\r\n");
        });
    }
    Ok(())
}

fn put_json_lines(
    out: &mut Vec<u8>,
    times: &BucketTimes,
    series: &[Series],
    window: Option<&str>,
) -> Result<(), RowsTooLarge> {
    for series in series {
        let mut middle = Vec::new();
        let window = window.map(|window| ("window", window));
        let labels = window.into_iter().chain(series.name.as_deref().map(|name| ("name", name)));
        let keys = series.key.iter().map(|(by, value)| (by.label(), &value[..]));
        for (label, text) in labels.chain(keys) {
            middle.push(b',');
            put_text(&mut middle, label);
            middle.push(b':');
            put_text(&mut middle, text);
        }
        middle.extend_from_slice(b",\"value\":");
        reserve_rows(out, times, &middle)?;
        let mut values = series.values.iter();
        each_time(times, |text| {
            out.extend_from_slice(b"{\"time\":");
            out.extend_from_slice(&text[..text.len() - 1]);
            out.extend_from_slice(&middle);
            put_number(out, values.next().copied().flatten(), b"null");
            out.extend_from_slice(b"}\n");
        });
    }
    Ok(())
}

/// Calls `put` with each time, quoted, with a comma.
fn each_time(times: &BucketTimes, mut put: impl FnMut(&[u8])) {
    for (index, offset) in times.offsets.iter().enumerate() {
        let until = times.offsets.get(index + 1).map_or(times.minutes.len(), |next| next.from);
        let mut formatter = TimeFormatter::new(offset.minutes, times.utc);
        times.minutes[offset.from..until].iter().for_each(|minute| put(formatter.text(*minute)));
    }
}

/// Formats ascending times by replacing the digits that change. The date is computed once per day, not once per minute.
struct TimeFormatter {
    offset: i64,
    /// The start of the day in the text, in local minutes since 1970.
    day: i64,
    text: [u8; TIME_BYTES],
    len: usize,
}

impl TimeFormatter {
    fn new(offset: i32, utc: bool) -> TimeFormatter {
        let mut text = *br#""0000-00-00T00:00:00+00:00","#;
        let size = offset.unsigned_abs();
        text[20] = if offset < 0 { b'-' } else { b'+' };
        put_two(&mut text[21..], size / 60);
        put_two(&mut text[24..], size % 60);
        if utc {
            text[20..23].copy_from_slice(b"Z\",");
        }
        TimeFormatter {
            offset: offset.into(),
            day: i64::MIN / 2,
            text,
            len: if utc { 23 } else { TIME_BYTES },
        }
    }

    #[inline]
    fn text(&mut self, minute: u32) -> &[u8] {
        let local = i64::from(minute) + self.offset;
        if !(0..MINUTES_OF_DAY).contains(&(local - self.day)) {
            self.set_day(local.div_euclid(MINUTES_OF_DAY));
        }
        let of_day = (local - self.day) as u32;
        put_two(&mut self.text[12..], of_day / 60);
        put_two(&mut self.text[15..], of_day % 60);
        &self.text[..self.len]
    }

    #[cold]
    fn set_day(&mut self, day: i64) {
        self.day = day * MINUTES_OF_DAY;
        let noon =
            Timestamp::from_second(self.day * 60).expect("a query ends within the range of the calendar");
        let date = jiff::tz::TimeZone::UTC.to_datetime(noon).date();
        put_two(&mut self.text[1..], date.year() as u32 / 100);
        put_two(&mut self.text[3..], date.year() as u32 % 100);
        put_two(&mut self.text[6..], date.month() as u32);
        put_two(&mut self.text[9..], date.day() as u32);
    }
}

#[inline]
fn put_two(text: &mut [u8], number: u32) {
    text[0] = b'0' + (number / 10) as u8;
    text[1] = b'0' + (number % 10) as u8;
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use model::Dimension;
    use model::query::{QueryDimension, Step, ZoneOffset};

    use super::*;

    fn minute(text: &str) -> u32 {
        (text.parse::<Timestamp>().expect("a time").as_second() / 60) as u32
    }

    /// Two hours in Paris around the start of daylight saving time.
    fn paris() -> BucketTimes {
        let offsets = vec![ZoneOffset { from: 0, minutes: 60 }, ZoneOffset { from: 1, minutes: 120 }];
        BucketTimes {
            minutes: vec![minute("2026-03-29T00:00Z"), minute("2026-03-29T01:00Z")],
            offsets,
            utc: false,
        }
    }

    fn utc() -> BucketTimes {
        let minutes = vec![minute("2026-02-28T23:59Z"), minute("2026-03-01T00:00Z")];
        BucketTimes { minutes, offsets: vec![ZoneOffset { from: 0, minutes: 0 }], utc: true }
    }

    fn series(name: Option<&str>, country: &str, values: [Option<f64>; 2], total: Option<f64>) -> Series {
        let key = vec![(QueryDimension::BuiltIn(Dimension::Country), country.to_owned())];
        Series { name: name.map(str::to_owned), key, values: values.to_vec(), total }
    }

    fn answer(times: BucketTimes, series: Vec<Series>, compare: Option<ComparedWindow>) -> QueryResult {
        QueryResult { step: Step::Hour, tz: "Europe/Paris".into(), times, series, compare, as_of: 1_048_576 }
    }

    /// Reads the rows back: both forms have the same cells.
    fn check_rows(answer: &QueryResult) {
        let csv = String::from_utf8(csv(answer).expect("it is small")).expect("it is text");
        let ndjson = String::from_utf8(ndjson(answer).expect("it is small")).expect("it is text");
        assert_eq!(csv.lines().count(), ndjson.lines().count() + 1);
        let header = csv.lines().next().expect("a header");
        for (line, object) in csv.lines().skip(1).zip(ndjson.lines()) {
            let object: serde_json::Map<String, Value> = serde_json::from_str(object).expect("an object");
            assert!(header.split(',').all(|column| object.contains_key(column)), "{object:?}");
            let value = &object["value"];
            let value = if value.is_null() { String::new() } else { value.to_string() };
            assert!(line.starts_with(object["time"].as_str().expect("a time")), "{line}");
            assert!(line.ends_with(&format!(",{value}")), "{line} {value}");
        }
    }

    fn check(answer: &QueryResult, as_json: Expect, as_csv: Expect) {
        check_rows(answer);
        let text = String::from_utf8(json(answer, 1_795_132_800_000)).expect("it is text");
        let value: Value = serde_json::from_str(&text).expect("it is JSON");
        for (index, shown) in value["times"].as_array().expect("a list").iter().enumerate() {
            assert_eq!(*shown, time(&answer.times, index));
        }
        for (series, shown) in answer.series.iter().zip(value["series"].as_array().expect("a list")) {
            assert_eq!(shown["total"], number(series.total));
        }
        as_json.assert_eq(&text);
        as_csv.assert_eq(&{
            let csv = csv(answer).expect("it is small");
            String::from_utf8(csv).expect("it is text").replace('\r', "")
        });
    }

    #[test]
    fn countries_across_a_daylight_saving_change() {
        let fr = series(None, "FR", [Some(3.0), Some(70_000.0)], Some(70_003.0));
        let quoted = series(None, "a \"b\", c", [Some(-1.5), None], None);
        check(
            &answer(paris(), vec![fr, quoted], None),
            expect![[
                r#"{"step":"hour","tz":"Europe/Paris","times":["2026-03-29T01:00:00+01:00","2026-03-29T03:00:00+02:00"],"series":[{"key":{"country":"FR"},"values":[3,70000],"total":70003},{"key":{"country":"a \"b\", c"},"values":[-1.5,null],"total":null}],"as_of":{"position":"0/1048576","time":"2026-11-20T00:00:00Z"}}"#
            ]],
            expect![[r#"
            time,country,value
            2026-03-29T01:00:00+01:00,FR,3
            2026-03-29T03:00:00+02:00,FR,70000
            2026-03-29T01:00:00+01:00,"a ""b"", c",-1.5
            2026-03-29T03:00:00+02:00,"a ""b"", c",
        "#]],
        );
    }

    #[test]
    fn metrics_with_a_comparison() {
        let now = series(Some("A"), "", [Some(0.1), Some(1e300)], Some(9_007_199_254_740_993.0));
        let before = series(Some("A"), "", [Some(0.0), Some(f64::NAN)], Some(-0.0));
        let compare = Some(ComparedWindow { times: utc(), series: vec![before] });
        check(
            &answer(utc(), vec![now], compare),
            expect![[
                r#"{"step":"hour","tz":"Europe/Paris","times":["2026-02-28T23:59:00Z","2026-03-01T00:00:00Z"],"series":[{"name":"A","key":{"country":""},"values":[0.1,1e+300],"total":9007199254740992}],"compare":{"times":["2026-02-28T23:59:00Z","2026-03-01T00:00:00Z"],"series":[{"name":"A","key":{"country":""},"values":[0,null],"total":0}]},"as_of":{"position":"0/1048576","time":"2026-11-20T00:00:00Z"}}"#
            ]],
            expect![[r#"
            time,window,name,country,value
            2026-02-28T23:59:00Z,current,A,,0.1
            2026-03-01T00:00:00Z,current,A,,1e+300
            2026-02-28T23:59:00Z,previous,A,,0
            2026-03-01T00:00:00Z,previous,A,,
        "#]],
        );
    }

    #[test]
    fn rows_above_the_limit_are_refused() {
        let times = BucketTimes { minutes: vec![0; 1_000_000], ..utc() };
        let key = vec![(QueryDimension::BuiltIn(Dimension::Country), "x".repeat(128))];
        let series = Series { name: None, key, values: vec![Some(1.0); 1_000_000], total: None };
        let large = answer(times, vec![series], None);
        assert_eq!((csv(&large), ndjson(&large)), (Err(RowsTooLarge), Err(RowsTooLarge)));
    }

    #[test]
    fn a_result_without_series() {
        check(
            &answer(utc(), Vec::new(), None),
            expect![[
                r#"{"step":"hour","tz":"Europe/Paris","times":["2026-02-28T23:59:00Z","2026-03-01T00:00:00Z"],"series":[],"as_of":{"position":"0/1048576","time":"2026-11-20T00:00:00Z"}}"#
            ]],
            expect![[r#"
            time,value
        "#]],
        );
    }

    #[test]
    fn zones_behind_utc_and_with_fractional_hours() {
        let at = |text: &str, minutes: i32| {
            let offsets = vec![ZoneOffset { from: 0, minutes }];
            time(&BucketTimes { minutes: vec![minute(text)], offsets, utc: false }, 0)
        };
        assert_eq!(at("2026-01-01T02:00Z", -210), "2025-12-31T22:30:00-03:30");
        assert_eq!(at("2026-01-01T18:15Z", 345), "2026-01-02T00:00:00+05:45");
        assert_eq!(at("1970-01-01T00:00Z", -300), "1969-12-31T19:00:00-05:00");
        assert_eq!(at("2026-01-01T00:00Z", 0), "2026-01-01T00:00:00+00:00");
    }
}
