//! DDP 1: what a client says, message by message.
//!
//! The protocol: <https://github.com/meteor/meteor/blob/devel/packages/ddp/DDP.md>. As it asks, fields and messages that
//! are not known are ignored, so that a later version of it can be spoken to.

use serde::Deserialize;
use serde_json::value::RawValue;

/// An id that a client chooses: of a subscription, a call, a ping.
pub const ID_BYTES_MAX: usize = 128;
/// The name of a publication or a method.
pub const NAME_BYTES_MAX: usize = 128;
/// What is given to a publication or a method.
pub const PARAMS_MAX: usize = 8;

/// What a client says.
#[derive(Debug)]
pub enum Inbound<'a> {
    /// It wants to speak one of these versions.
    Connect {
        /// The version it proposes.
        version: String,
        /// All that it speaks; empty: that one.
        support: Vec<String>,
    },
    /// It wants an answer.
    Ping {
        /// Comes back with it.
        id: Option<String>,
    },
    /// It is still there.
    Pong,
    /// It wants to see a publication.
    Sub {
        /// Names the subscription.
        id: String,
        /// The publication.
        name: String,
        /// Of what; each is EJSON as it was written.
        params: Vec<&'a RawValue>,
    },
    /// It wants to see it no more.
    Unsub {
        /// The subscription.
        id: String,
    },
    /// It wants something done.
    Method {
        /// Names the call.
        id: String,
        /// The method.
        method: String,
        /// With what; each is EJSON as it was written.
        params: Vec<&'a RawValue>,
    },
}

/// Why a message could not be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

#[derive(Deserialize)]
struct Raw<'a> {
    msg: Option<String>,
    id: Option<String>,
    name: Option<String>,
    method: Option<String>,
    version: Option<String>,
    support: Option<Vec<String>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl<'a> Inbound<'a> {
    /// Reads one message. `None`: it is none that is known, and is to be ignored.
    pub fn read(text: &'a str) -> Result<Option<Inbound<'a>>, Malformed> {
        // Structs may be read from arrays, too; messages are objects.
        if !text.trim_start().starts_with('{') {
            return Err(Malformed("a message is a JSON object".into()));
        }
        let raw: Raw<'a> =
            serde_json::from_str(text).map_err(|error| Malformed(format!("not a message: {error}")))?;
        let Some(msg) = raw.msg.clone() else { return Ok(None) };
        Ok(Some(match msg.as_str() {
            "connect" => {
                let version = short(raw.version, "version", NAME_BYTES_MAX)?;
                Inbound::Connect { version, support: raw.support.unwrap_or_default() }
            }
            "ping" => Inbound::Ping { id: raw.id.map(|id| short(Some(id), "id", ID_BYTES_MAX)).transpose()? },
            "pong" => Inbound::Pong,
            "sub" => Inbound::Sub {
                id: short(raw.id, "id", ID_BYTES_MAX)?,
                name: short(raw.name, "name", NAME_BYTES_MAX)?,
                params: params(raw.params)?,
            },
            "unsub" => Inbound::Unsub { id: short(raw.id, "id", ID_BYTES_MAX)? },
            "method" => Inbound::Method {
                id: short(raw.id, "id", ID_BYTES_MAX)?,
                method: short(raw.method, "method", NAME_BYTES_MAX)?,
                params: params(raw.params)?,
            },
            _ => return Ok(None),
        }))
    }
}

fn short(value: Option<String>, field: &str, bytes_max: usize) -> Result<String, Malformed> {
    let value = value.ok_or_else(|| Malformed(format!("`{field}` is missing")))?;
    if value.is_empty() || value.len() > bytes_max {
        return Err(Malformed(format!("`{field}` has 1 to {bytes_max} bytes")));
    }
    Ok(value)
}

fn params(raw: Option<&RawValue>) -> Result<Vec<&RawValue>, Malformed> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let params: Vec<&RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| Malformed("`params` is an array".into()))?;
    if params.len() > PARAMS_MAX {
        return Err(Malformed(format!("`params` has at most {PARAMS_MAX}")));
    }
    Ok(params)
}
