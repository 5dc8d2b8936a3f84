//! A server with its agents: what the tests do and wait for.

use std::path::PathBuf;
use std::time::Duration;

use fleetbeat_drill::ledger::{Ledger, Session};
use fleetbeat_drill::relay::Relay;
use fleetbeat_drill::stage::{Operator, Place, Plan, Stage, until};
use fleetbeat_proto::v1::{Agent, CloseReason, Event, Verdict};
use serde_json::Value;
use tempfile::TempDir;

use crate::world::{SERVER, World};

/// Long enough for anything that is not measured.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// How late a verdict may be.
const LATE_MS: i64 = 250;

pub(crate) struct Scene {
    pub(crate) stage: Stage,
    pub(crate) operator: Operator,
    pub(crate) ledger: Ledger,
    /// Certificate and key of the server; empty on a scene of this host only.
    _certificates: Option<TempDir>,
    ca: Option<PathBuf>,
}

/// T, N and W as the command line takes them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuned {
    pub(crate) t: Duration,
    pub(crate) n: u32,
    pub(crate) w: Duration,
}

impl Tuned {
    pub(crate) const fn seconds(t: u64, n: u32, w: u64) -> Self {
        Self {
            t: Duration::from_secs(t),
            n,
            w: Duration::from_secs(w),
        }
    }

    /// D.
    pub(crate) fn deadline(self) -> Duration {
        self.t * self.n + self.w
    }
}

impl Scene {
    /// Everything on this host, without TLS.
    pub(crate) async fn here() -> Self {
        Self::with(Plan::default(), None).await
    }

