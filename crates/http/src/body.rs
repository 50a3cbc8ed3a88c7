//! Reads request bodies of bounded size at a minimum speed and decompresses them to a bounded size, within the memory of
//! all bodies together.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use decode::remote_write::{InvalidSnappy, unpack, unpacked_len};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap};
use hyper::http::request::Parts;
use tokio::time::Instant;

use model::limits::{BODY_BYTES_MAX, INFLATED_BYTES_MAX};

use crate::body_memory::{BodyMemory, HeldBody};
use crate::problem::Problem;
use crate::request_context::RequestContext;

/// The time during which a body may arrive at any speed.
const GRACE: Duration = Duration::from_secs(5);
/// The minimum speed after the grace period.
const BYTES_PER_SECOND_MIN: u64 = 1024;
/// The longest silence within a body, however much of it arrived before.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The minimum average speed after the first [`DURATION_MIN`].
const AVERAGE_BYTES_PER_SECOND_MIN: u64 = 64 << 10;
/// The time that every body may take.
const DURATION_MIN: Duration = Duration::from_secs(30);
/// Bytes that are decompressed before other requests of the runtime get their turn.
const PIECE: usize = 256 << 10;
/// The bytes of a rejected body that are read so that the client sees the response; then the connection is closed.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// The largest body that a route accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// Bytes on the wire.
    pub(crate) bytes: usize,
    /// Bytes after decompression.
    pub(crate) inflated_bytes: usize,
}

impl BodyLimits {
    /// The limits of a request that carries events.
    pub(crate) const EVENTS: BodyLimits =
        BodyLimits { bytes: BODY_BYTES_MAX, inflated_bytes: INFLATED_BYTES_MAX };
}

/// Reads a whole body and decompresses it according to `Content-Encoding`.
pub(crate) async fn read(
    head: &Parts,
    body: &mut (impl Body<Data = Bytes> + Unpin),
    limits: BodyLimits,
) -> Result<Bytes, Problem> {
    read_within(&memory_of(head), &head.headers, body, limits).await
}

/// As [`read`], for a request without a context.
pub(crate) async fn read_within(
    memory: &BodyMemory,
    headers: &HeaderMap,
    body: &mut (impl Body<Data = Bytes> + Unpin),
    limits: BodyLimits,
) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > limits.bytes as u64 {
        return Err(too_large(limits.bytes));
    }
    let encoding = Encoding::of(headers)?;
    let bytes = collect_within(memory, body, limits.bytes).await?;
    match encoding {
        None => Ok(bytes),
        Some(encoding) => encoding.inflate(memory, &bytes, limits.inflated_bytes).await,
    }
}

/// Decompresses a body according to `Content-Encoding`.
pub(crate) async fn inflate(head: &Parts, bytes: Bytes, bytes_max: usize) -> Result<Bytes, Problem> {
    match Encoding::of(&head.headers)? {
        None => Ok(bytes),
        Some(encoding) => encoding.inflate(&memory_of(head), &bytes, bytes_max).await,
    }
}

/// Reads a whole body that is compressed with snappy and decompresses it.
pub(crate) async fn read_snappy(
    head: &Parts,
    body: &mut (impl Body<Data = Bytes> + Unpin),
    limits: BodyLimits,
) -> Result<Bytes, Problem> {
    let bytes = collect(head, body, limits.bytes).await?;
    let invalid = |failure: InvalidSnappy| match failure {
        InvalidSnappy::TooLarge => Problem::too_large(failure.to_string()),
        InvalidSnappy::Malformed => Problem::malformed(failure.to_string()).field("Content-Encoding"),
    };
    let len = unpacked_len(&bytes, limits.inflated_bytes).map_err(invalid)?;
    let mut unpacked = HeldBody::new(&memory_of(head));
    unpack(&bytes, unpacked.zeroed(len)?).map_err(invalid)?;
    Ok(unpacked.into_bytes())
}

/// Decompresses a body that starts with the gzip magic number, even without a `Content-Encoding` header; returns others unchanged.
pub(crate) async fn gunzip(head: &Parts, bytes: Bytes, bytes_max: usize) -> Result<Bytes, Problem> {
    match bytes[..] {
        [0x1f, 0x8b, ..] => Encoding::Gzip.inflate(&memory_of(head), &bytes, bytes_max).await,
        _ => Ok(bytes),
    }
}

fn memory_of(head: &Parts) -> BodyMemory {
    RequestContext::from(head).body_memory().clone()
}

/// Reads the rest of a rejected body in the background and discards it. A client that is still sending would otherwise
/// find the connection reset, never see the response, and retry.
pub(crate) fn discard<B>(headers: &HeaderMap, mut body: B, problem: &Problem)
where
    B: Body<Data = Bytes, Error: Send> + Unpin + Send + 'static,
{
    let expects_continue = headers.contains_key(EXPECT);
    let has_stalled = problem.status() == 408;
    if body.is_end_stream() || expects_continue || has_stalled {
        return;
    }
    tokio::spawn(async move {
        let mut pace = Pace::start();
        let mut discarded = 0;
        while discarded < DISCARDED_BYTES_MAX {
            match next_chunk(&mut body, &mut pace).await {
                Ok(Some(bytes)) => discarded += bytes.len(),
                Ok(None) | Err(_) => return,
            }
        }
    });
}

