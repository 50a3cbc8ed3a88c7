//! The threads that serve requests: one runtime each, with its own listening socket.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use wal::Lane;

use crate::control;
use crate::demo;
use crate::{Settings, collect_context};
use collect::net::{self, Connections};
use collect::{RuntimeHandle, Runtimes};
use http::AppState;
use http::app::App;
use http::listener::{self, Handler, ListenerOptions};
use http::redirect::RedirectToHttps;
use pipeline::engine::ScratchCounters;
use pipeline::ingest::Claims;

/// Listening sockets, one per runtime, that do not accept yet.
pub(crate) struct Listeners {
    pub(crate) address: SocketAddr,
    sockets: Vec<TcpListener>,
    /// The plain HTTP port that redirects to HTTPS.
    redirect: Option<TcpListener>,
    control: Option<UnixListener>,
}

/// Binds the addresses.
pub(crate) fn bind(settings: &Settings) -> anyhow::Result<Listeners> {
    let first = bind_free(settings.listen, "--listen")?;
    let redirect =
        settings.redirect_listen.map(|address| bind_free(address, "redirect_listen")).transpose()?;
    let address = first.local_addr().context("reading the port")?;
    let mut sockets = vec![first];
    for _ in 1..settings.runtimes {
        sockets.push(listen(address)?);
    }
    Ok(Listeners { address, sockets, redirect, control: control::bind(&settings.data) })
}

/// Binds an address on which no other program listens.
fn bind_free(address: SocketAddr, setting: &str) -> anyhow::Result<TcpListener> {
    if net::is_address_in_use(address) {
        bail!("another program listens on {address}: stop it, or choose another address with {setting}");
    }
    listen(address)
}

fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    net::bind(address).map_err(|failure| {
        let advice = match failure.kind() {
            ErrorKind::PermissionDenied => privileged_port_advice(address.port()),
            _ => String::new(),
        };
        anyhow::Error::new(failure).context(format!("listening on {address}{advice}"))
    })
}

/// Returns the ways to let an ordinary user listen on a low port.
fn privileged_port_advice(port: u16) -> String {
    let program =
        std::env::current_exe().map_or_else(|_| "playmeter".into(), |path| path.display().to_string());
    format!(
        ": port {port} needs a right: run `sudo setcap cap_net_bind_service=+ep {program}`, or set \
         `AmbientCapabilities=CAP_NET_BIND_SERVICE` in the systemd unit, or run \
         `sudo sysctl net.ipv4.ip_unprivileged_port_start={port}`, or listen on a port from 1024 on"
    )
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
        tls: state.tls.clone(),
    };
    let redirect = RedirectToHttps {
        public_url: settings.public_url.clone(),
        port: listeners.address.port(),
        tls: state.tls.clone(),
    };
    let mut redirect = listeners.redirect.map(|listener| (listener, redirect));
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
        let (control, demo, redirect) = (control.take(), demo && number == 0, redirect.take());
        let work = move || {
            if let Some((listener, handler)) = redirect {
                let options = ListenerOptions { tls: None, ..options.clone() };
                runtime.spawn(serve(listener, handler, options, state.stopping.clone()));
            }
            run(&runtime, listener, control, demo, state, lane, options);
        };
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
        serve(listener, app, options, stopping).await;
        // Collectors run on this runtime, too.
        state.collectors.wait_stopped().await;
    });
}

async fn serve(
    listener: TcpListener,
    handler: impl Handler,
    options: ListenerOptions,
    stopping: watch::Receiver<bool>,
) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("the socket does not block");
    listener::serve(listener, handler, options, stopping).await;
}
