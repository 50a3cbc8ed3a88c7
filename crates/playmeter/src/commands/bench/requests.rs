//! The requests of a load test: built once as templates, patched in place and sent again.
//!
//! Only the id, the time and the player of an event change between two uses of a template, and each keeps its width, so
//! that the generator needs only a fraction of a core.

use std::ops::Range;

const NAMES: [&str; 10] =
    ["level_start", "start", "level_end", "death", "score", "purchase", "ad", "view", "share", "end"];
const COUNTRIES: [&str; 10] = ["US", "GB", "DE", "FR", "BR", "IN", "RU", "CN", "JP", "AU"];
const PLATFORMS: [&str; 3] = ["web", "ios", "android"];
const LEVELS: u64 = 200;
const VALUES: u64 = 1_000;

/// Number of different events in the templates: enough to keep the branch predictor of the server from learning them.
const EVENTS_MIN: usize = 6_400;
const TEMPLATES_MIN: usize = 64;

const ID_BYTES: usize = 36;
const TIME_BYTES: usize = 13;
const PLAYER_BYTES_MAX: usize = 20;

/// The kind of event ids.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum IdKind {
    /// Random, which costs the server the most
    V4,
    /// Ordered by time, as SDKs send them
    V7,
    /// No ids: the server generates them and deduplicates nothing
    None,
}

/// The composition of the events.
#[derive(Clone, Debug)]
pub(crate) struct EventMix {
    pub(crate) ids: IdKind,
    pub(crate) players: u64,
    pub(crate) names: usize,
    /// Percentage of events that are sent a second time, unchanged.
    pub(crate) repeats_percent: f64,
    /// Events per request. With 1 the body is the event itself, otherwise an array.
    pub(crate) batch: usize,
}

/// The head that all requests share.
#[derive(Clone, Debug)]
pub(crate) struct RequestHead {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    /// True if the server is asked to close the connection after the response.
    pub(crate) close: bool,
}

/// A pool of prepared requests, used in turn.
#[derive(Debug)]
pub(crate) struct RequestPool {
    templates: Vec<RequestTemplate>,
    next: usize,
    mix: EventMix,
    player_digits: usize,
    random: Random,
}

/// A request with the positions of the parts that change.
#[derive(Clone, Debug)]
pub(crate) struct RequestTemplate {
    bytes: Vec<u8>,
    slots: Vec<EventSlot>,
    /// True if it was sent before. Only then can its events be repeated.
    was_sent: bool,
}

#[derive(Clone, Debug)]
struct EventSlot {
    event: Range<usize>,
    id: Option<usize>,
    time: usize,
    player: usize,
}

/// A request to be sent.
pub(crate) struct PreparedRequest<'a> {
    template: &'a RequestTemplate,
    /// Number of its events that were sent before.
    pub(crate) repeats: u64,
}

impl RequestPool {
    /// Creates requests with generated events. The same seed gives the same requests, except for the times.
    pub(crate) fn events(head: &RequestHead, mix: EventMix, seed: u64) -> Self {
        let mut random = Random(seed);
        let player_digits = (mix.players - 1).to_string().len();
        let events = EVENTS_MIN.max(mix.names);
        let templates = (0..events.div_ceil(mix.batch).max(TEMPLATES_MIN))
            .map(|index| RequestTemplate::new(head, &mix, index * mix.batch, player_digits, &mut random))
            .collect();
        Self { templates, next: 0, mix, player_digits, random }
    }

    /// Reads requests from a file of `length: u32 little-endian, bytes`. They are sent unchanged.
    pub(crate) fn from_file(file: &[u8], batch: usize) -> Option<Self> {
        let mut templates = Vec::new();
        let mut rest = file;
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (bytes, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            templates.push(RequestTemplate { bytes: bytes.to_vec(), slots: Vec::new(), was_sent: false });
            rest = after;
        }
        let mix = EventMix { ids: IdKind::None, players: 1, names: 1, repeats_percent: 0.0, batch };
        let is_valid = rest.is_empty() && !templates.is_empty();
        is_valid.then_some(Self { templates, next: 0, mix, player_digits: 1, random: Random(0) })
    }

    /// Returns the number of events per request.
    pub(crate) fn batch(&self) -> u64 {
        self.mix.batch as u64
    }

    /// Returns the next request. The times of its new events are `now_ms`.
    pub(crate) fn next(&mut self, now_ms: u64) -> PreparedRequest<'_> {
        let index = self.next;
        self.next = (index + 1) % self.templates.len();
        let Self { templates, mix, player_digits, random, .. } = self;
        let template = &mut templates[index];
        let mut repeats = 0;
        let time = decimal::<TIME_BYTES>(now_ms);
        for slot in &template.slots {
            if template.was_sent && mix.repeats_percent > 0.0 && random.percent() < mix.repeats_percent {
                repeats += 1;
                continue;
            }
            let bytes = &mut template.bytes;
            bytes[slot.time..slot.time + TIME_BYTES].copy_from_slice(&time);
            let player = decimal::<PLAYER_BYTES_MAX>(random.below(mix.players));
            bytes[slot.player..slot.player + *player_digits]
                .copy_from_slice(&player[PLAYER_BYTES_MAX - *player_digits..]);
            if let Some(id) = slot.id {
                bytes[id..id + ID_BYTES].copy_from_slice(&new_id(mix.ids, now_ms, random));
            }
        }
        template.was_sent = true;
        PreparedRequest { template, repeats }
    }
}

