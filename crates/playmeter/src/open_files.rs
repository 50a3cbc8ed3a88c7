//! The limit on open files of this process. Each connection needs one.

use rustix::process::{Resource, Rlimit};

/// The system allows fewer open files than this process may need.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "up to {needed} files may be needed, but the system allows only {allowed} open files; \
     raise the limit with `ulimit -n {needed}`"
)]
pub(crate) struct OpenFileLimitTooLow {
    needed: u64,
    allowed: u64,
}

/// Raises the limit on open files to at least `needed`.
///
/// Most systems start a process with 1,024 and let it raise this soft limit up to the hard limit.
pub(crate) fn raise_limit(needed: u64) -> Result<(), OpenFileLimitTooLow> {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    let Some(allowed) = current.filter(|allowed| *allowed < needed) else { return Ok(()) };
    // Only an administrator may raise the hard limit, so the fallback is to use all of it.
    let with_higher_maximum =
        Rlimit { current: Some(needed), maximum: maximum.map(|maximum| maximum.max(needed)) };
    let up_to_maximum = Rlimit { current: maximum, maximum };
    if rustix::process::setrlimit(Resource::Nofile, with_higher_maximum).is_ok() {
        return Ok(());
    }
    let raised = rustix::process::setrlimit(Resource::Nofile, up_to_maximum).is_ok();
    Err(OpenFileLimitTooLow { needed, allowed: maximum.filter(|_| raised).unwrap_or(allowed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_that_is_already_high_enough_is_ok() {
        assert_eq!(raise_limit(8), Ok(()));
    }

    #[test]
    fn impossible_limit_is_an_error_that_names_the_allowed_number() {
        let error = raise_limit(u64::MAX - 1).expect_err("no system allows so many files");
        assert!(error.allowed > 0, "{error}");
    }
}
