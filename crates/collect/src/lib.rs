//! Collectors: how bytes come in beside requests, all with the same life.
//!
//! A collector is a transport ([`udp`], ...), a framing and a decoder, as the settings declare it. What it takes goes the
//! one way of all events: through `Line::take`. Samples are added up before, in a [`samples::Table`].
//!
//! Each runs on the runtimes that answer requests, under a supervisor of its own ([`supervise`]).

mod backoff;
mod counters;
mod dir;
mod intake;
pub mod net;
pub mod samples;
mod settings;
mod supervise;
mod tcp;
mod totals;
mod udp;

pub use backoff::Backoff;
pub use counters::Counters;
pub use decode::csv::{Field, Mapping, OtherColumns, Target};
pub use decode::influx::Precision;
pub use settings::{
    After, CollectorSettings, Decoder, DirSettings, Framing, StreamSettings, TcpClientSettings,
    TcpServerSettings, TlsFiles, Transport, UdpSettings,
};
pub use supervise::{State, Status, Wanted};
pub use totals::Totals;

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::Dimension;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::watch;
use wal::Lane;

use pipeline::catalog::{Access, Catalog, Game, SettingsChange};
use pipeline::distribute::{DistributeBy, distribute};
use pipeline::flows::Flows;
use pipeline::ingest::{Claims, Ingest};
use pipeline::time::now_ms;
use pipeline::views::Views;
use samples::Gauges;

/// What collectors use of the server.
#[derive(Clone)]
pub struct CollectContext {
    /// Receives events and samples.
    pub ingest: Arc<Ingest>,
    /// Receives packets.
    pub flows: Arc<Flows>,
    /// The games that collectors belong to.
    pub catalog: Arc<Catalog>,
    /// Shows rejected input, and hashes player ids.
    pub views: Arc<Views>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// How long a command waits for a collector to do what it is told.
const PATIENCE: Duration = Duration::from_secs(15);

/// A runtime, for work to be put on.
pub struct Place {
    /// The runtime.
    pub runtime: Handle,
    /// Its lane into the log.
    pub lane: Lane<Claims>,
}

/// All runtimes.
pub struct Places(Vec<Place>);

impl Places {
    /// These.
    pub fn new(places: Vec<Place>) -> Places {
        Places(places)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each of them.
    pub fn all(&self) -> impl Iterator<Item = &Place> {
        self.0.iter()
    }

    /// The one whose turn it is: see [`distribute`].
    pub fn by_turns(&self, number: usize) -> &Place {
        &self.0[distribute(DistributeBy::Turn(number), self.0.len())]
    }
}

/// Sockets that have their port and were not read yet.
pub(crate) enum Bound {
    Udp(Vec<UdpSocket>),
    Tcp(Vec<TcpListener>),
}

/// One collector.
pub struct Collector {
    /// As declared.
    pub settings: CollectorSettings,
    /// Its place among all collectors: work that has one runtime is spread by it.
    pub number: usize,
    /// Whose events these are.
    pub game: u32,
    /// What came.
    pub counters: Counters,
    /// What gauges show, for all sockets.
    pub(crate) gauges: Arc<Gauges>,
    pub(crate) status: Mutex<Status>,
    pub(crate) wanted: watch::Sender<Wanted>,
    bound: Mutex<Option<Bound>>,
    place: Mutex<Listens>,
}

/// Where a collector listens, as far as it does.
#[derive(Clone, Copy, Default)]
struct Listens {
    address: Option<SocketAddr>,
    receive_buffer_bytes: Option<u64>,
}

impl Collector {
    /// Takes what it needs of the machine, or says why it cannot: a port in use, an unknown game.
    fn open(
        settings: CollectorSettings,
        number: usize,
        catalog: &Catalog,
        sockets: usize,
    ) -> anyhow::Result<Collector> {
        let game = game(&settings, catalog)?;
        let bound = match &settings.transport {
            Transport::Udp(udp) => Some(Bound::Udp(udp::bind(udp, udp.listen, sockets).context("listen")?)),
            Transport::TcpServer(tcp) => {
                tcp.tls.as_ref().map(tcp::acceptor).transpose()?;
                Some(Bound::Tcp(tcp::bind(tcp.listen, sockets).context("listen")?))
            }
            Transport::TcpClient(_) | Transport::Dir(_) => None,
        };
        Ok(Collector {
            number,
            game: game.number,
            counters: Counters::default(),
            gauges: Arc::default(),
            status: Mutex::default(),
            wanted: watch::channel(Wanted { running: true, number: 0 }).0,
            bound: Mutex::new(bound),
            place: Mutex::default(),
            settings,
        })
    }

