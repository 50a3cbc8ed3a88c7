//! An SSH server whose only service is SFTP into an [`Inbox`].

mod session;

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use russh::keys::{PrivateKey, PublicKey, load_secret_key};
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handler, Msg, PublicKeyOffer, Session, VerifiedPublicKey, run_stream,
};
use russh::{Channel, ChannelId, MethodKind, MethodSet, SshId};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tracing::{debug, warn};

use crate::inbox::Inbox;
use session::SftpSession;

/// The pause after a failed accept. The usual cause is that no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Bytes that a client may send ahead on a channel.
const WINDOW_BYTES: u32 = 1 << 20;
/// Channels of one connection.
const CHANNELS_MAX: usize = 4;
const AUTHENTICATION_ATTEMPTS_MAX: usize = 6;

/// Decides whether a client at this address may sign in with this password.
pub type CheckPassword = Box<dyn Fn(&str, IpAddr) -> bool + Send + Sync>;

/// Settings of an SFTP server.
pub struct SftpSettings {
    /// The private key of the server, in a file that `ssh-keygen` writes.
    pub host_key: PathBuf,
    /// The public keys of clients, one per line.
    pub authorized_keys: Option<PathBuf>,
    /// Returns whether a client at an address may sign in with a password.
    pub check_password: CheckPassword,
    /// A connection that is not signed in after this time is closed.
    pub login_timeout: Duration,
    /// A connection without traffic is closed after this time.
    pub idle_timeout: Duration,
}

/// An SFTP server.
pub struct SftpServer {
    inbox: Arc<Inbox>,
    authorized: Vec<PublicKey>,
    check_password: CheckPassword,
    login_timeout: Duration,
    config: Arc<Config>,
}

impl SftpServer {
    /// Reads the keys of these settings. The error names the setting that is wrong.
    pub fn check(settings: &SftpSettings) -> anyhow::Result<()> {
        read_host_key(&settings.host_key)?;
        settings.authorized_keys.as_deref().map(read_public_keys).transpose().map(drop)
    }

    /// Reads the keys. The error names the setting that is wrong.
    pub fn new(settings: SftpSettings, inbox: Arc<Inbox>) -> anyhow::Result<SftpServer> {
        let key = read_host_key(&settings.host_key)?;
        let authorized = settings.authorized_keys.as_deref().map(read_public_keys).transpose()?;
        let methods: &[MethodKind] = match authorized {
            Some(_) => &[MethodKind::PublicKey, MethodKind::Password],
            None => &[MethodKind::Password],
        };
        let config = Config {
            server_id: SshId::Standard("SSH-2.0-Playmeter".into()),
            methods: MethodSet::from(methods),
            auth_rejection_time_initial: Some(Duration::ZERO),
            keys: vec![key],
            window_size: WINDOW_BYTES,
            channel_buffer_size: 16,
            max_auth_attempts: AUTHENTICATION_ATTEMPTS_MAX,
            inactivity_timeout: Some(settings.idle_timeout),
            nodelay: true,
            ..Config::default()
        };
        Ok(SftpServer {
            inbox,
            authorized: authorized.unwrap_or_default(),
            check_password: settings.check_password,
            login_timeout: settings.login_timeout,
            config: Arc::new(config),
        })
    }

