//! Packets of flows as JSON: one object per line, sent by programs that observe packets.
//!
//! ```text
//! {"from": "ann", "to": "bo", "seq": 17, "ts": 1795174457123.25}
//! {"from": "ann", "to": "bo", "bye": true}
//! ```
//!
//! | field | |
//! |---|---|
//! | `from`, `to` | sender and receiver: ids of 1 to 128 bytes; whole numbers are read as text. The source of an RTP stream is its SSRC as eight hexadecimal digits, so that its RTCP reports belong to the same flow |
//! | `seq` | sequence number, 0 to 4,294,967,295. Numbers up to 65,535 are taken as 16 bits, where 0 follows 65,535 |
//! | `ts` | time of sending by the sender's clock: milliseconds with decimals, or RFC 3339. Without it there is no jitter |
//! | `at` | time of arrival, in the same formats; by default the time when the line arrived |
//! | `from_address`, `to_address` | current addresses of the ends: `192.0.2.1:5000`, `[2001:db8::1]:5000` |
//! | `bye` | `true`: the sender leaves; `seq` is then optional |

use std::borrow::Cow;
use std::net::SocketAddr;

use model::Reject;
use model::flows::{FlowEnd, FlowPacket, PacketKind};
use model::limits::FLOW_END_BYTES_MAX;

use crate::json::{JsonCursor, JsonValue, SyntaxError, instant_ms};
use crate::sample::RejectedInput;

/// Maximum time, the year 9999, in both directions from 1970.
const TIME_MS_MAX: f64 = 253_402_300_799_999.0;

/// A packet as one line describes it. Texts with escapes are owned, all others are borrowed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PacketLine<'a> {
    from: Cow<'a, str>,
    to: Cow<'a, str>,
    from_address: Option<SocketAddr>,
    to_address: Option<SocketAddr>,
    seq: Option<u32>,
    sent_us: Option<i64>,
    at_us: Option<i64>,
    bye: bool,
}

impl PacketLine<'_> {
    /// Returns the packet, which arrived at `at_us` if the line has no time of arrival.
    pub fn packet(&self, at_us: i64) -> FlowPacket<'_> {
        let at_us = self.at_us.unwrap_or(at_us);
        let what = match self.seq {
            Some(seq) if !self.bye => PacketKind::Numbered { seq, sent_us: self.sent_us, at_us },
            _ => PacketKind::Bye,
        };
        FlowPacket {
            from: FlowEnd { id: &self.from, address: self.from_address },
            to: FlowEnd { id: &self.to, address: self.to_address },
            kind: what,
        }
    }
}

/// Reads the lines of a body or datagram; blank lines are skipped.
pub fn lines(body: &[u8]) -> impl Iterator<Item = Result<PacketLine<'_>, RejectedInput<'_>>> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let read = |text| read_line(text).map_err(|reject| RejectedInput { reject, text });
    lines.filter(|line| !line.is_empty()).map(read)
}

fn read_line(bytes: &[u8]) -> Result<PacketLine<'_>, Reject> {
    let text = str::from_utf8(bytes).map_err(|_| Reject::MalformedJson)?;
    let mut cursor = JsonCursor::new(text, 0);
    if cursor.peek() != b'{' {
        let is_json = cursor.value().is_ok() && cursor.is_at_end();
        return Err(if is_json { Reject::NotAnObject } else { Reject::MalformedJson });
    }
    let read = read_object(&mut cursor).map_err(|SyntaxError| Reject::MalformedJson)?;
    if !cursor.is_at_end() {
        return Err(Reject::MalformedJson);
    }
    read.and_then(validate)
}

/// Reads an object, starting at its opening bracket. Of several invalid fields the first is reported.
fn read_object<'a>(cursor: &mut JsonCursor<'a>) -> Result<Result<PacketLine<'a>, Reject>, SyntaxError> {
    let (mut line, mut rejected) = (PacketLine::default(), None);
    cursor.at += 1;
    cursor.depth += 1;
    cursor.skip_space();
    let mut has_more = !cursor.consume(b'}');
    while has_more {
        let key = cursor.key()?.cow();
        let from = cursor.at;
        let value = cursor.value()?;
        if let Err(reject) = line.put(&key, value, cursor.since(from)) {
            rejected = rejected.or(Some(reject));
        }
        has_more = cursor.comma_or(b'}', "',' or '}'")?;
    }
    Ok(rejected.map_or(Ok(line), Err))
}

