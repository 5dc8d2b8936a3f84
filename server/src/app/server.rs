use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fleetbeat_liveness::backoff::reconnect_spread;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_proto::v1::CloseReason;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::data_dir::DataDir;
use super::endpoints::{Endpoints, Published};
use super::history::History;
use super::process;
use crate::clock::Clock;
use crate::judge::Judge;
use crate::lane::{Gate, Lane, Options, bind};
use crate::operator::{Door, FirstToken, Fleet, Keys, Parts, Port, Readiness, pages};
use crate::registry::{Farewell, Rates, Registry};
use crate::settings::Settings;
use crate::telemetry::{Census, Sources, Telemetry};
use crate::tuning::rollout::Driver;
use crate::tuning::{Desk, Ledger};

/// What an agent's HTTP/2 connection is called in TLS.
const H2: &[u8] = b"h2";
/// After the last session has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long tasks that serve operators may take to end.
const TASKS_WITHIN: Duration = Duration::from_secs(5);
/// How often a stopping server looks whether its agents have left.
const LOOK: Duration = Duration::from_millis(20);

/// A running server.
#[derive(Debug)]
pub struct Server {
    registry: Arc<Registry>,
    history: History,
    front: Front,
    drain_time: Duration,
    reconnect_rate: u64,
    data_dir: DataDir,
}

/// What agents and operators meet.
#[derive(Debug)]
struct Front {
    lanes: Vec<Lane>,
    /// Shakes hands for the lanes when agents speak TLS.
    gate: Option<Gate>,
    judge: Judge,
    readiness: Readiness,
    lane_address: SocketAddr,
    operator_address: SocketAddr,
    /// Stops intake on the lanes.
    soft: CancellationToken,
    /// Drops what the lanes still carry.
    hard: CancellationToken,
    /// Stops what serves operators.
    stop: CancellationToken,
    tasks: TaskTracker,
    published: Published,
}

impl Server {
    /// Builds and starts everything; serving when it returns. `stop` ends a start that is under way;
    /// what was started by then is stopped, or returned to be stopped.
    ///
    /// # Errors
    ///
    /// What could not be started, and what to do about it.
    pub(crate) async fn start(
        settings: &Settings,
        data_dir: DataDir,
        telemetry: &Telemetry,
        clock: Clock,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let reconnect_rate = u64::from(settings.lane.reconnect_rate);
        let rates = Rates {
            reconnect_per_s: reconnect_rate,
            admission_per_s: u64::from(settings.lane.admission_rate),
        };
        let registry = Arc::new(Registry::new(clock, lane_count(settings), rates));
        // Bound first: a taken port is found out before a database is touched.
        let ports = Ports::bind(settings, registry.lanes().len()).await?;
        let history = History::start(settings, &data_dir, &registry, stop).await?;
        match Front::raise(settings, ports, &registry, &history, &data_dir, telemetry).await {
            Ok(front) => Ok(Self {
                registry,
                history,
                front,
                drain_time: settings.drain_time,
                reconnect_rate,
                data_dir,
            }),
            Err(error) => {
                history.stop().await;
                Err(error)
            }
        }
    }

    /// Where agents connect.
    #[must_use]
    pub fn lane_address(&self) -> SocketAddr {
        self.front.lane_address
    }

    /// Where operators connect.
    #[must_use]
    pub fn operator_address(&self) -> SocketAddr {
        self.front.operator_address
    }

