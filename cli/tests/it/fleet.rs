//! A fleet service with just enough behind it: canned answers, and policies that really change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::fleet_service_server::{FleetService, FleetServiceServer};
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status};

pub(crate) const TOKEN: &str = "secret-of-the-operator";
pub(crate) const SECOND: u64 = 1_000_000_000;
/// 2026-11-30 15:42:35.123456Z
pub(crate) const AT: i64 = 1_796_053_355_123_456;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;
type Policies = BTreeMap<Option<String>, v1::Tuning>;

pub(crate) fn tuning(interval_ns: u64, misses: u32, timeout_ns: u64) -> v1::Tuning {
    v1::Tuning {
        interval_ns: Some(interval_ns),
        misses: Some(misses),
        timeout_ns: Some(timeout_ns),
        pong_every: Some(1),
        adaptive: Some(false),
    }
}

pub(crate) fn default_tuning() -> v1::Tuning {
    tuning(20 * SECOND, 3, 2 * SECOND)
}

/// What the service answers with, and what it was asked.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) status: v1::GetStatusResponse,
    pub(crate) agents: Vec<v1::Agent>,
    pub(crate) details: Option<v1::GetAgentResponse>,
    pub(crate) events: Vec<v1::Event>,
    pub(crate) progress: Vec<v1::RevisionProgress>,
    pub(crate) revisions: Vec<v1::Revision>,
    pub(crate) incidents: Vec<v1::Incident>,
    /// Newest first; watched, they are one rollout step by step.
    pub(crate) rollouts: Vec<v1::Rollout>,
    pub(crate) orders: Vec<v1::OrderRolloutRequest>,
    pub(crate) history_unavailable: String,
    /// Answer of every call, when set.
    pub(crate) failure: Option<Status>,
    /// Policies by revision; the last is in force.
    pub(crate) policies: BTreeMap<u64, Policies>,
    pub(crate) targets: u64,
    pub(crate) calls: Vec<&'static str>,
    pub(crate) lists: Vec<v1::ListAgentsRequest>,
    pub(crate) watches: Vec<v1::WatchEventsRequest>,
    pub(crate) sets: Vec<v1::SetTuningRequest>,
    pub(crate) applied: Vec<v1::ApplyPoliciesRequest>,
    pub(crate) plan: v1::PlanTuningResponse,
    pub(crate) report: v1::ReportRevisionResponse,
    pub(crate) plans: Vec<v1::PlanTuningRequest>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            status: v1::GetStatusResponse::default(),
            agents: vec![],
            details: None,
            events: vec![],
            progress: vec![],
            revisions: vec![],
            incidents: vec![],
            rollouts: vec![],
            orders: vec![],
            history_unavailable: String::new(),
            failure: None,
            policies: BTreeMap::from([(7, Policies::from([(None, default_tuning())]))]),
            targets: 0,
            calls: vec![],
            lists: vec![],
            watches: vec![],
            sets: vec![],
            applied: vec![],
            plan: v1::PlanTuningResponse::default(),
            report: v1::ReportRevisionResponse::default(),
            plans: vec![],
        }
    }
}

impl State {
    fn newest(&self) -> (u64, Policies) {
        let (revision, policies) = self.policies.last_key_value().unwrap();
        (*revision, policies.clone())
    }

    fn value(policies: &Policies, group: Option<&String>) -> v1::Tuning {
        let own = policies.get(&group.cloned());
        *own.or_else(|| policies.get(&None))
            .unwrap_or(&default_tuning())
    }

    /// Makes a revision, unless it is not expected, changes nothing or is only tried.
    fn commit(
        &mut self,
        after: &Policies,
        expected: Option<u64>,
        dry_run: bool,
    ) -> Result<v1::SetTuningResponse, Status> {
        let (newest, before) = self.newest();
        if expected.is_some_and(|expected| expected != newest) {
            return Err(Status::failed_precondition(format!(
                "the newest revision is {newest}"
            )));
        }
        let groups = before.keys().chain(after.keys());
        let changes = groups.filter(|group| before.get(*group) != after.get(*group));
        let changes = changes.map(|group| format!("{}: another value", name(group.as_deref())));
        let changes: BTreeSet<String> = changes.collect();
        let made = *after != before && !dry_run;
        if made {
            self.policies.insert(newest + 1, after.clone());
        }
        Ok(v1::SetTuningResponse {
            revision: made.then_some(newest + 1),
            policies: Some(wire(newest, after)),
            targets: if *after == before { 0 } else { self.targets },
            changes: changes.into_iter().collect(),
            ..v1::SetTuningResponse::default()
        })
    }
}

fn name(group: Option<&str>) -> String {
    group.map_or_else(|| "fleet".to_owned(), |group| format!("group-{group}"))
}

fn wire(revision: u64, policies: &Policies) -> v1::PolicySet {
    let policy = |(group, tuning): (&Option<String>, &v1::Tuning)| v1::Policy {
        selector: Some(v1::Selector {
            group: group.clone(),
            ..v1::Selector::default()
        }),
        tuning: Some(*tuning),
        name: name(group.as_deref()),
        expires_unix_us: None,
    };
    v1::PolicySet {
        revision,
        policies: policies.iter().map(policy).collect(),
        staged: None,
    }
}

