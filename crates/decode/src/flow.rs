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

use model::Reject;
use model::flows::{FlowEnd, FlowPacket, PacketKind};
use model::limits::FLOW_END_BYTES_MAX;

use crate::json::{Broken, Cursor, Value, instant_ms};
use crate::sample::Refused;

/// Times are taken up to the year 9999, in both directions from 1970.
const TIME_MS_MAX: f64 = 253_402_300_799_999.0;

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

/// The lines of a body or datagram, one by one; blank ones are passed over.
pub fn lines(body: &[u8]) -> impl Iterator<Item = Result<Line<'_>, Refused<'_>>> {
    let lines = body.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let read = |text| line(text).map_err(|reject| Refused { reject, text });
    lines.filter(|line| !line.is_empty()).map(read)
}

fn line(bytes: &[u8]) -> Result<Line<'_>, Reject> {
    let text = str::from_utf8(bytes).map_err(|_| Reject::MalformedJson)?;
    let mut cursor = Cursor::new(text, 0);
    if cursor.peek() != b'{' {
        let is_json = cursor.value().is_ok() && cursor.is_at_end();
        return Err(if is_json { Reject::NotAnObject } else { Reject::MalformedJson });
    }
    let read = object(&mut cursor).map_err(|Broken| Reject::MalformedJson)?;
    if !cursor.is_at_end() {
        return Err(Reject::MalformedJson);
    }
    read.and_then(checked)
}

/// An object, from its opening bracket on. Of several wrong fields the first is told.
fn object<'a>(cursor: &mut Cursor<'a>) -> Result<Result<Line<'a>, Reject>, Broken> {
    let (mut line, mut refused) = (Line::default(), None);
    cursor.at += 1;
    cursor.depth += 1;
    cursor.skip_space();
    let mut goes_on = !cursor.take(b'}');
    while goes_on {
        let key = cursor.key()?.cow();
        let from = cursor.at;
        let value = cursor.value()?;
        if let Err(reject) = line.put(&key, value, cursor.since(from)) {
            refused = refused.or(Some(reject));
        }
        goes_on = cursor.comma_or(b'}', "',' or '}'")?;
    }
    Ok(refused.map_or(Ok(line), Err))
}

impl<'a> Line<'a> {
    fn put(&mut self, key: &str, value: Value<'a>, text: &str) -> Result<(), Reject> {
        match key {
            "from" => self.from = id(value)?,
            "to" => self.to = id(value)?,
            "from_address" => self.from_address = address(value)?,
            "to_address" => self.to_address = address(value)?,
            "seq" => self.seq = Some(seq(value)?),
            "ts" => self.sent_us = time_us(value)?,
            "at" => self.at_us = time_us(value)?,
            "bye" if matches!(value, Value::Bool) => self.bye = text == "true",
            "bye" => return Err(Reject::ByeInvalid),
            _ => return Err(Reject::UnknownField),
        }
        Ok(())
    }
}

fn checked(line: Line<'_>) -> Result<Line<'_>, Reject> {
    if line.from.is_empty() || line.from == line.to || line.to.is_empty() {
        return Err(Reject::EndsInvalid);
    }
    if line.seq.is_none() && !line.bye {
        return Err(Reject::SeqInvalid);
    }
    Ok(line)
}

fn id(value: Value<'_>) -> Result<Cow<'_, str>, Reject> {
    let id = match value {
        Value::Text(text) => Some(text.cow()),
        Value::Number(number) => number.whole(),
        _ => None,
    };
    id.filter(|id| (1..=FLOW_END_BYTES_MAX).contains(&id.len())).ok_or(Reject::EndsInvalid)
}

fn address(value: Value<'_>) -> Result<Option<SocketAddr>, Reject> {
    match value {
        Value::Null => Ok(None),
        Value::Text(text) => text.cow().parse().map(Some).map_err(|_| Reject::AddressInvalid),
        _ => Err(Reject::AddressInvalid),
    }
}

fn seq(value: Value<'_>) -> Result<u32, Reject> {
    let Value::Number(number) = value else { return Err(Reject::SeqInvalid) };
    number.whole().and_then(|whole| whole.parse().ok()).ok_or(Reject::SeqInvalid)
}

fn time_us(value: Value<'_>) -> Result<Option<i64>, Reject> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) => {
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
        let told = lines(body.as_bytes()).map(|line| match line {
            Ok(line) => {
                let FlowPacket { from, to, kind: what } = line.packet(AT_US);
                let addresses =
                    [from, to].map(|end| end.address.map_or(String::new(), |at| format!("@{at}")));
                format!("{}{}>{}{} {what:?}", from.id, addresses[0], to.id, addresses[1])
            }
            Err(refused) => refused.reject.label().to_owned(),
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
        check(r#"{"from":"a","to":"b","seq":1,"ts":"yesterday"}"#, &["ts_invalid"]);
        check(r#"{"from":"a","to":"b","seq":1,"ts":1e300}"#, &["ts_invalid"]);
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