    /// Sends every agent away in order, writes down what is left, and stops.
    pub async fn stop(mut self) {
        let front = &mut self.front;
        front.readiness.set(false).await;
        front.soft.cancel();
        self.drain().await;
        let front = &mut self.front;
        // Last words that wait behind a full socket have a second.
        let lanes = &front.lanes;
        let left = async {
            while lanes.iter().any(|lane| !lane.is_finished()) {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(LAST_WORDS, left).await.is_err() {
            front.hard.cancel();
        }
        let gate_runs = || front.gate.as_ref().is_some_and(|gate| !gate.is_finished());
        while gate_runs() || front.lanes.iter().any(|lane| !lane.is_finished()) {
            tokio::time::sleep(LOOK).await;
        }
        front.judge.stop();
        front.stop.cancel();
        front.tasks.close();
        self.history.stop().await;
        let tasks = self.front.tasks.wait();
        if tokio::time::timeout(TASKS_WITHIN, tasks).await.is_err() {
            warn!("Some tasks do not end; leaving them");
        }
        drop((self.front.published, self.data_dir));
    }

    async fn drain(&self) {
        self.registry.drain();
        let sessions = self.registry.session_count();
        let spread = reconnect_spread(sessions, self.reconnect_rate, Tuning::default().deadline());
        for agent in self.registry.agents() {
            let Some(session) = agent.session() else {
                continue;
            };
            let bye = Farewell::new(CloseReason::ServerDrain, "the server is stopping")
                .within(Duration::ZERO, spread);
            let (reason, detail) = (CloseReason::ServerDrain, "the server stopped");
            self.registry.end(&session, reason, detail, Some(bye));
        }
        let left = async {
            while self.registry.session_count() > 0 {
                tokio::time::sleep(LOOK).await;
            }
        };
        if tokio::time::timeout(self.drain_time, left).await.is_err() {
            warn!(
                sessions = self.registry.session_count(),
                "Agents did not leave in time"
            );
        }
    }
}

impl Front {
    async fn raise(
        settings: &Settings,
        ports: Ports,
        registry: &Arc<Registry>,
        history: &History,
        data_dir: &DataDir,
        telemetry: &Telemetry,
    ) -> anyhow::Result<Self> {
        let (soft, hard, stop) =
            <(CancellationToken, CancellationToken, CancellationToken)>::default();
        let tasks = TaskTracker::new();
        let clock = registry.clock();
        let ledger = Arc::new(Ledger::new(Arc::clone(registry)));
        let desk = Desk::new(
            Arc::clone(registry),
            history.store(),
            Arc::clone(&ledger),
            settings.limits.bounds(),
            tasks.clone(),
        );
        match desk.refresh().await {
            Ok(revision) => info!(revision, "Policies in force"),
            // The desk looks again until it finds them; until then agents run what they acknowledged.
            Err(error) => warn!(%error, "Policies are not known yet"),
        }

        let (lane_address, operator_address) = (ports.lane_address, ports.operator.address()?);
        let (lanes, gate) = start_lanes(ports.lanes, settings, registry, (&soft, &hard))?;
        let judge = Judge::start(Arc::clone(registry), |lane| {
            process::end(&format!("lane {lane} has not answered for 30 s"));
        })?;
        tasks.spawn({
            let (desk, stop) = (Arc::clone(&desk), stop.clone());
            async move { desk.run(stop).await }
        });
        tasks.spawn({
            let (ledger, stop) = (Arc::clone(&ledger), stop.clone());
            async move { ledger.run(stop).await }
        });

        let holder = history.holder();
        let driver = Driver::new(Arc::clone(&desk), holder);
        tasks.spawn(driver.run(stop.clone()));

        let readiness = Readiness::default();
        let recording = history.recording();
        let want_token = settings.operator.metrics_want_token();
        let keys = Keys::new(history.store(), clock, &first_token(data_dir)?);
        let door = Door::new(keys.keyring(), clock, want_token);
        tasks.spawn(keys.run(stop.clone()));
        let census = Census::new(Arc::clone(registry));
        let fleet = Fleet::new(Parts {
            registry: Arc::clone(registry),
            census: Arc::clone(&census),
            pulse: Arc::clone(judge.pulse()),
            recording: recording.clone(),
            store: history.store(),
            desk,
            ledger: Arc::clone(&ledger),
            server_id: data_dir.server_id(),
            started: clock.wall(),
            stop: stop.clone(),
            tasks: tasks.clone(),
        });
        telemetry.metrics.observe(&Sources {
            registry: Arc::clone(registry),
            census,
            pulse: Arc::clone(judge.pulse()),
            recording,
            ledger,
        })?;
        let pages = pages(fleet, door, readiness.clone(), telemetry.metrics.clone())
            .context("describe the operators' services")?;
        tasks.spawn(ports.operator.run(pages, stop.clone()));
        let endpoints = Endpoints {
            pid: std::process::id(),
            lane: lane_address,
            operator: operator_address,
            database_url: history.private_url(),
            postgres_pid: history.private_pid(),
        };
        let published = endpoints
            .publish(data_dir.path())
            .context("publish the endpoints")?;
        if let Some(postgres) = history.private_state() {
            let data_dir = data_dir.path().to_owned();
            tasks.spawn(endpoints.follow(data_dir, postgres, stop.clone()));
        }
        readiness.set(true).await;
        info!(lane = %lane_address, operator = %operator_address, "Serving");
        Ok(Self {
            lanes,
            gate,
            judge,
            readiness,
            lane_address,
            operator_address,
            soft,
            hard,
            stop,
            tasks,
            published,
        })
    }
}

struct Ports {
    lanes: Vec<std::net::TcpListener>,
    lane_address: SocketAddr,
    operator: Port,
}

impl Ports {
    async fn bind(settings: &Settings, lanes: usize) -> anyhow::Result<Self> {
        let listen = settings.lane.listen;
        let first = bind(listen).with_context(|| format!("listen for agents on {listen}"))?;
        let lane_address = first.local_addr()?;
        let mut listeners = vec![first];
        // A gate accepts for all lanes.
        let accepting = if settings.lane.tls().is_some() {
            1
        } else {
            lanes
        };
        for _ in 1..accepting {
            listeners.push(bind(lane_address).context("listen for agents on every lane")?);
        }
        let tls = settings
            .operator
            .tls()
            .map(|files| files.server_config(&[H2, b"http/1.1"]));
        let listen = settings.operator.listen;
        let operator = Port::bind(listen, tls.transpose()?)
            .await
            .with_context(|| format!("listen for operators on {listen}"))?;
        Ok(Self {
            lanes: listeners,
            lane_address,
            operator,
        })
    }
}

fn start_lanes(
    mut listeners: Vec<std::net::TcpListener>,
    settings: &Settings,
    registry: &Arc<Registry>,
    (soft, hard): (&CancellationToken, &CancellationToken),
) -> anyhow::Result<(Vec<Lane>, Option<Gate>)> {
    let tls = settings
        .lane
        .tls()
        .map(|files| files.server_config(&[H2]))
        .transpose()?;
    let gated = if tls.is_some() { listeners.pop() } else { None };
    let mut lanes = Vec::new();
    let options = Options {
        server: settings.server_name(),
        keepalive: settings.lane.keepalive,
    };
    for index in 0..registry.lanes().len() {
        let listener = listeners.pop();
        let lane = Lane::start(
            index,
            registry,
            &options,
            listener,
            soft.clone(),
            hard.clone(),
        );
        lanes.push(lane.with_context(|| format!("start lane {index}"))?);
    }
    let gate = tls
        .zip(gated)
        .map(|(tls, listener)| Gate::start(listener, tls, &lanes, soft.clone()));
    Ok((lanes, gate.transpose().context("start the TLS gate")?))
}

/// The token in the data directory: whoever can read it may do everything.
fn first_token(data_dir: &DataDir) -> anyhow::Result<FirstToken> {
    let first = FirstToken::read_or_make(data_dir.path(), &mut rand::rng())?;
    if first.fresh {
        info!(file = %first.path.display(), "Made the first operator token");
    }
    Ok(first)
}

fn lane_count(settings: &Settings) -> usize {
    match settings.lane.count {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        count => usize::from(count),
    }
}