/// A running service; dropped, it is gone with its connections.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Fleet {
    pub(crate) fn start(state: State) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), state, None)
    }

    pub(crate) fn start_at(address: SocketAddr, state: State, identity: Option<Identity>) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(state));
        let service = FleetServiceServer::new(Service {
            state: Arc::clone(&state),
        });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let incoming =
                    TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
                let mut server = Server::builder();
                if let Some(identity) = identity {
                    server = server
                        .tls_config(ServerTlsConfig::new().identity(identity))
                        .unwrap();
                }
                let serve = server.add_service(service).serve_with_incoming(incoming);
                tokio::select! {
                    result = serve => result.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            state,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

struct Service {
    state: Arc<Mutex<State>>,
}

impl Service {
    fn ordered(
        &self,
        call: &'static str,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        let mut state = self.enter(call, &request)?;
        state.orders.push(request.into_inner());
        let running = state.rollouts.first().cloned();
        let absent = || Status::not_found("no rollout runs");
        running.map(Response::new).ok_or_else(absent)
    }

    /// The state for one call, when the caller may have it.
    fn enter<T>(
        &self,
        call: &'static str,
        request: &Request<T>,
    ) -> Result<MutexGuard<'_, State>, Status> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(call);
        let token = request
            .metadata()
            .get("authorization")
            .and_then(|v| v.to_str().ok());
        if token != Some(&format!("Bearer {TOKEN}")) {
            return Err(Status::unauthenticated("unknown token"));
        }
        match &state.failure {
            Some(failure) => Err(failure.clone()),
            None => Ok(state),
        }
    }
}

