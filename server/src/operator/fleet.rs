//! `FleetService` over the registry, the policies and recorded history.

mod agents;
mod events;
mod find;
mod incidents;
mod message;
mod plan;
mod policies;
mod progress;
mod replay;
mod report;
mod rollouts;
mod status;
mod tuning;

use std::sync::Arc;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::fleet_service_server::FleetService;
use time::OffsetDateTime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::Trouble;
use crate::judge::Pulse;
use crate::registry::Registry;
use crate::store::Store;
use crate::telemetry::{Census, Recording};
use crate::tuning::rollout::Order;
use crate::tuning::{Desk, Ledger};

/// Streams open at once.
const STREAMS: usize = 128;
/// Messages of a stream that wait for a slow reader; a full one waits for it.
const AHEAD: usize = 64;

type Streamed<T> = ReceiverStream<Result<T, Status>>;

/// What the calls are answered from.
#[derive(Debug)]
pub struct Parts {
    pub registry: Arc<Registry>,
    pub census: Arc<Census>,
    pub pulse: Arc<Pulse>,
    pub recording: Recording,
    pub store: Store,
    pub desk: Arc<Desk>,
    pub ledger: Arc<Ledger>,
    /// This run of the server, and since when.
    pub server_id: Uuid,
    pub started: OffsetDateTime,
    /// Ends open streams.
    pub stop: CancellationToken,
    /// Where streams run.
    pub tasks: TaskTracker,
}

/// The service.
#[derive(Debug)]
pub struct Fleet {
    parts: Parts,
    streams: Arc<Semaphore>,
}

impl Fleet {
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self {
            parts,
            streams: Arc::new(Semaphore::new(STREAMS)),
        }
    }

    fn stream_place(&self) -> Result<OwnedSemaphorePermit, Trouble> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| Trouble::Busy)
    }
}

#[tonic::async_trait]
impl FleetService for Fleet {
    type WatchEventsStream = Streamed<v1::Event>;
    type WatchRevisionStream = Streamed<v1::RevisionProgress>;
    type WatchRolloutStream = Streamed<v1::Rollout>;

    async fn get_status(
        &self,
        _: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        Ok(Response::new(status::get(&self.parts)))
    }

    async fn list_agents(
        &self,
        request: Request<v1::ListAgentsRequest>,
    ) -> Result<Response<v1::ListAgentsResponse>, Status> {
        Ok(Response::new(agents::list(&self.parts, request.get_ref())?))
    }

    async fn get_agent(
        &self,
        request: Request<v1::GetAgentRequest>,
    ) -> Result<Response<v1::GetAgentResponse>, Status> {
        Ok(Response::new(
            agents::get(&self.parts, request.get_ref()).await?,
        ))
    }

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let place = self.stream_place()?;
        let stream = events::watch(&self.parts, request.get_ref(), place).await?;
        Ok(Response::new(stream))
    }

    async fn get_tuning(
        &self,
        request: Request<v1::GetTuningRequest>,
    ) -> Result<Response<v1::GetTuningResponse>, Status> {
        Ok(Response::new(tuning::get(&self.parts, request.get_ref())?))
    }

    async fn set_tuning(
        &self,
        request: Request<v1::SetTuningRequest>,
    ) -> Result<Response<v1::SetTuningResponse>, Status> {
        Ok(Response::new(tuning::set(&self.parts, request).await?))
    }

    async fn plan_tuning(
        &self,
        request: Request<v1::PlanTuningRequest>,
    ) -> Result<Response<v1::PlanTuningResponse>, Status> {
        Ok(Response::new(
            plan::plan(&self.parts, request.into_inner()).await?,
        ))
    }

    async fn report_revision(
        &self,
        request: Request<v1::ReportRevisionRequest>,
    ) -> Result<Response<v1::ReportRevisionResponse>, Status> {
        Ok(Response::new(
            report::report(&self.parts, request.get_ref()).await?,
        ))
    }

    async fn apply_policies(
        &self,
        request: Request<v1::ApplyPoliciesRequest>,
    ) -> Result<Response<v1::SetTuningResponse>, Status> {
        Ok(Response::new(tuning::apply(&self.parts, request).await?))
    }

    async fn rollback_tuning(
        &self,
        request: Request<v1::RollbackTuningRequest>,
    ) -> Result<Response<v1::SetTuningResponse>, Status> {
        Ok(Response::new(tuning::rollback(&self.parts, request).await?))
    }

    async fn watch_revision(
        &self,
        request: Request<v1::WatchRevisionRequest>,
    ) -> Result<Response<Self::WatchRevisionStream>, Status> {
        let place = self.stream_place()?;
        Ok(Response::new(progress::watch(
            &self.parts,
            request.get_ref(),
            place,
        )?))
    }

    async fn list_revisions(
        &self,
        request: Request<v1::ListRevisionsRequest>,
    ) -> Result<Response<v1::ListRevisionsResponse>, Status> {
        Ok(Response::new(
            tuning::revisions(&self.parts, request.get_ref()).await?,
        ))
    }

    async fn list_incidents(
        &self,
        request: Request<v1::ListIncidentsRequest>,
    ) -> Result<Response<v1::ListIncidentsResponse>, Status> {
        Ok(Response::new(
            incidents::list(&self.parts, request.get_ref()).await?,
        ))
    }

    async fn get_rollout(
        &self,
        request: Request<v1::GetRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        Ok(Response::new(
            rollouts::get(&self.parts, request.get_ref()).await?,
        ))
    }

    async fn list_rollouts(
        &self,
        request: Request<v1::ListRolloutsRequest>,
    ) -> Result<Response<v1::ListRolloutsResponse>, Status> {
        Ok(Response::new(
            rollouts::list(&self.parts, request.get_ref()).await?,
        ))
    }

    async fn watch_rollout(
        &self,
        request: Request<v1::WatchRolloutRequest>,
    ) -> Result<Response<Self::WatchRolloutStream>, Status> {
        let place = self.stream_place()?;
        let stream = rollouts::watch(&self.parts, request.get_ref(), place).await?;
        Ok(Response::new(stream))
    }

    async fn pause_rollout(
        &self,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        Ok(Response::new(
            rollouts::order(&self.parts, request, Order::Pause).await?,
        ))
    }

    async fn resume_rollout(
        &self,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        Ok(Response::new(
            rollouts::order(&self.parts, request, Order::Resume).await?,
        ))
    }

    async fn abort_rollout(
        &self,
        request: Request<v1::OrderRolloutRequest>,
    ) -> Result<Response<v1::Rollout>, Status> {
        Ok(Response::new(
            rollouts::order(&self.parts, request, Order::Abort).await?,
        ))
    }
}
