//! Packets of flows as JSON: one object a line, for whoever sees packets pass and can count.
//!
//! ```text
//! {"from": "ann", "to": "bo", "seq": 17, "ts": 1795174457123.25}
//! {"from": "ann", "to": "bo", "bye": true}
//! ```
//!
//! | field | |
//! |---|---|
//! | `from`, `to` | who sent it to whom: ids of 1 to 128 bytes; whole numbers are taken as text. The source of an RTP stream is its SSRC as eight hexadecimal digits, so that what RTCP says of it belongs to the same flow |
//! | `seq` | its number, 0 to 4,294,967,295. Up to 65,535 it is one of 16 bits, and 0 follows 65,535 |
//! | `ts` | when it was sent by the sender's clock: milliseconds with decimals, or RFC 3339. Without it there is no jitter |
//! | `at` | when it came, in the same forms; if not given, when the line came |
//! | `from_address`, `to_address` | where the ends are at the moment: `192.0.2.1:5000`, `[2001:db8::1]:5000` |
//! | `bye` | `true`: the sender leaves; then `seq` is not needed |

use std::borrow::Cow;
use std::net::SocketAddr;

use model::flows::{End, FlowPacket, What};
use model::limits::FLOW_END_BYTES_MAX;

use crate::json::{Broken, Cursor, Value, instant_ms};

/// Times are taken up to the year 9999, in both directions from 1970.
const TIME_MS_MAX: f64 = 253_402_300_799_999.0;

/// Why a line was not taken: a closed set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// It is no JSON, or not UTF-8.
    #[error("the line is not JSON")]
    MalformedJson,
    /// It is something else than an object.
    #[error("the line is not an object")]
    NotAnObject,
    /// It has a field that is not in the list.
    #[error("a field beside `from`, `to`, `from_address`, `to_address`, `seq`, `ts`, `at` and `bye`")]
    UnknownField,
    /// `from` or `to` is absent, empty, too long or of another type, or they are the same.
    #[error("`from` and `to` are two different ids of 1 to {FLOW_END_BYTES_MAX} bytes")]
    Ends,
    /// `from_address` or `to_address` cannot be read.
    #[error("`from_address` and `to_address` are an IP address and a port")]
    Address,
    /// `seq` is absent or no such number.
    #[error("`seq` is a whole number from 0 to 4294967295")]
    Seq,
    /// `ts` or `at` cannot be read.
    #[error("`ts` and `at` are milliseconds since 1970 or RFC 3339")]
    Time,
    /// `bye` is something else than `true` or `false`.
    #[error("`bye` is true or false")]
    Bye,
}

impl Refusal {
    /// The word in answers.
    pub fn label(self) -> &'static str {
        match self {
            Refusal::MalformedJson => "malformed_json",
            Refusal::NotAnObject => "not_an_object",
            Refusal::UnknownField => "unknown_field",
            Refusal::Ends => "ends_invalid",
            Refusal::Address => "address_invalid",
            Refusal::Seq => "seq_invalid",
            Refusal::Time => "time_invalid",
            Refusal::Bye => "bye_invalid",
        }
    }
}

/// A line that was read. It owns what had escapes, and borrows the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line<'a> {
    from: Cow<'a, str>,
    to: Cow<'a, str>,
    from_address: Option<SocketAddr>,
    to_address: Option<SocketAddr>,
    seq: Option<u32>,
    sent_us: Option<i64>,
    at_us: Option<i64>,
    bye: bool,
}

impl Line<'_> {
    /// The packet, which came at `at_us` if the line does not say when.
    pub fn packet(&self, at_us: i64) -> FlowPacket<'_> {
        let at_us = self.at_us.unwrap_or(at_us);
        let what = match self.seq {
            Some(seq) if !self.bye => What::Numbered { seq, sent_us: self.sent_us, at_us },
            _ => What::Bye,
        };
        FlowPacket {
            from: End { id: &self.from, address: self.from_address },
            to: End { id: &self.to, address: self.to_address },
            what,
        }
    }
}

