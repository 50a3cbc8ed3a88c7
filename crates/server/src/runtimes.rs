//! The threads that serve requests: one runtime each, with its own listening socket.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use tokio::runtime::{Builder, Runtime};
use wal::Lane;

use crate::control;
use crate::demo;
use crate::{Settings, collect_context};
use collect::net::{self, Connections};
use collect::{RuntimeHandle, Runtimes};
use http::AppState;
use http::app::App;
use http::listener::{self, ListenerOptions};
use pipeline::engine::ScratchCounters;
use pipeline::ingest::Claims;

/// Listening sockets, one per runtime, that do not accept yet.
pub(crate) struct Listeners {
    pub(crate) address: SocketAddr,
    sockets: Vec<TcpListener>,
    control: Option<UnixListener>,
}

/// Binds the address.
pub(crate) fn bind(settings: &Settings) -> anyhow::Result<Listeners> {
    let wanted = settings.listen;
    if net::is_address_in_use(wanted) {
        bail!("another program listens on {wanted}: stop it, or choose another address with --listen");
    }
    let listen = |address| net::bind(address).with_context(|| format!("listening on {address}"));
    let first = listen(wanted)?;
    let address = first.local_addr().context("reading the port")?;
    let mut sockets = vec![first];
    for _ in 1..settings.runtimes {
        sockets.push(listen(address)?);
    }
    Ok(Listeners { address, sockets, control: control::bind(&settings.data) })
}

/// Starts a runtime on each socket and the collectors on all runtimes.
pub(crate) fn start(
    settings: &Settings,
    state: &Arc<AppState>,
    scratch: ScratchCounters,
    listeners: Listeners,
) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let options = ListenerOptions {
        connections: Connections::new(settings.connections),
        proxy_hops: settings.behind_proxy.then_some(settings.proxy_hops),
    };
    let mut control = listeners.control.map(|listener| (listener, scratch));
    let demo = settings.demo;
    let runtime = || Builder::new_current_thread().enable_all().build().context("starting a runtime");
    let runtimes = listeners.sockets.iter().map(|_| runtime()).collect::<anyhow::Result<Vec<_>>>()?;
    let handle =
        |runtime: &Runtime| RuntimeHandle { runtime: runtime.handle().clone(), lane: state.log.lane() };
    let handles = Arc::new(Runtimes::new(runtimes.iter().map(handle).collect()));
    state.collectors.start(&collect_context(state), &handles);
    let lanes = handles.all().map(|handle| handle.lane.clone());
    let mut threads = Vec::new();
    for (number, ((runtime, listener), lane)) in
        runtimes.into_iter().zip(listeners.sockets).zip(lanes).enumerate()
    {
        let (state, options) = (Arc::clone(state), options.clone());
        let (control, demo) = (control.take(), demo && number == 0);
        let work = move || run(&runtime, listener, control, demo, state, lane, options);
        let thread = std::thread::Builder::new().name(format!("runtime-{number}")).spawn(work);
        threads.push(thread.context("starting a thread")?);
    }
    Ok(threads)
}

fn run(
    runtime: &Runtime,
    listener: TcpListener,
    control: Option<(UnixListener, ScratchCounters)>,
    demo: bool,
    state: Arc<AppState>,
    lane: Lane<Claims>,
    options: ListenerOptions,
) {
    runtime.block_on(async {
        tokio::spawn(lane.pump());
        if let Some((listener, scratch)) = control {
            control::start(listener, &state, scratch);
        }
        if demo {
            tokio::spawn(demo::play(Arc::clone(&state), lane.clone()));
        }
        let stopping = state.stopping.clone();
        let app = App::new(Arc::clone(&state), lane);
        let listener = tokio::net::TcpListener::from_std(listener).expect("the socket does not block");
        listener::serve(listener, app, options, stopping).await;
        // Collectors run on this runtime, too.
        state.collectors.wait_stopped().await;
    });
}
