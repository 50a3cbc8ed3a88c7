//! Packets: one socket for each runtime on the same port, read in batches. Nothing is ever answered.
//!
//! A sender's packets come to one socket, as the kernel hashes its address, so they stay in order.

mod drops;

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use decode::rtcp::Compound;
use model::Reject;
use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;
use tokio::sync::watch;

use super::intake::{Desk, Intake};
use super::settings::{Decoder, UdpSettings};
use super::supervise::Crew;
use super::{Bound, CollectContext, Collector, Places};
use drops::Drops;
use pipeline::flows::{Datagram, Flows};
use pipeline::reject_tally::RejectTally;
use pipeline::shutdown::wait_for_stop;
use pipeline::time::{now_ms, now_us};

/// The largest packet, and the most that the kernel puts together of several.
const PACKET_BYTES_MAX: usize = 64 << 10;
/// Batches of one socket after which the others of its runtime have a turn.
const BATCHES_PER_TURN: usize = 8;
/// Before it is looked for more. A wake-up for each packet would cost several times what is done with it.
const PAUSE: Duration = Duration::from_millis(1);
/// In this much room, as the kernel counts it, thousands of small packets wait: more than a sender gets rid of in a pause.
const ROOM_FOR_PAUSES: usize = 4 << 20;

/// Takes the port for so many sockets, or says who has it.
pub(super) fn bind(
    settings: &UdpSettings,
    listen: SocketAddr,
    sockets: usize,
) -> anyhow::Result<Vec<UdpSocket>> {
    // Sockets of other programs that share their port would be shared with silently.
    if listen.port() != 0 && socket(listen, false)?.bind(&listen.into()).is_err_and(is_taken) {
        bail!("another program receives on {listen} (UDP): stop it, or choose another port");
    }
    let mut bound: Vec<UdpSocket> = Vec::with_capacity(sockets);
    for _ in 0..sockets {
        let address = bound.first().map_or(Ok(listen), UdpSocket::local_addr)?;
        let socket = socket(address, true)?;
        let asked = settings.receive_buffer_bytes;
        socket.set_recv_buffer_size(asked).with_context(|| format!("receive_buffer_bytes {asked}"))?;
        socket.bind(&address.into()).with_context(|| format!("receiving on {address}"))?;
        bound.push(socket.into());
    }
    Ok(bound)
}

fn is_taken(failure: io::Error) -> bool {
    failure.kind() == io::ErrorKind::AddrInUse
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(shared)?;
    Ok(socket)
}

/// Receives until `stop` says so.
pub(super) async fn run(
    settings: UdpSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    places: Arc<Places>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let sockets = match collector.take_bound() {
        Some(Bound::Udp(sockets)) => sockets,
        _ => bind(&settings, collector.address().unwrap_or(settings.listen), places.count())?,
    };
    let buffer = Socket::from(sockets[0].try_clone()?).recv_buffer_size()?;
    collector.bound_to(sockets[0].local_addr()?, Some(buffer as u64));
    let mut crew = Crew::new();
    for (socket, place) in sockets.into_iter().zip(places.all()) {
        let desk = Desk::new(&context, place, &collector);
        crew.start(place, |end| work(socket, desk, end));
    }
    collector.is_running();
    crew.work(stop).await
}

async fn work(socket: UdpSocket, desk: Desk, mut end: watch::Receiver<bool>) -> anyhow::Result<()> {
    let (collector, flows) = (Arc::clone(&desk.collector), Arc::clone(&desk.context.flows));
    let state = UdpSocketState::new(UdpSockRef::from(&socket)).context("asking for batches of packets")?;
    let mut drops = Drops::of(&socket)?;
    let socket = tokio::net::UdpSocket::from_std(socket)?;
    let intake = Intake::new(desk);
    let pause = pause(&collector.settings.decoder, SockRef::from(&socket).recv_buffer_size()?);
    let receiving = async {
        let received = tokio::select! {
            received = receive(&socket, &state, pause, &collector, &flows, &intake) => received,
            () = wait_for_stop(&mut end) => Ok(()),
        };
        intake.close();
        received
    };
    let lost = || {
        let lost = drops.since_last();
        collector.counters.kernel_drops.add(u64::from(lost));
        lost
    };
    tokio::join!(receiving, intake.write_until_closed(lost)).0
}

/// How long packets are left to gather in a buffer of this size. Samples are written a second at a time anyway; of the
/// packets and reports of flows it matters when they came.
fn pause(decoder: &Decoder, receive_buffer_bytes: usize) -> Option<Duration> {
    let times_matter = matches!(decoder, Decoder::Rtcp { .. } | Decoder::Flow);
    (!times_matter && receive_buffer_bytes >= ROOM_FOR_PAUSES).then_some(PAUSE)
}

