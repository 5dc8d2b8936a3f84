use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use fleetbeat_proto::v1::fleet_service_client::FleetServiceClient;
use fleetbeat_proto::v1::{
    Agent, Event, GetAgentRequest, GetAgentResponse, GetStatusRequest, GetStatusResponse, Incident,
    ListAgentsRequest, ListIncidentsRequest, RevisionProgress, Selector, SetTuningRequest,
    SetTuningResponse, Tuning, Verdict, WatchEventsRequest, WatchRevisionRequest,
};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::until;

const CALL_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The most that one call yields.
const MOST_EVENTS: u32 = 10_000;
const MOST_AGENTS: u32 = 1_000;
const MOST_INCIDENTS: u32 = 1_000;

/// What an operator can ask and do, with the server's first token.
#[derive(Debug, Clone)]
pub struct Operator {
    client: FleetServiceClient<InterceptedService<Channel, Bearer>>,
}

#[derive(Debug, Clone)]
struct Bearer(MetadataValue<Ascii>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert("authorization", self.0.clone());
        Ok(request)
    }
}

impl Operator {
    /// Reconnects by itself after the server was away.
    pub fn new(address: SocketAddr, token_file: &Path) -> Result<Self> {
        let token = std::fs::read_to_string(token_file);
        let token = token.with_context(|| format!("cannot read {}", token_file.display()))?;
        let bearer = Bearer(format!("Bearer {}", token.trim()).parse()?);
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
        let channel = endpoint.connect_timeout(CONNECT_WITHIN).connect_lazy();
        Ok(Self {
            client: FleetServiceClient::with_interceptor(channel, bearer),
        })
    }

    pub async fn status(&self) -> Result<GetStatusResponse> {
        let asked = self.client.clone();
        Ok({ asked }
            .get_status(timed(GetStatusRequest {}))
            .await?
            .into_inner())
    }

    /// Waits until so many agents are online.
    ///
    /// # Errors
    ///
    /// When they are not within that time.
    pub async fn all_online(&self, agents: u64, within: Duration) -> Result<()> {
        let what = format!("{agents} agents to be online");
        until(&what, within, async || {
            let verdicts = self.status().await?.verdicts.unwrap_or_default();
            Ok((verdicts.online == agents).then_some(()))
        })
        .await
    }

    /// An agent with its recent sessions and events, by name or id.
    pub async fn history(&self, agent: &str) -> Result<GetAgentResponse> {
        let request = GetAgentRequest {
            agent: agent.to_owned(),
        };
        Ok({ self.client.clone() }
            .get_agent(timed(request))
            .await?
            .into_inner())
    }

    /// An agent, by name or id.
    pub async fn agent(&self, agent: &str) -> Result<Agent> {
        self.history(agent)
            .await?
            .agent
            .with_context(|| format!("no agent in the answer about {agent}"))
    }

    /// All agents, or those with the verdict.
    pub async fn agents(&self, verdict: Option<Verdict>) -> Result<Vec<Agent>> {
        let mut agents = Vec::new();
        let mut request = ListAgentsRequest {
            verdicts: verdict.into_iter().map(i32::from).collect(),
            page_size: MOST_AGENTS,
            ..ListAgentsRequest::default()
        };
        loop {
            let page = { self.client.clone() }
                .list_agents(timed(request.clone()))
                .await?
                .into_inner();
            agents.extend(page.agents);
            if page.next_page_token.is_empty() {
                return Ok(agents);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Recorded events after the given one, oldest first, of one agent or of all.
    pub async fn events(&self, agent: Option<&str>, after: Option<u64>) -> Result<Vec<Event>> {
        let request = WatchEventsRequest {
            agent: agent.unwrap_or_default().to_owned(),
            after_event_id: after,
            recent: MOST_EVENTS,
            ..WatchEventsRequest::default()
        };
        let mut events = { self.client.clone() }
            .watch_events(timed(request))
            .await?
            .into_inner();
        let mut seen = Vec::new();
        while let Some(event) = events.message().await? {
            seen.push(event);
        }
        Ok(seen)
    }

    /// Incidents, newest first.
    pub async fn incidents(&self) -> Result<Vec<Incident>> {
        let request = ListIncidentsRequest {
            page_size: MOST_INCIDENTS,
            open: false,
        };
        Ok({ self.client.clone() }
            .list_incidents(timed(request))
            .await?
            .into_inner()
            .incidents)
    }

    /// Changes the policy of a group, or the fleet's default.
    pub async fn retune(
        &self,
        group: Option<&str>,
        tuning: Tuning,
        reason: &str,
    ) -> Result<SetTuningResponse> {
        let request = SetTuningRequest {
            selector: Some(Selector {
                group: group.map(str::to_owned),
                ..Selector::default()
            }),
            tuning: Some(tuning),
            reason: reason.to_owned(),
            ..SetTuningRequest::default()
        };
        Ok({ self.client.clone() }
            .set_tuning(timed(request))
            .await?
            .into_inner())
    }

    /// Follows a revision's push to its end and yields the last report.
    pub async fn settled(&self, revision: u64, within: Duration) -> Result<RevisionProgress> {
        let wait_ns = u64::try_from(within.as_nanos())?;
        let request = WatchRevisionRequest { revision, wait_ns };
        let mut progress = { self.client.clone() }
            .watch_revision(request)
            .await?
            .into_inner();
        let mut last = None;
        while let Some(report) = progress.message().await? {
            last = Some(report);
        }
        last.context("the server told nothing about the revision")
    }
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(CALL_WITHIN);
    request
}

/// T, N and W as one value.
#[must_use]
pub fn tuning(interval: Duration, misses: u32, timeout: Duration) -> Tuning {
    let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Tuning {
        interval_ns: Some(ns(interval)),
        misses: Some(misses),
        timeout_ns: Some(ns(timeout)),
        pong_every: None,
        adaptive: None,
    }
}