/// The lines of a body or datagram, one by one; blank ones are passed over.
pub fn lines(body: &[u8]) -> impl Iterator<Item = Result<Line<'_>, Refusal>> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty()).map(line)
}

fn line(bytes: &[u8]) -> Result<Line<'_>, Refusal> {
    let text = str::from_utf8(bytes).map_err(|_| Refusal::MalformedJson)?;
    let mut cursor = Cursor::new(text, 0);
    if cursor.peek() != b'{' {
        let is_json = cursor.value().is_ok() && cursor.is_at_end();
        return Err(if is_json { Refusal::NotAnObject } else { Refusal::MalformedJson });
    }
    let read = object(&mut cursor).map_err(|Broken| Refusal::MalformedJson)?;
    if !cursor.is_at_end() {
        return Err(Refusal::MalformedJson);
    }
    read.and_then(checked)
}

/// An object, from its opening bracket on. Of several wrong fields the first is told.
fn object<'a>(cursor: &mut Cursor<'a>) -> Result<Result<Line<'a>, Refusal>, Broken> {
    let (mut line, mut refused) = (Line::default(), None);
    cursor.at += 1;
    cursor.depth += 1;
    cursor.skip_space();
    let mut goes_on = !cursor.take(b'}');
    while goes_on {
        let key = cursor.key()?.cow();
        let from = cursor.at;
        let value = cursor.value()?;
        if let Err(refusal) = line.put(&key, value, cursor.since(from)) {
            refused = refused.or(Some(refusal));
        }
        goes_on = cursor.comma_or(b'}', "',' or '}'")?;
    }
    Ok(refused.map_or(Ok(line), Err))
}

impl<'a> Line<'a> {
    fn put(&mut self, key: &str, value: Value<'a>, text: &str) -> Result<(), Refusal> {
        match key {
            "from" => self.from = id(value)?,
            "to" => self.to = id(value)?,
            "from_address" => self.from_address = address(value)?,
            "to_address" => self.to_address = address(value)?,
            "seq" => self.seq = Some(seq(value)?),
            "ts" => self.sent_us = time_us(value)?,
            "at" => self.at_us = time_us(value)?,
            "bye" if matches!(value, Value::Bool) => self.bye = text == "true",
            "bye" => return Err(Refusal::Bye),
            _ => return Err(Refusal::UnknownField),
        }
        Ok(())
    }
}

