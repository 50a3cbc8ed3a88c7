//! A bucket of S3 or of a service that speaks its protocol.
//!
//! `rusty_s3` signs requests and reads listings; `ureq` sends them, one at a time. Every object fits one request, so an
//! interrupted upload leaves nothing behind.

use std::fs::File;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};
use ureq::Agent;
use ureq::http::StatusCode;

use super::{S3Credentials, Target};
use crate::agent;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Enough for an object at 50 KB/s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The time for which a signature is valid.
const SIGNED_FOR: Duration = Duration::from_secs(600);
/// Attempts of a request that fails for a reason that may pass.
const ATTEMPTS: u32 = 5;
/// The pause before the second attempt; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The largest answer besides objects: a page of a listing, or an error.
const TEXT_BYTES_MAX: u64 = 4 << 20;

pub(super) struct S3Target {
    bucket: Bucket,
    prefix: String,
    credentials: Credentials,
    agent: Agent,
}

/// The answer to a request.
struct Answer {
    status: StatusCode,
    body: Vec<u8>,
}

impl S3Target {
    pub(super) fn new(bucket: &str, prefix: &str, settings: &S3Credentials) -> anyhow::Result<S3Target> {
        let region = settings.region.clone();
        let (endpoint, style) = match &settings.endpoint {
            Some(endpoint) => (endpoint.clone(), UrlStyle::Path),
            // The certificate of AWS covers one level of names.
            None if bucket.contains('.') => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::Path),
            None => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::VirtualHost),
        };
        let url = endpoint.parse().with_context(|| format!("AWS_ENDPOINT_URL: `{endpoint}` is not a URL"))?;
        let made = Bucket::new(url, style, bucket.to_owned(), region);
        let made = made.map_err(|error| anyhow!("AWS_ENDPOINT_URL: `{endpoint}`: {error}"))?;
        let credentials = match &settings.token {
            Some(token) => Credentials::new_with_token(&settings.key, &settings.secret, token),
            None => Credentials::new(&settings.key, &settings.secret),
        };
        let agent = agent(&endpoint, CONNECT_TIMEOUT, REQUEST_TIMEOUT);
        Ok(S3Target { bucket: made, prefix: prefix.to_owned(), credentials, agent })
    }

    /// Sends a request until it is answered with anything but a passing failure.
    fn send(&self, what: &str, send: impl Fn() -> Result<Answer, ureq::Error>) -> anyhow::Result<Answer> {
        let mut pause = FIRST_PAUSE;
        for attempt in 1.. {
            let failure = match send() {
                Ok(Answer { status, body }) if is_passing(status) => explain(status, &body),
                Ok(answer) => return Ok(answer),
                Err(error) => failure_text(&error),
            };
            if attempt == ATTEMPTS {
                bail!("{}: {what} failed {ATTEMPTS} times: {failure}", self.description());
            }
            tracing::warn!(what, failure, "a request to the bucket failed; trying again");
            std::thread::sleep(pause);
            pause *= 2;
        }
        unreachable!("the loop ends with the last attempt")
    }

    fn ensure_success(&self, what: &str, answer: &Answer) -> anyhow::Result<()> {
        let Answer { status, body } = answer;
        ensure!(status.is_success(), "{}: {what}: {}", self.description(), explain(*status, body));
        Ok(())
    }

    fn list_page(
        &self,
        prefix: &str,
        token: Option<&str>,
    ) -> anyhow::Result<rusty_s3::actions::ListObjectsV2Response> {
        let answer = self.send("listing", || {
            let mut action = self.bucket.list_objects_v2(Some(&self.credentials));
            action.with_prefix(prefix);
            if let Some(token) = token {
                action.with_continuation_token(token);
            }
            get(&self.agent, action.sign(SIGNED_FOR).as_str(), TEXT_BYTES_MAX)
        })?;
        self.ensure_success("listing", &answer)?;
        let text = String::from_utf8(answer.body).context("the listing is not text")?;
        ListObjectsV2::parse_response(&text).map_err(|error| anyhow!("the listing is not valid: {error}"))
    }
}

impl Target for S3Target {
    fn begin_writing(&self) -> anyhow::Result<Option<File>> {
        Ok(None)
    }

