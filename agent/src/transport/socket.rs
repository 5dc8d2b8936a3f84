use std::io;

use fleetbeat_liveness::{Expectation, Keepalive, SocketOptions};
use socket2::{SockRef, Socket, TcpKeepalive};
use tokio::net::TcpStream;

/// A second hand on a connection's socket, for the options that follow the tuning.
#[derive(Debug)]
pub(crate) struct Handle {
    socket: Socket,
    keepalive: Keepalive,
    applied: Option<SocketOptions>,
}

impl Handle {
    /// Sets what never changes and keeps a handle for what does; `keepalive` is what was configured.
    pub(super) fn set_up(stream: &TcpStream, keepalive: Keepalive) -> io::Result<Self> {
        let socket = SockRef::from(stream);
        socket.set_tcp_nodelay(true)?;
        Ok(Self {
            socket: socket.try_clone()?,
            keepalive,
            applied: None,
        })
    }

    /// Lets the kernel tolerate what `expectation` tolerates. Returns what it has set; `None`, at no cost,
    /// when nothing changed.
    pub(crate) fn follow(
        &mut self,
        expectation: &Expectation,
    ) -> io::Result<Option<SocketOptions>> {
        let wanted = self.keepalive.under(expectation);
        if self.applied == Some(wanted) {
            return Ok(None);
        }
        let keepalive = TcpKeepalive::new()
            .with_time(wanted.keepalive.idle())
            .with_interval(wanted.keepalive.gap())
            .with_retries(wanted.keepalive.probes());
        self.socket.set_tcp_keepalive(&keepalive)?;
        self.socket
            .set_tcp_user_timeout(Some(wanted.user_timeout))?;
        self.applied = Some(wanted);
        Ok(Some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetbeat_liveness::{Keepalive, Tuning};
    use tokio::net::{TcpListener, TcpStream};

    use super::Handle;

    fn tuning(interval: u64, misses: u32, timeout: u64, pong_every: u32) -> Tuning {
        let (interval, timeout) = (Duration::from_secs(interval), Duration::from_secs(timeout));
        Tuning::new(interval, misses, timeout, pong_every).unwrap()
    }

    /// Hard case B4, field report A11: read back from the live socket, keepalive included.
    #[tokio::test]
    async fn a_retune_reaches_the_live_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let mut handle = Handle::set_up(&stream, Keepalive::default()).unwrap();
        let socket = socket2::SockRef::from(&stream);
        for (tuned, user_timeout, idle) in [
            (tuning(20, 3, 2, 1), 64, 120),
            (tuning(300, 3, 5, 1), 910, 815),
            (tuning(20, 3, 2, 1), 64, 120),
        ] {
            let applied = handle.follow(&tuned.expectation()).unwrap().unwrap();
            assert_eq!(applied.adjusted, idle != 120);
            assert_eq!(handle.follow(&tuned.expectation()).unwrap(), None);
            let seconds = Duration::from_secs;
            assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
            assert_eq!(
                socket.tcp_user_timeout().unwrap(),
                Some(seconds(user_timeout))
            );
            assert_eq!(socket.tcp_keepalive_time().unwrap(), seconds(idle));
            assert_eq!(socket.tcp_keepalive_interval().unwrap(), seconds(30));
            assert_eq!(socket.tcp_keepalive_retries().unwrap(), 3);
        }
    }
}