impl<'a> PreparedRequest<'a> {
    pub(crate) fn bytes(&self) -> &'a [u8] {
        &self.template.bytes
    }

    /// Returns the id and the JSON text of each event, in order.
    pub(crate) fn events(&self) -> impl Iterator<Item = ([u8; ID_BYTES], &'a [u8])> {
        let bytes = &self.template.bytes;
        self.template.slots.iter().filter_map(move |slot| {
            let id = *bytes[slot.id?..].first_chunk()?;
            Some((id, &bytes[slot.event.clone()]))
        })
    }
}

impl RequestTemplate {
    fn new(
        head: &RequestHead,
        mix: &EventMix,
        first: usize,
        player_digits: usize,
        random: &mut Random,
    ) -> Self {
        let mut body = Vec::new();
        let mut slots = Vec::with_capacity(mix.batch);
        for index in first..first + mix.batch {
            body.push(if index == first { b'[' } else { b',' });
            slots.push(push_event(&mut body, mix, index, player_digits, random));
        }
        body.push(b']');
        // A single event is sent without the brackets of an array.
        let body = if mix.batch == 1 { &body[1..body.len() - 1] } else { &body[..] };
        let bytes = [head.text(body.len()).as_bytes(), body].concat();
        let shift = bytes.len() - body.len() - usize::from(mix.batch == 1);
        slots.iter_mut().for_each(|slot| slot.shift(shift));
        Self { bytes, slots, was_sent: false }
    }
}

impl RequestHead {
    fn text(&self, body_bytes: usize) -> String {
        let Self { host, path, .. } = self;
        let key = self.key.as_ref().map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
        let close = if self.close { "Connection: close\r\n" } else { "" };
        format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{key}{close}\
             Content-Type: application/json\r\nContent-Length: {body_bytes}\r\n\r\n"
        )
    }
}

impl EventSlot {
    fn shift(&mut self, by: usize) {
        self.event = self.event.start + by..self.event.end + by;
        self.id = self.id.map(|id| id + by);
        self.time += by;
        self.player += by;
    }
}

/// Appends an event with zeros in place of the parts that change, and returns their positions.
fn push_event(
    body: &mut Vec<u8>,
    mix: &EventMix,
    index: usize,
    player_digits: usize,
    random: &mut Random,
) -> EventSlot {
    let start = body.len();
    body.extend(format!("{{\"event\":\"{}\"", name(index % mix.names)).bytes());
    let id = (mix.ids != IdKind::None).then(|| push_zeros(body, ",\"id\":\"", ID_BYTES, "\""));
    let time = push_zeros(body, ",\"ts\":", TIME_BYTES, "");
    let player = push_zeros(body, ",\"player\":\"p", player_digits, "\"");
    let rest = format!(
        ",\"level\":\"{}\",\"value\":{},\"country\":\"{}\",\"platform\":\"{}\"}}",
        random.below(LEVELS),
        random.below(VALUES),
        random.one_of(&COUNTRIES),
        random.one_of(&PLATFORMS)
    );
    body.extend(rest.bytes());
    EventSlot { event: start..body.len(), id, time, player }
}

fn push_zeros(body: &mut Vec<u8>, before: &str, width: usize, after: &str) -> usize {
    body.extend(before.bytes());
    let at = body.len();
    body.resize(at + width, b'0');
    body.extend(after.bytes());
    at
}

fn name(index: usize) -> String {
    NAMES.get(index).map_or_else(|| format!("event_{index}"), |name| (*name).to_owned())
}

/// Returns the last `N` digits of a number, padded with zeros.
fn decimal<const N: usize>(mut number: u64) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    digits
}

/// Returns a new UUID in its usual text form.
fn new_id(ids: IdKind, now_ms: u64, random: &mut Random) -> [u8; ID_BYTES] {
    let (high, low) = (random.next(), random.next());
    let (high, version) = match ids {
        IdKind::V7 => (now_ms << 16 | high & 0xffff, 7),
        IdKind::V4 | IdKind::None => (high, 4),
    };
    let high = high & !0xf000 | version << 12;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    id_text(u128::from(high) << 64 | u128::from(low))
}

fn id_text(id: u128) -> [u8; ID_BYTES] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    const STARTS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut text = [b'-'; ID_BYTES];
    for (byte, start) in id.to_be_bytes().into_iter().zip(STARTS) {
        text[start] = HEX[usize::from(byte >> 4)];
        text[start + 1] = HEX[usize::from(byte & 15)];
    }
    text
}

