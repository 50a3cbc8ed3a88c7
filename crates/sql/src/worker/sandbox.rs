//! Takes from this process everything that a query does not need.
//!
//! DuckDB refuses files, network and settings by itself; what is here holds when that fails. Each layer stands alone:
//! Landlock or a private mount namespace for files, a system call filter for sockets and programs, limits for resources.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount,
};
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Signal, Uid, chdir, pivot_root};
use rustix::thread::UnshareFlags;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use sql::protocol::{Failure, FailureKind, Isolation, Setup};

/// Memory beside that which DuckDB counts: what it allocates without counting, and what an answer is encoded in.
const UNCOUNTED_BYTES: u64 = 256 << 20;
/// Memory of a thread beside that: its stack and its heap.
const THREAD_BYTES: u64 = 16 << 20;
/// Address space beside that: the program, its library, and what threads reserve and do not use.
const ADDRESS_SPACE_BYTES: u64 = 2 << 30;
/// How much a worker yields to the server, as the server's own threads for queries do.
const NICE: i32 = 15;
/// Files that a worker holds open beside those of the tables.
const OTHER_FILES: u64 = 64;

/// Limits the process and makes it die with its parent.
pub(crate) fn limit(setup: &Setup, files: u64) -> Result<(), Failure> {
    let apply = || -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        rustix::thread::set_no_new_privs(true)?;
        rustix::process::nice(NICE)?;
        set(Resource::Cpu, setup.cpu_seconds)?;
        let threads = THREAD_BYTES.saturating_mul(setup.threads.into());
        let memory = setup.memory_bytes.saturating_add(UNCOUNTED_BYTES).saturating_add(threads);
        set(Resource::Data, memory)?;
        set(Resource::As, memory.saturating_add(ADDRESS_SPACE_BYTES))?;
        set(Resource::Fsize, 0)?;
        set(Resource::Core, 0)?;
        set(Resource::Nofile, files + OTHER_FILES)
    };
    apply().map_err(|error| Failure::new(FailureKind::Isolation, format!("limits cannot be set: {error}")))
}

fn set(resource: Resource, limit: u64) -> io::Result<()> {
    let old = rustix::process::getrlimit(resource);
    let limit = old.maximum.map_or(limit, |maximum| maximum.min(limit));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(limit), maximum: Some(limit) })?)
}

/// Returns the true paths of files. Fails if one is no file: a folder or a pipe would be read by nothing or for ever.
pub(crate) fn true_paths<'a>(files: impl Iterator<Item = &'a Path>) -> Result<Vec<PathBuf>, Failure> {
    let failure = |error| Failure::new(FailureKind::Files, format!("a file of the game: {error}"));
    let true_path = |file: &Path| match file.canonicalize().and_then(|path| Ok((path.metadata()?, path))) {
        Ok((metadata, path)) if metadata.is_file() => Ok(path),
        Ok(_) => Err(failure(io::ErrorKind::InvalidInput.into())),
        Err(error) => Err(failure(error)),
    };
    files.map(true_path).collect()
}

/// Leaves the process nothing but these files, which it may read, and returns the paths under which it finds them. Must
/// run before there is a second thread.
pub(crate) fn enter(isolation: Isolation, files: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let in_namespaces = match isolation {
        Isolation::Landlock => None,
        _ => namespaces(files)?,
    };
    let has_namespaces = in_namespaces.is_some();
    let paths = in_namespaces.unwrap_or_else(|| files.to_vec());
    let has_landlock = isolation != Isolation::Namespaces && landlock(&paths);
    let refused = |reason: &str| Err(Failure::new(FailureKind::Isolation, reason));
    match (isolation, has_namespaces || has_landlock) {
        (Isolation::Optional, _) | (_, true) => {}
        (Isolation::Landlock, false) => return refused("the kernel has no Landlock"),
        (Isolation::Namespaces, false) => return refused("the kernel refuses private namespaces"),
        (Isolation::Required, false) => {
            return refused("the kernel has no Landlock and refuses private namespaces");
        }
    }
    // Not before the namespaces: their maps belong to root as soon as the process hides from its own user.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Failure::new(FailureKind::Isolation, error.to_string()))?;
    match deny_system_calls() {
        Err(error) if isolation != Isolation::Optional => {
            refused(&format!("system calls cannot be filtered: {error}"))
        }
        _ => Ok(paths),
    }
}

