//! One collector: its settings, its sockets, its state and its counts.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;

use anyhow::Context;
use parking_lot::Mutex;
use pipeline::catalog::{Access, Catalog, Game};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::counters::CollectorCounters;
use crate::samples::Gauges;
use crate::settings::{CollectorSettings, Transport};
use crate::status::{CollectorState, CollectorStatus};
use crate::supervise::DesiredState;
use crate::unixgram::{self, SocketFile};
use crate::{net, tcp, udp};

/// A collector and its state.
pub struct Collector {
    /// The settings as declared.
    pub settings: CollectorSettings,
    /// Its index among all collectors. Work that needs one runtime is distributed by it.
    pub(crate) number: usize,
    /// The number of the game that its events belong to.
    pub(crate) game: u32,
    /// Counts since the server started.
    pub counters: CollectorCounters,
    /// The last values of gauges, shared by all sockets.
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) status: Mutex<CollectorStatus>,
    pub(crate) desired: watch::Sender<DesiredState>,
    /// What the first start gets: the sockets, or why they could not be bound.
    bound: Mutex<Option<anyhow::Result<BoundSockets>>>,
    listening: Mutex<ListenInfo>,
}

/// Sockets that are bound and not read yet.
pub(crate) enum BoundSockets {
    Udp(Vec<UdpSocket>),
    Unix(SocketFile),
    Tcp(Vec<TcpListener>),
}

/// The address a collector listens on, if it listens.
#[derive(Clone, Copy, Default)]
struct ListenInfo {
    address: Option<SocketAddr>,
    receive_buffer_bytes: Option<u64>,
}

impl Collector {
    /// Binds the sockets of the collector. Fails if the settings are wrong, for example if the game is unknown. A port
    /// that another program uses is a failure of the first start instead, and so is tried again.
    pub(crate) fn open(
        settings: CollectorSettings,
        number: usize,
        catalog: &Catalog,
        sockets: usize,
    ) -> anyhow::Result<Collector> {
        let game = game(&settings, catalog)?;
        let bound = match &settings.transport {
            Transport::Udp(udp) => {
                Some(udp::bind(udp, udp.listen, sockets).map(BoundSockets::Udp).context("listen"))
            }
            Transport::Unixgram(unix) => Some(unixgram::bind(unix).map(BoundSockets::Unix).context("path")),
            Transport::TcpServer(tcp) => {
                tcp.tls.as_ref().map(tcp::acceptor).transpose()?;
                Some(tcp::bind(tcp.listen, sockets).map(BoundSockets::Tcp).context("listen"))
            }
            #[cfg(feature = "sftp")]
            Transport::Sftp(sftp) => Some(crate::sftp::bind(sftp, sftp.listen).map(BoundSockets::Tcp)),
            #[cfg(not(feature = "sftp"))]
            Transport::Sftp(_) => anyhow::bail!("transport: {}", crate::collectors::NO_SFTP),
            Transport::TcpClient(_) | Transport::Dir(_) => None,
        };
        let bound = match bound {
            Some(Err(failure)) if !net::is_in_use(&failure) => return Err(failure),
            bound => bound,
        };
        Ok(Collector {
            number,
            game: game.number,
            counters: CollectorCounters::default(),
            gauges: Arc::default(),
            status: Mutex::default(),
            desired: watch::channel(DesiredState { running: true, generation: 0 }).0,
            bound: Mutex::new(bound),
            listening: Mutex::default(),
            settings,
        })
    }

    /// Returns the sockets that [`Collector::open`] bound, or why it could not. Only the first start gets them.
    pub(crate) fn take_bound_sockets(&self) -> anyhow::Result<Option<BoundSockets>> {
        self.bound.lock().take().transpose()
    }

    /// Returns the address it listened on before, so that a restart binds the same port.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listening.lock().address
    }

    pub(crate) fn set_listening(&self, address: SocketAddr, receive_buffer_bytes: Option<u64>) {
        *self.listening.lock() = ListenInfo { address: Some(address), receive_buffer_bytes };
    }

    pub(crate) fn set_receive_buffer(&self, bytes: u64) {
        self.listening.lock().receive_buffer_bytes = Some(bytes);
    }

    pub(crate) fn set_running(&self) {
        self.status.lock().set_state(CollectorState::Running);
    }

    /// Returns true if the collector receives data.
    pub fn is_running(&self) -> bool {
        self.status.lock().state == CollectorState::Running
    }

    /// Returns true if the collector has failed and waits to be started again.
    pub fn is_failed(&self) -> bool {
        self.status.lock().state == CollectorState::Failed
    }

    /// Returns how often the collector has failed.
    pub fn failures(&self) -> u64 {
        self.status.lock().failures()
    }

    /// Returns the access with which its events are admitted.
    pub(crate) fn access(&self, game: &Arc<Game>) -> Access {
        let import = self.settings.transport.dir().is_some_and(|dir| dir.import);
        Access::collector(Arc::clone(game), &self.settings.name, import)
    }

    /// Returns name, transport, decoder, address, status and counts as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let mut row = self.status.lock().to_json();
        let listening = *self.listening.lock();
        row["name"] = self.settings.name.as_str().into();
        row["transport"] = self.settings.transport.label().into();
        row["decoder"] = self.settings.decoder.label().into();
        row["address"] = match &self.settings.transport {
            Transport::Unixgram(unix) => json!(unix.path.display().to_string()),
            _ => json!(listening.address),
        };
        row["receive_buffer_bytes"] = json!(listening.receive_buffer_bytes);
        row["counters"] = self.counters.to_json();
        row
    }
}

/// Returns the game in the settings, or the first game if they name none.
fn game(settings: &CollectorSettings, catalog: &Catalog) -> anyhow::Result<Game> {
    let games = catalog.games();
    let found = match &settings.game {
        Some(id) => games.into_iter().find(|game| game.id == *id),
        None => games.into_iter().next(),
    };
    found
        .with_context(|| format!("game: there is no game `{}`", settings.game.as_deref().unwrap_or_default()))
}
