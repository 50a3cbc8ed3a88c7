//! A certificate in PEM files, which are read again when they change and on SIGHUP.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use collect::TlsFiles;
use collect::net::read_certified_key;
use pipeline::shutdown::wait_for_stop;
use pipeline::time::now_s;
use tokio::signal::unix::Signal;
use tokio::sync::watch;
use tracing::{info, warn};

use super::certificate::{Certificate, ParsedCertificate};

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(3);
/// The intervals after which files that could not be used are tried again although they did not change.
const RETRY_INTERVALS: u32 = 20;
/// A certificate that expires sooner should have been renewed.
const RENEWED_BEFORE_S: i64 = 7 * 24 * 3600;

/// Reads the files. The error names the setting of the file that is wrong.
pub(super) fn read(files: &TlsFiles) -> anyhow::Result<ParsedCertificate> {
    ParsedCertificate::parse(read_certified_key(files, "tls.")?)
        .map_err(|failure| failure.context(format!("tls.certificate: {}", files.certificate.display())))
}

/// What shows that the files were changed or replaced.
pub(super) type FileVersions = [FileVersion; 2];

/// Device, inode, size, and time of the last change; `None` without a file.
type FileVersion = Option<(u64, u64, u64, i64, i64)>;

fn version(path: &Path) -> FileVersion {
    let data = std::fs::metadata(path).ok()?;
    Some((data.dev(), data.ino(), data.size(), data.mtime(), data.mtime_nsec()))
}

/// Returns the versions of the files. Taken before they are read, a later change is noticed.
pub(super) fn versions(files: &TlsFiles) -> FileVersions {
    [version(&files.certificate), version(&files.key)]
}

/// Replaces the certificate when the files change, until the server stops.
///
/// Certificate and key are replaced one after the other, so files are read only when they did not change for an interval.
/// SIGHUP reads them at once. A pair that cannot be used changes nothing and is reported.
pub(super) async fn reload(
    files: &TlsFiles,
    mut used: FileVersions,
    certificate: &Certificate,
    hangup: &mut Signal,
    stopping: &mut watch::Receiver<bool>,
) {
    let mut seen = used;
    let (mut intervals, mut has_failed, mut is_expiring) = (0, false, false);
    loop {
        let is_asked = tokio::select! {
            () = wait_for_stop(stopping) => return,
            () = tokio::time::sleep(INTERVAL) => false,
            _ = hangup.recv() => true,
        };
        let now = versions(files);
        let is_settled = now == std::mem::replace(&mut seen, now);
        intervals += 1;
        let is_retry = has_failed && intervals % RETRY_INTERVALS == 0;
        if is_asked || (is_settled && now != used) || is_retry {
            used = now;
            has_failed = match read(files) {
                Ok(renewed) => {
                    info!(expires_s = renewed.expires_s, "the certificate was read again");
                    certificate.replace(renewed);
                    false
                }
                Err(failure) => {
                    certificate.report_failure(&format!("{failure:#}"));
                    true
                }
            };
        }
        let expires_s = certificate.expires_s().unwrap_or_default();
        let was_expiring =
            std::mem::replace(&mut is_expiring, expires_s - now_s() as i64 <= RENEWED_BEFORE_S);
        if is_expiring && !was_expiring {
            warn!(expires_s, file = %files.certificate.display(), "the certificate expires soon or has expired");
        }
    }
}
