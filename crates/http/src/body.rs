//! Request bodies: read at a bounded size and a least speed, then inflated to a bounded size.

use std::io::Read;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap};
use model::limits::{BODY_BYTES_MAX, INFLATED_BYTES_MAX};

use crate::problem::Problem;

/// A body may be slow for so long.
const GRACE: Duration = Duration::from_secs(5);
/// After that it must come at least so fast.
const BYTES_PER_SECOND_MIN: u64 = 1024;
/// So much of a refused body is read for the sake of the answer; then the connection is closed.
const DISCARDED_BYTES_MAX: usize = 64 << 20;

/// How large a body may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// As it comes.
    pub bytes: usize,
    /// Inflated.
    pub inflated_bytes: usize,
}

impl Limits {
    /// Of a request with events.
    pub const EVENTS: Limits = Limits { bytes: BODY_BYTES_MAX, inflated_bytes: INFLATED_BYTES_MAX };
}

/// Reads a whole body and undoes its encoding.
pub async fn read(
    headers: &HeaderMap,
    body: &mut (impl Body<Data = Bytes> + Unpin),
    limits: Limits,
) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > limits.bytes as u64 {
        return Err(too_large(limits.bytes));
    }
    Encoding::of(headers)?;
    let bytes = collect(body, limits.bytes).await?;
    inflate(headers, bytes, limits.inflated_bytes)
}

/// Undoes the encoding that the headers name.
pub fn inflate(headers: &HeaderMap, bytes: Bytes, bytes_max: usize) -> Result<Bytes, Problem> {
    match Encoding::of(headers)? {
        None => Ok(bytes),
        Some(encoding) => encoding.inflate(&bytes, bytes_max).map(Bytes::from),
    }
}

/// Undoes gzip where a body has it though no header says so; other bodies stay as they are.
pub fn gunzip(bytes: Bytes, bytes_max: usize) -> Result<Bytes, Problem> {
    match bytes[..] {
        [0x1f, 0x8b, ..] => Encoding::Gzip.inflate(&bytes, bytes_max).map(Bytes::from),
        _ => Ok(bytes),
    }
}

/// Reads on in the background and throws away what comes. A client that is refused while it is still sending would
/// find the connection reset, never see the answer, and send the same again.
pub fn discard<B>(headers: &HeaderMap, mut body: B, problem: &Problem)
where
    B: Body<Data = Bytes, Error: Send> + Unpin + Send + 'static,
{
    let waits_for_leave = headers.contains_key(EXPECT);
    let has_stalled = problem.status() == 408;
    if body.is_end_stream() || waits_for_leave || has_stalled {
        return;
    }
    tokio::spawn(async move {
        let started = tokio::time::Instant::now();
        let mut discarded = 0;
        while discarded < DISCARDED_BYTES_MAX {
            match next(&mut body, discarded, Some(started)).await {
                Ok(Some(bytes)) => discarded += bytes.len(),
                Ok(None) | Err(_) => return,
            }
        }
    });
}

/// Reads a whole body of at most so many bytes as it is.
pub async fn collect(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    let Some(first) = next(body, 0, None).await? else { return Ok(Bytes::new()) };
    if first.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    let started = tokio::time::Instant::now();
    let mut all = BytesMut::from(first);
    while let Some(more) = next(body, all.len(), Some(started)).await? {
        all.extend_from_slice(&more);
        if all.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
    }
    Ok(all.freeze())
}

/// The next piece of data, or an error when it does not come in time.
async fn next(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    have: usize,
    started: Option<tokio::time::Instant>,
) -> Result<Option<Bytes>, Problem> {
    let earned = Duration::from_millis(have as u64 * 1000 / BYTES_PER_SECOND_MIN);
    let deadline = started.unwrap_or_else(tokio::time::Instant::now) + GRACE + earned;
    loop {
        let frame = tokio::time::timeout_at(deadline, body.frame());
        let stalled = || Problem::body_stalled("the body came at less than 1 KiB a second");
        match frame.await.map_err(|_| stalled())? {
            None => return Ok(None),
            Some(Err(_)) => return Err(Problem::malformed("the body ended early")),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
                Err(_trailers) => continue,
            },
        }
    }
}

fn too_large(bytes_max: usize) -> Problem {
    Problem::too_large(format!("the body has more than {bytes_max} bytes"))
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
                let detail = format!("`{other}`; send gzip, deflate, br, zstd or nothing");
                Err(Problem::unsupported(detail).field("Content-Encoding"))
            }
        }
    }

    fn inflate(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, Problem> {
        let bounded = |decoder: &mut dyn Read| bounded(decoder, bytes_max);
        match self {
            Encoding::Gzip => bounded(&mut flate2::read::MultiGzDecoder::new(bytes)),
            // The registered name means the zlib format (RFC 9110, 8.4.1.2); some clients send raw deflate.
            Encoding::Deflate if is_zlib(bytes) => bounded(&mut flate2::read::ZlibDecoder::new(bytes)),
            Encoding::Deflate => bounded(&mut flate2::read::DeflateDecoder::new(bytes)),
            Encoding::Brotli => bounded(&mut brotli_decompressor::Decompressor::new(bytes, 4096)),
            Encoding::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(bytes);
                let mut decoder = decoder.map_err(|failure| broken(&failure))?;
                decoder.window_log_max(26).map_err(|failure| broken(&failure))?;
                bounded(&mut decoder)
            }
        }
    }
}

fn is_zlib(bytes: &[u8]) -> bool {
    matches!(bytes, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31))
}

fn bounded(decoder: &mut dyn Read, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let mut inflated = Vec::new();
    let read = decoder.take(bytes_max as u64 + 1).read_to_end(&mut inflated);
    read.map_err(|failure| broken(&failure))?;
    if inflated.len() > bytes_max {
        let detail = format!("the body inflates to more than {bytes_max} bytes");
        return Err(Problem::too_large(detail));
    }
    Ok(inflated)
}

fn broken(failure: &std::io::Error) -> Problem {
    Problem::malformed(format!("the body cannot be inflated: {failure}")).field("Content-Encoding")
}