    /// The sockets of the first start.
    fn take_bound(&self) -> Option<Bound> {
        self.bound.lock().take()
    }

    /// Where it listened before, to come back to the same port.
    fn address(&self) -> Option<SocketAddr> {
        self.place.lock().address
    }

    fn bound_to(&self, address: SocketAddr, receive_buffer_bytes: Option<u64>) {
        *self.place.lock() = Listens { address: Some(address), receive_buffer_bytes };
    }

    /// It takes what comes.
    fn is_running(&self) {
        self.status.lock().turn(State::Running);
    }

    /// Whether it takes what comes.
    pub fn is_taking(&self) -> bool {
        self.status.lock().state == State::Running
    }

    /// What its events may do.
    fn access(&self, game: &Arc<Game>) -> Access {
        let import = matches!(&self.settings.transport, Transport::Dir(dir) if dir.import);
        Access::collector(Arc::clone(game), &self.settings.name, import)
    }

    /// What it is, how it is doing, and what it has received.
    pub fn json(&self) -> Value {
        let mut row = self.status.lock().json();
        let listens = *self.place.lock();
        row["name"] = self.settings.name.as_str().into();
        row["transport"] = self.settings.transport.label().into();
        row["decoder"] = self.settings.decoder.label().into();
        row["address"] = json!(listens.address);
        row["receive_buffer_bytes"] = json!(listens.receive_buffer_bytes);
        row["counters"] = self.counters.json();
        row
    }
}

/// The collector's game.
fn game(settings: &CollectorSettings, catalog: &Catalog) -> anyhow::Result<Game> {
    let games = catalog.games();
    let found = match &settings.game {
        Some(id) => games.into_iter().find(|game| game.id == *id),
        None => games.into_iter().next(),
    };
    found
        .with_context(|| format!("game: there is no game `{}`", settings.game.as_deref().unwrap_or_default()))
}

/// All collectors of a server.
pub struct Collectors {
    all: Vec<Arc<Collector>>,
    since_ms: i64,
    /// Of metrics over HTTP, by game.
    totals: Mutex<HashMap<u32, Arc<Totals>>>,
    /// How many supervisors have not ended.
    alive: watch::Sender<usize>,
}

/// What a collector can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// To run.
    Start,
    /// Not to run.
    Stop,
    /// To begin anew.
    Restart,
}

impl Collectors {
    /// Takes what all of them need. The first that cannot have it is an error that names it.
    pub fn open(
        settings: &[CollectorSettings],
        catalog: &Catalog,
        sockets: usize,
    ) -> anyhow::Result<Collectors> {
        let mut all = Vec::new();
        for (number, settings) in settings.iter().enumerate() {
            let opened = Collector::open(settings.clone(), number, catalog, sockets);
            all.push(Arc::new(opened.with_context(|| format!("collectors.{}", settings.name))?));
        }
        Ok(Collectors { all, since_ms: now_ms(), totals: Mutex::default(), alive: watch::channel(0).0 })
    }

    /// What is remembered of a game's metrics that come over HTTP.
    pub fn totals(&self, game: u32) -> Arc<Totals> {
        let mut totals = self.totals.lock();
        Arc::clone(totals.entry(game).or_insert_with(|| Arc::new(Totals::new(self.since_ms))))
    }

