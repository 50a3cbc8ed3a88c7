//! Settings of alerts; every value has been validated.

use std::path::PathBuf;
use std::time::Duration;

use pipeline::catalog::Cidr;

/// Settings of alerts.
#[derive(Clone, Debug)]
pub struct AlertSettings {
    /// The time from one evaluation of a rule to the next.
    pub interval: Duration,
    /// Requests may be sent to every address. Without it, only to public ones and those in `allowed_addresses`.
    pub allow_private_addresses: bool,
    /// Ranges of addresses that requests may be sent to although they are not public.
    pub allowed_addresses: Vec<Cidr>,
    /// A PEM file with roots that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// The server that mails are sent to; `None`: mails cannot be sent.
    pub mail: Option<MailSettings>,
}

impl Default for AlertSettings {
    fn default() -> AlertSettings {
        AlertSettings {
            interval: Duration::from_secs(60),
            allow_private_addresses: false,
            allowed_addresses: Vec::new(),
            ca_file: None,
            mail: None,
        }
    }
}

/// The server that mails are sent to. It is named by the operator, so its address may be private.
#[derive(Clone)]
pub struct MailSettings {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is encrypted.
    pub encryption: MailEncryption,
    /// The user and the password.
    pub credentials: Option<(String, String)>,
    /// The address of the sender.
    pub from: String,
}

/// How a connection to the mail server is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailEncryption {
    /// Not at all.
    None,
    /// By `STARTTLS`, which is required.
    StartTls,
    /// From the start.
    Tls,
}

/// Without the password.
impl std::fmt::Debug for MailSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MailSettings { host, port, encryption, from, .. } = self;
        write!(f, "{host}:{port} {encryption:?} {from}")
    }
}
