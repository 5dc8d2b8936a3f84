use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::Error;

/// Each address starts this long after the one before it, whatever became of that.
const STAGGER: Duration = Duration::from_millis(250);
/// A name with more addresses than this is tried at these.
const MAX_ADDRESSES: usize = 16;
/// When the last of them starts.
pub(super) const STAGGERED_MOST: Duration = Duration::from_secs(4);

/// Connects to whichever address answers first, and learns from how that went.
#[derive(Debug, Default)]
pub(crate) struct Dialer {
    /// The address that answered last.
    answered: Option<SocketAddr>,
    /// The address of the connection under way, until what it led to is known.
    reached: Option<SocketAddr>,
    /// An address that took the connection and then led to no session.
    mute: Option<SocketAddr>,
}

impl Dialer {
    /// The attempt under way led to an answer of the server, or did not. One that reached no address says
    /// nothing about any.
    pub(crate) fn learn(&mut self, answer: bool) {
        if let Some(reached) = self.reached.take() {
            self.mute = (!answer).then_some(reached);
        }
    }

    /// Each address has `patience`.
    pub(super) async fn dial(
        &mut self,
        addresses: Vec<SocketAddr>,
        patience: Duration,
    ) -> Result<TcpStream, Error> {
        let attempts: FuturesUnordered<_> = self
            .order(addresses)
            .into_iter()
            .zip(0..)
            .map(|(address, position)| attempt(address, STAGGER * position, patience))
            .collect();
        let (address, stream) = first(attempts).await?;
        self.answered = Some(address);
        self.reached = Some(address);
        Ok(stream)
    }

    /// Families take turns, beginning with the one that answered last; a mute address comes last.
    fn order(&self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let ipv4_first = self.answered.is_some_and(|address| address.is_ipv4());
        let (mut favoured, mut others): (Vec<_>, Vec<_>) = addresses
            .into_iter()
            .partition(|address| address.is_ipv4() == ipv4_first);
        let mut ordered = Vec::with_capacity(favoured.len() + others.len());
        favoured.reverse();
        others.reverse();
        while !(favoured.is_empty() && others.is_empty()) {
            ordered.extend(favoured.pop());
            ordered.extend(others.pop());
        }
        ordered.sort_by_key(|address| Some(*address) == self.mute);
        ordered.truncate(MAX_ADDRESSES);
        ordered
    }
}

type Attempt = (SocketAddr, io::Result<TcpStream>);

async fn attempt(address: SocketAddr, after: Duration, patience: Duration) -> Attempt {
    sleep(after).await;
    let connected = timeout(patience, TcpStream::connect(address)).await;
    let late = || Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
    (address, connected.unwrap_or_else(|_| late()))
}

async fn first(
    mut attempts: FuturesUnordered<impl Future<Output = Attempt>>,
) -> Result<(SocketAddr, TcpStream), Error> {
    let mut failed = String::new();
    let (mut timed_out, mut refused) = (false, false);
    while let Some((address, outcome)) = attempts.next().await {
        match outcome {
            Ok(stream) => return Ok((address, stream)),
            Err(error) => {
                timed_out |= error.kind() == io::ErrorKind::TimedOut;
                refused |= error.kind() == io::ErrorKind::ConnectionRefused;
                let comma = if failed.is_empty() { "" } else { ", " };
                let _ = write!(failed, "{comma}{address} ({error})");
            }
        }
    }
    Err(Error::Connect {
        attempts: failed,
        late: timed_out && !refused,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpSocket};

    use super::{Dialer, MAX_ADDRESSES};

    const PATIENCE: Duration = Duration::from_secs(5);

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_beginning_with_the_one_that_answered() {
        let found = addresses(&["192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1"]);
        let fresh = Dialer::default();
        let expected = addresses(&["[2001:db8::1]:1", "192.0.2.1:1", "192.0.2.2:1"]);
        assert_eq!(fresh.order(found.clone()), expected);
        let seasoned = Dialer {
            answered: Some("192.0.2.9:1".parse().unwrap()),
            ..Dialer::default()
        };
        let expected = addresses(&["192.0.2.1:1", "[2001:db8::1]:1", "192.0.2.2:1"]);
        assert_eq!(seasoned.order(found), expected);
    }

    /// Field report A21: a stale address that accepts and does not speak is not trusted twice.
    #[test]
    fn an_address_that_led_to_no_session_comes_last() {
        let found = addresses(&["192.0.2.1:1", "192.0.2.2:1"]);
        let mut dialer = Dialer {
            answered: Some(found[0]),
            reached: Some(found[0]),
            mute: None,
        };
        dialer.learn(false);
        assert_eq!(
            dialer.order(found.clone()),
            addresses(&["192.0.2.2:1", "192.0.2.1:1"])
        );
        dialer.reached = Some(found[0]);
        dialer.learn(true);
        assert_eq!(dialer.order(found.clone()), found);
    }

    /// Field report A21: after an outage the address of the last good session is not the suspect one.
    #[tokio::test]
    async fn an_attempt_that_reached_nobody_blames_no_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let good = listener.local_addr().unwrap();
        let mut dialer = Dialer::default();
        dialer.dial(vec![good], PATIENCE).await.unwrap();
        dialer.learn(true);
        drop(listener);
        dialer.dial(vec![good], PATIENCE).await.unwrap_err();
        dialer.learn(false);
        let found = [addresses(&["127.0.0.2:1"]), vec![good]].concat();
        assert_eq!(dialer.mute, None);
        assert_eq!(dialer.order(found.clone()), found);
    }

    /// Field report D14: what waits for room in an accept queue needs longer, what is refused does not.
    #[tokio::test]
    async fn only_addresses_that_do_not_answer_make_a_failed_connect_late() {
        const BRIEF: Duration = Duration::from_millis(300);
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // The kernel takes one more than that, and lets every later SYN go unanswered.
        let full = socket.listen(1).unwrap();
        let silent = full.local_addr().unwrap();
        let mut dialer = Dialer::default();
        let mut queued = Vec::new();
        let error = loop {
            match dialer.dial(vec![silent], BRIEF).await {
                Ok(stream) => queued.push(stream),
                Err(error) => break error,
            }
        };
        assert!(error.is_late(), "{error}");
        let refusing = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        for found in [vec![refusing], vec![silent, refusing]] {
            let error = dialer.dial(found, BRIEF).await.unwrap_err();
            assert!(!error.is_late(), "{error}");
        }
    }

    #[test]
    fn a_name_with_hundreds_of_addresses_is_tried_at_some() {
        let many = (0..500)
            .map(|port| (Ipv4Addr::LOCALHOST, port).into())
            .collect();
        assert_eq!(Dialer::default().order(many).len(), MAX_ADDRESSES);
    }

    /// Field report A23.
    #[tokio::test]
    async fn a_dead_address_delays_a_live_one_by_little() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let live = listener.local_addr().unwrap();
        // Documentation addresses answer nobody.
        let found = vec![
            "[2001:db8::1]:9".parse().unwrap(),
            "192.0.2.1:9".parse().unwrap(),
            live,
        ];
        let mut dialer = Dialer::default();
        let dialled = tokio::time::timeout(Duration::from_secs(3), dialer.dial(found, PATIENCE));
        let stream = dialled.await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), live);
    }

    #[tokio::test]
    async fn failure_names_every_address_that_was_tried() {
        let free = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        let error = Dialer::default()
            .dial(vec![free], PATIENCE)
            .await
            .unwrap_err();
        assert!(error.to_string().contains(&free.to_string()), "{error}");
    }
}