async fn receive(
    socket: &tokio::net::UdpSocket,
    state: &UdpSocketState,
    pause: Option<Duration>,
    collector: &Collector,
    flows: &Flows,
    intake: &Intake,
) -> anyhow::Result<()> {
    let mut room = vec![0; BATCH_SIZE * PACKET_BYTES_MAX];
    let mut buffers: Vec<IoSliceMut<'_>> = room.chunks_mut(PACKET_BYTES_MAX).map(IoSliceMut::new).collect();
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    loop {
        socket.readable().await.context("waiting for packets")?;
        let mut is_empty = false;
        for _ in 0..BATCHES_PER_TURN {
            let read = || state.recv(UdpSockRef::from(socket), &mut buffers, &mut metas);
            let count = match socket.try_io(Interest::READABLE, read) {
                Ok(count) => count,
                Err(failure) if failure.kind() == io::ErrorKind::WouldBlock => {
                    is_empty = true;
                    break;
                }
                Err(failure) => return Err(failure).context("receiving packets"),
            };
            take(collector, flows, intake, buffers.iter().zip(&metas).take(count));
        }
        match pause {
            Some(pause) if is_empty => tokio::time::sleep(pause).await,
            _ => tokio::task::yield_now().await,
        }
    }
}

/// Takes what was received at once.
fn take<'a>(
    collector: &Collector,
    flows: &Flows,
    intake: &Intake,
    received: impl Iterator<Item = (&'a IoSliceMut<'a>, &'a RecvMeta)>,
) {
    let counters = &collector.counters;
    let (mut packets, mut bytes) = (0, 0);
    // The kernel puts packets of one size and sender together; `stride` is that size.
    let each = received.flat_map(|(buffer, meta)| {
        bytes += meta.len as u64;
        buffer[..meta.len].chunks(meta.stride.max(1)).map(|packet| (packet, meta.addr))
    });
    let each = each.inspect(|_| packets += 1);
    match &collector.settings.decoder {
        Decoder::Rtcp { clock_hz } => rtcp(collector, flows, *clock_hz, intake, each),
        decoder => {
            let now = now_ms();
            intake.fill(|batch| each.for_each(|(packet, _)| batch.take(decoder, packet, now)));
        }
    }
    counters.packets.add(packets);
    counters.bytes.add(bytes);
}

/// What RTCP says goes to the flows, which write of them what there is to write.
fn rtcp<'a>(
    collector: &Collector,
    flows: &Flows,
    clock_hz: u32,
    intake: &Intake,
    received: impl Iterator<Item = (&'a [u8], SocketAddr)>,
) {
    let at_us = now_us();
    let datagrams: Vec<_> = received.map(|(bytes, from)| Datagram { bytes, from, at_us }).collect();
    let reported = flows.apply_rtcp(collector.game, clock_hz, &datagrams);
    collector.counters.accepted.add(datagrams.len() as u64 - reported.malformed - reported.full);
    if reported.malformed + reported.full > 0 {
        intake.fill(|batch| {
            batch.refusals.add_count(Reject::FlowsFull, reported.full as u32);
            datagrams.iter().for_each(|datagram| refuse_malformed(datagram.bytes, &mut batch.refusals));
        });
    }
}

/// Tells of a datagram that is no RTCP why, and how it begins.
fn refuse_malformed(datagram: &[u8], refusals: &mut RejectTally) {
    const SHOWN_BYTES: usize = 32;
    let Err(why) = Compound::read(datagram) else { return };
    refusals.add_described(Reject::MalformedLine, || {
        let begin: String = datagram.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
        format!("{why}: {begin}")
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_gather_where_there_is_room_for_them_and_their_times_do_not_matter() {
        let check = |decoder: &Decoder, bytes, expected| assert_eq!(pause(decoder, bytes), expected);
        check(&Decoder::Statsd, ROOM_FOR_PAUSES, Some(PAUSE));
        check(&Decoder::Json, ROOM_FOR_PAUSES, Some(PAUSE));
        // What a system gives that was not told otherwise.
        check(&Decoder::Statsd, 2 * 212_992, None);
        check(&Decoder::Rtcp { clock_hz: 48_000 }, 2 * ROOM_FOR_PAUSES, None);
        check(&Decoder::Flow, 2 * ROOM_FOR_PAUSES, None);
    }
}