fn checked(line: Line<'_>) -> Result<Line<'_>, Refusal> {
    if line.from.is_empty() || line.from == line.to || line.to.is_empty() {
        return Err(Refusal::Ends);
    }
    if line.seq.is_none() && !line.bye {
        return Err(Refusal::Seq);
    }
    Ok(line)
}

fn id(value: Value<'_>) -> Result<Cow<'_, str>, Refusal> {
    let id = match value {
        Value::Text(text) => Some(text.cow()),
        Value::Number(number) => number.whole(),
        _ => None,
    };
    id.filter(|id| (1..=FLOW_END_BYTES_MAX).contains(&id.len())).ok_or(Refusal::Ends)
}

fn address(value: Value<'_>) -> Result<Option<SocketAddr>, Refusal> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => text.cow().parse().map(Some).map_err(|_| Refusal::Address),
        _ => Err(Refusal::Address),
    }
}

fn seq(value: Value<'_>) -> Result<u32, Refusal> {
    let Value::Number(number) = value else { return Err(Refusal::Seq) };
    number.whole().and_then(|whole| whole.parse().ok()).ok_or(Refusal::Seq)
}

fn time_us(value: Value<'_>) -> Result<Option<i64>, Refusal> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => {
            let ms = number.value();
            let is_time = ms.abs() <= TIME_MS_MAX;
            is_time.then_some(Some((ms * 1000.0).round() as i64)).ok_or(Refusal::Time)
        }
        value => instant_ms(value).map(|ms| Some(ms * 1000)).ok_or(Refusal::Time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT_US: i64 = 5;

    fn check(body: &str, expected: &[&str]) {
        let told = lines(body.as_bytes()).map(|line| match line {
            Ok(line) => {
                let FlowPacket { from, to, what } = line.packet(AT_US);
                let addresses =
                    [from, to].map(|end| end.address.map_or(String::new(), |at| format!("@{at}")));
                format!("{}{}>{}{} {what:?}", from.id, addresses[0], to.id, addresses[1])
            }
            Err(refusal) => refusal.label().to_owned(),
        });
        assert_eq!(told.collect::<Vec<_>>(), expected, "{body}");
    }

    #[test]
    fn a_line_is_a_packet() {
        check(
            r#"{"from":"ann","to":"bo","seq":17}"#,
            &["ann>bo Numbered { seq: 17, sent_us: None, at_us: 5 }"],
        );
        check(
            r#" { "to" : 7, "seq" : 1.0 , "from":"\u0061", "ts":1795174457123.25, "at":"1970-01-01T00:00:01Z" } "#,
            &["a>7 Numbered { seq: 1, sent_us: Some(1795174457123250), at_us: 1000000 }"],
        );
        check(
            r#"{"from":"a","to":"b","seq":4294967295,"from_address":"192.0.2.1:5","to_address":"[2001:db8::1]:9"}"#,
            &["a@192.0.2.1:5>b@[2001:db8::1]:9 Numbered { seq: 4294967295, sent_us: None, at_us: 5 }"],
        );
        check(r#"{"from":"a","to":"b","bye":true}"#, &["a>b Bye"]);
        check(
            r#"{"from":"a","to":"b","seq":1,"bye":false,"ts":null}"#,
            &["a>b Numbered { seq: 1, sent_us: None, at_us: 5 }"],
        );
    }

    #[test]
    fn each_line_is_refused_alone() {
        let body =
            "{\"from\":\"a\",\"to\":\"b\",\"bye\":true}\r\n\n{\n{\"from\":\"b\",\"to\":\"a\",\"bye\":true}";
        check(body, &["a>b Bye", "malformed_json", "b>a Bye"]);
        check("", &[]);
    }

    #[test]
    fn a_wrong_line_says_why() {
        check("[1]", &["not_an_object"]);
        check("[1", &["malformed_json"]);
        check(r#"{"from":"a","to":"b","seq":1} 2"#, &["malformed_json"]);
        check(r#"{"from":"a","to":"b","seq":1,"x":2}"#, &["unknown_field"]);
        check(r#"{"from":"a","seq":1}"#, &["ends_invalid"]);
        check(r#"{"from":"a","to":"a","seq":1}"#, &["ends_invalid"]);
        check(r#"{"from":"","to":"a","seq":1}"#, &["ends_invalid"]);
        check(r#"{"from":null,"to":"a","seq":1}"#, &["ends_invalid"]);
        check(&format!(r#"{{"from":"{}","to":"a","seq":1}}"#, "x".repeat(129)), &["ends_invalid"]);
        check(r#"{"from":"a","to":"b"}"#, &["seq_invalid"]);
        for seq in ["-1", "1.5", "4294967296", "\"1\"", "null"] {
            check(&format!(r#"{{"from":"a","to":"b","seq":{seq}}}"#), &["seq_invalid"]);
        }
        check(r#"{"from":"a","to":"b","seq":1,"from_address":"192.0.2.1"}"#, &["address_invalid"]);
        check(r#"{"from":"a","to":"b","seq":1,"ts":"yesterday"}"#, &["time_invalid"]);
        check(r#"{"from":"a","to":"b","seq":1,"ts":1e300}"#, &["time_invalid"]);
        check(r#"{"from":"a","to":"b","bye":1}"#, &["bye_invalid"]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_to_an_end(body: Vec<u8>) {
            prop_assert!(lines(&body).count() <= body.len());
        }

        #[test]
        fn a_spoilt_line_is_read_or_refused(at in 0usize..70, byte: u8) {
            let mut body = br#"{"from":"ann","to":"bo","seq":17,"ts":1795174457123.25,"bye":false}"#.to_vec();
            let place = at % body.len();
            body[place] = byte;
            for line in lines(&body).flatten() {
                line.packet(0);
            }
        }
    }
}
