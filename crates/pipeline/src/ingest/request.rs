//! The circumstances of a batch, which a caller submits beside the events.

use std::net::IpAddr;

use model::Reject;
use model::batch::Endpoint;
use wal::Ack;

/// The endpoint, the time and the client of one batch.
#[derive(Clone, Copy, Debug)]
pub struct IngestRequest<'a> {
    /// The endpoint under which the batch is accounted.
    pub endpoint: Endpoint,
    /// The time of receipt, in milliseconds since 1970.
    pub received_ms: i64,
    /// The durability that the receipt waits for.
    pub ack: Ack,
    /// The number of events that were rejected before they could be decoded, or lost, by reason.
    pub rejected: &'a [(Reject, u32)],
    /// The client that sent the batch; the default for sources that are not clients.
    pub client: ClientInfo<'a>,
}

/// The address and the user agent of the client that sent a batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientInfo<'a> {
    /// The client's address, if the endpoint is one that players use directly.
    pub address: Option<IpAddr>,
    /// The `User-Agent` header; empty if there was none.
    pub user_agent: &'a str,
}
