//! The threads that answer: one runtime each, with a listening socket of its own.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use tokio::runtime::{Builder, Runtime};
use wal::Lane;

use super::{Settings, Shared};
use crate::api::App;
use crate::collect::{Place, Places};
use crate::http::{self, Connections};
use crate::line::Claims;
use crate::{control, demo};

/// Sockets that listen, one per runtime, and do not accept yet.
pub(super) struct Listeners {
    pub(super) address: SocketAddr,
    sockets: Vec<TcpListener>,
    commands: Option<UnixListener>,
}

/// Takes the address, or says who has it.
pub(super) fn bind(settings: &Settings) -> anyhow::Result<Listeners> {
    let wanted = settings.listen;
    if http::is_taken(wanted) {
        bail!("another program listens on {wanted}: stop it, or choose another address with --listen");
    }
    let listen = |address| http::bind(address).with_context(|| format!("listening on {address}"));
    let first = listen(wanted)?;
    let address = first.local_addr().context("asking for the port")?;
    let mut sockets = vec![first];
    for _ in 1..settings.runtimes {
        sockets.push(listen(address)?);
    }
    Ok(Listeners { address, sockets, commands: control::bind(&settings.data) })
}

/// Starts a runtime on each socket, and the collectors on all of them.
pub(super) fn start(shared: &Arc<Shared>, listeners: Listeners) -> anyhow::Result<Vec<JoinHandle<()>>> {
    let connections = Connections::new(shared.settings.connections);
    let mut commands = listeners.commands;
    let runtime = || Builder::new_current_thread().enable_all().build().context("starting a runtime");
    let runtimes = listeners.sockets.iter().map(|_| runtime()).collect::<anyhow::Result<Vec<_>>>()?;
    let place = |runtime: &Runtime| Place { runtime: runtime.handle().clone(), lane: shared.log.lane() };
    let places = Arc::new(Places::new(runtimes.iter().map(place).collect()));
    shared.collectors.start(shared, &places);
    let lanes = places.all().map(|place| place.lane.clone());
    let mut threads = Vec::new();
    for (number, ((runtime, listener), lane)) in
        runtimes.into_iter().zip(listeners.sockets).zip(lanes).enumerate()
    {
        let (shared, connections) = (Arc::clone(shared), Arc::clone(&connections));
        let commands = commands.take();
        let work = move || run(&runtime, number, listener, commands, shared, lane, connections);
        let thread = std::thread::Builder::new().name(format!("runtime-{number}")).spawn(work);
        threads.push(thread.context("starting a thread")?);
    }
    Ok(threads)
}

fn run(
    runtime: &Runtime,
    number: usize,
    listener: TcpListener,
    commands: Option<UnixListener>,
    shared: Arc<Shared>,
    lane: Lane<Claims>,
    connections: Arc<Connections>,
) {
    runtime.block_on(async {
        tokio::spawn(lane.pump());
        if let Some(commands) = commands {
            control::start(commands, &shared);
        }
        if number == 0 && shared.settings.demo {
            tokio::spawn(demo::play(Arc::clone(&shared), lane.clone()));
        }
        let stopping = shared.stopping.clone();
        let app = App::new(Arc::clone(&shared), lane);
        let listener = tokio::net::TcpListener::from_std(listener).expect("the socket does not block");
        http::serve(listener, app, connections, stopping).await;
        // Their work may be on this runtime as well.
        shared.collectors.ended().await;
    });
}
