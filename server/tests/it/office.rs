//! The operators' side of a server: port, service and policies over a real Postgres, and lanes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::bounds::Bounds;
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::fleet_service_client::FleetServiceClient;
use fleetbeat_server::operator::{
    Door, FirstToken, Fleet, Keys, Parts, Port, Readiness, Token, pages,
};
use fleetbeat_server::record::{self, Recorder, Room};
use fleetbeat_server::registry::{Rates, Registry};
use fleetbeat_server::store::leases::Holder;
use fleetbeat_server::store::runs::Run;
use fleetbeat_server::store::{Store, tokens};
use fleetbeat_server::telemetry::{Census, Metrics, Recording, Sources};
use fleetbeat_server::tuning::rollout::Driver;
use fleetbeat_server::tuning::{Desk, Ledger};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::metadata::MetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use uuid::Uuid;

use crate::database::{Database, eventually};
use crate::house::House;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Office {
    pub(crate) house: House,
    pub(crate) database: Database,
    pub(crate) store: Store,
    pub(crate) desk: Arc<Desk>,
    pub(crate) readiness: Readiness,
    pub(crate) address: SocketAddr,
    pub(crate) first: Token,
    stop: CancellationToken,
    _stop: DropGuard,
}

pub(crate) type Client = FleetServiceClient<InterceptedService<Channel, Bearer>>;

#[derive(Clone)]
pub(crate) struct Bearer(MetadataValue<tonic::metadata::Ascii>);

impl Bearer {
    pub(crate) fn new(token: &str) -> Self {
        Self(format!("Bearer {token}").parse().unwrap())
    }
}

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request
            .metadata_mut()
            .insert("authorization", self.0.clone());
        Ok(request)
    }
}

/// What may differ between offices.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    pub(crate) metrics_want_token: bool,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    pub(crate) bounds: Bounds,
}

impl Office {
    pub(crate) async fn open() -> Self {
        Self::open_with(Setup::default()).await
    }

    pub(crate) async fn open_with(setup: Setup) -> Self {
        let Setup {
            metrics_want_token,
            tls,
            bounds,
        } = setup;
        let (database, store) = Database::with_schema().await;
        let house = House::open(1);
        let (registry, stop) = (house.shared(), CancellationToken::new());
        let tasks = TaskTracker::new();
        let ledger = Arc::new(Ledger::new(Arc::clone(&registry)));
        let desk = desk(&registry, &store, &ledger, bounds);
        tasks.spawn({
            let (ledger, stop) = (Arc::clone(&ledger), stop.clone());
            async move { ledger.run(stop).await }
        });
        let clock = registry.clock();
        let first = FirstToken::read_or_make(database.dir.path(), &mut rand::rng()).unwrap();
        let keys = Keys::new(store.clone(), clock, &first);
        keys.refresh().await.unwrap();
        let door = Door::new(keys.keyring(), clock, metrics_want_token);
        tasks.spawn(keys.run(stop.clone()));
        let census = Census::new(Arc::clone(&registry));
        let recording = Recording::new(writing);
        let metrics = metrics(&house, &census, &recording, &ledger);
        let fleet = Fleet::new(Parts {
            registry,
            census,
            pulse: house.pulse(),
            recording,
            store: store.clone(),
            desk: Arc::clone(&desk),
            ledger,
            server_id: Uuid::new_v4(),
            started: clock.wall(),
            stop: stop.clone(),
            tasks: tasks.clone(),
        });
        let readiness = Readiness::default();
        readiness.set(true).await;
        let pages = pages(fleet, door, readiness.clone(), metrics).unwrap();
        let port = Port::bind("127.0.0.1:0".parse().unwrap(), tls)
            .await
            .unwrap();
        let address = port.address().unwrap();
        tasks.spawn(port.run(pages, stop.clone()));
        let guard = stop.clone().drop_guard();
        let first = first.token;
        Self {
            house,
            database,
            store,
            desk,
            readiness,
            address,
            first,
            stop,
            _stop: guard,
        }
    }

    pub(crate) async fn channel(&self) -> Channel {
        Endpoint::from_shared(format!("http://{}", self.address))
            .unwrap()
            .connect()
            .await
            .unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(&self.first.expose()).await
    }

    pub(crate) async fn client_with(&self, token: &str) -> Client {
        FleetServiceClient::with_interceptor(self.channel().await, Bearer::new(token))
    }

