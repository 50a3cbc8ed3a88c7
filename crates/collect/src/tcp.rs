//! TCP: accepts connections, or connects to a server and reads.
//!
//! A source that sends faster than the log accepts has to wait: its bytes stay in the kernel until there is room.

mod frames;
mod tls;

pub(crate) use tls::acceptor;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use pipeline::shutdown::wait_for_stop;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use crate::CollectContext;
use crate::buffer::Buffer;
use crate::collector::{BoundSockets, Collector};
use crate::net::{self, ConnectionLimits, Connections, InUse};
use crate::runtimes::Runtimes;
use crate::settings::{StreamSettings, TcpClientSettings, TcpServerSettings};
use crate::sink::Sink;
use crate::supervise::Workers;
use frames::FrameSplitter;

/// Bytes of a connection that are read at once. However short its lines are, a batch that is not large has room for them.
const CHUNK_BYTES: usize = 16 << 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept. The usual cause is that no file descriptors are left; the pause gives connections
/// time to close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Binds `sockets` listening sockets to the address. Fails if another program listens there.
pub(crate) fn bind(listen: SocketAddr, sockets: usize) -> anyhow::Result<Vec<TcpListener>> {
    if net::is_address_in_use(listen) {
        let place = listen.to_string();
        return Err(InUse { verb: "listens", place, setting: "port" }.into());
    }
    let mut bound: Vec<TcpListener> = Vec::with_capacity(sockets);
    for _ in 0..sockets {
        let address = bound.first().map_or(Ok(listen), TcpListener::local_addr)?;
        bound.push(net::bind(address).with_context(|| format!("listening on {address}"))?);
    }
    Ok(bound)
}

/// Accepts connections and reads them until `stop` becomes true.
pub(crate) async fn serve(
    settings: TcpServerSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let listeners = match collector.take_bound_sockets()? {
        Some(BoundSockets::Tcp(listeners)) => listeners,
        _ => bind(collector.address().unwrap_or(settings.listen), runtimes.count())?,
    };
    collector.set_listening(listeners[0].local_addr()?, None);
    let tls = settings.tls.as_ref().map(acceptor).transpose()?;
    let limits = ConnectionLimits {
        total: settings.connections_max,
        per_address: settings.connections_per_address_max,
        subscriptions_per_credential_max: 0,
    };
    let (limits, mut workers) = (Connections::new(limits), Workers::new());
    for (listener, runtime) in listeners.into_iter().zip(runtimes.all()) {
        let sink = Sink::new(&context, runtime, &collector);
        let accept =
            AcceptSettings { limits: Arc::clone(&limits), tls: tls.clone(), stream: settings.stream };
        workers.start(runtime, |stop| accept_and_write(listener, accept, sink, stop));
    }
    collector.set_running();
    workers.run(stop).await
}

/// The limits of connections, and how they are read.
struct AcceptSettings {
    limits: Arc<Connections>,
    tls: Option<TlsAcceptor>,
    stream: StreamSettings,
}

async fn accept_and_write(
    listener: TcpListener,
    settings: AcceptSettings,
    sink: Sink,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let collector = Arc::clone(&sink.collector);
    let buffer = Arc::new(Buffer::new(sink));
    let accepting = async {
        tokio::select! {
            () = accept(&listener, &settings, &collector, &buffer) => {}
            () = wait_for_stop(&mut stop) => {}
        }
        buffer.close();
    };
    tokio::join!(accepting, buffer.write_until_closed(|| 0));
    Ok(())
}

/// Accepts connections and reads each in a task of its own. Dropping the future closes the connections.
async fn accept(
    listener: &tokio::net::TcpListener,
    settings: &AcceptSettings,
    collector: &Arc<Collector>,
    buffer: &Arc<Buffer>,
) {
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = tasks.join_next() => {
                if let Err(failure) = ended {
                    warn!(collector = collector.settings.name, %failure, "connection task failed");
                }
                continue;
            }
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(failure) => {
                warn!(collector = collector.settings.name, %failure, "cannot accept connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = settings.limits.admit(peer.ip()) else {
            collector.counters.connections_refused.add(1);
            continue;
        };
        let connection = ConnectionGuard::new(collector);
        let (buffer, tls, stream_settings) = (Arc::clone(buffer), settings.tls.clone(), settings.stream);
        tasks.spawn(async move {
            let _permit = permit;
            if let Err(failure) =
                handshake_and_read(stream, tls, stream_settings, &connection.0, &buffer).await
            {
                debug!(%peer, failure = format!("{failure:#}"), "connection closed");
            }
        });
    }
}

