//! Calls to the server, one function each, with time-outs and errors for people.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::fleet_service_client::FleetServiceClient;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use crate::failure::{Failure, deepest};
use crate::settings::{Server, Settings};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer, or the beginning of a stream of them.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
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
        let channel = endpoint
            .connect()
            .await
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
        answer(&self.server, self.client.set_tuning(request)).await
    }

    pub(crate) async fn rollback_tuning(
        &mut self,
        request: v1::RollbackTuningRequest,
    ) -> Result<v1::SetTuningResponse, Failure> {
        answer(&self.server, self.client.rollback_tuning(request)).await
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
    server: &Server,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_TIMEOUT, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(Failure::from_status(&status, &server.to_string())),
        Err(_) => Err(Failure::unreachable(
            &server.to_string(),
            &format!("no answer within {}s", ANSWER_TIMEOUT.as_secs()),
        )),
    }
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
