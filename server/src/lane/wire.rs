//! The socket of one connection, with what the kernel must know of its deadlines.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Keepalive is only the backstop of the heartbeat: first probe, gap, probes.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_mins(2), Duration::from_secs(30), 3);

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

/// Options that every agent's socket has from the start.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (idle, gap, probes) = KEEPALIVE;
    let keepalive = TcpKeepalive::new()
        .with_time(idle)
        .with_interval(gap)
        .with_retries(probes);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
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

    pub(super) fn set_user_timeout(&self, timeout: Duration) -> io::Result<()> {
        SockRef::from(self.wire().stream()?).set_tcp_user_timeout(Some(timeout))
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
