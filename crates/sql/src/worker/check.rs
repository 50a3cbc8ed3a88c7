//! `playmeter-sql check`: isolates itself like a worker, then tries what a worker must not be able to do.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, getppid, kill_process};
use sql::protocol::{Isolation, Setup, Tables};

use super::sandbox;

/// Memory that the limits of the check allow.
const MEMORY_BYTES: u64 = 256 << 20;

/// Prints what is refused. Fails if something is not.
pub(crate) fn check(isolation: Option<&str>) -> io::Result<()> {
    let isolation = match isolation {
        None => Isolation::Required,
        Some("landlock") => Isolation::Landlock,
        Some("namespaces") => Isolation::Namespaces,
        Some(other) => return Err(io::Error::other(format!("{other} is neither landlock nor namespaces"))),
    };
    let setup = Setup {
        library: PathBuf::new(),
        tables: Tables::default(),
        isolation,
        memory_bytes: MEMORY_BYTES,
        threads: 1,
        cpu_seconds: 60,
    };
    let failed = |failure: sql::protocol::Failure| io::Error::other(failure.message);
    // This program stands for the file of a game, and what listens here for the rest of the network.
    let program = std::env::current_exe()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    sandbox::limit(&setup, 1).map_err(failed)?;
    let files = sandbox::true_paths([program.as_path()].into_iter()).map_err(failed)?;
    let paths = sandbox::enter(isolation, &files).map_err(failed)?;
    let allowed = paths.first().ok_or_else(|| io::Error::other("there is no file"))?;
    File::open(allowed)?.read_exact(&mut [0; 4])?;
    println!("a file of the game is readable");

    let mut refused = Vec::new();
    let mut attempt = |what: &'static str, result: io::Result<()>| refused.push((what, result));
    attempt("read /etc/passwd", read(Path::new("/etc/passwd")));
    attempt("read /etc/passwd by another path", read(Path::new("/proc/self/root/etc/passwd")));
    attempt("read the environment", read(Path::new("/proc/self/environ")));
    attempt("read the program's folder", fs::read_dir(program.parent().unwrap_or(&program)).map(drop));
    attempt("list /etc", fs::read_dir("/etc").map(drop));
    attempt("write to a file of the game", OpenOptions::new().write(true).open(allowed).map(drop));
    attempt("create a file", File::create(std::env::temp_dir().join("playmeter-sql-check")).map(drop));
    attempt("create a file in a shared folder", File::create("/dev/shm/playmeter-sql-check").map(drop));
    let wait = Duration::from_secs(1);
    attempt("connect to this machine", TcpStream::connect_timeout(&address, wait).map(drop));
    attempt("listen", TcpListener::bind("127.0.0.1:0").map(drop));
    attempt("send a datagram", UdpSocket::bind("127.0.0.1:0").map(drop));
    attempt("use a local socket", UnixDatagram::unbound().map(drop));
    attempt("run a program", Command::new("/bin/true").status().map(drop));
    let parent = getppid().unwrap_or(Pid::INIT);
    attempt("send a signal", kill_process(parent, Signal::WINCH).map_err(io::Error::from));

    let mut allowed = 0;
    for (what, result) in refused {
        match result {
            Err(error) => println!("refused: {what} ({error})"),
            Ok(()) => {
                allowed += 1;
                println!("NOT REFUSED: {what}");
            }
        }
    }
    io::stdout().flush()?;
    match allowed {
        0 => Ok(()),
        count => Err(io::Error::other(format!("{count} of these are not refused on this machine"))),
    }
}

fn read(path: &Path) -> io::Result<()> {
    File::open(path)?.read_exact(&mut [0])
}
