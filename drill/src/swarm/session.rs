use std::sync::Arc;
use std::time::Duration;

use fleetbeat_proto::v1::session_service_client::SessionServiceClient;
use fleetbeat_proto::v1::{Bye, FromAgent, FromServer, Welcome, from_agent, from_server};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;
use tonic::transport::Channel;

use super::agent::Agent;
use super::outgoing::{Outgoing, Sent};
use super::steady::Session;

const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// Messages that may wait for the transport. A transport that takes none for that long is stuck.
const QUEUE: usize = 8;

/// How a session, or the attempt at one, ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) welcomed: bool,
    pub(super) lived: Duration,
    /// What Welcome told for the case that the session is lost.
    pub(super) spread: Duration,
}

#[derive(Debug)]
pub(super) enum End {
    /// This agent said Goodbye.
    Left,
    /// The server ended the stream without a word.
    Refused,
    Unreachable,
    ServerSilent,
    Bye(Bye),
}

/// Opens a session and keeps it until it ends or `stop` asks for a Goodbye.
pub(super) async fn run(agent: &mut Agent, channel: &Channel, stop: &CancellationToken) -> Ended {
    let not_opened = |end| Ended {
        end,
        welcomed: false,
        lived: Duration::ZERO,
        spread: Duration::ZERO,
    };
    let (queue, waiting) = mpsc::channel(QUEUE);
    let sent = Arc::new(Sent::default());
    let outgoing = Outgoing {
        queue: waiting,
        sent: Arc::clone(&sent),
        live: Arc::clone(&agent.live),
    };
    let first = FromAgent {
        message: Some(from_agent::Message::Hello(agent.hello())),
    };
    if queue.try_send(first).is_err() {
        return not_opened(End::Unreachable);
    }
    let opened = tokio::select! {
        () = stop.cancelled() => return not_opened(End::Left),
        opened = timeout(OPEN_WITHIN, open(channel, outgoing)) => opened,
    };
    let ended = match opened {
        Ok(Ok((welcome, incoming))) => {
            let session = Session::new(agent, welcome, queue, Arc::clone(&sent));
            session.run(incoming, stop).await
        }
        Ok(Err(end)) => not_opened(end),
        Err(_elapsed) => not_opened(End::Unreachable),
    };
    agent.counts.messages += sent.messages();
    agent.counts.pings += sent.pings();
    agent.counts.longest_gap_ns = agent.counts.longest_gap_ns.max(sent.longest_gap_ns());
    ended
}

async fn open(
    channel: &Channel,
    outgoing: Outgoing,
) -> Result<(Welcome, Streaming<FromServer>), End> {
    let mut client = SessionServiceClient::new(channel.clone());
    let opened = client
        .open(outgoing)
        .await
        .map_err(|_status| End::Unreachable)?;
    let mut incoming = opened.into_inner();
    match incoming.message().await {
        Ok(Some(FromServer {
            message: Some(from_server::Message::Welcome(welcome)),
        })) => Ok((welcome, incoming)),
        Ok(Some(FromServer {
            message: Some(from_server::Message::Bye(bye)),
        })) => Err(End::Bye(bye)),
        Ok(_) => Err(End::Refused),
        Err(_status) => Err(End::Unreachable),
    }
}