    /// Makes a token with `role` and waits until the server knows it.
    pub(crate) async fn token(&self, role: &str) -> String {
        let token = Token::generate(&mut rand::rng());
        let draft = tokens::Draft {
            name: role.to_owned(),
            hash: token.hash().0,
            role: role.to_owned(),
            created_at: self.house.registry().clock().wall(),
            created_by: "a test".to_owned(),
            expires_at: None,
        };
        assert!(self.store.create_token(&draft).await.unwrap());
        let mut client = self.client_with(&token.expose()).await;
        eventually("the server knows the token", async || {
            client.get_status(v1::GetStatusRequest {}).await.is_ok()
        })
        .await;
        token.expose()
    }

    /// One HTTP/1.1 request; status line, headers and body as text.
    pub(crate) async fn http(&self, path: &str, token: Option<&str>) -> String {
        let authorization = token.map_or_else(String::new, |token| {
            format!("authorization: Bearer {token}\r\n")
        });
        let head =
            format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{authorization}\r\n");
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        tokio::time::timeout(PATIENCE, read).await.unwrap().unwrap();
        answer
    }

    /// Another server's desk over the same Postgres, with nobody connected.
    pub(crate) fn other_desk(&self) -> Arc<Desk> {
        let registry = Arc::new(Registry::new(
            self.house.registry().clock(),
            1,
            Rates::default(),
        ));
        desk(
            &registry,
            &self.store,
            &Arc::new(Ledger::new(Arc::clone(&registry))),
            Bounds::default(),
        )
    }

    /// Lets the desk look for revisions made elsewhere and for policies whose time is over.
    pub(crate) fn run_desk(&self) {
        let (desk, stop) = (Arc::clone(&self.desk), self.stop.clone());
        TaskTracker::new().spawn(async move { desk.run(stop).await });
    }

    /// Lets this server drive rollouts.
    pub(crate) fn drive(&self) {
        drop(self.drive_as(Uuid::new_v4()));
    }

    /// As [`Self::drive`], under another server's name.
    pub(crate) fn drive_as(&self, server_id: Uuid) -> JoinHandle<()> {
        let holder = Holder {
            server_id,
            run_id: Uuid::new_v4(),
        };
        let driver = Driver::new(Arc::clone(&self.desk), holder);
        TaskTracker::new().spawn(driver.run(self.stop.clone()))
    }

    /// Starts recording what happens in the house.
    pub(crate) fn record(&self) -> Recorder {
        let run = Run {
            server_id: Uuid::new_v4(),
            run_id: Uuid::new_v4(),
            name: "office".to_owned(),
            version: "test".to_owned(),
            started_at: self.house.registry().clock().wall(),
        };
        let parts = record::Parts {
            registry: self.house.shared(),
            store: self.store.clone(),
            run,
            room: Room::default(),
        };
        Recorder::start(parts, &TaskTracker::new()).0
    }

    /// Ends what serves operators.
    pub(crate) fn stopped(&self) -> CancellationToken {
        self.stop.clone()
    }

    pub(crate) fn begin_to_stop(&self) {
        self.stop.cancel();
    }
}

fn writing() -> record::Status {
    record::Status {
        state: record::State::Writing,
        ..record::Status::default()
    }
}

fn desk(
    registry: &Arc<Registry>,
    store: &Store,
    ledger: &Arc<Ledger>,
    bounds: Bounds,
) -> Arc<Desk> {
    Desk::new(
        Arc::clone(registry),
        store.clone(),
        Arc::clone(ledger),
        bounds,
        TaskTracker::new(),
    )
}

fn metrics(
    house: &House,
    census: &Arc<Census>,
    recording: &Recording,
    ledger: &Arc<Ledger>,
) -> Metrics {
    let metrics = Metrics::for_scraping().unwrap();
    let sources = Sources {
        registry: house.shared(),
        census: Arc::clone(census),
        pulse: house.pulse(),
        recording: recording.clone(),
        ledger: Arc::clone(ledger),
    };
    metrics.observe(&sources).unwrap();
    metrics
}

/// A change of T, N or W for a group.
pub(crate) fn set(group: &str, tuning: v1::Tuning) -> v1::SetTuningRequest {
    v1::SetTuningRequest {
        selector: Some(v1::Selector {
            group: Some(group.to_owned()),
            ..v1::Selector::default()
        }),
        tuning: Some(tuning),
        reason: "a test".to_owned(),
        ..v1::SetTuningRequest::default()
    }
}

pub(crate) fn interval(ms: u64) -> v1::Tuning {
    v1::Tuning {
        interval_ns: Some(ms * 1_000_000),
        ..v1::Tuning::default()
    }
}
