//! Files that clients upload over SFTP. They are received in a folder and ingested from there, as those of a watched folder.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use model::batch::KeyClass;
use pipeline::catalog::{Catalog, Scope};
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_s;
use rustix::io::Errno;
use tokio::sync::watch;
use tokio::time::sleep;
use upload::{Inbox, SftpServer};

use crate::CollectContext;
use crate::collector::{BoundSockets, Collector};
use crate::dir;
use crate::net::{ConnectionLimits, Connections};
use crate::runtimes::Runtimes;
use crate::settings::SftpSettings;
use crate::supervise::Workers;
use crate::tcp::{self, ConnectionGuard};

/// A connection that is not signed in after this time is closed.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the folder is locked again while connections of an earlier run are closed.
const LOCK_ATTEMPTS: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Binds a listening socket. Fails if another program listens there, or if a key cannot be read.
pub(crate) fn bind(settings: &SftpSettings, listen: SocketAddr) -> anyhow::Result<Vec<TcpListener>> {
    SftpServer::check(&upload_settings(settings, |_, _| false))?;
    tcp::bind(listen, 1).context("listen")
}

fn upload_settings(
    settings: &SftpSettings,
    check_password: impl Fn(&str, IpAddr) -> bool + Send + Sync + 'static,
) -> upload::SftpSettings {
    upload::SftpSettings {
        host_key: settings.host_key.clone(),
        authorized_keys: settings.authorized_keys.clone(),
        check_password: Box::new(check_password),
        login_timeout: LOGIN_TIMEOUT,
        idle_timeout: settings.idle_timeout,
    }
}

/// Receives and ingests files until `stop` becomes true.
pub(crate) async fn run(
    settings: SftpSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut listeners = match collector.take_bound_sockets()? {
        Some(BoundSockets::Tcp(listeners)) => listeners,
        _ => bind(&settings, collector.address().unwrap_or(settings.listen))?,
    };
    let listener = listeners.remove(0);
    collector.set_listening(listener.local_addr()?, None);
    let (game, catalog) = (collector.game, Arc::clone(&context.catalog));
    let check_password = move |key: &str, address| may_send(&catalog, game, key, address);
    let inbox = Arc::new(open_inbox(&settings).await?);
    let server = Arc::new(SftpServer::new(upload_settings(&settings, check_password), inbox)?);
    let limits = Connections::new(ConnectionLimits {
        total: settings.connections_max,
        per_address: settings.connections_per_address_max,
        subscriptions_per_credential_max: 0,
    });
    let mut workers = Workers::new();
    dir::start(settings.dir, &collector, &context, &runtimes, &mut workers)?;
    let counted = Arc::clone(&collector);
    let admit = move |address| match limits.admit(address) {
        Some(permit) => Some((permit, ConnectionGuard::new(&counted))),
        None => {
            counted.counters.connections_refused.add(1);
            None
        }
    };
    workers.start(runtimes.assign(collector.number), |mut stop| async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            () = server.serve(listener, admit) => {}
            () = wait_for_stop(&mut stop) => {}
        }
        Ok(())
    });
    collector.set_running();
    workers.run(stop).await
}

/// Opens the folder. Connections of an earlier run may still hold it while they are closed.
async fn open_inbox(settings: &SftpSettings) -> anyhow::Result<Inbox> {
    let open = || Inbox::open(&settings.dir.path, settings.dir.file_bytes_max);
    for _ in 0..LOCK_ATTEMPTS {
        match open() {
            Err(failure) if failure.downcast_ref() == Some(&Errno::WOULDBLOCK) => sleep(LOCK_PAUSE).await,
            opened => return opened,
        }
    }
    open()
}

/// Returns true for a secret key of the game that may send events. Public keys are known to every client.
fn may_send(catalog: &Catalog, game: u32, key: &str, address: IpAddr) -> bool {
    let access = catalog.access(key, Some(address), now_s());
    access.is_ok_and(|access| {
        access.class == KeyClass::Secret && access.game.number == game && access.may(Scope::EventsWrite)
    })
}
