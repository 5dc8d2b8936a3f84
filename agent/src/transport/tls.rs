use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Error;

/// Speaks TLS over `stream`, trusting the authorities that `ca` holds at this moment.
pub(super) async fn wrap(
    stream: TcpStream,
    host: &str,
    ca: &Path,
) -> Result<TlsStream<TcpStream>, Error> {
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

/// A certificate that is too young or too old is more often a clock that is wrong.
fn hint(error: &io::Error) -> &'static str {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::Expired
            | CertificateError::ExpiredContext { .. },
        )) => ", probably because the clock of this host or the dates of the certificate are wrong",
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            ", because the authority that signed its certificate is not in the file of --ca"
        }
        Some(_) | None => "",
    }
}