    /// Accepts connections. `admit` returns `None` if a connection is one too many, else what is dropped when the
    /// connection ends. Dropping the future closes all connections and discards incomplete files.
    pub async fn serve<P: Send + 'static>(
        self: Arc<SftpServer>,
        listener: TcpListener,
        admit: impl Fn(IpAddr) -> Option<P>,
    ) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = connections.join_next() => continue,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(failure) => {
                    warn!(%failure, "cannot accept connection");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(permit) = admit(peer.ip()) else { continue };
            let server = Arc::clone(&self);
            connections.spawn(async move {
                let _permit = permit;
                if let Err(failure) = server.serve_connection(stream, peer.ip()).await {
                    debug!(%peer, failure = format!("{failure:#}"), "connection closed");
                }
            });
        }
    }

    async fn serve_connection(self: Arc<SftpServer>, stream: TcpStream, peer: IpAddr) -> anyhow::Result<()> {
        let login_until = Instant::now() + self.login_timeout;
        let stream = stream.into_std()?;
        let _close = CloseOnDrop(stream.try_clone()?);
        let is_signed_in = Arc::new(AtomicBool::new(false));
        let handler = Connection {
            server: Arc::clone(&self),
            peer,
            channels: HashMap::new(),
            is_signed_in: Arc::clone(&is_signed_in),
        };
        let started = run_stream(Arc::clone(&self.config), TcpStream::from_std(stream)?, handler);
        let mut session = timeout_at(login_until, started).await.context("no SSH client")??;
        tokio::select! {
            ended = &mut session => return ended,
            () = sleep_until(login_until) => {}
        }
        if !is_signed_in.load(Ordering::Relaxed) {
            bail!("not signed in after {} s", self.login_timeout.as_secs());
        }
        session.await
    }
}

/// Closes a connection, which ends the task that serves it.
struct CloseOnDrop(std::net::TcpStream);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

fn read_host_key(file: &Path) -> anyhow::Result<PrivateKey> {
    load_secret_key(file, None).with_context(|| {
        format!(
            "host_key: reading {}; create one with `ssh-keygen -t ed25519 -N '' -f {}`",
            file.display(),
            file.display()
        )
    })
}

fn read_public_keys(file: &Path) -> anyhow::Result<Vec<PublicKey>> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("authorized_keys: reading {}", file.display()))?;
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut keys = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let key = PublicKey::from_openssh(line);
        keys.push(key.with_context(|| {
            format!("authorized_keys: line {number} of {} is not a public key", file.display())
        })?);
    }
    ensure!(!keys.is_empty(), "authorized_keys: no key in {}", file.display());
    Ok(keys)
}

/// One connection: signs the client in and opens SFTP sessions. Nothing else is offered.
struct Connection {
    server: Arc<SftpServer>,
    peer: IpAddr,
    channels: HashMap<ChannelId, Channel<Msg>>,
    is_signed_in: Arc<AtomicBool>,
}

impl Connection {
    fn signed_in_if(&self, is_allowed: bool) -> Result<Auth, anyhow::Error> {
        self.is_signed_in.fetch_or(is_allowed, Ordering::Relaxed);
        Ok(if is_allowed { Auth::Accept } else { Auth::reject() })
    }

    fn is_authorized(&self, key: &PublicKey) -> bool {
        self.server.authorized.iter().any(|known| known.key_data() == key.key_data())
    }
}

impl Handler for Connection {
    type Error = anyhow::Error;

    async fn auth_password(&mut self, _user: &str, password: &str) -> Result<Auth, Self::Error> {
        self.signed_in_if((self.server.check_password)(password, self.peer))
    }

    async fn auth_publickey_offered(
        &mut self,
        _user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(if self.is_authorized(offer.public_key) { Auth::Accept } else { Auth::reject() })
    }

    async fn auth_publickey(&mut self, _user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        self.signed_in_if(self.is_authorized(key.public_key))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.channels.len() < CHANNELS_MAX {
            self.channels.insert(channel.id(), channel);
            reply.accept().await;
        }
        Ok(())
    }

    async fn subsystem_request(
        &mut self,
        id: ChannelId,
        name: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        match self.channels.remove(&id).filter(|_| name == "sftp") {
            Some(channel) => {
                session.channel_success(id)?;
                let sftp = SftpSession::new(Arc::clone(&self.server.inbox));
                russh_sftp::server::run(channel.into_stream(), sftp).await;
            }
            None => session.channel_failure(id)?,
        }
        Ok(())
    }

    async fn shell_request(&mut self, id: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        Ok(session.channel_failure(id)?)
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        _command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(session.channel_failure(id)?)
    }

    async fn channel_eof(&mut self, id: ChannelId, session: &mut Session) -> Result<(), Self::Error> {
        Ok(session.close(id)?)
    }
}
