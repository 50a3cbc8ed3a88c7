//! Streams: others connect here, or this connects elsewhere and reads.
//!
//! A source that sends faster than the log takes is made to wait: its bytes stay in the kernel until there is room.

mod frames;
mod tls;

pub(super) use tls::acceptor;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::intake::{Desk, Intake};
use super::settings::{StreamSettings, TcpClientSettings, TcpServerSettings};
use super::supervise::Crew;
use super::{Bound, CollectContext, Collector, Places};
use crate::net::{self, ConnectionLimits, Connections};
use frames::Frames;
use pipeline::shutdown::wait_for_stop;

/// So much is read at once. However short its lines are, a batch that is not large yet has room for them.
const CHUNK_BYTES: usize = 16 << 10;
/// A source gets so long to take a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// Out of descriptors, most likely: a pause lets connections end instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Takes the port for so many sockets, or says who has it.
pub(super) fn bind(listen: SocketAddr, sockets: usize) -> anyhow::Result<Vec<TcpListener>> {
    if net::is_taken(listen) {
        bail!("another program listens on {listen}: stop it, or choose another port");
    }
    let mut bound: Vec<TcpListener> = Vec::with_capacity(sockets);
    for _ in 0..sockets {
        let address = bound.first().map_or(Ok(listen), TcpListener::local_addr)?;
        bound.push(net::bind(address).with_context(|| format!("listening on {address}"))?);
    }
    Ok(bound)
}

/// Accepts until `stop` says so.
pub(super) async fn serve(
    settings: TcpServerSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    places: Arc<Places>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let listeners = match collector.take_bound() {
        Some(Bound::Tcp(listeners)) => listeners,
        _ => bind(collector.address().unwrap_or(settings.listen), places.count())?,
    };
    collector.bound_to(listeners[0].local_addr()?, None);
    let tls = settings.tls.as_ref().map(acceptor).transpose()?;
    let limits = ConnectionLimits {
        total: settings.connections_max,
        per_address: settings.connections_per_address_max,
        subscriptions_each: 0,
    };
    let (limits, mut crew) = (Connections::new(limits), Crew::new());
    for (listener, place) in listeners.into_iter().zip(places.all()) {
        let desk = Desk::new(&context, place, &collector);
        let door = Door { limits: Arc::clone(&limits), tls: tls.clone(), stream: settings.stream };
        crew.start(place, |end| accept_and_write(listener, door, desk, end));
    }
    collector.is_running();
    crew.work(stop).await
}

/// Who may come in, and how they are read.
struct Door {
    limits: Arc<Connections>,
    tls: Option<TlsAcceptor>,
    stream: StreamSettings,
}

async fn accept_and_write(
    listener: TcpListener,
    door: Door,
    desk: Desk,
    mut end: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let collector = Arc::clone(&desk.collector);
    let intake = Arc::new(Intake::new(desk));
    let accepting = async {
        tokio::select! {
            () = accept(&listener, &door, &collector, &intake) => {}
            () = wait_for_stop(&mut end) => {}
        }
        intake.close();
    };
    tokio::join!(accepting, intake.write_until_closed(|| 0));
    Ok(())
}

/// Its connections end with it.
async fn accept(
    listener: &tokio::net::TcpListener,
    door: &Door,
    collector: &Arc<Collector>,
    intake: &Arc<Intake>,
) {
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = open.join_next() => {
                if let Err(failure) = ended {
                    warn!(collector = collector.settings.name, %failure, "a connection failed inside");
                }
                continue;
            }
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(failure) => {
                warn!(collector = collector.settings.name, %failure, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(counted) = door.limits.admit(peer.ip()) else {
            collector.counters.connections_refused.add(1);
            continue;
        };
        let one = Open::count(collector);
        let (intake, tls, settings) = (Arc::clone(intake), door.tls.clone(), door.stream);
        open.spawn(async move {
            let _counted = counted;
            if let Err(failure) = agree_and_read(stream, tls, settings, &one.0, &intake).await {
                debug!(%peer, failure = format!("{failure:#}"), "a connection was closed");
            }
        });
    }
}

async fn agree_and_read(
    mut stream: TcpStream,
    tls: Option<TlsAcceptor>,
    settings: StreamSettings,
    collector: &Collector,
    intake: &Intake,
) -> anyhow::Result<()> {
    match tls {
        None => read(&mut stream, settings, collector, intake).await,
        Some(tls) => {
            let agreed = tls::agree(&tls, stream).await;
            let mut stream = agreed.inspect_err(|_| collector.counters.handshakes_failed.add(1))?;
            read(&mut stream, settings, collector, intake).await
        }
    }
}

/// An open connection, counted until it is dropped.
struct Open(Arc<Collector>);

impl Open {
    fn count(collector: &Arc<Collector>) -> Open {
        collector.counters.connections.add(1);
        collector.counters.connections_total.add(1);
        Open(Arc::clone(collector))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.connections.one_less();
    }
}

/// Connects and reads until `stop` says so. A source that closes the connection is a failure: it is tried again.
pub(super) async fn connect(
    settings: TcpClientSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    places: Arc<Places>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let place = places.by_turns(collector.number);
    let desk = Desk::new(&context, place, &collector);
    let mut crew = Crew::new();
    crew.start(place, |end| connect_and_write(settings, desk, end));
    crew.work(stop).await
}

async fn connect_and_write(
    settings: TcpClientSettings,
    desk: Desk,
    mut end: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let collector = Arc::clone(&desk.collector);
    let intake = Intake::new(desk);
    let reading = async {
        let read = tokio::select! {
            read = connect_and_read(&settings, &collector, &intake) => read,
            () = wait_for_stop(&mut end) => Ok(()),
        };
        intake.close();
        read
    };
    tokio::join!(reading, intake.write_until_closed(|| 0)).0
}

async fn connect_and_read(
    settings: &TcpClientSettings,
    collector: &Arc<Collector>,
    intake: &Intake,
) -> anyhow::Result<()> {
    let address = &settings.address;
    let connected = timeout(CONNECT_WAIT, TcpStream::connect(address)).await;
    let stream = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let mut stream = stream.with_context(|| format!("connecting to {address}"))?;
    let _open = Open::count(collector);
    collector.is_running();
    read(&mut stream, settings.stream, collector, intake).await?;
    bail!("{address} has closed the connection")
}

/// A source that closes a connection without its goodbye of TLS has come to the end as one without TLS has.
fn ended_or(read: io::Result<usize>) -> io::Result<usize> {
    read.or_else(|failure| if failure.kind() == io::ErrorKind::UnexpectedEof { Ok(0) } else { Err(failure) })
}

/// Reads to the end.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    settings: StreamSettings,
    collector: &Collector,
    intake: &Intake,
) -> anyhow::Result<()> {
    let mut frames = Frames::new(settings);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = timeout(settings.idle_timeout, stream.read(&mut chunk)).await;
        let read = ended_or(read.context("it was silent")?)?;
        collector.counters.bytes.add(read as u64);
        if read == 0 {
            frames.finish();
        } else {
            frames.push(&chunk[..read]);
        }
        let decoder = &collector.settings.decoder;
        let taken = intake.fill_when_there_is_room(|batch| frames.take(decoder, batch)).await;
        collector.counters.packets.add(taken?);
        if read == 0 {
            return Ok(());
        }
    }
}
