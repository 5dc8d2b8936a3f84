use std::time::Duration;

use anyhow::Context as _;
use fleetbeat_liveness::backoff::absence_grace;
use fleetbeat_liveness::tuning::Tuning;
use fleetbeat_liveness::verdict::Verdict;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};
use uuid::Uuid;

use super::data_dir::DataDir;
use crate::postgres::{Options as PrivateOptions, Private, Search};
use crate::registry::{Facts, Known, Registry};
use crate::settings::Settings;
use crate::store::agents::Recorded;
use crate::store::runs::Run;
use crate::store::{Options, Store};

/// How long a start waits for Postgres to answer.
const REACHED_WITHIN: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(500);

/// Postgres, private or not, with what earlier runs left in it.
#[derive(Debug)]
pub(super) struct History {
    private: Option<Private>,
    store: Store,
    run: Run,
    tasks: TaskTracker,
}

impl History {
    /// Reaches Postgres, starting a private one when none is configured, brings its schema up to date,
    /// ends what earlier runs of this server left open, and tells `registry` whom to expect.
    pub(super) async fn start(
        settings: &Settings,
        data_dir: &DataDir,
        registry: &Registry,
        reconnect_rate: u64,
    ) -> anyhow::Result<Self> {
        let tasks = TaskTracker::new();
        let private = match &settings.database.url {
            Some(_) => None,
            None => Some(start_private(settings, data_dir, &tasks).await?),
        };
        let url = match (&settings.database.url, &private) {
            (Some(url), _) => url.expose().to_owned(),
            (None, Some(private)) => private.url().to_owned(),
            (None, None) => unreachable!("without a URL a private Postgres was started"),
        };
        let store = Store::open(&Options::new(url))?;
        reach(&store).await?;
        store.migrate().await?;
        let run = Run {
            server_id: data_dir.server_id(),
            run_id: Uuid::new_v4(),
            name: settings.server_name(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: registry.clock().wall(),
        };
        let left = store.register(&run, registry.clock().wall()).await?;
        if left.sessions > 0 {
            warn!(
                sessions = left.sessions,
                agents = left.agents,
                "An earlier run ended without order"
            );
        }
        let known = store.load_known().await?;
        info!(agents = known.len(), "Known agents");
        expect_back(registry, known, reconnect_rate);
        Ok(Self {
            private,
            store,
            run,
            tasks,
        })
    }

    pub(super) fn store(&self) -> Store {
        self.store.clone()
    }

    /// URL of the private Postgres.
    pub(super) fn private_url(&self) -> Option<String> {
        self.private
            .as_ref()
            .map(|private| private.url().to_owned())
    }

    pub(super) fn private_pid(&self) -> Option<u32> {
        self.private.as_ref().and_then(Private::pid)
    }

    /// Writes what waits, then closes Postgres.
    pub(super) async fn stop(self) {
        self.store.close().await;
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
) -> anyhow::Result<Private> {
    let options = PrivateOptions {
        data_dir: data_dir.path().to_owned(),
        search: Search::new(settings.database.bin_dir.clone(), std::env::var_os("PATH")),
        settings: Vec::new(),
    };
    let private = Private::start(&options, tasks)
        .await
        .context("start a private Postgres")?;
    info!(pid = private.pid(), "Private Postgres answers");
    Ok(private)
}

async fn reach(store: &Store) -> anyhow::Result<()> {
    let reached = async {
        let mut told = false;
        while let Err(error) = store.ping().await {
            if !std::mem::replace(&mut told, true) {
                warn!(
                    error = error.sentence(),
                    "Postgres does not answer, trying again"
                );
            }
            tokio::time::sleep(RETRY).await;
        }
    };
    if tokio::time::timeout(REACHED_WITHIN, reached).await.is_ok() {
        return Ok(());
    }
    store.ping().await.with_context(|| {
        format!(
            "reach Postgres within {REACHED_WITHIN:?}; check `database.url` and whether it runs"
        )
    })
}

/// Agents that were live are `unknown` until they had a fair chance to come back: the longest wait of
/// their backoff, their share of the admission rate, and their deadline.
fn expect_back(registry: &Registry, known: Vec<Recorded>, reconnect_rate: u64) {
    let live = |verdict: Verdict| {
        matches!(
            verdict,
            Verdict::Online | Verdict::Suspect | Verdict::Unknown
        )
    };
    let known: Vec<Known> = known.into_iter().map(remembered).collect();
    let sessions = known.iter().filter(|known| live(known.verdict)).count() as u64;
    let now = registry.clock().now();
    for known in known {
        let tuning = known
            .applied
            .map_or_else(Tuning::default, |applied| applied.tuning);
        let grace = absence_grace(sessions, reconnect_rate, tuning.deadline());
        registry.restore(known, now + grace);
    }
}

fn remembered(recorded: Recorded) -> Known {
    let identity = recorded.identity;
    Known {
        id: identity.agent_id,
        facts: Facts {
            name: identity.name,
            group: identity.group,
            labels: identity.labels,
            agent_version: identity.agent_version,
            boot_id: identity.boot_id,
            address: identity.address,
        },
        fence: recorded.fence,
        verdict: recorded.verdict.into(),
        last_seen: recorded.last_seen_at,
        applied: recorded.applied,
    }
}
