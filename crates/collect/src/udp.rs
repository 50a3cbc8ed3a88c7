//! UDP: one socket per runtime on the same port, read in batches. The server never replies.
//!
//! The kernel chooses the socket by a hash of the addresses, so packets of one sender arrive at one socket, in order.

mod kernel_drops;

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use decode::rtcp::Compound;
use model::Reject;
use pipeline::flows::{Datagram, Flows};
use pipeline::reject_tally::RejectTally;
use pipeline::shutdown::wait_for_stop;
use pipeline::time::{now_ms, now_us};
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::sync::watch;

use crate::CollectContext;
use crate::buffer::Buffer;
use crate::collector::{BoundSockets, Collector};
use crate::net::InUse;
use crate::runtimes::Runtimes;
use crate::settings::{Decoder, UdpSettings};
use crate::sink::Sink;
use crate::supervise::Workers;
use kernel_drops::KernelDrops;

/// The largest packet, and the most that the kernel merges from several packets.
const PACKET_BYTES_MAX: usize = 64 << 10;
/// Batches read from one socket before the other tasks of its runtime get a turn.
const BATCHES_PER_TURN: usize = 8;
/// The pause after a socket was read empty. Waking up for each packet would cost several times the work for the packet.
const PAUSE: Duration = Duration::from_millis(1);
/// A receive buffer of this size, as the kernel counts it, holds thousands of small packets: more than a sender sends
/// during a pause.
const BUFFER_BYTES_FOR_PAUSE: usize = 4 << 20;

/// Binds `sockets` sockets to the address. Fails if another program receives there.
pub(crate) fn bind(
    settings: &UdpSettings,
    listen: SocketAddr,
    sockets: usize,
) -> anyhow::Result<Vec<UdpSocket>> {
    // With SO_REUSEPORT, packets would silently be shared with another program that uses it too.
    if listen.port() != 0 && socket(listen, false)?.bind(&listen.into()).is_err_and(is_address_in_use) {
        let place = format!("{listen} (UDP)");
        return Err(InUse { verb: "receives", place, setting: "port" }.into());
    }
    let mut bound: Vec<UdpSocket> = Vec::with_capacity(sockets);
    for _ in 0..sockets {
        let address = bound.first().map_or(Ok(listen), UdpSocket::local_addr)?;
        let socket = socket(address, true)?;
        let bytes = settings.receive_buffer_bytes;
        socket.set_recv_buffer_size(bytes).with_context(|| format!("receive_buffer_bytes {bytes}"))?;
        socket.bind(&address.into()).with_context(|| format!("binding {address} (UDP)"))?;
        bound.push(socket.into());
    }
    Ok(bound)
}

fn is_address_in_use(failure: io::Error) -> bool {
    failure.kind() == io::ErrorKind::AddrInUse
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(shared)?;
    Ok(socket)
}

/// Receives packets until `stop` becomes true.
pub(crate) async fn run(
    settings: UdpSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let sockets = match collector.take_bound_sockets()? {
        Some(BoundSockets::Udp(sockets)) => sockets,
        _ => bind(&settings, collector.address().unwrap_or(settings.listen), runtimes.count())?,
    };
    let buffer_bytes = Socket::from(sockets[0].try_clone()?).recv_buffer_size()?;
    collector.set_listening(sockets[0].local_addr()?, Some(buffer_bytes as u64));
    let mut workers = Workers::new();
    for (socket, runtime) in sockets.into_iter().zip(runtimes.all()) {
        let sink = Sink::new(&context, runtime, &collector);
        workers.start(runtime, |stop| receive_and_write(socket, sink, stop));
    }
    collector.set_running();
    workers.run(stop).await
}

async fn receive_and_write(
    socket: UdpSocket,
    sink: Sink,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let (collector, flows) = (Arc::clone(&sink.collector), Arc::clone(&sink.context.flows));
    let state = UdpSocketState::new(UdpSockRef::from(&socket)).context("enabling batched receiving")?;
    let mut drops = KernelDrops::of(&socket)?;
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    let buffer = Buffer::new(sink);
    let pause = pause(&collector.settings.decoder, SockRef::from(&socket).recv_buffer_size()?);
    let receiving = async {
        let received = tokio::select! {
            received = receive(&socket, &state, pause, &collector, &flows, &buffer) => received,
            () = wait_for_stop(&mut stop) => Ok(()),
        };
        buffer.close();
        received
    };
    let lost = || {
        let lost = drops.since_last();
        collector.counters.kernel_drops.add(u64::from(lost));
        lost
    };
    tokio::join!(receiving, buffer.write_until_closed(lost)).0
}

