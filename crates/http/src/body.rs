//! Reads request bodies of bounded size at a minimum speed and decompresses them to a bounded size.

use std::io::Read;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, EXPECT, HeaderMap};

use model::limits::{BODY_BYTES_MAX, INFLATED_BYTES_MAX};

use crate::problem::Problem;

/// The time during which a body may arrive at any speed.
const GRACE: Duration = Duration::from_secs(5);
/// The minimum average speed after the grace period.
const BYTES_PER_SECOND_MIN: u64 = 1024;
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
    headers: &HeaderMap,
    body: &mut (impl Body<Data = Bytes> + Unpin),
    limits: BodyLimits,
) -> Result<Bytes, Problem> {
    if body.size_hint().lower() > limits.bytes as u64 {
        return Err(too_large(limits.bytes));
    }
    Encoding::of(headers)?;
    let bytes = collect(body, limits.bytes).await?;
    inflate(headers, bytes, limits.inflated_bytes)
}

/// Decompresses a body according to `Content-Encoding`.
pub(crate) fn inflate(headers: &HeaderMap, bytes: Bytes, bytes_max: usize) -> Result<Bytes, Problem> {
    match Encoding::of(headers)? {
        None => Ok(bytes),
        Some(encoding) => encoding.inflate(&bytes, bytes_max).map(Bytes::from),
    }
}

/// Decompresses a body that starts with the gzip magic number, even without a `Content-Encoding` header; returns others unchanged.
pub(crate) fn gunzip(bytes: Bytes, bytes_max: usize) -> Result<Bytes, Problem> {
    match bytes[..] {
        [0x1f, 0x8b, ..] => Encoding::Gzip.inflate(&bytes, bytes_max).map(Bytes::from),
        _ => Ok(bytes),
    }
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
        let started = tokio::time::Instant::now();
        let mut discarded = 0;
        while discarded < DISCARDED_BYTES_MAX {
            match next_chunk(&mut body, discarded, Some(started)).await {
                Ok(Some(bytes)) => discarded += bytes.len(),
                Ok(None) | Err(_) => return,
            }
        }
    });
}

/// Reads a whole body of at most `bytes_max` bytes without decompressing it.
pub(crate) async fn collect(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    let Some(first) = next_chunk(body, 0, None).await? else { return Ok(Bytes::new()) };
    if first.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    if body.is_end_stream() {
        return Ok(first);
    }
    let started = tokio::time::Instant::now();
    let mut all = BytesMut::from(first);
    while let Some(more) = next_chunk(body, all.len(), Some(started)).await? {
        all.extend_from_slice(&more);
        if all.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
    }
    Ok(all.freeze())
}

/// Reads the next chunk of a body of which `read_bytes` were already read. Fails if the chunk does not arrive in time.
async fn next_chunk(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    read_bytes: usize,
    started: Option<tokio::time::Instant>,
) -> Result<Option<Bytes>, Problem> {
    let earned = Duration::from_millis(read_bytes as u64 * 1000 / BYTES_PER_SECOND_MIN);
    let deadline = started.unwrap_or_else(tokio::time::Instant::now) + GRACE + earned;
    loop {
        let frame = tokio::time::timeout_at(deadline, body.frame());
        let stalled = || Problem::body_stalled("the body must arrive at 1 KiB per second or faster");
        match frame.await.map_err(|_| stalled())? {
            None => return Ok(None),
            Some(Err(_)) => {
                return Err(Problem::malformed("the connection closed before the end of the body"));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => return Ok(Some(data)),
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
                let mut decoder = decoder.map_err(|failure| inflate_error(&failure))?;
                decoder.window_log_max(26).map_err(|failure| inflate_error(&failure))?;
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
    read.map_err(|failure| inflate_error(&failure))?;
    if inflated.len() > bytes_max {
        let detail = format!("the decompressed body must be {bytes_max} bytes or smaller");
        return Err(Problem::too_large(detail));
    }
    Ok(inflated)
}

fn inflate_error(failure: &std::io::Error) -> Problem {
    Problem::malformed(format!("the body could not be decompressed: {failure}")).field("Content-Encoding")
}