    /// Makes their tags dimensions of their games. A game without room for one is an error that names the collector.
    pub fn declare_tags(&self, catalog: &Catalog) -> anyhow::Result<()> {
        for Collector { settings, game, .. } in self.all.iter().map(|collector| &**collector) {
            let declared = settings.tags.iter().filter(|tag| Dimension::from_label(tag).is_none());
            let change = SettingsChange { declare: declared.cloned().collect(), ..SettingsChange::default() };
            let game = catalog.game_by_number(*game).filter(|_| !change.declare.is_empty());
            if let Some(game) = game {
                let changed = catalog.set_game(&game.id, change);
                changed.with_context(|| format!("collectors.{}: tags", settings.name))?;
            }
        }
        Ok(())
    }

    /// Runs them until the server stops.
    pub fn start(&self, context: &CollectContext, places: &Arc<Places>) {
        self.alive.send_replace(self.all.len());
        for collector in &self.all {
            let work = run(Arc::clone(collector), context.clone(), Arc::clone(places));
            let alive = Alive(self.alive.clone());
            places.by_turns(collector.number).runtime.spawn(async move {
                work.await;
                drop(alive);
            });
        }
    }

    /// Returns when all have ended after the server was told to stop.
    pub async fn ended(&self) {
        let _ = self.alive.subscribe().wait_for(|alive| *alive == 0).await;
    }

    /// Those of one game, or all, as `{name, transport, decoder, state, counters, ...}`.
    pub fn list(&self, catalog: &Catalog, game: Option<u32>) -> Vec<Value> {
        let wanted = self.all.iter().filter(|collector| game.is_none_or(|game| game == collector.game));
        let row = |collector: &Arc<Collector>| {
            let mut row = collector.json();
            row["game"] = json!(catalog.game_by_number(collector.game).map(|game| game.id.clone()));
            row
        };
        wanted.map(row).collect()
    }

    /// All of them.
    pub fn all(&self) -> &[Arc<Collector>] {
        &self.all
    }

    /// Tells one what to do, and waits until it has been done. Blocks.
    pub fn order(&self, name: &str, order: Order) -> anyhow::Result<Value> {
        let collector = self.all.iter().find(|collector| collector.settings.name == name);
        let collector = collector.with_context(|| format!("there is no collector `{name}`"))?;
        let starts = collector.status.lock().starts();
        collector.wanted.send_modify(|wanted| {
            wanted.running = order != Order::Stop;
            wanted.number += 1;
        });
        let deadline = Instant::now() + PATIENCE;
        while !collector.status.lock().has_followed(order, starts) {
            if Instant::now() > deadline {
                bail!("`{name}` has not done so yet; see its state");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(collector.json())
    }
}

/// Counts a supervisor that ends, however it ends.
struct Alive(watch::Sender<usize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.send_modify(|alive| *alive -= 1);
    }
}

async fn run(collector: Arc<Collector>, context: CollectContext, places: Arc<Places>) {
    let stopping = context.stopping.clone();
    let attempt = |stop| attempt(Arc::clone(&collector), context.clone(), Arc::clone(&places), stop);
    supervise::supervise(Arc::clone(&collector), Backoff::default(), stopping, attempt).await;
}

/// Runs a collector once.
async fn attempt(
    collector: Arc<Collector>,
    context: CollectContext,
    places: Arc<Places>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    match collector.settings.transport.clone() {
        Transport::Udp(settings) => udp::run(settings, collector, context, places, stop).await,
        Transport::TcpServer(settings) => tcp::serve(settings, collector, context, places, stop).await,
        Transport::TcpClient(settings) => tcp::connect(settings, collector, context, places, stop).await,
        Transport::Dir(settings) => dir::run(settings, collector, context, places, stop).await,
    }
}
