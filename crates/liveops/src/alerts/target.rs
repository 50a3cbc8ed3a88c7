//! Where notifications are sent. Secrets of a target are stored and never shown again.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Refusal, check_text, is_key};

/// Targets of one rule.
const TARGETS_MAX: usize = 10;
const ID_BYTES_MAX: usize = 40;
const URL_BYTES_MAX: usize = 2_000;
/// The longest mail address (RFC 5321).
const TO_BYTES_MAX: usize = 254;
/// The prefix of a secret, before its base64.
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of a secret with its prefix: 24 to 64 bytes in base64.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 38..=94;
/// What is shown instead of the path and the query of a URL.
const MASKED_PATH: &str = "/***";

/// A kind of target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A signed request with JSON.
    Webhook,
    /// A message in the JSON of Slack's incoming webhooks.
    Slack,
    /// A mail.
    Email,
}

/// A target as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlertTarget {
    /// The id within the rule.
    pub id: String,
    /// The kind.
    pub kind: TargetKind,
    /// The URL of a webhook or of Slack.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The address of a mail.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
    /// The secret that signs requests to a webhook.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub secret: String,
}

/// A target as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetWrite {
    /// The id within the rule; by default the position in the list, from 1 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The kind.
    pub kind: TargetKind,
    /// The URL of a webhook or of Slack; by default that of the target with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The address of a mail; by default that of the target with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The secret of a webhook; by default that of the target with this id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The secret of a webhook that has none yet. Drawn by the server before the command is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_secret: Option<String>,
}

impl AlertTarget {
    /// Returns the target without secrets. The path of a URL often contains one.
    pub(super) fn json(&self) -> Value {
        let mut json = json!({ "id": self.id, "kind": self.kind });
        match self.kind {
            TargetKind::Webhook | TargetKind::Slack => json["url"] = self.masked_url().into(),
            TargetKind::Email => json["to"] = self.to.as_str().into(),
        }
        json
    }

    /// Returns the URL with its path masked.
    fn masked_url(&self) -> String {
        masked(&self.url)
    }
}

fn masked(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    format!("{}{MASKED_PATH}", &url[..end])
}

/// Returns the targets to be stored, in which what was not written comes from `before`.
pub(super) fn resolve(writes: Vec<TargetWrite>, before: &[AlertTarget]) -> Result<Vec<AlertTarget>, Refusal> {
    if writes.len() > TARGETS_MAX {
        return Err(Refusal::invalid("targets", format!("must have at most {TARGETS_MAX} entries")));
    }
    let mut targets: Vec<AlertTarget> = Vec::with_capacity(writes.len());
    for (index, write) in writes.into_iter().enumerate() {
        let field = |name: &str| format!("targets[{index}].{name}");
        let id = write.id.clone().unwrap_or_else(|| (index + 1).to_string());
        if !is_key(&id) || id.len() > ID_BYTES_MAX {
            let detail = format!("must have 1 to {ID_BYTES_MAX} letters, digits, `.`, `_` or `-`");
            return Err(Refusal::invalid(field("id"), detail));
        }
        if targets.iter().any(|target| target.id == id) {
            return Err(Refusal::invalid(field("id"), "another target has the same id"));
        }
        let known = before.iter().find(|target| target.id == id && target.kind == write.kind);
        targets.push(write.resolve(id, known, field)?);
    }
    Ok(targets)
}

impl TargetWrite {
    fn resolve(
        self,
        id: String,
        known: Option<&AlertTarget>,
        field: impl Fn(&str) -> String,
    ) -> Result<AlertTarget, Refusal> {
        let kind = self.kind;
        let allowed = |name: &str, is_set: bool, is_allowed: bool| {
            let detail = format!("does not apply to this kind of target; remove `{name}`");
            if is_set && !is_allowed { Err(Refusal::invalid(field(name), detail)) } else { Ok(()) }
        };
        allowed("url", self.url.is_some(), kind != TargetKind::Email)?;
        allowed("to", self.to.is_some(), kind == TargetKind::Email)?;
        allowed("secret", self.secret.is_some(), kind == TargetKind::Webhook)?;
        let mut target =
            AlertTarget { id, kind, url: String::new(), to: String::new(), secret: String::new() };
        if kind == TargetKind::Email {
            let to = self.to.or_else(|| known.map(|known| known.to.clone()));
            target.to = to.ok_or_else(|| Refusal::invalid(field("to"), "is required"))?;
            check_address(&field("to"), &target.to)?;
            return Ok(target);
        }
        let written = self.url.filter(|url| known.is_none_or(|known| *url != known.masked_url()));
        if written.as_ref().is_some_and(|url| *url == masked(url)) {
            let detail = "is masked; send the complete URL, or the `id` of a target that has it";
            return Err(Refusal::invalid(field("url"), detail));
        }
        let url = written.or_else(|| known.map(|known| known.url.clone()));
        target.url = url.ok_or_else(|| Refusal::invalid(field("url"), "is required"))?;
        check_url(&field("url"), &target.url)?;
        if kind == TargetKind::Webhook {
            let stored = known.map(|known| known.secret.clone());
            let secret = self.secret.or(stored).or(self.new_secret);
            target.secret = secret.ok_or_else(|| Refusal::invalid(field("secret"), "is required"))?;
            check_secret(&field("secret"), &target.secret)?;
        }
        Ok(target)
    }
}

fn check_url(field: &str, url: &str) -> Result<(), Refusal> {
    check_text(field, url, URL_BYTES_MAX)?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        Some(host) if host.contains('@') => {
            Err(Refusal::invalid(field, "must not contain a user or a password"))
        }
        Some(host) if is_authority(host) && url.bytes().all(is_in_urls) => Ok(()),
        _ => Err(Refusal::invalid(field, "must be an https:// or http:// URL with a host, in ASCII")),
    }
}

/// Returns true if it is a host, or a host and a port.
fn is_authority(text: &str) -> bool {
    let (host, rest, is_in_hosts): (_, _, fn(u8) -> bool) = match text.strip_prefix('[') {
        Some(text) => match text.split_once(']') {
            Some((host, rest)) => (host, rest, |byte| byte.is_ascii_hexdigit() || b":.".contains(&byte)),
            None => return false,
        },
        None => {
            let (host, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
            (host, rest, |byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    !host.is_empty()
        && host.bytes().all(is_in_hosts)
        && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// Returns true for the bytes that a URL may contain (RFC 3986).
fn is_in_urls(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#""<>\^`{|}"#.contains(&byte)
}

fn check_address(field: &str, address: &str) -> Result<(), Refusal> {
    let is_valid = address.len() <= TO_BYTES_MAX
        && address.bytes().all(|byte| byte.is_ascii_graphic() && !br#"<>(),;:\"[]"#.contains(&byte))
        && address.split_once('@').is_some_and(|(user, host)| {
            !user.is_empty() && !host.is_empty() && !host.contains('@') && !host.starts_with('.')
        });
    if is_valid {
        Ok(())
    } else {
        Err(Refusal::invalid(field, "must be a mail address such as ops@example.com"))
    }
}

fn check_secret(field: &str, secret: &str) -> Result<(), Refusal> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
    let base64 = secret.strip_prefix(SECRET_PREFIX).unwrap_or_default();
    if SECRET_BYTES.contains(&secret.len()) && base64.len().is_multiple_of(4) && base64.bytes().all(allowed) {
        return Ok(());
    }
    let detail = format!("must be `{SECRET_PREFIX}` and 24 to 64 bytes in base64; omit it to get a new one");
    Err(Refusal::invalid(field, detail))
}
