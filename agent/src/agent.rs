//! The life of the agent: open a session, attend to it, come back, until told to stop.

mod attend;
mod hello;
mod retry;

use std::time::Duration;

use fleetbeat_liveness::backoff::Patience;
use fleetbeat_liveness::{Moment, Revised};
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::time::sleep_until;
use uuid::Uuid;

use crate::clock::{Clock, PauseWatch};
use crate::comeback::Comeback;
use crate::config::Settings;
use crate::deadman::Vitals;
use crate::keeper::Keeper;
use crate::notify::Notify;
use crate::session::Ending;
use crate::state::State;
use crate::transport::{self, Dialer, Manner};
use retry::Round;

/// Tells the agent to say goodbye and return.
pub type Stop = watch::Receiver<bool>;

/// While nothing happens, how often the agent shows that it could act.
const TURN_EVERY: Duration = Duration::from_secs(1);

/// Keeps this host's session up until `stop` becomes true; says goodbye then, within 2 s. Nothing that
/// the network or a server does ends it. It shows its `vitals` to whoever watches them.
pub async fn run(settings: Settings, state: State, vitals: Vitals, stop: Stop) {
    Agent::new(settings, state, vitals, stop).run().await;
}

struct Agent {
    settings: Settings,
    state: State,
    stop: Stop,
    clock: Clock,
    vitals: Vitals,
    pauses: PauseWatch,
    notify: Notify,
    dialer: Dialer,
    round: Round,
    comeback: Comeback<StdRng>,
    patience: Patience,
    keeper: Keeper,
    /// Kept tuning, newer than what `state` read at the start.
    acknowledged: Option<Revised>,
    instance: Uuid,
    /// Connections of this incarnation.
    connection: u64,
    last: Option<LastSession>,
    /// What was logged about the server being out of reach, to log the same thing once.
    complaint: Option<String>,
}

/// The last session that had a Welcome and is over.
struct LastSession {
    ending: Ending,
    at: Moment,
}

/// The agent was told to stop.
struct Stopped;

impl Agent {
    fn new(settings: Settings, state: State, vitals: Vitals, stop: Stop) -> Self {
        let clock = vitals.clock();
        Self {
            stop,
            vitals,
            pauses: PauseWatch::start(clock.now()),
            notify: Notify::start(clock.now()),
            clock,
            dialer: Dialer::default(),
            round: Round::default(),
            comeback: Comeback::new(rand::make_rng()),
            patience: Patience::default(),
            keeper: Keeper::new(state.tuning_file()),
            acknowledged: state.tuning(),
            instance: Uuid::new_v4(),
            connection: 0,
            last: None,
            complaint: None,
            settings,
            state,
        }
    }

    async fn run(mut self) {
        self.log_start();
        while let Ok(wait) = self.attempt().await {
            if self.wait(wait).await.is_err() {
                break;
            }
        }
        self.notify.stopping();
        tracing::info!(agent.id = %self.state.agent_id(), "Agent stopped");
    }

    fn log_start(&self) {
        tracing::info!(
            agent.id = %self.state.agent_id(),
            agent.version = env!("CARGO_PKG_VERSION"),
            agent.incarnation = self.state.incarnation(),
            agent.group = %self.settings.group,
            tuning = self.acknowledged.map(|revised| revised.tuning.to_string()),
            "Agent started"
        );
        for route in &self.settings.routes {
            tracing::info!(server = %route.server, path = route.path(), "Way to the server chosen");
        }
        if let Some(reason) = self.state.stuck() {
            tracing::warn!(reason, "The run before this one was stuck and ended itself");
        }
        if let Some(error) = self.state.volatile() {
            tracing::warn!(
                error = %error,
                "State directory cannot be written, this run's incarnation will not survive it"
            );
        }
    }

    /// One connection from the look-up to the end of its session. Returns how long to stay away.
    async fn attempt(&mut self) -> Result<Duration, Stopped> {
        let route = self.round.next(&self.settings.routes).clone();
        let ca = self.settings.ca.clone();
        let manner = Manner {
            ca: ca.as_deref(),
            keepalive: self.settings.keepalive,
            patience: self.patience.current(),
        };
        let mut dialer = std::mem::take(&mut self.dialer);
        let opened = self
            .while_attending(transport::open(&mut dialer, &route, &manner))
            .await;
        self.dialer = dialer;
        let link = match opened? {
            Ok(link) => link,
            Err(error) => return Ok(self.failed(&route.server, &error)),
        };
        let ending = self.attend(link, &route.server).await?;
        self.ended(&route.server, ending).await
    }

    async fn wait(&mut self, wait: Duration) -> Result<(), Stopped> {
        let until = self.clock.instant(self.clock.now() + wait);
        self.while_attending(sleep_until(until)).await
    }

    /// Drives `step`, which has a bound of its own, and what cannot wait for it.
    async fn while_attending<T>(&mut self, step: impl Future<Output = T>) -> Result<T, Stopped> {
        let mut step = std::pin::pin!(step);
        loop {
            let now = self.clock.now();
            self.vitals.turned(now);
            let due = self.clock.instant(self.notify.due().min(now + TURN_EVERY));
            tokio::select! {
                biased;
                () = stopped(&mut self.stop) => return Err(Stopped),
                done = &mut step => return Ok(done),
                () = sleep_until(due) => {}
                kept = self.keeper.kept() => self.note_kept(&kept),
            }
            self.notify.attend(self.clock.now());
        }
    }
}

/// Waits for the word to stop; a sender that is gone can no longer give it.
async fn stopped(stop: &mut Stop) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}
