//! Packets over a Unix datagram socket, which is a file. The server never replies.
//!
//! The kernel does not drop packets here: when the socket's queue is full, a sender waits or, if it must not, drops the
//! packet itself. The permissions of the file decide who may send.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use model::Reject;
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_ms;
use socket2::SockRef;
use tokio::sync::watch;

use crate::CollectContext;
use crate::buffer::Buffer;
use crate::collector::{BoundSockets, Collector};
use crate::net::InUse;
use crate::runtimes::Runtimes;
use crate::settings::UnixgramSettings;
use crate::sink::Sink;
use crate::supervise::Workers;

/// The largest packet.
const PACKET_BYTES_MAX: usize = 64 << 10;
/// The longest path of a socket: that of the operating system, less the suffix of a new socket.
const PATH_BYTES_MAX: usize = 100;
/// Packets read before the other tasks of the runtime get a turn.
const PACKETS_PER_TURN: usize = 256;

/// A bound socket. Its file is removed with it.
pub(crate) struct SocketFile {
    socket: UnixDatagram,
    path: PathBuf,
    /// Identifies the file: another program may have replaced it.
    inode: u64,
}

/// Binds a socket and replaces the file of one that no program receives on any more. Fails if a program still does, or if
/// the file is not a socket.
pub(crate) fn bind(settings: &UnixgramSettings) -> anyhow::Result<SocketFile> {
    let UnixgramSettings { path, permissions, receive_buffer_bytes } = settings;
    ensure!(path.as_os_str().len() <= PATH_BYTES_MAX, "must have at most {PATH_BYTES_MAX} bytes");
    check_is_free(path)?;
    // Bound under another name and renamed, so that no other permissions are ever in force.
    let new = path.with_added_extension("new");
    remove_if_exists(&new)?;
    let socket = UnixDatagram::bind(&new).with_context(|| format!("binding {}", new.display()))?;
    let placed = place(&socket, &new, settings);
    if placed.is_err() {
        remove_if_exists(&new)?;
    }
    let inode = placed.with_context(|| format!("{} with permissions {permissions:o}", path.display()))?;
    let file = SocketFile { socket, path: path.clone(), inode };
    let buffer = SockRef::from(&file.socket).set_recv_buffer_size(*receive_buffer_bytes);
    buffer.with_context(|| format!("receive_buffer_bytes {receive_buffer_bytes}"))?;
    Ok(file)
}

/// Sets the permissions of a new socket and renames it. Returns its inode.
fn place(socket: &UnixDatagram, new: &Path, settings: &UnixgramSettings) -> io::Result<u64> {
    socket.set_nonblocking(true)?;
    fs::set_permissions(new, fs::Permissions::from_mode(settings.permissions))?;
    let inode = fs::symlink_metadata(new)?.ino();
    fs::rename(new, &settings.path)?;
    Ok(inode)
}

fn check_is_free(path: &Path) -> anyhow::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(failure) => return Err(failure).with_context(|| path.display().to_string()),
    };
    ensure!(
        metadata.file_type().is_socket(),
        "{} is not a socket: remove it, or choose another path",
        path.display()
    );
    if UnixDatagram::unbound()?.connect(path).is_ok() {
        let place = path.display().to_string();
        return Err(InUse { verb: "receives", place, setting: "path" }.into());
    }
    Ok(())
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(failure) if failure.kind() != io::ErrorKind::NotFound => Err(failure),
        _ => Ok(()),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| metadata.ino() == self.inode) {
            // A file that is left is replaced by the next start.
            let _ = remove_if_exists(&self.path);
        }
    }
}

/// Receives packets until `stop` becomes true.
pub(crate) async fn run(
    settings: UnixgramSettings,
    collector: Arc<Collector>,
    context: CollectContext,
    runtimes: Arc<Runtimes>,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let file = match collector.take_bound_sockets()? {
        Some(BoundSockets::Unix(file)) => file,
        _ => bind(&settings)?,
    };
    collector.set_receive_buffer(SockRef::from(&file.socket).recv_buffer_size()? as u64);
    let runtime = runtimes.assign(collector.number);
    let sink = Sink::new(&context, runtime, &collector);
    let mut workers = Workers::new();
    workers.start(runtime, |stop| receive_and_write(file, sink, stop));
    collector.set_running();
    workers.run(stop).await
}

async fn receive_and_write(
    file: SocketFile,
    sink: Sink,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let collector = Arc::clone(&sink.collector);
    let socket = tokio::net::UnixDatagram::from_std(file.socket.try_clone()?)?;
    let buffer = Buffer::new(sink);
    let receiving = async {
        let received = tokio::select! {
            received = receive(&socket, &collector, &buffer) => received,
            () = wait_for_stop(&mut stop) => Ok(()),
        };
        // Nothing new arrives while the last batch is written.
        drop(file);
        buffer.close();
        received
    };
    tokio::join!(receiving, buffer.write_until_closed(|| 0)).0
}

async fn receive(
    socket: &tokio::net::UnixDatagram,
    collector: &Collector,
    buffer: &Buffer,
) -> anyhow::Result<()> {
    // One byte more than allowed shows that a packet is too large.
    let mut memory = vec![0; PACKET_BYTES_MAX + 1];
    let (decoder, counters) = (&collector.settings.decoder, &collector.counters);
    loop {
        socket.readable().await.context("waiting for packets")?;
        let (mut packets, mut bytes, now) = (0, 0, now_ms());
        let mut failure = None;
        buffer.add(|batch| {
            for _ in 0..PACKETS_PER_TURN {
                match socket.try_recv(&mut memory) {
                    Ok(length) if length > PACKET_BYTES_MAX => batch.reject(Reject::EventTooLarge, b""),
                    Ok(length) => {
                        bytes += length as u64;
                        batch.decode(decoder, &memory[..length], now);
                    }
                    Err(error) => {
                        failure = Some(error).filter(|error| error.kind() != io::ErrorKind::WouldBlock);
                        break;
                    }
                }
                packets += 1;
            }
        });
        counters.packets.add(packets);
        counters.bytes.add(bytes);
        if let Some(failure) = failure {
            return Err(failure).context("receiving packets");
        }
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(path: &Path) -> UnixgramSettings {
        UnixgramSettings { path: path.to_owned(), permissions: 0o620, receive_buffer_bytes: 64 << 10 }
    }

    #[test]
    fn only_a_socket_without_a_receiver_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("statsd.sock");
        let bound = bind(&settings(&path)).expect("a free path");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o620);
        let in_use = bind(&settings(&path)).err().expect("it is in use").to_string();
        assert!(in_use.starts_with("another program receives on "), "{in_use}");
        drop(bound);
        assert!(!path.exists(), "the file is removed with the socket");
        drop(UnixDatagram::bind(&path).expect("a stale socket"));
        assert!(path.exists());
        let again = bind(&settings(&path)).expect("a stale socket is replaced");
        UnixDatagram::unbound().expect("a socket").send_to(b"hits:1|c", &path).expect("it receives");
        fs::remove_file(&path).expect("a file");
        fs::write(&path, "precious").expect("a file");
        drop(again);
        assert!(path.exists(), "a file of another program stays");
        assert!(bind(&settings(&path)).err().expect("a file").to_string().contains("is not a socket"));
        assert_eq!(fs::read(&path).expect("a file"), b"precious");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn path_that_is_too_long_or_in_no_folder_is_an_error() {
        assert!(bind(&settings(Path::new(&format!("/tmp/{}", "x".repeat(100))))).is_err());
        assert!(bind(&settings(Path::new("/no/where.sock"))).is_err());
    }
}
