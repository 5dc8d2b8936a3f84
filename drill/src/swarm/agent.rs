use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fleetbeat_liveness::Revised;
use fleetbeat_liveness::backoff::{Backoff, Params};
use fleetbeat_liveness::fence::Fence;
use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::{Bye, CloseReason, Hello, LastEnding, last_ending::Cause};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use uuid::Uuid;

use super::counts::{Counts, Live, Told};
use super::session::{self, End, Ended};
use super::wire;
use crate::clock;

/// What another instance of this agent, or its copy, makes it wait.
const AFTER_TWIN: Duration = Duration::from_mins(5);

/// A simulated agent: what the real one keeps in its state directory and its process.
#[derive(Debug)]
pub(super) struct Agent {
    id: Uuid,
    instance: Uuid,
    pub(super) name: String,
    pub(super) group: String,
    fence: Fence,
    pub(super) in_force: Option<Revised>,
    backoff: Backoff,
    last_ending: Option<(LastEnding, fleetbeat_liveness::Moment)>,
    pub(super) counts: Counts,
    pub(super) live: Arc<Live>,
}

impl Agent {
    pub(super) fn new(name: String, group: String, live: Arc<Live>) -> Self {
        Self {
            id: Uuid::new_v4(),
            instance: Uuid::new_v4(),
            name,
            group,
            fence: Fence {
                incarnation: 1,
                connection: 0,
            },
            in_force: None,
            backoff: Backoff::new(Params::default()),
            last_ending: None,
            counts: Counts::default(),
            live,
        }
    }

    /// Keeps a session until `stop`, then leaves with a Goodbye.
    pub(super) async fn run(mut self, channel: Channel, stop: CancellationToken) -> Told {
        while !stop.is_cancelled() {
            self.fence.connection += 1;
            let ended = session::run(&mut self, &channel, &stop).await;
            if ended.welcomed {
                self.live.endings.fetch_add(1, Relaxed);
            }
            let wait = self.after(&ended);
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        Told {
            agent_id: self.id,
            name: self.name,
            group: self.group,
            counts: self.counts,
        }
    }

    /// First message of the next session.
    pub(super) fn hello(&self) -> Hello {
        let last_ending = self.last_ending.clone().map(|(ending, at)| LastEnding {
            away_ns: nanos(clock::moment().since(at)),
            ..ending
        });
        Hello {
            protocol: 1,
            agent_id: self.id.as_bytes().to_vec(),
            instance_id: self.instance.as_bytes().to_vec(),
            fence: Some(self.fence.into()),
            name: self.name.clone(),
            group: self.group.clone(),
            labels: [("simulated".to_owned(), "true".to_owned())].into(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            boot_id: String::new(),
            applied: self.in_force.map(Into::into),
            last_ending,
            volatile_state: false,
            wall_unix_us: Some(clock::wall_us()),
        }
    }

    /// Notes how a session ended and says how long to wait before the next attempt.
    fn after(&mut self, ended: &Ended) -> Duration {
        let mut rng = rand::rng();
        let (cause, bye, wait) = match &ended.end {
            End::Left => (Cause::Goodbye, None, Duration::ZERO),
            End::Refused | End::Unreachable if !ended.welcomed => {
                self.counts.failed_attempts += 1;
                return self.backoff.connect_failed(&mut rng);
            }
            End::Refused | End::Unreachable => {
                self.counts.broken += 1;
                (Cause::TransportError, None, self.lost(ended))
            }
            End::ServerSilent => {
                self.counts.gave_up += 1;
                (Cause::ServerSilent, None, self.lost(ended))
            }
            End::Bye(bye) => {
                *self
                    .counts
                    .byes
                    .entry(wire::reason_name(bye.reason()))
                    .or_default() += 1;
                (Cause::Bye, Some(bye.reason()), self.after_bye(bye, ended))
            }
        };
        let ending = LastEnding {
            cause: cause.into(),
            bye: bye.unwrap_or_default().into(),
            session_age_ns: nanos(ended.lived),
            away_ns: 0,
            detail: String::new(),
        };
        self.last_ending = Some((ending, clock::moment()));
        wait
    }

    fn after_bye(&mut self, bye: &Bye, ended: &Ended) -> Duration {
        if let Some(floor) = &bye.stale_floor {
            let above = Fence::from(*floor).above();
            // The next attempt raises the connection once more.
            self.fence = Fence {
                incarnation: above.incarnation,
                connection: 0,
            };
            return Duration::ZERO;
        }
        let told = wire::window(bye);
        match (bye.reason(), told) {
            (CloseReason::Superseded | CloseReason::DuplicateIdentity, _) => AFTER_TWIN,
            (CloseReason::ProtocolError | CloseReason::AuthRevoked, _) => {
                self.backoff.at_cap(&mut rand::rng())
            }
            (_, Some(window)) => self.backoff.told(window, &mut rand::rng()),
            (_, None) if ended.welcomed => self.lost(ended),
            (_, None) => self.backoff.connect_failed(&mut rand::rng()),
        }
    }

    fn lost(&mut self, ended: &Ended) -> Duration {
        self.backoff
            .session_lost(ended.spread, ended.lived, &mut rand::rng())
    }
}
