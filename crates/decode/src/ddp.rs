//! DDP 1: the messages of a client.
//!
//! The protocol: <https://github.com/meteor/meteor/blob/devel/packages/ddp/DDP.md>. Unknown fields are ignored, so that
//! later versions of it work. A message of an unknown kind is an error, as in Meteor's server.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum bytes of an id chosen by the client: of a subscription, a call, a ping.
pub const ID_BYTES_MAX: usize = 128;
/// Maximum bytes of the name of a publication or a method.
pub const NAME_BYTES_MAX: usize = 128;
/// Maximum number of parameters of a publication or a method.
pub const PARAMS_MAX: usize = 8;

/// A message of a client.
#[derive(Debug)]
pub enum ClientMessage<'a> {
    /// Proposes protocol versions.
    Connect {
        /// The proposed version.
        version: String,
        /// All supported versions; empty means only the proposed one.
        support: Vec<String>,
    },
    /// Requests a `pong`.
    Ping {
        /// Returned in the `pong`.
        id: Option<String>,
    },
    /// Answers a `ping`.
    Pong,
    /// Subscribes to a publication.
    Sub {
        /// The id of the subscription.
        id: String,
        /// The publication.
        name: String,
        /// The parameters, each as the original EJSON text.
        params: Vec<&'a RawValue>,
    },
    /// Ends a subscription.
    Unsub {
        /// The subscription.
        id: String,
    },
    /// Calls a method.
    Method {
        /// The id of the call.
        id: String,
        /// The method.
        method: String,
        /// The parameters, each as the original EJSON text.
        params: Vec<&'a RawValue>,
    },
}

/// The error of a message that cannot be read, or whose kind is unknown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedMessage(String);

#[derive(Deserialize)]
struct RawMessage<'a> {
    msg: Option<String>,
    id: Option<String>,
    name: Option<String>,
    method: Option<String>,
    version: Option<String>,
    support: Option<Vec<String>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl<'a> ClientMessage<'a> {
    /// Reads one message.
    pub fn read(text: &'a str) -> Result<ClientMessage<'a>, MalformedMessage> {
        // serde also reads structs from arrays; messages must be objects.
        if !text.trim_start().starts_with('{') {
            return Err(MalformedMessage("a message must be a JSON object".into()));
        }
        let raw: RawMessage<'a> = serde_json::from_str(text)
            .map_err(|error| MalformedMessage(format!("not a message: {error}")))?;
        let msg = raw.msg.clone().ok_or_else(|| MalformedMessage("`msg` is missing".into()))?;
        Ok(match msg.as_str() {
            "connect" => {
                let version = bounded(raw.version, "version", NAME_BYTES_MAX)?;
                ClientMessage::Connect { version, support: raw.support.unwrap_or_default() }
            }
            "ping" => ClientMessage::Ping {
                id: raw.id.map(|id| bounded(Some(id), "id", ID_BYTES_MAX)).transpose()?,
            },
            "pong" => ClientMessage::Pong,
            "sub" => ClientMessage::Sub {
                id: bounded(raw.id, "id", ID_BYTES_MAX)?,
                name: bounded(raw.name, "name", NAME_BYTES_MAX)?,
                params: params(raw.params)?,
            },
            "unsub" => ClientMessage::Unsub { id: bounded(raw.id, "id", ID_BYTES_MAX)? },
            "method" => ClientMessage::Method {
                id: bounded(raw.id, "id", ID_BYTES_MAX)?,
                method: bounded(raw.method, "method", NAME_BYTES_MAX)?,
                params: params(raw.params)?,
            },
            _ => {
                let detail = "unknown `msg`: use `connect`, `ping`, `pong`, `sub`, `unsub` or `method`";
                return Err(MalformedMessage(detail.into()));
            }
        })
    }
}

fn bounded(value: Option<String>, field: &str, bytes_max: usize) -> Result<String, MalformedMessage> {
    let value = value.ok_or_else(|| MalformedMessage(format!("`{field}` is missing")))?;
    if value.is_empty() || value.len() > bytes_max {
        return Err(MalformedMessage(format!("`{field}` must have 1 to {bytes_max} bytes")));
    }
    Ok(value)
}

fn params(raw: Option<&RawValue>) -> Result<Vec<&RawValue>, MalformedMessage> {
    let Some(raw) = raw else { return Ok(Vec::new()) };
    let params: Vec<&RawValue> =
        serde_json::from_str(raw.get()).map_err(|_| MalformedMessage("`params` must be an array".into()))?;
    if params.len() > PARAMS_MAX {
        return Err(MalformedMessage(format!("`params` must have at most {PARAMS_MAX} elements")));
    }
    Ok(params)
}
