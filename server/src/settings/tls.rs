//! Certificates that the operator supplies, and the rule that ports beyond loopback need them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use super::Contradiction;

/// A certificate chain and its private key, both PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Leaf first, then intermediates.
    pub cert: PathBuf,
    /// PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// A file cannot be read as PEM.
    #[error("cannot read {what} from {}", path.display())]
    File {
        /// What the file should hold.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no certificate; expected PEM with BEGIN CERTIFICATE", .0.display())]
    Empty(PathBuf),
    /// Certificate and key do not fit.
    #[error("{} and {} do not work together", cert.display(), key.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

impl TlsFiles {
    pub(super) fn pair(cert: Option<&PathBuf>, key: Option<&PathBuf>) -> Option<Self> {
        Some(Self {
            cert: cert?.clone(),
            key: key?.clone(),
        })
    }

    /// Loads both files for a server that offers `protocols` by ALPN, in order of preference.
    pub fn server_config(&self, protocols: &[&[u8]]) -> Result<Arc<ServerConfig>, Unusable> {
        let file = |what, path: &Path, source| Unusable::File {
            what,
            path: path.into(),
            source,
        };
        let chain = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|source| file("a certificate chain", &self.cert, source))?;
        if chain.is_empty() {
            return Err(Unusable::Empty(self.cert.clone()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|source| file("a private key", &self.key, source))?;
        let mismatch = |source| Unusable::Mismatch {
            cert: self.cert.clone(),
            key: self.key.clone(),
            source,
        };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(mismatch)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(mismatch)?;
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

/// A port as configured: keys and values.
pub(super) struct Port<'a> {
    pub(super) listen: (&'static str, SocketAddr),
    pub(super) cert: (&'static str, Option<&'a Path>),
    pub(super) key: (&'static str, Option<&'a Path>),
}

impl Port<'_> {
    pub(super) fn check(&self, found: &mut Vec<Contradiction>) {
        let (listen, address) = self.listen;
        let mut say = |key, text| found.push(Contradiction { key, text });
        match (self.cert, self.key) {
            ((_, Some(cert)), (_, Some(key))) => {
                let files = TlsFiles {
                    cert: cert.into(),
                    key: key.into(),
                };
                if let Err(error) = files.server_config(&[]) {
                    say(self.cert.0, chain(&error));
                }
            }
            ((cert, Some(_)), (key, None)) => say(cert, format!("`{key}` is missing: set both")),
            ((cert, None), (key, Some(_))) => say(key, format!("`{cert}` is missing: set both")),
            ((cert, None), (key, None)) if !is_loopback(address) => say(
                listen,
                format!(
                    "{address} can be reached from other hosts, and without TLS anyone on the way \
                     reads and changes what is said; set `{cert}` and `{key}`, or listen on \
                     127.0.0.1:{} behind something that ends TLS on this host",
                    address.port()
                ),
            ),
            ((_, None), (_, None)) => {}
        }
    }
}

pub(super) fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// An error with its sources in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