    /// The server on the host that is its own in the world, with TLS.
    pub(crate) async fn on_server_host() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed([SERVER.to_owned()]).unwrap();
        let (cert, key) = (
            folder.path().join("lane.crt"),
            folder.path().join("lane.key"),
        );
        std::fs::write(&cert, pair.cert.pem()).unwrap();
        std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        let setting = |name: &str, path: PathBuf| (name.to_owned(), path.display().to_string());
        let plan = Plan {
            environment: vec![
                setting("FLEETBEAT_LANE_TLS_CERT", cert),
                setting("FLEETBEAT_LANE_TLS_KEY", key),
            ],
            lane: Some(format!("{SERVER}:0").parse().unwrap()),
            ..Plan::default()
        };
        Self::with(plan, Some(folder)).await
    }

    async fn with(plan: Plan, certificates: Option<TempDir>) -> Self {
        let stage = Stage::start(plan).await.unwrap();
        let operator = stage.operator().unwrap();
        let ledger = Ledger::new(stage.database().await.unwrap());
        let ca = certificates.as_ref();
        Self {
            stage,
            operator,
            ledger,
            ca: ca.map(|folder| folder.path().join("lane.crt")),
            _certificates: certificates,
        }
    }

    /// A host of the world, from which the server is reached through the router.
    pub(crate) fn place(&self, world: &World, host: &str) -> Place {
        Place {
            namespace: Some(world.namespace(host)),
            server: format!("https://{}", self.stage.server.endpoints().unwrap().lane),
            ca: self.ca.clone(),
        }
    }

    /// A relay in front of the server, with what is wrong from the start.
    pub(crate) async fn relay(&self, commands: &[&str]) -> Relay {
        self.relay_at("127.0.0.1:0", commands).await
    }

    pub(crate) async fn relay_at(&self, listen: &str, commands: &[&str]) -> Relay {
        let lane = self.stage.server.endpoints().unwrap().lane;
        let relay = Relay::start(listen.parse().unwrap(), lane).await.unwrap();
        for command in commands {
            relay.tell(command).unwrap();
        }
        relay
    }

    /// Starts an agent on each of these hosts, named after it.
    pub(crate) async fn inhabit(&mut self, world: &World, hosts: &[(&str, &str)]) {
        for (host, group) in hosts {
            let place = self.place(world, host);
            self.stage.start_agent_at(&place, host, group).unwrap();
        }
        for (host, _) in hosts {
            self.verdict(host, Verdict::Online, SOON).await;
        }
    }

    /// Changes the tuning of a group, or of the fleet when it is empty, and waits for the acks.
    pub(crate) async fn tune(&self, group: &str, tuned: Tuned) -> Value {
        self.tune_within(group, tuned, "60s").await.unwrap()
    }

    /// Changes the tuning and waits so long for the acks. What the command told, or complained about.
    pub(crate) async fn tune_within(
        &self,
        group: &str,
        Tuned { t, n, w }: Tuned,
        wait: &str,
    ) -> anyhow::Result<Value> {
        let (t, n, w) = (format!("{t:?}"), n.to_string(), format!("{w:?}"));
        let selector = ["--group", group];
        let selector = if group.is_empty() {
            &["--fleet"]
        } else {
            &selector[..]
        };
        let values = ["--interval", &t, "--misses", &n, "--timeout", &w];
        let how = ["--reason", "a test wants it", "--wait", wait];
        let set = [&["tune", "set"], selector, &values, &how].concat();
        self.stage.cli_json(&set).await
    }

    pub(crate) async fn verdict(&self, agent: &str, verdict: Verdict, within: Duration) -> Agent {
        let what = format!("{agent} to be {}", verdict.as_str_name());
        until(&what, within, async || {
            let Ok(seen) = self.operator.agent(agent).await else {
                return Ok(None);
            };
            Ok((seen.verdict() == verdict).then_some(seen))
        })
        .await
        .unwrap()
    }

    pub(crate) async fn online(&self, agents: u64, within: Duration) {
        self.operator.all_online(agents, within).await.unwrap();
    }

    /// Waits until the agent is offline, and checks that it was called suspect and offline when its
    /// silence came to T + W and to D, and not before.
    pub(crate) async fn convicted_on_time(&self, name: &str, tuned: Tuned, since_us: i64) -> Agent {
        let patience = tuned.deadline() + SOON;
        let silent = self.verdict(name, Verdict::Offline, patience).await;
        let last = silent.last_seen_unix_us.unwrap();
        let dues = [
            (Verdict::Suspect, tuned.t + tuned.w),
            (Verdict::Offline, tuned.deadline()),
        ];
        for (verdict, due) in dues {
            let at = self.judged_at(name, verdict, since_us).await;
            let late = ms(at - last) - i64::try_from(due.as_millis()).unwrap();
            eprintln!("{name}: {verdict:?} {late} ms after it was due");
            assert!(
                (0..=LATE_MS).contains(&late),
                "{name} was called {verdict:?} {late} ms after it was due: {}",
                silent.because
            );
        }
        silent
    }

    /// When the agent was given the verdict after that time, by the server's wall clock.
    async fn judged_at(&self, agent: &str, verdict: Verdict, since_us: i64) -> i64 {
        let what = format!("{} of {agent} to be recorded", verdict.as_str_name());
        until(&what, SOON, async || {
            let events = self.operator.events(Some(agent), None).await?;
            let wanted = events
                .iter()
                .find(|event| is_verdict(event, verdict) && event.at_unix_us >= since_us);
            Ok(wanted.map(|event| event.at_unix_us))
        })
        .await
        .unwrap()
    }

    /// Verdicts that the agent was given, oldest first, once everything is recorded.
    pub(crate) async fn verdicts(&self, agent: &str) -> Vec<Verdict> {
        self.written().await;
        let events = self.operator.events(Some(agent), None).await.unwrap();
        let verdicts = events
            .iter()
            .filter(|event| event.kind == "verdict_changed");
        verdicts.map(Event::verdict).collect()
    }

    /// How many incidents of that kind there were; each is over by now.
    pub(crate) async fn incidents(&self, kind: &str) -> usize {
        let what = format!("every {kind} to be over");
        until(&what, SOON, async || {
            let mut all = self.operator.incidents().await?;
            all.retain(|incident| incident.kind == kind);
            let over = all.iter().all(|incident| incident.ended_unix_us.is_some());
            Ok(over.then_some(all.len()))
        })
        .await
        .unwrap()
    }

    /// Names of agents that were ever called that, once everything is recorded.
    pub(crate) async fn ever(&self, verdict: Verdict) -> Vec<String> {
        self.written().await;
        let ever = self.ledger.judged(verdict as i16, 0, i64::MAX / 2);
        ever.await.unwrap()
    }

    async fn written(&self) {
        until(
            "the recorder to have written everything",
            SOON,
            async || {
                let recorder = self.operator.status().await?.recorder.unwrap_or_default();
                Ok((recorder.backlog_rows == 0).then_some(()))
            },
        )
        .await
        .unwrap();
    }

    /// Waits until so many sessions of the agent are recorded as ended, and yields why each ended.
    pub(crate) async fn endings(&self, agent: &Agent, count: usize) -> Vec<CloseReason> {
        let what = format!("{count} ended sessions of {}", agent.name);
        let ended = until(&what, SOON, async || {
            let reasons = reasons(&self.sessions(agent).await);
            Ok((reasons.len() >= count).then_some(reasons))
        })
        .await
        .unwrap();
        assert_eq!(ended.len(), count, "{}: {ended:?}", agent.name);
        ended
    }

    /// Its recorded sessions, oldest first.
    pub(crate) async fn sessions(&self, agent: &Agent) -> Vec<Session> {
        let id = agent.agent_id.parse().unwrap();
        self.ledger.sessions(id).await.unwrap()
    }
}

fn reasons(sessions: &[Session]) -> Vec<CloseReason> {
    let ended = sessions.iter().filter_map(|session| session.close_reason);
    ended
        .map(|reason| CloseReason::try_from(i32::from(reason)).unwrap())
        .collect()
}

pub(crate) fn is_verdict(event: &Event, verdict: Verdict) -> bool {
    event.kind == "verdict_changed" && event.verdict() == verdict
}

pub(crate) fn ms(us: i64) -> i64 {
    us / 1_000
}