/// Returns how long packets may gather in a receive buffer of this size. Samples are written once a second, so their exact
/// arrival does not matter; for packets and reports of flows it does.
fn pause(decoder: &Decoder, receive_buffer_bytes: usize) -> Option<Duration> {
    let times_matter = matches!(decoder, Decoder::Rtcp { .. } | Decoder::Flow);
    (!times_matter && receive_buffer_bytes >= BUFFER_BYTES_FOR_PAUSE).then_some(PAUSE)
}

async fn receive(
    socket: &tokio::net::UdpSocket,
    state: &UdpSocketState,
    pause: Option<Duration>,
    collector: &Collector,
    flows: &Flows,
    buffer: &Buffer,
) -> anyhow::Result<()> {
    let mut memory = vec![0; BATCH_SIZE * PACKET_BYTES_MAX];
    let mut slices: Vec<IoSliceMut<'_>> = memory.chunks_mut(PACKET_BYTES_MAX).map(IoSliceMut::new).collect();
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    loop {
        socket.readable().await.context("waiting for packets")?;
        let mut is_empty = false;
        for _ in 0..BATCHES_PER_TURN {
            let read = || state.recv(UdpSockRef::from(socket), &mut slices, &mut metas);
            let count = match socket.try_io(Interest::READABLE, read) {
                Ok(count) => count,
                Err(failure) if failure.kind() == io::ErrorKind::WouldBlock => {
                    is_empty = true;
                    break;
                }
                Err(failure) => return Err(failure).context("receiving packets"),
            };
            process(collector, flows, buffer, slices.iter().zip(&metas).take(count));
        }
        match pause {
            Some(pause) if is_empty => tokio::time::sleep(pause).await,
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Decodes packets that were received in one batch, and counts them.
fn process<'a>(
    collector: &Collector,
    flows: &Flows,
    buffer: &Buffer,
    received: impl Iterator<Item = (&'a IoSliceMut<'a>, &'a RecvMeta)>,
) {
    let counters = &collector.counters;
    let (mut packets, mut bytes) = (0, 0);
    // The kernel merges packets of one size from one sender; `stride` is that size.
    let each = received.flat_map(|(slice, meta)| {
        bytes += meta.len as u64;
        slice[..meta.len].chunks(meta.stride.max(1)).map(|packet| (packet, meta.addr))
    });
    let each = each.inspect(|_| packets += 1);
    match &collector.settings.decoder {
        Decoder::Rtcp { clock_hz } => process_rtcp(collector, flows, *clock_hz, buffer, each),
        decoder => {
            let now = now_ms();
            buffer.add(|batch| each.for_each(|(packet, _)| batch.decode(decoder, packet, now)));
        }
    }
    counters.packets.add(packets);
    counters.bytes.add(bytes);
}

/// Applies RTCP datagrams to the flows. Only rejected datagrams are added to the buffer: the flows write their own events.
fn process_rtcp<'a>(
    collector: &Collector,
    flows: &Flows,
    clock_hz: u32,
    buffer: &Buffer,
    received: impl Iterator<Item = (&'a [u8], SocketAddr)>,
) {
    let at_us = now_us();
    let datagrams: Vec<_> = received.map(|(bytes, from)| Datagram { bytes, from, at_us }).collect();
    let reported = flows.apply_rtcp(collector.game, clock_hz, &datagrams);
    collector.counters.accepted.add(datagrams.len() as u64 - reported.malformed - reported.full);
    if reported.malformed + reported.full > 0 {
        buffer.add(|batch| {
            batch.rejects.add_count(Reject::FlowsFull, reported.full as u32);
            datagrams.iter().for_each(|datagram| reject_malformed(datagram.bytes, &mut batch.rejects));
        });
    }
}

/// Counts a datagram if it is not RTCP, and keeps the reason and its first bytes for the Live page.
fn reject_malformed(datagram: &[u8], rejects: &mut RejectTally) {
    const SHOWN_BYTES: usize = 32;
    let Err(why) = Compound::read(datagram) else { return };
    rejects.add_described(Reject::MalformedLine, || {
        let start: String = datagram.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("{why}: {start}")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_gather_only_in_a_large_buffer_and_when_their_times_do_not_matter() {
        let check = |decoder: &Decoder, bytes, expected| assert_eq!(pause(decoder, bytes), expected);
        check(&Decoder::Statsd, BUFFER_BYTES_FOR_PAUSE, Some(PAUSE));
        check(&Decoder::Json, BUFFER_BYTES_FOR_PAUSE, Some(PAUSE));
        // The receive buffer on a system with default settings.
        check(&Decoder::Statsd, 2 * 212_992, None);
        check(&Decoder::Rtcp { clock_hz: 48_000 }, 2 * BUFFER_BYTES_FOR_PAUSE, None);
        check(&Decoder::Flow, 2 * BUFFER_BYTES_FOR_PAUSE, None);
    }
}
