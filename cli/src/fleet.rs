//! Calls to the server, one function each, with time-outs and errors for people.

use std::error::Error as _;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::fleet_service_client::FleetServiceClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::failure::{Failure, deepest};
use crate::format;
use crate::settings::{Server, Settings};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// From the look-up of the name to the end of the TLS handshake.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
/// An answer, or the beginning of a stream of them. The server gives up after 30 s, and its word of that
/// says more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// How soon a silent connection is noticed while events are followed.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// A page of 1,000 agents with many labels stays below this.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;

/// Where Linux distributions keep the authorities that the system trusts.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A connection to the server.
#[derive(Debug)]
pub(crate) struct Fleet {
    client: FleetServiceClient<InterceptedService<Channel, Bearer>>,
    server: Server,
}

impl Fleet {
    pub(crate) async fn connect(settings: &Settings) -> Result<Self, Failure> {
        let server = settings.server.clone();
        let token = settings
            .token
            .as_ref()
            .ok_or_else(Failure::no_token)?
            .header()?;
        let endpoint = endpoint(&server, settings.ca.as_deref())?;
        let connecting = tokio::time::timeout(READY_TIMEOUT, endpoint.connect());
        let channel = connecting
            .await
            .map_err(|_| silent(&server, READY_TIMEOUT))?
            .map_err(|error| Failure::unreachable(&server.to_string(), &deepest(&error)))?;
        let client = FleetServiceClient::with_interceptor(channel, Bearer(token))
            .max_decoding_message_size(ANSWER_LIMIT);
        Ok(Self { client, server })
    }

    pub(crate) async fn status(&mut self) -> Result<v1::GetStatusResponse, Failure> {
        answer(
            &self.server,
            self.client.get_status(v1::GetStatusRequest {}),
        )
        .await
    }

    pub(crate) async fn list_agents(
        &mut self,
        request: v1::ListAgentsRequest,
    ) -> Result<v1::ListAgentsResponse, Failure> {
        answer(&self.server, self.client.list_agents(request)).await
    }

    pub(crate) async fn agent(&mut self, agent: String) -> Result<v1::GetAgentResponse, Failure> {
        answer(
            &self.server,
            self.client.get_agent(v1::GetAgentRequest { agent }),
        )
        .await
    }

    pub(crate) async fn events(
        &mut self,
        request: v1::WatchEventsRequest,
    ) -> Result<Answers<v1::Event>, Failure> {
        let stream = answer(&self.server, self.client.watch_events(request)).await?;
        Ok(Answers {
            stream,
            server: self.server.clone(),
        })
    }

    pub(crate) async fn tuning(
        &mut self,
        request: v1::GetTuningRequest,
    ) -> Result<v1::GetTuningResponse, Failure> {
        answer(&self.server, self.client.get_tuning(request)).await
    }

    pub(crate) async fn set_tuning(
        &mut self,
        request: v1::SetTuningRequest,
    ) -> Result<v1::SetTuningResponse, Failure> {
        let tried = request.dry_run;
        change(&self.server, tried, self.client.set_tuning(request)).await
    }

    pub(crate) async fn plan(
        &mut self,
        request: v1::PlanTuningRequest,
    ) -> Result<v1::PlanTuningResponse, Failure> {
        answer(&self.server, self.client.plan_tuning(request)).await
    }

    pub(crate) async fn report(
        &mut self,
        request: v1::ReportRevisionRequest,
    ) -> Result<v1::ReportRevisionResponse, Failure> {
        answer(&self.server, self.client.report_revision(request)).await
    }

    pub(crate) async fn apply_policies(
        &mut self,
        request: v1::ApplyPoliciesRequest,
    ) -> Result<v1::SetTuningResponse, Failure> {
        let tried = request.dry_run;
        change(&self.server, tried, self.client.apply_policies(request)).await
    }

    pub(crate) async fn rollback_tuning(
        &mut self,
        request: v1::RollbackTuningRequest,
    ) -> Result<v1::SetTuningResponse, Failure> {
        let tried = request.dry_run;
        change(&self.server, tried, self.client.rollback_tuning(request)).await
    }

    pub(crate) async fn watch_revision(
        &mut self,
        request: v1::WatchRevisionRequest,
    ) -> Result<Answers<v1::RevisionProgress>, Failure> {
        let stream = answer(&self.server, self.client.watch_revision(request)).await?;
        Ok(Answers {
            stream,
            server: self.server.clone(),
        })
    }

    pub(crate) async fn revisions(
        &mut self,
        request: v1::ListRevisionsRequest,
    ) -> Result<v1::ListRevisionsResponse, Failure> {
        answer(&self.server, self.client.list_revisions(request)).await
    }

    pub(crate) async fn incidents(
        &mut self,
        request: v1::ListIncidentsRequest,
    ) -> Result<v1::ListIncidentsResponse, Failure> {
        answer(&self.server, self.client.list_incidents(request)).await
    }

    pub(crate) async fn rollout(
        &mut self,
        request: v1::GetRolloutRequest,
    ) -> Result<v1::Rollout, Failure> {
        answer(&self.server, self.client.get_rollout(request)).await
    }

    pub(crate) async fn rollouts(
        &mut self,
        request: v1::ListRolloutsRequest,
    ) -> Result<v1::ListRolloutsResponse, Failure> {
        answer(&self.server, self.client.list_rollouts(request)).await
    }

    pub(crate) async fn watch_rollout(
        &mut self,
        request: v1::WatchRolloutRequest,
    ) -> Result<Answers<v1::Rollout>, Failure> {
        let stream = answer(&self.server, self.client.watch_rollout(request)).await?;
        Ok(Answers {
            stream,
            server: self.server.clone(),
        })
    }

