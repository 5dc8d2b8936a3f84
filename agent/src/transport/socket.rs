use std::io;
use std::time::Duration;

use fleetbeat_liveness::Tuning;
use socket2::{SockRef, Socket, TcpKeepalive};
use tokio::net::TcpStream;

/// Keepalive is the backstop for a session that neither end closes.
const KEEPALIVE_IDLE: Duration = Duration::from_mins(2);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_PROBES: u32 = 3;

/// A second hand on a connection's socket, for the options that follow the tuning.
#[derive(Debug)]
pub(crate) struct Handle {
    socket: Socket,
    user_timeout: Option<Duration>,
}

impl Handle {
    /// Sets what never changes and keeps a handle for what does.
    pub(super) fn set_up(stream: &TcpStream) -> io::Result<Self> {
        let socket = SockRef::from(stream);
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(
            &TcpKeepalive::new()
                .with_time(KEEPALIVE_IDLE)
                .with_interval(KEEPALIVE_INTERVAL)
                .with_retries(KEEPALIVE_PROBES),
        )?;
        Ok(Self {
            socket: socket.try_clone()?,
            user_timeout: None,
        })
    }

    /// Lets the kernel tolerate what `tuning` tolerates. Cheap when nothing changed.
    pub(crate) fn follow(&mut self, tuning: &Tuning) -> io::Result<()> {
        let wanted = tuning.expectation().kernel_gives_up_after;
        if self.user_timeout != Some(wanted) {
            self.socket.set_tcp_user_timeout(Some(wanted))?;
            self.user_timeout = Some(wanted);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fleetbeat_liveness::Tuning;
    use tokio::net::{TcpListener, TcpStream};

    use super::Handle;

    fn tuning(interval: u64, misses: u32, timeout: u64, pong_every: u32) -> Tuning {
        let (interval, timeout) = (Duration::from_secs(interval), Duration::from_secs(timeout));
        Tuning::new(interval, misses, timeout, pong_every).unwrap()
    }

    #[tokio::test]
    async fn a_retune_reaches_the_live_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let mut handle = Handle::set_up(&stream).unwrap();
        let socket = socket2::SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        for (tuned, seconds) in [(tuning(20, 3, 2, 1), 64), (tuning(300, 3, 5, 1), 910)] {
            handle.follow(&tuned).unwrap();
            let kernel = socket.tcp_user_timeout().unwrap();
            assert_eq!(kernel, Some(Duration::from_secs(seconds)));
        }
    }
}
