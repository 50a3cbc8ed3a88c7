//! Answers as JSON, and as flat rows in CSV or NDJSON.

use jiff::tz::Offset;
use model::query::BucketTimes;
use serde_json::{Map, Value, json};

/// Maximum size of an answer as rows.
const ROWS_BYTES_MAX: usize = 128 << 20;
/// The largest integer up to which `f64` represents all integers exactly.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The moment up to which an answer is complete.
#[derive(Clone, Copy, Debug)]
pub struct AsOf {
    /// The offset in the log.
    pub offset: u64,
    /// The time, milliseconds since 1970.
    pub time_ms: i64,
    /// The time from which on there are events, if older ones were deleted; see
    /// [`Snapshot::events_since`](crate::snapshot::Snapshot::events_since).
    pub events_since_ms: Option<i64>,
}

impl AsOf {
    /// Returns the moment as answers show it.
    pub fn json(self) -> Value {
        json!({"position": format!("0/{}", self.offset), "time": utc(self.time_ms)})
    }
}

/// The answer as rows would be larger than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rows take more than {} MiB; ask for less", ROWS_BYTES_MAX >> 20)]
pub struct RowsTooLarge;

/// What every answer can be written as.
pub trait Answer {
    /// Returns the answer as a JSON object, without `as_of` and `events_since`.
    fn fields(&self) -> Map<String, Value>;

    /// Returns the names of the columns of the answer as rows.
    fn columns(&self) -> Vec<String>;

    /// Calls `put` with each row, whose cells are those of the columns, until it returns an error.
    fn each_row(
        &self,
        put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
    ) -> Result<(), RowsTooLarge>;
}

/// Writes an answer as a JSON object.
pub fn json(answer: &dyn Answer, as_of: AsOf) -> Vec<u8> {
    let mut fields = answer.fields();
    fields.insert("as_of".to_owned(), as_of.json());
    if let Some(since_ms) = as_of.events_since_ms {
        fields.insert("events_since".to_owned(), utc(since_ms).into());
    }
    serde_json::to_vec(&fields).expect("writing to memory cannot fail")
}

/// Writes an answer as CSV (RFC 4180) with a header. Missing values are empty; a text that spreadsheets would run as a
/// formula gets an apostrophe in front.
///
/// # Errors
///
/// [`RowsTooLarge`] if the lines would take more than 128 MiB.
pub fn csv(answer: &dyn Answer) -> Result<Vec<u8>, RowsTooLarge> {
    let mut out = Vec::new();
    let columns = answer.columns().into_iter().map(Value::String).collect();
    put_csv_line(&mut out, columns)?;
    answer.each_row(&mut |row| put_csv_line(&mut out, row))?;
    Ok(out)
}

/// Writes an answer as NDJSON: an object for each row.
///
/// # Errors
///
/// [`RowsTooLarge`] if the lines would take more than 128 MiB.
pub fn ndjson(answer: &dyn Answer) -> Result<Vec<u8>, RowsTooLarge> {
    let columns = answer.columns();
    let mut out = Vec::new();
    answer.each_row(&mut |row| {
        let object: Map<String, Value> = columns.iter().cloned().zip(row).collect();
        serde_json::to_writer(&mut out, &object).expect("writing to memory cannot fail");
        out.push(b'\n');
        check_size(&out)
    })?;
    Ok(out)
}

fn put_csv_line(out: &mut Vec<u8>, row: Vec<Value>) -> Result<(), RowsTooLarge> {
    for (index, cell) in row.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match cell {
            Value::Null => {}
            Value::String(text) => put_csv_text(out, &text),
            Value::Number(_) | Value::Bool(_) => out.extend_from_slice(cell.to_string().as_bytes()),
            Value::Array(_) | Value::Object(_) => put_csv_text(out, &cell.to_string()),
        }
    }
    out.extend_from_slice(b"\r\n");
    check_size(out)
}

fn put_csv_text(out: &mut Vec<u8>, text: &str) {
    let is_number = || text.parse::<f64>().is_ok_and(f64::is_finite);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_number();
    let quoted = text.contains([',', '"', '\r', '\n']);
    if quoted {
        out.push(b'"');
    }
    if is_formula {
        out.push(b'\'');
    }
    out.extend_from_slice(if quoted { text.replace('"', "\"\"") } else { text.to_owned() }.as_bytes());
    if quoted {
        out.push(b'"');
    }
}

fn check_size(out: &[u8]) -> Result<(), RowsTooLarge> {
    if out.len() <= ROWS_BYTES_MAX { Ok(()) } else { Err(RowsTooLarge) }
}