    fn list(&self, prefix: &str) -> anyhow::Result<Vec<(String, u64)>> {
        let prefix = format!("{}{prefix}", self.prefix);
        let (mut found, mut token) = (Vec::new(), None);
        loop {
            let page = self.list_page(&prefix, token.as_deref())?;
            for object in page.contents {
                if let Some(name) = object.key.strip_prefix(&self.prefix) {
                    found.push((name.to_owned(), object.size.unwrap_or_default()));
                }
            }
            let Some(next) = page.next_continuation_token else { return Ok(found) };
            ensure!(token.as_ref() != Some(&next), "the listing of {} does not end", self.description());
            token = Some(next);
        }
    }

    fn read(&self, name: &str, bytes_max: u64) -> anyhow::Result<Option<Vec<u8>>> {
        let (key, what) = (format!("{}{name}", self.prefix), format!("reading {name}"));
        let answer = self.send(&what, || {
            let action = self.bucket.get_object(Some(&self.credentials), &key);
            get(&self.agent, action.sign(SIGNED_FOR).as_str(), bytes_max)
        })?;
        if answer.status == StatusCode::NOT_FOUND && code(&answer.body) != Some("NoSuchBucket") {
            return Ok(None);
        }
        self.ensure_success(&what, &answer)?;
        Ok(Some(answer.body))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let (key, what) = (format!("{}{name}", self.prefix), format!("writing {name}"));
        let answer = self.send(&what, || {
            let action = self.bucket.put_object(Some(&self.credentials), &key);
            answer(self.agent.put(action.sign(SIGNED_FOR).as_str()).send(bytes)?, TEXT_BYTES_MAX)
        })?;
        self.ensure_success(&what, &answer)
    }

    fn remove(&self, name: &str) -> anyhow::Result<()> {
        let (key, what) = (format!("{}{name}", self.prefix), format!("removing {name}"));
        let answer = self.send(&what, || {
            let action = self.bucket.delete_object(Some(&self.credentials), &key);
            answer(self.agent.delete(action.sign(SIGNED_FOR).as_str()).call()?, TEXT_BYTES_MAX)
        })?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(());
        }
        self.ensure_success(&what, &answer)
    }

    fn description(&self) -> String {
        format!("s3://{}/{}", self.bucket.name(), self.prefix)
    }
}

fn get(agent: &Agent, url: &str, bytes_max: u64) -> Result<Answer, ureq::Error> {
    answer(agent.get(url).call()?, bytes_max)
}

fn answer(response: ureq::http::Response<ureq::Body>, bytes_max: u64) -> Result<Answer, ureq::Error> {
    let (parts, mut body) = response.into_parts();
    let body = body.with_config().limit(bytes_max).read_to_vec()?;
    Ok(Answer { status: parts.status, body })
}

/// Returns true if the same request may succeed later.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status.as_u16(), 408 | 429)
}

/// Returns what the service says about a failure.
fn explain(status: StatusCode, body: &[u8]) -> String {
    let message = element(body, "Message").unwrap_or_default();
    match (status.as_u16(), code(body)) {
        (_, Some("NoSuchBucket")) => "the bucket does not exist".to_owned(),
        (_, Some(code @ ("InvalidAccessKeyId" | "SignatureDoesNotMatch"))) => {
            format!("the access key or its secret is wrong ({code})")
        }
        (403, code) => format!("access is denied ({} {message})", code.unwrap_or("403")),
        (status, Some(code)) => format!("{status} {code} {message}"),
        (status, None) => format!("the service answered with status {status}"),
    }
}

fn failure_text(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        // The text of others may contain the URL, which is signed.
        ureq::Error::BodyExceedsLimit(_) => "the answer is too large".to_owned(),
        ureq::Error::HostNotFound => "the host name cannot be resolved".to_owned(),
        ureq::Error::ConnectionFailed => "the connection failed".to_owned(),
        ureq::Error::Tls(error) => (*error).to_owned(),
        ureq::Error::Rustls(error) => error.to_string(),
        _ => "the answer is not valid HTTP".to_owned(),
    }
}

fn code(body: &[u8]) -> Option<&str> {
    element(body, "Code")
}

/// Returns the text of an element without children.
fn element<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    Some(rest.split_once("</")?.0)
}
