//! Certificates and keys in PEM files.

use anyhow::{Context, ensure};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::settings::TlsFiles;

/// Reads a certificate with its intermediate certificates, and its key. The error names the setting of the file that is
/// wrong: `PREFIXcertificate` or `PREFIXkey`.
pub fn read_certified_key(files: &TlsFiles, prefix: &str) -> anyhow::Result<CertifiedKey> {
    let certificates = CertificateDer::pem_file_iter(&files.certificate).and_then(Iterator::collect);
    let certificates: Vec<_> = certificates
        .with_context(|| format!("{prefix}certificate: reading {}", files.certificate.display()))?;
    ensure!(
        !certificates.is_empty(),
        "{prefix}certificate: no certificate in {}",
        files.certificate.display()
    );
    let key = PrivateKeyDer::from_pem_file(&files.key);
    let key = key.with_context(|| format!("{prefix}key: reading {}", files.key.display()))?;
    let certified = CertifiedKey::from_der(certificates, key, &default_provider());
    certified.with_context(|| format!("{prefix}key: does not match the certificate"))
}