impl<'a> PacketLine<'a> {
    fn put(&mut self, key: &str, value: JsonValue<'a>, text: &str) -> Result<(), Reject> {
        match key {
            "from" => self.from = id(value)?,
            "to" => self.to = id(value)?,
            "from_address" => self.from_address = address(value)?,
            "to_address" => self.to_address = address(value)?,
            "seq" => self.seq = Some(seq(value)?),
            "ts" => self.sent_us = time_us(value)?,
            "at" => self.at_us = time_us(value)?,
            "bye" if matches!(value, JsonValue::Bool) => self.bye = text == "true",
            "bye" => return Err(Reject::ByeInvalid),
            _ => return Err(Reject::UnknownField),
        }
        Ok(())
    }
}

fn validate(line: PacketLine<'_>) -> Result<PacketLine<'_>, Reject> {
    if line.from.is_empty() || line.from == line.to || line.to.is_empty() {
        return Err(Reject::EndsInvalid);
    }
    if line.seq.is_none() && !line.bye {
        return Err(Reject::SeqInvalid);
    }
    Ok(line)
}

fn id(value: JsonValue<'_>) -> Result<Cow<'_, str>, Reject> {
    let id = match value {
        JsonValue::String(text) => Some(text.cow()),
        JsonValue::Number(number) => number.whole(),
        _ => None,
    };
    id.filter(|id| (1..=FLOW_END_BYTES_MAX).contains(&id.len())).ok_or(Reject::EndsInvalid)
}

fn address(value: JsonValue<'_>) -> Result<Option<SocketAddr>, Reject> {
    match value {
        JsonValue::Null => Ok(None),
        JsonValue::String(text) => text.cow().parse().map(Some).map_err(|_| Reject::AddressInvalid),
        _ => Err(Reject::AddressInvalid),
    }
}

fn seq(value: JsonValue<'_>) -> Result<u32, Reject> {
    let JsonValue::Number(number) = value else { return Err(Reject::SeqInvalid) };
    number.whole().and_then(|whole| whole.parse().ok()).ok_or(Reject::SeqInvalid)
}

fn time_us(value: JsonValue<'_>) -> Result<Option<i64>, Reject> {
    match value {
        JsonValue::Null => Ok(None),
        JsonValue::Number(number) => {
            let ms = number.value();
            let is_time = ms.abs() <= TIME_MS_MAX;
            is_time.then_some(Some((ms * 1000.0).round() as i64)).ok_or(Reject::TimestampInvalid)
        }
        value => instant_ms(value).map(|ms| Some(ms * 1000)).ok_or(Reject::TimestampInvalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT_US: i64 = 5;

    fn check(body: &str, expected: &[&str]) {
        let described = lines(body.as_bytes()).map(|line| match line {
            Ok(line) => {
                let FlowPacket { from, to, kind: what } = line.packet(AT_US);
                let addresses =
                    [from, to].map(|end| end.address.map_or(String::new(), |at| format!("@{at}")));
                format!("{}{}>{}{} {what:?}", from.id, addresses[0], to.id, addresses[1])
            }
            Err(rejected) => rejected.reject.label().to_owned(),
        });
        assert_eq!(described.collect::<Vec<_>>(), expected, "{body}");
    }

    #[test]
    fn line_is_a_packet() {
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
    fn each_line_is_rejected_alone() {
        let body =
            "{\"from\":\"a\",\"to\":\"b\",\"bye\":true}\r\n\n{\n{\"from\":\"b\",\"to\":\"a\",\"bye\":true}";
        check(body, &["a>b Bye", "malformed_json", "b>a Bye"]);
        check("", &[]);
    }

    #[test]
    fn invalid_line_reports_the_reason() {
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
        check(r#"{"from":"a","to":"b","seq":1,"ts":"yesterday"}"#, &["ts_invalid"]);
        check(r#"{"from":"a","to":"b","seq":1,"ts":1e300}"#, &["ts_invalid"]);
        check(r#"{"from":"a","to":"b","bye":1}"#, &["bye_invalid"]);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(body: Vec<u8>) {
            prop_assert!(lines(&body).count() <= body.len());
        }

        #[test]
        fn no_corrupted_line_panics(at in 0usize..70, byte: u8) {
            let mut body = br#"{"from":"ann","to":"bo","seq":17,"ts":1795174457123.25,"bye":false}"#.to_vec();
            let place = at % body.len();
            body[place] = byte;
            for line in lines(&body).flatten() {
                line.packet(0);
            }
        }
    }
}