/// SplitMix64: passes the usual tests and costs about a nanosecond.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `end`. The bias of the multiplication does not matter for load.
    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    fn percent(&mut self) -> f64 {
        self.below(1 << 53) as f64 * 100.0 / (1u64 << 53) as f64
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn mix() -> EventMix {
        EventMix { ids: IdKind::V7, players: 1_000_000, names: 10, repeats_percent: 0.0, batch: 1 }
    }

    fn requests(mix: EventMix) -> RequestPool {
        let head = RequestHead {
            host: "127.0.0.1:1".to_owned(),
            path: "/v1/events".to_owned(),
            key: Some("secret".to_owned()),
            close: false,
        };
        RequestPool::events(&head, mix, 1)
    }

    /// Returns the events of `count` requests, and checks the Content-Length of each request.
    fn events_of(mix: EventMix, count: usize) -> Vec<serde_json::Value> {
        let mut requests = requests(mix);
        let mut events = Vec::new();
        for _ in 0..count {
            let bytes = requests.next(NOW_MS).bytes().to_vec();
            let text = String::from_utf8(bytes).expect("requests are text");
            let (head, body) = text.split_once("\r\n\r\n").expect("a head ends with an empty line");
            assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
            match serde_json::from_str(body).expect("a body is JSON") {
                serde_json::Value::Array(several) => events.extend(several),
                one => events.push(one),
            }
        }
        events
    }

    fn ids(events: &[serde_json::Value]) -> HashSet<String> {
        events.iter().filter_map(|event| Some(event.get("id")?.as_str()?.to_owned())).collect()
    }

    #[test]
    fn body_of_a_single_event_is_the_event_itself() {
        let event = &events_of(mix(), 1)[0];
        assert_eq!(event["event"], "level_start");
        assert_eq!(event["ts"], NOW_MS);
        assert_eq!(event["player"].as_str().map(str::len), Some(7));
        assert_eq!(event["id"].as_str().map(|id| &id[..13]), Some("018bcfe5-6800"));
    }

    #[test]
    fn body_of_a_batch_is_an_array_with_unique_ids() {
        let events = events_of(EventMix { batch: 100, ..mix() }, 3);
        assert_eq!(events.len(), 300);
        assert_eq!(ids(&events).len(), 300);
    }

    #[test]
    fn reused_template_has_new_ids() {
        assert_eq!(ids(&events_of(mix(), 20_000)).len(), 20_000);
    }

    #[test]
    fn ids_have_the_version_of_their_kind() {
        for (kind, version) in [(IdKind::V4, '4'), (IdKind::V7, '7')] {
            let events = events_of(EventMix { ids: kind, ..mix() }, 100);
            for id in ids(&events) {
                assert_eq!(id.chars().nth(14), Some(version));
                assert!("89ab".contains(&id[19..20]), "{id}");
            }
        }
    }

    #[test]
    fn events_without_ids_have_no_id() {
        assert!(ids(&events_of(EventMix { ids: IdKind::None, ..mix() }, 10)).is_empty());
    }

    #[test]
    fn repeated_events_are_unchanged() {
        let events = events_of(EventMix { repeats_percent: 50.0, ..mix() }, 2 * EVENTS_MIN);
        let different: HashSet<String> = events.iter().map(ToString::to_string).collect();
        assert_eq!(different.len(), ids(&events).len());
        let repeated = events.len() - different.len();
        assert!((EVENTS_MIN * 45 / 100..EVENTS_MIN * 55 / 100).contains(&repeated), "{repeated}");
    }

    #[test]
    fn number_of_names_is_as_requested() {
        let events = events_of(EventMix { names: 7_000, ..mix() }, 7_000);
        let names: HashSet<_> = events.iter().map(|event| event["event"].to_string()).collect();
        assert_eq!(names.len(), 7_000);
    }

    #[test]
    fn prepared_request_returns_the_ids_and_texts_of_its_events() {
        let mut requests = requests(EventMix { batch: 2, ..mix() });
        for (id, text) in requests.next(NOW_MS).events() {
            let event: serde_json::Value = serde_json::from_slice(text).expect("an event is JSON");
            assert_eq!(event["id"].as_str().map(str::as_bytes), Some(&id[..]));
        }
    }

    #[test]
    fn requests_of_a_file_are_sent_unchanged() {
        let file = b"\x03\0\0\0GET\x04\0\0\0POST";
        let mut requests = RequestPool::from_file(file, 1).expect("the file is complete");
        let sent: Vec<_> = (0..3).map(|_| requests.next(NOW_MS).bytes().to_vec()).collect();
        assert_eq!(sent, [&b"GET"[..], b"POST", b"GET"]);
        assert!(RequestPool::from_file(&file[..9], 1).is_none());
        assert!(RequestPool::from_file(b"", 1).is_none());
    }
}
