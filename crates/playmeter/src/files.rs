//! How many files this process may have open at once. Each connection is one.

use rustix::process::{Resource, Rlimit};

/// The system allows fewer files than there may have to be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{allowed} files may be open at once, {needed} may be needed; `ulimit -n {needed}` would allow it")]
pub struct TooFew {
    needed: u64,
    allowed: u64,
}

/// Lets so many files be open. Most systems begin with 1,024 and let a process ask for more, up to a limit of theirs.
pub fn allow(needed: u64) -> Result<(), TooFew> {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let Some(allowed) = current.filter(|allowed| *allowed < needed) else { return Ok(()) };
    // Beyond the system's limit only its administrator gets, so that is a second try.
    let as_asked = Rlimit { current: Some(needed), maximum: maximum.map(|maximum| maximum.max(needed)) };
    let as_allowed = Rlimit { current: maximum, maximum };
    if rustix::process::setrlimit(Resource::Nofile, as_asked).is_ok() {
        return Ok(());
    }
    let raised = rustix::process::setrlimit(Resource::Nofile, as_allowed).is_ok();
    Err(TooFew { needed, allowed: maximum.filter(|_| raised).unwrap_or(allowed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_already_is_allowed() {
        assert_eq!(allow(8), Ok(()));
    }

    #[test]
    fn a_number_that_no_system_gives_is_refused_with_what_there_is() {
        let refused = allow(u64::MAX - 1).expect_err("no system has so many");
        assert!(refused.allowed > 0, "{refused}");
    }
}
