use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Error, Wire};

/// Speaks TLS over `stream`, trusting the authorities that `ca` holds at this moment.
pub(super) async fn wrap<S: Wire>(stream: S, host: &str, ca: &Path) -> Result<TlsStream<S>, Error> {
    let config = config(ca).await.map_err(|source| Error::Authorities {
        path: ca.to_owned(),
        source,
    })?;
    let failed = |source| Error::Tls {
        host: host.to_owned(),
        hint: hint(&source),
        source,
    };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    TlsConnector::from(config)
        .connect(name, stream)
        .await
        .map_err(failed)
}

async fn config(ca: &Path) -> Result<Arc<ClientConfig>, Box<dyn std::error::Error + Send + Sync>> {
    let pem = tokio::fs::read(ca).await?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate?)?;
    }
    if roots.is_empty() {
        return Err("it holds no certificate".into());
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// What to look at first.
fn hint(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(certificate)) => hint_at(certificate),
        Some(rustls::Error::InvalidMessage(_)) => {
            ", because what answers there does not speak TLS: is this the right port, or is it http://?"
                .to_owned()
        }
        Some(_) | None => String::new(),
    }
}

/// A certificate that is too young or too old is more often a clock that is wrong.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is wrong with other certificates is in the error itself"
)]
fn hint_at(certificate: &CertificateError) -> String {
    match certificate {
        CertificateError::NotValidYetContext { time, not_before } => format!(
            ", because the clock of this host says {} and the certificate is valid from {}: one of the \
             two is wrong, most likely the clock",
            shown(*time),
            shown(*not_before)
        ),
        CertificateError::ExpiredContext { time, not_after } => format!(
            ", because the clock of this host says {} and the certificate was valid until {}: renew it, \
             or set the clock",
            shown(*time),
            shown(*not_after)
        ),
        CertificateError::UnknownIssuer => {
            ", because the authority that signed its certificate is not in the file of --ca"
                .to_owned()
        }
        _ => String::new(),
    }
}

fn shown(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{seconds} s after 1970"))
}
