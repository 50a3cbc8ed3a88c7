//! Enrichment: the country of the client's address and the device of its user agent, for events that lack them.
//!
//! Both are looked up in memory in tens of nanoseconds, once per request. The address itself is not stored.

pub mod agent;
pub mod geo;
