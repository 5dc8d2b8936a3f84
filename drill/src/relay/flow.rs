use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::counts::{Counts, count};
use super::cut::{Peers, reset};
use super::faults::{Cut, Direction, Plan, Way};
use super::orders::Orders;
use super::pipe::{End, Next, Pipe};

/// Read at once.
pub(super) const CHUNK: usize = 16 << 10;

/// Leads one connection to `to` until both sides have ended, or a fault ends it.
pub(super) async fn run(
    client: TcpStream,
    to: SocketAddr,
    number: u64,
    plan: watch::Receiver<Plan>,
    counts: Arc<Counts>,
) {
    let _open = counts.open();
    let mut orders = Orders::new(number, plan);
    let mut up = Pipe::new(Instant::now());
    match admitted(&client, &mut up, &mut orders).await {
        Ok(()) => {}
        Err(Turned::Left) => return,
        Err(Turned::Cut(how)) => {
            let server = None;
            return Peers { client, server }
                .cut(how, &mut orders, &counts)
                .await;
        }
    }
    let Ok(server) = TcpStream::connect(to).await else {
        count(&counts.unreachable);
        reset(&client);
        return;
    };
    let now = Instant::now();
    let flow = Flow {
        client,
        server,
        up,
        down: Pipe::new(now),
        heard: [now; 2],
        orders,
        counts: &counts,
    };
    flow.run().await;
}

/// Why a flow is over before its connection got through.
enum Turned {
    Cut(Cut),
    /// The client ended it.
    Left,
}

/// Waits until connections get through.
async fn admitted(client: &TcpStream, up: &mut Pipe, orders: &mut Orders) -> Result<(), Turned> {
    while !orders.faults.passable() {
        tokio::select! {
            cut = orders.changed() => if let Some(how) = cut {
                return Err(Turned::Cut(how));
            },
            Ok(()) = client.readable(), if up.takes() => {
                pull(client, up, &orders.faults.up);
                if up.has_end() {
                    return Err(Turned::Left);
                }
            }
        }
    }
    Ok(())
}

struct Flow<'a> {
    client: TcpStream,
    server: TcpStream,
    up: Pipe,
    down: Pipe,
    /// When bytes last came up, and down.
    heard: [Instant; 2],
    orders: Orders,
    counts: &'a Counts,
}

impl Flow<'_> {
    async fn run(mut self) {
        while !(self.up.finished() && self.down.finished()) {
            if let Some(how) = self.orders.told() {
                return self.cut(how).await;
            }
            let now = Instant::now();
            let idle = self.idle_at();
            if idle.is_some_and(|at| now >= at) {
                count(&self.counts.idle);
                let how = self.orders.faults.idle.map_or(Cut::Reset, |idle| idle.how);
                return self.cut(how).await;
            }
            if self.hand_on_ends(now).await {
                return;
            }
            let (up, down) = self.next(now);
            let (up_writes, down_writes) = (writes(&up), writes(&down));
            let wake = [idle, due(&up), due(&down)].into_iter().flatten().min();
            tokio::select! {
                cut = self.orders.changed() => if let Some(how) = cut {
                    return self.cut(how).await;
                },
                Ok(()) = self.client.readable(), if self.up.takes() => self.pull(Way::Up),
                Ok(()) = self.server.readable(), if self.down.takes() => self.pull(Way::Down),
                Ok(()) = self.server.writable(), if up_writes => self.push(Way::Up),
                Ok(()) = self.client.writable(), if down_writes => self.push(Way::Down),
                () = sleep_until(wake.unwrap_or(now)), if wake.is_some() => {}
            }
        }
    }

    fn next(&self, now: Instant) -> (Next<'_>, Next<'_>) {
        let faults = &self.orders.faults;
        (
            self.up.next(now, &faults.up),
            self.down.next(now, &faults.down),
        )
    }

    fn idle_at(&self) -> Option<Instant> {
        let idle = self.orders.faults.idle?;
        let [up, down] = self.heard;
        let heard = match idle.watching {
            Some(Way::Up) => up,
            Some(Way::Down) => down,
            None => up.max(down),
        };
        Some(heard + idle.after)
    }

    fn pull(&mut self, way: Way) {
        let (from, pipe, heard) = match way {
            Way::Up => (&self.client, &mut self.up, &mut self.heard[0]),
            Way::Down => (&self.server, &mut self.down, &mut self.heard[1]),
        };
        let faults = self.orders.faults.direction(way);
        if pull(from, pipe, faults) {
            *heard = Instant::now();
        }
        if pipe.has_end() && (faults.ends_held || faults.stopped) {
            count(&self.counts.ends_held);
        }
    }

    fn push(&mut self, way: Way) {
        let now = Instant::now();
        let (to, pipe) = match way {
            Way::Up => (&self.server, &mut self.up),
            Way::Down => (&self.client, &mut self.down),
        };
        let faults = self.orders.faults.direction(way);
        let Next::Write(bytes) = pipe.next(now, faults) else {
            return;
        };
        match to.try_write(bytes) {
            Ok(written) => {
                pipe.written(now, written, faults);
                self.counts.passed(way, written);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Whoever does not take bytes any more shows it to the other way as well.
            Err(_) => pipe.finish(),
        }
    }

    /// Tells a side that the other has ended, once everything before that was told. True when that
    /// ends the flow.
    async fn hand_on_ends(&mut self, now: Instant) -> bool {
        let (up, down) = self.next(now);
        let (up, down) = (end(&up), end(&down));
        if up == Some(End::Rst) || down == Some(End::Rst) {
            reset(&self.client);
            reset(&self.server);
            return true;
        }
        if up.is_some() {
            self.up.finish();
            // A side that is gone needs no telling.
            let _ = self.server.shutdown().await;
        }
        if down.is_some() {
            self.down.finish();
            let _ = self.client.shutdown().await;
        }
        false
    }

    async fn cut(mut self, how: Cut) {
        let peers = Peers {
            client: self.client,
            server: Some(self.server),
        };
        peers.cut(how, &mut self.orders, self.counts).await;
    }
}

/// Reads what is there, or how that side ended. True when there were bytes.
fn pull(from: &TcpStream, pipe: &mut Pipe, faults: &Direction) -> bool {
    let mut chunk = [0; CHUNK];
    let end = match from.try_read(&mut chunk) {
        Ok(0) => End::Fin,
        Ok(read) => {
            pipe.put(Instant::now(), &chunk[..read], faults, &mut rand::rng());
            return true;
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
        Err(_) => End::Rst,
    };
    pipe.put_end(Instant::now(), end, faults, &mut rand::rng());
    false
}

fn writes(next: &Next<'_>) -> bool {
    matches!(next, Next::Write(_))
}

fn due(next: &Next<'_>) -> Option<Instant> {
    match next {
        Next::At(due) => Some(*due),
        Next::Nothing | Next::Write(_) | Next::End(_) => None,
    }
}

fn end(next: &Next<'_>) -> Option<End> {
    match next {
        Next::End(end) => Some(*end),
        Next::Nothing | Next::Write(_) | Next::At(_) => None,
    }
}