async fn handshake_and_read(
    mut stream: TcpStream,
    tls: Option<TlsAcceptor>,
    settings: StreamSettings,
    collector: &Collector,
    buffer: &Buffer,
) -> anyhow::Result<()> {
    match tls {
        None => read(&mut stream, settings, collector, buffer).await,
        Some(tls) => {
            let accepted = tls::handshake(&tls, stream).await;
            let mut stream = accepted.inspect_err(|_| collector.counters.handshakes_failed.add(1))?;
            read(&mut stream, settings, collector, buffer).await
        }
    }
}

/// Counts an open connection until it is dropped.
pub(crate) struct ConnectionGuard(Arc<Collector>);

impl ConnectionGuard {
    pub(crate) fn new(collector: &Arc<Collector>) -> ConnectionGuard {
        collector.counters.connections.add(1);
        collector.counters.connections_total.add(1);
        ConnectionGuard(Arc::clone(collector))
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.counters.connections.decrement();
    }
}

/// Connects and reads until `stop` becomes true. If the server closes the connection, that is a failure, and the
/// supervisor connects again.
pub(crate) async fn connect(
    settings: TcpClientSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let runtime = runtimes.assign(collector.number);
    let sink = Sink::new(&context, runtime, &collector);
    let mut workers = Workers::new();
    workers.start(runtime, |stop| connect_and_write(settings, sink, stop));
    workers.run(stop).await
}

async fn connect_and_write(
    settings: TcpClientSettings,
    sink: Sink,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let collector = Arc::clone(&sink.collector);
    let buffer = Buffer::new(sink);
    let reading = async {
        let read = tokio::select! {
            read = connect_and_read(&settings, &collector, &buffer) => read,
            () = wait_for_stop(&mut stop) => Ok(()),
        };
        buffer.close();
        read
    };
    tokio::join!(reading, buffer.write_until_closed(|| 0)).0
}

async fn connect_and_read(
    settings: &TcpClientSettings,
    collector: &Arc<Collector>,
    buffer: &Buffer,
) -> anyhow::Result<()> {
    let address = &settings.address;
    let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let mut stream = stream.with_context(|| format!("connecting to {address}"))?;
    let _connection = ConnectionGuard::new(collector);
    collector.set_running();
    read(&mut stream, settings.stream, collector, buffer).await?;
    bail!("{address} closed the connection")
}

/// Treats a TLS connection that was closed without a close notification as ended, like one without TLS.
fn ended_or(read: io::Result<usize>) -> io::Result<usize> {
    read.or_else(|failure| if failure.kind() == io::ErrorKind::UnexpectedEof { Ok(0) } else { Err(failure) })
}

/// Reads a connection to its end.
async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    settings: StreamSettings,
    collector: &Collector,
    buffer: &Buffer,
) -> anyhow::Result<()> {
    let mut frames = FrameSplitter::new(settings);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = timeout(settings.idle_timeout, stream.read(&mut chunk)).await;
        let read = read.with_context(|| {
            format!("the connection was idle for {} s (idle_timeout_s)", settings.idle_timeout.as_secs())
        })?;
        let read = ended_or(read)?;
        collector.counters.bytes.add(read as u64);
        if read == 0 {
            frames.finish();
        } else {
            frames.push(&chunk[..read]);
        }
        let decoder = &collector.settings.decoder;
        let packets = buffer.add_when_not_full(|batch| frames.decode_into(decoder, batch)).await;
        collector.counters.packets.add(packets?);
        if read == 0 {
            return Ok(());
        }
    }
}
