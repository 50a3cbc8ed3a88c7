//! Settings of alerts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ::alerts::{AlertSettings, MailEncryption, MailSettings};
use anyhow::{Context, bail, ensure};
use pipeline::catalog::Cidr;
use serde::{Deserialize, Serialize};

/// A password that is longer than this is a mistake, such as the wrong file.
const PASSWORD_BYTES_MAX: usize = 1_000;

/// Alerts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawAlerts {
    /// Seconds from one evaluation of a rule to the next.
    pub(crate) interval_s: u64,
    /// True if notifications may be sent to every address, also of this machine and of private networks.
    pub(crate) allow_private_addresses: bool,
    /// Ranges of addresses that notifications may be sent to although they are not public.
    #[serde(deserialize_with = "super::string_or_list")]
    pub(crate) allowed_addresses: Vec<String>,
    /// A PEM file with roots that servers are trusted by, besides those of the system.
    pub(crate) ca_file: PathBuf,
    /// The server that mails are sent to.
    pub(crate) smtp: RawSmtp,
}

/// The server that mails are sent to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct RawSmtp {
    /// Its name or address; empty: no mails are sent.
    pub(crate) host: String,
    /// Its port; 0 for the usual one.
    pub(crate) port: u16,
    /// `starttls`, `tls` from the start, or `none`.
    pub(crate) encryption: String,
    /// The user; empty for none.
    pub(crate) user: String,
    /// A file with the password.
    pub(crate) password_file: PathBuf,
    /// The address of the sender.
    pub(crate) from: String,
}

impl Default for RawAlerts {
    fn default() -> RawAlerts {
        let AlertSettings { interval, allow_private_addresses, .. } = AlertSettings::default();
        RawAlerts {
            interval_s: interval.as_secs(),
            allow_private_addresses,
            allowed_addresses: Vec::new(),
            ca_file: PathBuf::new(),
            smtp: RawSmtp::default(),
        }
    }
}

impl Default for RawSmtp {
    fn default() -> RawSmtp {
        RawSmtp {
            host: String::new(),
            port: 0,
            encryption: "starttls".to_owned(),
            user: String::new(),
            password_file: PathBuf::new(),
            from: String::new(),
        }
    }
}

impl RawAlerts {
    pub(super) fn resolve(self) -> anyhow::Result<AlertSettings> {
        ensure!((1..=3_600).contains(&self.interval_s), "alerts.interval_s: must be between 1 and 3600");
        let range = |text: &String| text.parse::<Cidr>().context("alerts.allowed_addresses");
        let ca_file = (!self.ca_file.as_os_str().is_empty()).then_some(self.ca_file);
        if let Some(file) = &ca_file {
            ensure!(file.exists(), "alerts.ca_file: no such file: {}", file.display());
        }
        Ok(AlertSettings {
            interval: Duration::from_secs(self.interval_s),
            allow_private_addresses: self.allow_private_addresses,
            allowed_addresses: self.allowed_addresses.iter().map(range).collect::<Result<_, _>>()?,
            ca_file,
            mail: self.smtp.resolve()?,
        })
    }
}

impl RawSmtp {
    fn resolve(self) -> anyhow::Result<Option<MailSettings>> {
        if self.host.is_empty() {
            return Ok(None);
        }
        let (encryption, usual_port) = match &*self.encryption {
            "starttls" => (MailEncryption::StartTls, 587),
            "tls" => (MailEncryption::Tls, 465),
            "none" => (MailEncryption::None, 25),
            _ => bail!("alerts.smtp.encryption: must be starttls, tls or none"),
        };
        ensure!(self.from.contains('@'), "alerts.smtp.from: must be the mail address of the sender");
        let credentials = match self.user.is_empty() {
            true => None,
            false => {
                ensure!(
                    encryption != MailEncryption::None,
                    "alerts.smtp.user: a password is not sent without encryption; set alerts.smtp.encryption"
                );
                Some((self.user, password(&self.password_file)?))
            }
        };
        Ok(Some(MailSettings {
            host: self.host,
            port: if self.port == 0 { usual_port } else { self.port },
            encryption,
            credentials,
            from: self.from,
        }))
    }
}

fn password(file: &Path) -> anyhow::Result<String> {
    ensure!(!file.as_os_str().is_empty(), "alerts.smtp.password_file: is required with alerts.smtp.user");
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("alerts.smtp.password_file: reading {}", file.display()))?;
    let password = text.trim_end_matches(['\r', '\n']);
    ensure!(
        (1..=PASSWORD_BYTES_MAX).contains(&password.len()),
        "alerts.smtp.password_file: {} must contain a password of at most {PASSWORD_BYTES_MAX} bytes",
        file.display()
    );
    Ok(password.to_owned())
}
