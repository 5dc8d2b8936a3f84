//! The socket of one connection, with what the kernel must know of its deadlines.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fleetbeat_liveness::path::Kernel;
use fleetbeat_liveness::{Keepalive, SocketOptions};
use nix::libc;
use nix::sys::socket::{getsockopt, sockopt::GetStruct};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// `TCP_INFO` of a socket.
#[derive(Clone, Copy, Debug)]
struct TcpInfo;

nix::getsockopt_impl!(
    TcpInfo,
    libc::IPPROTO_TCP,
    libc::TCP_INFO,
    libc::tcp_info,
    GetStruct<libc::tcp_info>
);

/// A TCP socket that can change its runtime: a gate completes the TLS handshake on its own thread and
/// hands the stream to a lane.
#[derive(Debug)]
pub(super) enum Wire {
    Attached(TcpStream),
    /// Between two runtimes, or after a failed attempt to attach.
    Detached(Option<std::net::TcpStream>),
}

/// What hyper reads and writes.
#[derive(Debug)]
pub(super) enum Io {
    Plain(Wire),
    Tls(Box<TlsStream<Wire>>),
}

/// What the kernel holds for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    Nothing,
    Bytes,
    /// The peer closed, or the socket broke.
    End,
}

impl Wire {
    /// Leaves the current runtime.
    pub(super) fn detach(&mut self) -> io::Result<()> {
        if let Self::Attached(_) = self
            && let Self::Attached(stream) = std::mem::replace(self, Self::Detached(None))
        {
            *self = Self::Detached(Some(stream.into_std()?));
        }
        Ok(())
    }

    /// Joins the current runtime.
    pub(super) fn attach(&mut self) -> io::Result<()> {
        if let Self::Detached(stream) = self {
            let stream = stream.take().ok_or(io::ErrorKind::NotConnected)?;
            *self = Self::Attached(TcpStream::from_std(stream)?);
        }
        Ok(())
    }

    fn stream(&self) -> io::Result<&TcpStream> {
        match self {
            Self::Attached(stream) => Ok(stream),
            Self::Detached(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn stream_mut(&mut self) -> io::Result<&mut TcpStream> {
        match self {
            Self::Attached(stream) => Ok(stream),
            Self::Detached(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Io {
    fn wire(&self) -> &Wire {
        match self {
            Self::Plain(wire) => wire,
            Self::Tls(tls) => tls.get_ref().0,
        }
    }

    pub(super) fn attach(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(wire) => wire.attach(),
            Self::Tls(tls) => tls.get_mut().0.attach(),
        }
    }

    /// Our address on this connection.
    pub(super) fn local_ip(&self) -> Option<IpAddr> {
        let address = self.wire().stream().ok()?.local_addr().ok()?;
        Some(address.ip())
    }

    /// Asks the kernel, not the runtime's idea of readiness.
    pub(super) fn peek(&self) -> Waiting {
        let Ok(stream) = self.wire().stream() else {
            return Waiting::End;
        };
        let mut byte = [MaybeUninit::uninit()];
        match SockRef::from(stream).peek(&mut byte) {
            Ok(0) => Waiting::End,
            Ok(_) => Waiting::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Waiting::Nothing,
            Err(_) => Waiting::End,
        }
    }

    /// What the kernel tells of the connection; `None` where it tells nothing.
    pub(super) fn kernel(&self) -> Option<Kernel> {
        let info = getsockopt(self.wire().stream().ok()?, TcpInfo).ok()?;
        Some(Kernel {
            ack_age: Duration::from_millis(info.tcpi_last_ack_recv.into()),
            unacked: info.tcpi_unacked,
            retransmits: info.tcpi_retransmits.into(),
        })
    }

    /// Options of a socket on which no session says anything yet.
    pub(super) fn prepare(&self, keepalive: &Keepalive) -> io::Result<()> {
        let stream = self.wire().stream()?;
        stream.set_nodelay(true)?;
        probe(stream, keepalive)
    }

    pub(super) fn apply(&self, options: &SocketOptions) -> io::Result<()> {
        let stream = self.wire().stream()?;
        probe(stream, &options.keepalive)?;
        SockRef::from(stream).set_tcp_user_timeout(Some(options.user_timeout))
    }

    /// The peer is convicted: let the kernel forget the socket at once, so that a mass death leaves
    /// no orphans behind.
    pub(super) fn reset_on_drop(&self) {
        if let Ok(stream) = self.wire().stream() {
            // Nothing depends on it: without it the kernel takes longer.
            let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
        }
    }
}

fn probe(stream: &TcpStream, keepalive: &Keepalive) -> io::Result<()> {
    let options = TcpKeepalive::new()
        .with_time(keepalive.idle())
        .with_interval(keepalive.gap())
        .with_retries(keepalive.probes());
    SockRef::from(stream).set_tcp_keepalive(&options)
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(self.stream_mut()?).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream_mut()?).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream_mut()?).poll_shutdown(cx)
    }
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_read(cx, buf),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_read(cx, buf),
        }
    }
}

// Heartbeats are single small frames: a plain write of one buffer is cheaper than a vectored one.
impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_write(cx, buf),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_flush(cx),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(wire) => Pin::new(wire).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(&mut **tls).poll_shutdown(cx),
        }
    }
}