/// Denies all files but these, with Landlock. Returns whether the kernel has it.
fn landlock(files: &[PathBuf]) -> bool {
    let restrict = || -> Result<_, RulesetError> {
        Ruleset::default()
            // The first version has the rights to read and write; later ones are used where the kernel has them.
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(ABI::V1))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V5))?
            .handle_access(AccessNet::from_all(ABI::V5))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?
            .add_rules(path_beneath_rules(files, AccessFs::ReadFile))?
            .restrict_self()
    };
    restrict().is_ok_and(|status| status.ruleset != RulesetStatus::NotEnforced)
}

/// Moves the process to a file system of its own that has nothing but these files, under numbers for names, and to a
/// network without interfaces. The files stay readable when the server deletes them. `None` if the kernel refuses that.
fn namespaces(files: &[PathBuf]) -> Result<Option<Vec<PathBuf>>, Failure> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let all = UnshareFlags::NEWUSER | UnshareFlags::NEWNS | UnshareFlags::NEWNET | UnshareFlags::NEWIPC;
    // SAFETY: this thread is the only one, and it shares no memory or file table with another process.
    if unsafe { rustix::thread::unshare_unsafe(all) }.is_err() {
        return Ok(None);
    }
    // Some systems allow the namespace and then nothing in it.
    if map_user(user, group).is_err() {
        return Ok(None);
    }
    let move_root = || -> io::Result<Vec<PathBuf>> {
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
        // The new root is mounted over a folder that every Linux has and that holds no file of a game.
        let root = Path::new("/proc");
        let plain = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOEXEC;
        mount("tmpfs", root, "tmpfs", plain, None)?;
        for (index, file) in files.iter().enumerate() {
            let target = root.join(index.to_string());
            File::create(&target)?;
            mount_bind(file, &target)?;
            mount_remount(&target, plain | MountFlags::RDONLY | MountFlags::BIND, "")?;
        }
        mount_remount(root, plain | MountFlags::RDONLY, "")?;
        chdir(root)?;
        pivot_root(".", ".")?;
        unmount(".", UnmountFlags::DETACH)?;
        chdir("/")?;
        Ok((0..files.len()).map(|index| format!("/{index}").into()).collect())
    };
    let failure = |error| Failure::new(FailureKind::Isolation, format!("a private file system: {error}"));
    move_root().map(Some).map_err(failure)
}

/// Makes the process the only user of its namespace.
fn map_user(user: Uid, group: Gid) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{0} {0} 1", user.as_raw()))?;
    std::fs::write("/proc/self/gid_map", format!("{0} {0} 1", group.as_raw()))
}

/// Denies sockets, programs and what changes the process's place in the system, with a filter that its threads inherit.
fn deny_system_calls() -> Result<(), seccompiler::Error> {
    let denied = [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_listen,
        libc::SYS_accept,
        libc::SYS_accept4,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_open,
        libc::SYS_pidfd_getfd,
        libc::SYS_pidfd_send_signal,
        libc::SYS_kill,
        libc::SYS_tkill,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_fsopen,
        libc::SYS_pivot_root,
        libc::SYS_chroot,
        libc::SYS_setns,
        libc::SYS_unshare,
        libc::SYS_open_by_handle_at,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
        libc::SYS_init_module,
        libc::SYS_finit_module,
        libc::SYS_kexec_load,
        libc::SYS_reboot,
        libc::SYS_swapon,
        libc::SYS_shmget,
        libc::SYS_shmat,
        libc::SYS_msgget,
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_prctl,
    ];
    let denied: BTreeMap<i64, Vec<_>> = denied.into_iter().map(|call| (call, Vec::new())).collect();
    let filter = SeccompFilter::new(
        denied,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into()?,
    )?;
    let program: BpfProgram = filter.try_into()?;
    seccompiler::apply_filter(&program)
}