    pub(crate) async fn pause_rollout(
        &mut self,
        request: v1::OrderRolloutRequest,
    ) -> Result<v1::Rollout, Failure> {
        change(&self.server, false, self.client.pause_rollout(request)).await
    }

    pub(crate) async fn resume_rollout(
        &mut self,
        request: v1::OrderRolloutRequest,
    ) -> Result<v1::Rollout, Failure> {
        change(&self.server, false, self.client.resume_rollout(request)).await
    }

    pub(crate) async fn abort_rollout(
        &mut self,
        request: v1::OrderRolloutRequest,
    ) -> Result<v1::Rollout, Failure> {
        change(&self.server, false, self.client.abort_rollout(request)).await
    }
}

/// Answers that come one by one.
#[derive(Debug)]
pub(crate) struct Answers<T> {
    stream: Streaming<T>,
    server: Server,
}

impl<T> Answers<T> {
    /// The next one; `None` when the server ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<T>, Failure> {
        let next = self.stream.message().await;
        next.map_err(|status| Failure::from_status(&status, &self.server.to_string()))
    }
}

async fn answer<T>(
    server: &impl Display,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_TIMEOUT, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Failure::from_status(&status, &server.to_string())),
        Err(_) => Err(silent(server, ANSWER_TIMEOUT)),
    }
}

/// As [`answer`], for a call that changes something unless it is only `tried`: without an answer nobody
/// knows whether it did.
async fn change<T>(
    server: &impl Display,
    tried: bool,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Failure> {
    if tried {
        return answer(server, call).await;
    }
    match tokio::time::timeout(ANSWER_TIMEOUT, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(match deepest_source(&status) {
            Some(broken) => Failure::unsettled(&broken),
            None if status.code() == Code::DeadlineExceeded => {
                Failure::unsettled(&format::clean(status.message()))
            }
            None => Failure::from_status(&status, &server.to_string()),
        }),
        Err(_) => Err(Failure::unsettled(&no_answer(ANSWER_TIMEOUT))),
    }
}

/// Why the connection gave no answer, when that is what `status` tells.
fn deepest_source(status: &Status) -> Option<String> {
    status.source().map(|_| deepest(status))
}

fn silent(server: &impl Display, waited: Duration) -> Failure {
    Failure::unreachable(&server.to_string(), &no_answer(waited))
}

fn no_answer(waited: Duration) -> String {
    format!("no answer within {}s", waited.as_secs())
}

/// Shows the token with every call.
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

fn endpoint(server: &Server, ca: Option<&Path>) -> Result<Endpoint, Failure> {
    let endpoint = Endpoint::from(server.uri().clone())
        .user_agent(concat!("fleetbeat/", env!("CARGO_PKG_VERSION")))
        .map_err(|error| Failure::refused(deepest(&error)))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true);
    if !server.is_tls() {
        return Ok(endpoint);
    }
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authorities(ca)?));
    endpoint.tls_config(tls).map_err(|error| {
        Failure::refused(format!("cannot use TLS: {}", deepest(&error)))
            .next("check that --ca names a PEM file with certificates")
    })
}

/// PEM text of the authorities that may vouch for the server.
fn authorities(ca: Option<&Path>) -> Result<Vec<u8>, Failure> {
    let system = || {
        SYSTEM_AUTHORITIES
            .into_iter()
            .map(PathBuf::from)
            .find(|path| path.exists())
    };
    let Some(path) = ca.map(PathBuf::from).or_else(system) else {
        return Err(
            Failure::refused("this system has no list of certificate authorities")
                .next("name the file with the server's authority with --ca FILE"),
        );
    };
    let pem = fs::read(&path).map_err(|error| {
        Failure::refused(format!(
            "cannot read certificate authority {}: {error}",
            path.display()
        ))
        .next("name a readable PEM file with --ca FILE")
    })?;
    // A file without any would show as a server that nobody vouches for.
    let marker = b"-----BEGIN CERTIFICATE-----";
    if !pem.windows(marker.len()).any(|window| window == marker) {
        return Err(
            Failure::refused(format!("{} holds no PEM certificate", path.display()))
                .next("name a PEM file (not DER) with --ca FILE"),
        );
    }
    Ok(pem)
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;
    use crate::failure::Exit;

    #[tokio::test(start_paused = true)]
    async fn a_change_without_an_answer_may_have_been_made_and_says_so() {
        let failure = change::<()>(&"http://h:1", false, pending())
            .await
            .unwrap_err();
        assert_eq!(failure.exit(), Exit::Failed);
        assert!(!failure.is_passing());
        let report = failure.report().unwrap();
        assert!(
            report.contains("no answer within 35s") && report.contains("may have been made"),
            "{report}"
        );
        assert!(report.contains("fleetbeat tune history"), "{report}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_changes_nothing_finds_no_server_without_an_answer() {
        let read = answer::<()>(&"http://h:1", pending()).await;
        let tried = change::<()>(&"http://h:1", true, pending()).await;
        for result in [read, tried] {
            assert_eq!(result.unwrap_err().exit(), Exit::Unreachable);
        }
    }

    #[tokio::test]
    async fn a_server_that_took_too_long_may_have_made_the_change() {
        let late = async { Err(Status::deadline_exceeded("Postgres was too slow")) };
        let failure = change::<()>(&"http://h:1", false, late).await.unwrap_err();
        let report = failure.report().unwrap();
        assert!(
            report.contains("Postgres was too slow") && report.contains("may have been made"),
            "{report}"
        );
    }

    #[tokio::test]
    async fn a_change_that_the_server_refused_was_not_made() {
        let refused = async { Err(Status::failed_precondition("the newest is 9")) };
        let failure = change::<()>(&"http://h:1", false, refused)
            .await
            .unwrap_err();
        assert_eq!(failure.exit(), Exit::Conflict);
    }
}