/// Returns a number: one without a fraction as an integer, a missing one as null.
pub(super) fn number(value: Option<f64>) -> Value {
    match value {
        Some(value) if value.trunc() == value && value.abs() <= WHOLE_MAX => Value::from(value as i64),
        value => Value::from(value),
    }
}

/// Returns the object of a key.
pub(super) fn key_object(key: &[(String, String)]) -> Value {
    key.iter().map(|(name, value)| (name.clone(), Value::from(&**value))).collect::<Map<_, _>>().into()
}

/// Returns a time in UTC, with milliseconds if it has any.
pub(super) fn utc(time_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(time_ms).map_or_else(|_| time_ms.to_string(), |time| time.to_string())
}

/// Returns the start times of buckets, with the offsets of their time zone.
pub(super) fn time_texts(times: &BucketTimes) -> Vec<String> {
    let mut texts = Vec::with_capacity(times.minutes.len());
    for (index, offset) in times.offsets.iter().enumerate() {
        let until = times.offsets.get(index + 1).map_or(times.minutes.len(), |next| next.from);
        let zone = Offset::from_seconds(offset.minutes * 60).expect("offsets are less than a day");
        let size = offset.minutes.unsigned_abs();
        let sign = if offset.minutes < 0 { '-' } else { '+' };
        for minute in &times.minutes[offset.from..until] {
            let time = jiff::Timestamp::from_second(i64::from(*minute) * 60).expect("before the year 2200");
            let mut text = zone.to_datetime(time).to_string();
            match times.utc {
                true => text.push('Z'),
                false => text.push_str(&format!("{sign}{:02}:{:02}", size / 60, size % 60)),
            }
            texts.push(text);
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use model::query::{Buckets, Step};

    use super::*;

    struct Table(Vec<Vec<Value>>);

    impl Answer for Table {
        fn fields(&self) -> Map<String, Value> {
            Map::from_iter([("rows".to_owned(), json!(self.0))])
        }

        fn columns(&self) -> Vec<String> {
            vec!["=key".to_owned(), "value".to_owned()]
        }

        fn each_row(
            &self,
            put: &mut dyn FnMut(Vec<Value>) -> Result<(), RowsTooLarge>,
        ) -> Result<(), RowsTooLarge> {
            self.0.iter().try_for_each(|row| put(row.clone()))
        }
    }

    #[test]
    fn rows_have_the_same_cells_in_csv_and_ndjson() {
        let table = Table(vec![
            vec!["=1+1".into(), number(Some(2.0))],
            vec!["a \"b\", c".into(), number(None)],
            vec!["-5".into(), number(Some(0.5))],
        ]);
        let csv = String::from_utf8(csv(&table).expect("it is small")).expect("it is text");
        assert_eq!(csv, "'=key,value\r\n'=1+1,2\r\n\"a \"\"b\"\", c\",\r\n-5,0.5\r\n");
        let ndjson = String::from_utf8(ndjson(&table).expect("it is small")).expect("it is text");
        let rows: Vec<Value> = ndjson.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows[0], json!({"=key": "=1+1", "value": 2}));
        assert_eq!(rows[1], json!({"=key": "a \"b\", c", "value": null}));
        let json = json(&table, AsOf { offset: 7, time_ms: 1_500, events_since_ms: Some(0) });
        let json: Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["events_since"], "1970-01-01T00:00:00Z");
        assert_eq!(json["as_of"], json!({"position": "0/7", "time": "1970-01-01T00:00:01.5Z"}));
    }

    #[test]
    fn times_show_the_offset_of_their_zone() {
        let texts = |zone: &str, from: &str, hours: u32| {
            let zone = TimeZone::get(zone).expect("a zone");
            let from = (from.parse::<jiff::Timestamp>().expect("a time").as_second() / 60) as u32;
            time_texts(&Buckets::cut(&zone, Step::Hour, from..from + hours * 60).times(&zone))
        };
        assert_eq!(
            texts("Europe/Paris", "2026-03-29T00:00Z", 2),
            ["2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"]
        );
        assert_eq!(texts("UTC", "2026-01-01T00:00Z", 1), ["2026-01-01T00:00:00Z"]);
        assert_eq!(texts("Asia/Kolkata", "2026-01-01T00:30Z", 1), ["2026-01-01T06:00:00+05:30"]);
        assert_eq!(texts("America/St_Johns", "2026-01-01T02:30Z", 1), ["2025-12-31T23:00:00-03:30"]);
    }
}
