use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use fleetbeat_liveness::backoff::absence_grace;
use fleetbeat_liveness::tuning::Tuning;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use uuid::Uuid;

use super::data_dir::DataDir;
use crate::postgres::{self, Options as PrivateOptions, Private, Search};
use crate::record::{Parts, Recorder, Remembered, Room};
use crate::registry::Registry;
use crate::settings::Settings;
use crate::store::leases::Holder;
use crate::store::runs::Run;
use crate::store::{Options, Store};
use crate::telemetry::Recording;

/// How long a start waits for Postgres. After that agents are served all the same: they run the tuning
/// they acknowledged last, and what happens waits in memory.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long a stop waits for Postgres to take what waits.
const WRITTEN_WITHIN: Duration = Duration::from_secs(10);
const CLOSED_WITHIN: Duration = Duration::from_secs(5);

/// Postgres, private or not, and what is recorded in it.
#[derive(Debug)]
pub(super) struct History {
    private: Option<Private>,
    store: Store,
    recorder: Recorder,
    tasks: TaskTracker,
    holder: Holder,
}

impl History {
    /// Starts recording, with a private Postgres when none is configured, and tells `registry` whom to
    /// expect back.
    pub(super) async fn start(
        settings: &Settings,
        data_dir: &DataDir,
        registry: &Arc<Registry>,
        stop: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let tasks = TaskTracker::new();
        let (private, url) = if let Some(url) = &settings.database.url {
            (None, url.expose().to_owned())
        } else {
            let private = start_private(settings, data_dir, &tasks, stop).await?;
            let url = private.url().to_owned();
            (Some(private), url)
        };
        let store = Store::open(&Options::new(url))?;
        let parts = Parts {
            registry: Arc::clone(registry),
            store: store.clone(),
            run: run(settings, data_dir, registry),
            room: Room::default(),
        };
        let holder = Holder {
            server_id: parts.run.server_id,
            run_id: parts.run.run_id,
        };
        let (recorder, remembered) = Recorder::start(parts, &tasks);
        let rate = u64::from(settings.lane.admission_rate);
        tokio::select! {
            () = expect_back(registry, remembered, rate, &recorder, &tasks) => {}
            // Whoever stops the start also stops what has been started.
            () = stop.cancelled() => {}
        }
        Ok(Self {
            private,
            store,
            recorder,
            tasks,
            holder,
        })
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone()
    }

    /// As whom this run leads.
    pub(super) fn holder(&self) -> Holder {
        self.holder
    }

    /// How recording stands, for pages and metrics.
    pub(super) fn recording(&self) -> Recording {
        Recording::new(self.recorder.reader())
    }

    /// URL of the private Postgres.
    pub(super) fn private_url(&self) -> Option<String> {
        self.private
            .as_ref()
            .map(|private| private.url().to_owned())
    }

    /// How the private Postgres is.
    pub(super) fn private_state(&self) -> Option<watch::Receiver<postgres::State>> {
        self.private.as_ref().map(Private::state)
    }

    pub(super) fn private_pid(&self) -> Option<u32> {
        self.private.as_ref().and_then(Private::pid)
    }

    /// Writes what waits, then closes Postgres.
    pub(super) async fn stop(self) {
        self.recorder.stop(WRITTEN_WITHIN).await;
        // A connection to a Postgres that does not answer is never given back.
        if tokio::time::timeout(CLOSED_WITHIN, self.store.close())
            .await
            .is_err()
        {
            warn!("Postgres does not answer; leaving its connections");
        }
        if let Some(private) = self.private {
            private.stop().await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }
}

async fn start_private(
    settings: &Settings,
    data_dir: &DataDir,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> anyhow::Result<Private> {
    let options = PrivateOptions {
        data_dir: data_dir.path().to_owned(),
        search: Search::new(settings.database.bin_dir.clone(), std::env::var_os("PATH")),
        settings: Vec::new(),
        stop: stop.clone(),
    };
    let private = Private::start(&options, tasks)
        .await
        .context("start a private Postgres")?;
    info!(pid = private.pid(), "Private Postgres answers");
    Ok(private)
}

fn run(settings: &Settings, data_dir: &DataDir, registry: &Registry) -> Run {
    Run {
        server_id: data_dir.server_id(),
        run_id: Uuid::new_v4(),
        name: settings.server_name(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: registry.clock().wall(),
    }
}

/// Waits for what Postgres remembers; when it takes too long, the rest goes on without.
async fn expect_back(
    registry: &Arc<Registry>,
    mut remembered: oneshot::Receiver<Remembered>,
    rate: u64,
    recorder: &Recorder,
    tasks: &TaskTracker,
) {
    match tokio::time::timeout(ANSWER_WITHIN, &mut remembered).await {
        Ok(Ok(remembered)) => restore(registry, remembered, rate),
        Ok(Err(_)) => {}
        Err(_) => {
            let reason = recorder.status().detail;
            warn!(
                reason,
                "Postgres does not answer: serving without what it remembers"
            );
            let registry = Arc::clone(registry);
            tasks.spawn(async move {
                if let Ok(remembered) = remembered.await {
                    restore(&registry, remembered, rate);
                }
            });
        }
    }
}

/// Agents that were live are `unknown` until they had a fair chance to come back: the longest wait of
/// their backoff, their share of the admission rate, and their deadline.
fn restore(registry: &Registry, remembered: Remembered, rate: u64) {
    let (agents, sessions) = (remembered.agents.len(), remembered.sessions_before);
    info!(
        agents,
        sessions, "Remembered agents, and sessions that the run before left open"
    );
    let now = registry.clock().now();
    for known in remembered.agents {
        let tuning = known
            .applied
            .map_or_else(Tuning::default, |applied| applied.tuning);
        registry.restore(
            known,
            now + absence_grace(sessions, rate, tuning.deadline_at_most()),
        );
    }
}
