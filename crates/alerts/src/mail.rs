//! Sends mails over SMTP with `lettre`, to the server that the operator has named.

use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use tokio::time::timeout;

use crate::http_client::Failure;
use crate::settings::{AlertSettings, MailEncryption, MailSettings};

/// The time for one command of the protocol.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// The time for a whole mail.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// A mail to be sent.
pub(crate) struct Mail {
    /// The same in every attempt.
    pub(crate) id: String,
    pub(crate) to: String,
    pub(crate) subject: String,
    pub(crate) text: String,
}

/// Sends a mail. Succeeds if the server has accepted it.
pub(crate) async fn send(settings: &AlertSettings, mail: Mail) -> Result<(), Failure> {
    let Some(server) = &settings.mail else {
        return Err(Failure::last("the server sends no mails; its operator sets `alerts.smtp.host`"));
    };
    let message = message(server, mail).map_err(Failure::last)?;
    let transport = transport(settings, server).map_err(Failure::retryable)?;
    let sent = timeout(TOTAL_TIMEOUT, transport.send(message)).await;
    let sent = sent.map_err(|_| Failure::retryable("the mail server did not accept the mail in time"))?;
    sent.map(|_| ()).map_err(|error| {
        let mut reason = format!("mail: {error}");
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            reason.push_str(&format!(": {error}"));
            source = error.source();
        }
        Failure { reason, is_final: error.is_permanent() }
    })
}

fn message(server: &MailSettings, mail: Mail) -> Result<Message, String> {
    let invalid = |error: lettre::address::AddressError| format!("the address is not valid: {error}");
    let domain = server.from.rsplit_once('@').map_or("localhost", |(_, domain)| domain.trim_end_matches('>'));
    Message::builder()
        .from(server.from.parse().map_err(invalid)?)
        .to(mail.to.parse().map_err(invalid)?)
        .subject(mail.subject)
        .message_id(Some(format!("<{}@{domain}>", mail.id)))
        .header(ContentType::TEXT_PLAIN)
        .body(mail.text)
        .map_err(|error| error.to_string())
}

fn transport(
    settings: &AlertSettings,
    server: &MailSettings,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
    let tls = match server.encryption {
        MailEncryption::None => Tls::None,
        MailEncryption::StartTls => Tls::Required(parameters(settings, server)?),
        MailEncryption::Tls => Tls::Wrapper(parameters(settings, server)?),
    };
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&*server.host)
        .port(server.port)
        .tls(tls)
        .timeout(Some(COMMAND_TIMEOUT));
    if let Some((user, password)) = server.credentials.clone() {
        builder = builder.credentials(Credentials::new(user, password));
    }
    Ok(builder.build())
}

fn parameters(settings: &AlertSettings, server: &MailSettings) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(server.host.clone());
    if let Some(file) = &settings.ca_file {
        let pem = std::fs::read(file).map_err(|error| format!("alerts.ca_file: {error}"))?;
        let roots = Certificate::from_pem(&pem).map_err(|error| format!("alerts.ca_file: {error}"))?;
        builder = builder.add_root_certificate(roots);
    }
    builder.build().map_err(|error| format!("TLS: {error}"))
}
