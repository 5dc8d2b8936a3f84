//! From a server's URL to an open stream, each step within its deadline.

mod dial;
mod link;
mod outbox;
mod socket;
mod tls;

pub(crate) use dial::Dialer;
pub(crate) use link::Link;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::config::ServerUrl;

/// Each of looking up, connecting, the TLS handshake and the start of HTTP/2 has this long.
const PHASE: Duration = Duration::from_secs(10);

/// Why no stream came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot look up {host}")]
    LookUp { host: String, source: io::Error },
    #[error("{host} has no address")]
    NoAddress { host: String },
    #[error("cannot connect to {attempts}")]
    Connect { attempts: String },
    #[error("{phase} took longer than 10 s")]
    Late { phase: &'static str },
    #[error("cannot set up the connection")]
    Socket(#[source] io::Error),
    #[error("cannot use the authorities in {}", path.display())]
    Authorities {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("TLS with {host} failed{hint}")]
    Tls {
        host: String,
        hint: &'static str,
        source: io::Error,
    },
    #[error("HTTP/2 failed")]
    Http2(#[source] hyper::Error),
}

/// What HTTP/2 runs on.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// Opens a connection of its own to `server`: the name is looked up and `ca` is read each time.
pub(crate) async fn open(
    dialer: &mut Dialer,
    server: &ServerUrl,
    ca: Option<&Path>,
) -> Result<Link, Error> {
    let host = server.host();
    let addresses = within("looking up the server", look_up(host, server.port())).await?;
    let stream = within("connecting", dialer.dial(addresses)).await?;
    let handle = socket::Handle::set_up(&stream).map_err(Error::Socket)?;
    let wire: Box<dyn Wire> = match ca.filter(|_| server.tls()) {
        Some(ca) => Box::new(within("the TLS handshake", tls::wrap(stream, host, ca)).await?),
        None => Box::new(stream),
    };
    within(
        "the start of HTTP/2",
        Link::open(wire, handle, server.origin()),
    )
    .await
}

async fn within<T>(
    phase: &'static str,
    step: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(PHASE, step)
        .await
        .unwrap_or(Err(Error::Late { phase }))
}

async fn look_up(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found = found.map_err(|source| Error::LookUp {
        host: host.to_owned(),
        source,
    })?;
    let addresses: Vec<_> = found.collect();
    if addresses.is_empty() {
        return Err(Error::NoAddress {
            host: host.to_owned(),
        });
    }
    Ok(addresses)
}