#[tonic::async_trait]
impl FleetService for Service {
    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(
            self.enter("get_status", &request)?.status.clone(),
        ))
    }

    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        let mut state = self.enter("list_agents", &request)?;
        let request = request.into_inner();
        let from: usize = request.page_token.parse().unwrap_or(0);
        let to = (from + request.page_size as usize).min(state.agents.len());
        let more = to < state.agents.len();
        let answer = v1::ListAgentsResponse {
            agents: state.agents[from..to].to_vec(),
            next_page_token: if more { to.to_string() } else { String::new() },
            total: state.agents.len() as u64,
        };
        state.lists.push(request);
        Ok(Response::new(answer))
    }

    async fn get_agent(
        &self,
        request: Request<v1::GetAgentRequest>,
    ) -> Result<Response<v1::GetAgentResponse>, Status> {
        let details = self.enter("get_agent", &request)?.details.clone();
        let absent = || Status::not_found(format!("no agent `{}`", request.get_ref().agent));
        details.map(Response::new).ok_or_else(absent)
    }

    type WatchEventsStream = Answers<v1::Event>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let mut state = self.enter("watch_events", &request)?;
        let request = request.into_inner();
        let after = request.after_event_id.unwrap_or(0);
        let events: Vec<_> = state
            .events
            .iter()
            .filter(|event| event.event_id > after)
            .cloned()
            .map(Ok)
            .collect();
        let follow = request.follow;
        state.watches.push(request);
        let events = tokio_stream::iter(events);
        Ok(Response::new(if follow {
            Box::pin(events.chain(tokio_stream::pending()))
        } else {
            Box::pin(events)
        }))
    }

    async fn get_tuning(
        &self,
        request: Request<v1::GetTuningRequest>,
    ) -> Result<Response<v1::GetTuningResponse>, Status> {
        let (revision, policies) = self.enter("get_tuning", &request)?.newest();
        let v1::GetTuningRequest { agent, group } = request.into_inner();
        let asked = !agent.is_empty() || !group.is_empty();
        let value = State::value(&policies, Some(&group));
        Ok(Response::new(v1::GetTuningResponse {
            policies: Some(wire(revision, &policies)),
            defaults: Some(default_tuning()),
            effective: asked.then_some(v1::RevisedTuning {
                revision,
                hash: 1,
                tuning: Some(value),
            }),
            effective_because: if asked {
                "the policy says so".to_owned()
            } else {
                String::new()
            },
            sources: vec![],
        }))
    }

    async fn set_tuning(
        &self,
        request: Request<v1::SetTuningRequest>,
    ) -> Result<Response<v1::SetTuningResponse>, Status> {
        let mut state = self.enter("set_tuning", &request)?;
        let request = request.into_inner();
        state.sets.push(request.clone());
        let group = request.selector.unwrap_or_default().group;
        let (_, before) = state.newest();
        let mut after = before.clone();
        if request.remove {
            after.remove(&group);
        } else {
            let was = State::value(&before, group.as_ref());
            let said = request.tuning.unwrap();
            let filled = v1::Tuning {
                interval_ns: said.interval_ns.or(was.interval_ns),
                misses: said.misses.or(was.misses),
                timeout_ns: said.timeout_ns.or(was.timeout_ns),
                pong_every: said.pong_every.or(was.pong_every),
                adaptive: said.adaptive.or(was.adaptive),
            };
            after.insert(group.clone(), filled);
        }
        let answer = state.commit(&after, request.expected_revision, request.dry_run)?;
        Ok(Response::new(v1::SetTuningResponse {
            before: Some(State::value(&before, group.as_ref())),
            after: Some(State::value(&after, group.as_ref())),
            staged_to: request.staging.map(|_| v1::StagedTo {
                rollout: 1,
                cohort: 1,
                connected: 4,
            }),
            ..answer
        }))
    }

    async fn apply_policies(
        &self,
        request: Request<v1::ApplyPoliciesRequest>,
    ) -> Result<Response<v1::SetTuningResponse>, Status> {
        let mut state = self.enter("apply_policies", &request)?;
        let request = request.into_inner();
        state.applied.push(request.clone());
        let policies = request.policies.unwrap().policies.into_iter();
        let after = policies.map(|policy| (policy.selector.unwrap().group, policy.tuning.unwrap()));
        state
            .commit(&after.collect(), request.expected_revision, request.dry_run)
            .map(Response::new)
    }

    async fn plan_tuning(
        &self,
        request: Request<v1::PlanTuningRequest>,
    ) -> Result<Response<v1::PlanTuningResponse>, Status> {
        let mut state = self.enter("plan_tuning", &request)?;
        state.plans.push(request.into_inner());
        Ok(Response::new(state.plan.clone()))
    }

    async fn report_revision(
        &self,
        request: Request<v1::ReportRevisionRequest>,
    ) -> Result<Response<v1::ReportRevisionResponse>, Status> {
        let report = self.enter("report_revision", &request)?.report.clone();
        let asked = request.into_inner();
        Ok(Response::new(v1::ReportRevisionResponse {
            revision: asked.revision,
            window_ns: asked.window_ns,
            ..report
        }))
    }

    async fn rollback_tuning(
        &self,
        request: Request<v1::RollbackTuningRequest>,
    ) -> Result<Response<v1::SetTuningResponse>, Status> {
        let mut state = self.enter("rollback_tuning", &request)?;
        let request = request.into_inner();
        let absent = || Status::not_found(format!("no revision {}", request.to_revision));
        let older = state
            .policies
            .get(&request.to_revision)
            .cloned()
            .ok_or_else(absent)?;
        state
            .commit(&older, request.expected_revision, request.dry_run)
            .map(Response::new)
    }

    type WatchRevisionStream = Answers<v1::RevisionProgress>;

    async fn watch_revision(
        &self,
        request: Request<v1::WatchRevisionRequest>,
    ) -> Result<Response<Self::WatchRevisionStream>, Status> {
        let progress = self.enter("watch_revision", &request)?.progress.clone();
        Ok(Response::new(Box::pin(tokio_stream::iter(
            progress.into_iter().map(Ok),
        ))))
    }

    async fn list_revisions(
        &self,
        request: Request<v1::ListRevisionsRequest>,
    ) -> Result<Response<v1::ListRevisionsResponse>, Status> {
        let mut revisions = self.enter("list_revisions", &request)?.revisions.clone();
        revisions.truncate(request.get_ref().page_size as usize);
        Ok(Response::new(v1::ListRevisionsResponse { revisions }))
    }

    async fn list_incidents(
        &self,
        request: Request<v1::ListIncidentsRequest>,
    ) -> Result<Response<v1::ListIncidentsResponse>, Status> {
        let state = self.enter("list_incidents", &request)?;
        let mut incidents = state.incidents.clone();
        incidents.retain(|incident| !request.get_ref().open || incident.ended_unix_us.is_none());
        Ok(Response::new(v1::ListIncidentsResponse {
            incidents,
            history_unavailable: state.history_unavailable.clone(),
        }))
    }

    async fn get_rollout(
        &self,
        request: Request<v1::GetRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        let state = self.enter("get_rollout", &request)?;
        let wanted = request.get_ref().rollout;
        let found = state
            .rollouts
            .iter()
            .find(|one| wanted == 0 || one.rollout == wanted);
        let absent = || Status::not_found(format!("there is no rollout {wanted}"));
        found.cloned().map(Response::new).ok_or_else(absent)
    }

    async fn list_rollouts(
        &self,
        request: Request<v1::ListRolloutsRequest>,
    ) -> Result<Response<v1::ListRolloutsResponse>, Status> {
        let rollouts = self.enter("list_rollouts", &request)?.rollouts.clone();
        Ok(Response::new(v1::ListRolloutsResponse { rollouts }))
    }

    type WatchRolloutStream = Answers<v1::Rollout>;

    async fn watch_rollout(
        &self,
        request: Request<v1::WatchRolloutRequest>,
    ) -> Result<Response<Self::WatchRolloutStream>, Status> {
        let rollouts = self.enter("watch_rollout", &request)?.rollouts.clone();
        let told = rollouts.into_iter().map(Ok);
        Ok(Response::new(Box::pin(tokio_stream::iter(told))))
    }

    async fn pause_rollout(
        &self,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        self.ordered("pause_rollout", request)
    }

    async fn resume_rollout(
        &self,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        self.ordered("resume_rollout", request)
    }

    async fn abort_rollout(
        &self,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        self.ordered("abort_rollout", request)
    }
}