/// Reads a whole body of at most `bytes_max` bytes without decompressing it.
pub(crate) async fn collect(
    head: &Parts,
    body: &mut (impl Body<Data = Bytes> + Unpin),
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    collect_within(&memory_of(head), body, bytes_max).await
}

async fn collect_within(
    memory: &BodyMemory,
    body: &mut (impl Body<Data = Bytes> + Unpin),
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    let mut pace = Pace::start();
    let Some(first) = next_chunk(body, &mut pace).await? else { return Ok(Bytes::new()) };
    if first.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    if body.is_end_stream() && !memory.counts_single_chunks() {
        return Ok(first);
    }
    let mut all = HeldBody::new(memory);
    all.extend(&first)?;
    drop(first);
    while let Some(more) = next_chunk(body, &mut pace).await? {
        if all.len() + more.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        all.extend(&more)?;
    }
    Ok(all.into_bytes())
}

/// How long a body or a message of a socket may be silent and how long it may take: each kilobyte earns a second of
/// silence, up to [`SILENCE_MAX`], and each 64 KiB a second of time, beyond [`DURATION_MIN`].
#[derive(Debug)]
pub(crate) struct Pace {
    silent_until: Instant,
    complete_until: Instant,
}

impl Pace {
    pub(crate) fn start() -> Pace {
        let now = Instant::now();
        Pace { silent_until: now + GRACE, complete_until: now + DURATION_MIN }
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        let earned =
            |per_second: u64| Duration::from_micros((bytes as u64).saturating_mul(1_000_000) / per_second);
        let silent_until = self.silent_until + earned(BYTES_PER_SECOND_MIN);
        self.silent_until = silent_until.min(Instant::now() + SILENCE_MAX);
        self.complete_until += earned(AVERAGE_BYTES_PER_SECOND_MIN);
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.silent_until.min(self.complete_until)
    }
}

/// Reads the next chunk of a body. Fails if it does not arrive in time.
async fn next_chunk(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    pace: &mut Pace,
) -> Result<Option<Bytes>, Problem> {
    loop {
        let frame = tokio::time::timeout_at(pace.deadline(), body.frame());
        let stalled = || {
            Problem::body_stalled(
                "the body must arrive at 1 KiB per second or faster, and after 30 s at 64 KiB per second on average",
            )
        };
        match frame.await.map_err(|_| stalled())? {
            None => return Ok(None),
            Some(Err(_)) => {
                return Err(Problem::malformed("the connection closed before the end of the body"));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    pace.add(data.len());
                    return Ok(Some(data));
                }
                Err(_trailers) => continue,
            },
        }
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::too_large(format!("the body must be {bytes_max} bytes or smaller"))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Result<Option<Encoding>, Problem> {
        let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(None) };
        match value.to_str().unwrap_or_default().trim() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Encoding::Gzip)),
            "deflate" => Ok(Some(Encoding::Deflate)),
            "br" => Ok(Some(Encoding::Brotli)),
            "zstd" => Ok(Some(Encoding::Zstd)),
            other => {
                let detail = format!(
                    "`{other}` is not supported: use gzip, deflate, br or zstd, or send the body uncompressed"
                );
                Err(Problem::unsupported(detail).field("Content-Encoding"))
            }
        }
    }

    /// Decompresses a body piece by piece. Other requests get their turn in between.
    async fn inflate(self, memory: &BodyMemory, bytes: &[u8], bytes_max: usize) -> Result<Bytes, Problem> {
        let mut decoder = self.decoder(bytes).map_err(|failure| inflate_error(&failure))?;
        let mut inflated = HeldBody::new(memory);
        loop {
            // One byte more than allowed shows that there is more.
            let piece = PIECE.min(bytes_max + 1 - inflated.len());
            let read = inflated.read_from(&mut *decoder, piece)?;
            let read = read.map_err(|failure| inflate_error(&failure))?;
            if inflated.len() > bytes_max {
                let detail = format!("the decompressed body must be {bytes_max} bytes or smaller");
                return Err(Problem::too_large(detail));
            }
            if read < piece {
                return Ok(inflated.into_bytes());
            }
            tokio::task::yield_now().await;
        }
    }

    fn decoder(self, bytes: &[u8]) -> std::io::Result<Box<dyn Read + Send + '_>> {
        Ok(match self {
            Encoding::Gzip => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
            // The registered name means the zlib format (RFC 9110, 8.4.1.2); some clients send raw deflate.
            Encoding::Deflate if is_zlib(bytes) => Box::new(flate2::read::ZlibDecoder::new(bytes)),
            Encoding::Deflate => Box::new(flate2::read::DeflateDecoder::new(bytes)),
            Encoding::Brotli => Box::new(brotli_decompressor::Decompressor::new(bytes, 4096)),
            Encoding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(bytes)?;
                decoder.window_log_max(26)?;
                Box::new(decoder)
            }
        })
    }
}

fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31))
}

fn inflate_error(failure: &std::io::Error) -> Problem {
    Problem::malformed(format!("the body could not be decompressed: {failure}")).field("Content-Encoding")
}
