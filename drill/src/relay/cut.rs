//! How a relay ends a flow, or forgets it.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::counts::{Counts, count};
use super::faults::Cut;
use super::orders::Orders;

/// The peers of a flow; nobody is behind the relay while connections do not get through.
pub(super) struct Peers {
    pub(super) client: TcpStream,
    pub(super) server: Option<TcpStream>,
}

impl Peers {
    pub(super) async fn cut(mut self, how: Cut, orders: &mut Orders, counts: &Counts) {
        match how {
            Cut::Reset => self.reset(counts),
            Cut::Close => {
                count(&counts.closes);
                // A side that is gone needs no telling.
                let _ = self.client.shutdown().await;
                if let Some(server) = &mut self.server {
                    let _ = server.shutdown().await;
                }
            }
            Cut::Forget => self.forget(false, orders, counts).await,
            Cut::ForgetThenReset => self.forget(true, orders, counts).await,
        }
    }

    /// Swallows whatever comes until both sides have ended or the flow is cut otherwise; or answers the
    /// first bytes with a reset.
    async fn forget(&self, then_reset: bool, orders: &mut Orders, counts: &Counts) {
        count(&counts.forgotten);
        let (mut client_open, mut server_open) = (true, self.server.is_some());
        while client_open || server_open {
            let swallowed = tokio::select! {
                cut = orders.changed() => match cut {
                    Some(Cut::Reset | Cut::Close) => break,
                    Some(Cut::Forget | Cut::ForgetThenReset) | None => 0,
                },
                Ok(()) = self.client.readable(), if client_open => {
                    swallow(&self.client, &mut client_open)
                }
                Some(server) = readable(self.server.as_ref()), if server_open => {
                    swallow(server, &mut server_open)
                }
            };
            counts.swallowed.fetch_add(swallowed as u64, Relaxed);
            if then_reset && swallowed > 0 {
                break;
            }
        }
        if client_open || server_open {
            self.reset(counts);
        }
    }

    fn reset(&self, counts: &Counts) {
        count(&counts.resets);
        reset(&self.client);
        self.server.iter().for_each(reset);
    }
}

/// Its end will be a RST.
pub(super) fn reset(stream: &TcpStream) {
    // A socket that refuses is broken already.
    let _ = stream.set_zero_linger();
}

async fn readable(stream: Option<&TcpStream>) -> Option<&TcpStream> {
    let stream = stream?;
    stream.readable().await.is_ok().then_some(stream)
}

fn swallow(from: &TcpStream, open: &mut bool) -> usize {
    let mut chunk = [0; super::flow::CHUNK];
    match from.try_read(&mut chunk) {
        Ok(read) => {
            *open = read > 0;
            read
        }
        Err(error) => {
            *open = error.kind() == io::ErrorKind::WouldBlock;
            0
        }
    }
}
