//! From a server's URL to an open stream, each step within its deadline.

mod dial;
mod fault;
mod link;
mod outbox;
mod proxy;
mod socket;
mod tls;

pub(crate) use dial::Dialer;
pub(crate) use fault::{Fault, explain};
pub(crate) use link::Link;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleetbeat_liveness::Keepalive;
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::config::Route;

/// Why no stream came about.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot look up {host}")]
    LookUp { host: String, source: io::Error },
    #[error("{host} has no address")]
    NoAddress { host: String },
    #[error("cannot connect to {attempts}")]
    Connect {
        attempts: String,
        /// An address gave no answer in time, and none refused.
        late: bool,
    },
    #[error("{phase} took longer than {limit:?}")]
    Late {
        phase: &'static str,
        limit: Duration,
    },
    #[error("the proxy {proxy} gave no answer of HTTP")]
    Proxy { proxy: String, source: hyper::Error },
    #[error("the proxy {proxy} refused the way to {server} with {status}: {advice}")]
    Refused {
        proxy: String,
        server: String,
        status: StatusCode,
        advice: &'static str,
    },
    #[error("the proxy {proxy} cannot be reached")]
    NoProxy { proxy: String, source: Box<Error> },
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
        hint: String,
        source: io::Error,
    },
    #[error("HTTP/2 failed")]
    Http2(#[source] hyper::Error),
}

/// What HTTP/2 runs on.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Error {
    /// Nothing refused: the answer did not come in time.
    pub(crate) fn is_late(&self) -> bool {
        match self {
            Self::Late { .. } => true,
            Self::Connect { late, .. } => *late,
            Self::NoProxy { source, .. } => source.is_late(),
            Self::LookUp { .. }
            | Self::NoAddress { .. }
            | Self::Proxy { .. }
            | Self::Refused { .. }
            | Self::Socket(_)
            | Self::Authorities { .. }
            | Self::Tls { .. }
            | Self::Http2(_) => false,
        }
    }
}

/// How connections are made.
#[derive(Debug)]
pub(crate) struct Manner<'a> {
    /// Authorities, read at each connection.
    pub ca: Option<&'a Path>,
    pub keepalive: Keepalive,
    /// Each of looking up, connecting, asking a proxy, the TLS handshake and the start of HTTP/2 has this
    /// long.
    pub patience: Duration,
}

/// Opens a connection of its own along `route`: names are looked up each time.
pub(crate) async fn open(
    dialer: &mut Dialer,
    route: &Route,
    manner: &Manner<'_>,
) -> Result<Link, Error> {
    let server = &route.server;
    let patience = manner.patience;
    let stream = connect(dialer, route, patience).await?;
    let handle = socket::Handle::set_up(&stream, manner.keepalive).map_err(Error::Socket)?;
    let mut wire: Box<dyn Wire> = match &route.proxy {
        Some(proxy) => {
            let tunnel = proxy::tunnel(stream, proxy, server);
            Box::new(within("the proxy's answer", patience, tunnel).await?)
        }
        None => Box::new(stream),
    };
    if let Some(ca) = manner.ca.filter(|_| server.tls()) {
        let handshake = tls::wrap(wire, server.host(), ca);
        wire = Box::new(within("the TLS handshake", patience, handshake).await?);
    }
    let opening = Link::open(wire, handle, server.origin());
    within("the start of HTTP/2", patience, opening).await
}

/// A connection to the server, or to the proxy before it.
async fn connect(
    dialer: &mut Dialer,
    route: &Route,
    patience: Duration,
) -> Result<TcpStream, Error> {
    match &route.proxy {
        None => dial(dialer, (route.server.host(), route.server.port()), patience).await,
        Some(proxy) => dial(dialer, (proxy.host(), proxy.port()), patience)
            .await
            .map_err(|error| Error::NoProxy {
                proxy: proxy.to_string(),
                source: Box::new(error),
            }),
    }
}

async fn dial(
    dialer: &mut Dialer,
    (host, port): (&str, u16),
    patience: Duration,
) -> Result<TcpStream, Error> {
    let addresses = within("looking up the name", patience, look_up(host, port)).await?;
    let all = patience + dial::STAGGERED_MOST;
    within("connecting", all, dialer.dial(addresses, patience)).await
}

async fn within<T>(
    phase: &'static str,
    limit: Duration,
    step: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(limit, step)
        .await
        .unwrap_or(Err(Error::Late { phase, limit }))
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
