//! What a source submits beside the events themselves.

use std::net::IpAddr;

use model::Reject;
use model::batch::Endpoint;
use wal::Ack;

/// The circumstances of one batch: where it entered, when, and what it was sent by.
#[derive(Clone, Copy, Debug)]
pub struct IngestRequest<'a> {
    /// The endpoint under which the batch is accounted.
    pub endpoint: Endpoint,
    /// The time of receipt, in milliseconds since 1970.
    pub received_ms: i64,
    /// The durability that the receipt waits for.
    pub ack: Ack,
    /// What was rejected before it could be decoded, or lost, by reason.
    pub refused: &'a [(Reject, u32)],
    /// What is known of the sender; the default for sources that are not clients.
    pub client: ClientInfo<'a>,
}

/// What a connection tells about the client that sent a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientInfo<'a> {
    /// The client's address, if the endpoint is one that players use directly.
    pub address: Option<IpAddr>,
    /// The `User-Agent` header; empty if there was none.
    pub user_agent: &'a str,
}
