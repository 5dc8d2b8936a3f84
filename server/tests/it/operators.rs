//! The operators' port over real sockets and a real Postgres.

use std::os::unix::fs::PermissionsExt as _;

use fleetbeat_proto::v1;
use fleetbeat_proto::v1::fleet_service_client::FleetServiceClient;
use fleetbeat_server::operator::{FirstToken, NoToken};
use fleetbeat_server::settings::TlsFiles;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1 as reflection;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1alpha as reflection_alpha;
use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient as Alpha;

use crate::actor::{Actor, fence, hello};
use crate::database::eventually;
use crate::office::{Office, Setup, interval, set};

const NOTHING: v1::GetStatusRequest = v1::GetStatusRequest {};

#[tokio::test]
async fn calls_need_a_token_and_changes_need_its_role() {
    let office = Office::open().await;
    let bare = FleetServiceClient::new(office.channel().await)
        .get_status(NOTHING)
        .await;
    let bare = bare.unwrap_err();
    assert_eq!(bare.code(), Code::Unauthenticated);
    assert!(
        bare.message().contains("operator.token"),
        "{}",
        bare.message()
    );
    for wrong in [
        "",
        "nonsense",
        &"0".repeat(64),
        &format!("{} ", office.first.expose())[1..],
    ] {
        let refused = office.client_with(wrong).await.get_status(NOTHING).await;
        assert_eq!(
            refused.unwrap_err().code(),
            Code::Unauthenticated,
            "{wrong}"
        );
    }
    office.client().await.get_status(NOTHING).await.unwrap();

    let viewer = office.token("viewer").await;
    let mut viewer = office.client_with(&viewer).await;
    viewer
        .get_tuning(v1::GetTuningRequest::default())
        .await
        .unwrap();
    let refused = viewer
        .set_tuning(set("web", interval(5_000)))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(
        refused.message().contains("needs operator"),
        "{}",
        refused.message()
    );
    let operator = office.token("operator").await;
    office
        .client_with(&operator)
        .await
        .set_tuning(set("web", interval(5_000)))
        .await
        .unwrap();
    office.database.stop().await;
}

#[tokio::test]
async fn revoked_token_is_refused_and_known_ones_outlive_postgres() {
    let mut office = Office::open().await;
    let operator = office.token("operator").await;
    let mut client = office.client_with(&operator).await;
    let wall = office.house.registry().clock().wall();
    assert!(office.store.revoke_token("operator", wall).await.unwrap());
    eventually("the token is refused", async || {
        let answer = client.get_status(NOTHING).await;
        answer.is_err_and(|status| status.code() == Code::Unauthenticated)
    })
    .await;

    office.database.private.take().unwrap().stop().await;
    let mut client = office.client().await;
    client.get_status(NOTHING).await.unwrap();
}

#[tokio::test]
async fn health_and_reflection_are_open() {
    let office = Office::open().await;
    let mut health = HealthClient::new(office.channel().await);
    for (serving, expected) in [
        (true, ServingStatus::Serving),
        (false, ServingStatus::NotServing),
    ] {
        office.readiness.set(serving).await;
        for service in ["", "fleetbeat.v1.FleetService"] {
            let check = HealthCheckRequest {
                service: service.to_owned(),
            };
            let answer = health.check(check).await.unwrap().into_inner();
            assert_eq!(answer.status(), expected);
        }
        let page = office.http("/healthz", None).await;
        assert!(
            page.starts_with(if serving {
                "HTTP/1.1 200"
            } else {
                "HTTP/1.1 503"
            }),
            "{page}"
        );
    }

    let list = reflection::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            reflection::server_reflection_request::MessageRequest::ListServices(String::new()),
        ),
    };
    let answer = ServerReflectionClient::new(office.channel().await)
        .server_reflection_info(tokio_stream::once(list))
        .await;
    let answer = answer
        .unwrap()
        .into_inner()
        .message()
        .await
        .unwrap()
        .unwrap();
    assert!(
        format!("{answer:?}").contains("fleetbeat.v1.FleetService"),
        "{answer:?}"
    );
    let symbol = reflection_alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            reflection_alpha::server_reflection_request::MessageRequest::FileContainingSymbol(
                "fleetbeat.v1.FleetService".to_owned(),
            ),
        ),
    };
    let answer = Alpha::new(office.channel().await)
        .server_reflection_info(tokio_stream::once(symbol))
        .await;
    let answer = answer
        .unwrap()
        .into_inner()
        .message()
        .await
        .unwrap()
        .unwrap();
    assert!(
        format!("{answer:?}").contains("FileDescriptorResponse"),
        "{answer:?}"
    );
    office.database.stop().await;
}

#[tokio::test]
async fn metrics_tell_what_happened() {
    let office = Office::open().await;
    let mut agent = Actor::join(&office.house, hello(1)).await;
    agent.ack_welcome().await;
    agent.ping(1, 0).await;
    agent.pong().await;
    let mut back = Actor::join(&office.house, fence(hello(1), 1, 2)).await;
    back.ack_welcome().await;
    assert_eq!(agent.bye().await.reason(), v1::CloseReason::Superseded);
    office.house.sessions_left(1).await;
    let settled = || office.house.session(1).waiting_for().is_none();
    office.house.until(settled).await;
    let page = office.http("/metrics", None).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for line in [
        "fleetbeat_beats_total{lane=\"0\"} 1",
        "fleetbeat_sessions{lane=\"0\"} 1",
        "fleetbeat_lane_deaf{lane=\"0\"} 0",
        "fleetbeat_agents{group=\"g1\",verdict=\"online\"} 1",
        "fleetbeat_agents{group=\"g1\",verdict=\"offline\"} 0",
        "fleetbeat_sessions_opened_total{group=\"g1\"} 2",
        "fleetbeat_reconnects_total{group=\"g1\"} 1",
        "fleetbeat_sessions_closed_total{reason=\"superseded\"} 1",
        "fleetbeat_sessions_closed_total{reason=\"missed_heartbeats\"} 0",
        "fleetbeat_recorder_writing 1",
        "fleetbeat_recorder_backlog_batches 0",
        "fleetbeat_recorder_backlog_rows 0",
        "fleetbeat_recorder_rejected_rows_total 0",
        "fleetbeat_stalls_total 0",
        "fleetbeat_tuning_drifting 0",
        "fleetbeat_tuning_revision 0",
        "fleetbeat_tuning_pushes_total 0",
        "fleetbeat_tuning_acks_total{outcome=\"refused\"} 0",
        "# TYPE fleetbeat_rtt_seconds histogram",
        "fleetbeat_rtt_seconds_count 0",
        "# TYPE fleetbeat_judge_pass_age_seconds gauge",
        "# TYPE fleetbeat_lane_lag_seconds gauge",
    ] {
        assert!(
            page.contains(&format!("\n{line}")),
            "{line} is missing in\n{page}"
        );
    }
    office.database.stop().await;
}

#[tokio::test]
async fn metrics_can_ask_for_a_token() {
    let office = Office::open_with(Setup {
        metrics_want_token: true,
        ..Setup::default()
    })
    .await;
    let refused = office.http("/metrics", None).await;
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    assert!(
        refused
            .to_ascii_lowercase()
            .contains("www-authenticate: bearer"),
        "{refused}"
    );
    let token = office.first.expose();
    assert!(
        office
            .http("/metrics", Some(&token))
            .await
            .starts_with("HTTP/1.1 200")
    );
    assert!(
        office
            .http("/healthz", None)
            .await
            .starts_with("HTTP/1.1 200")
    );
    office.database.stop().await;
}

#[tokio::test]
async fn port_speaks_tls_when_it_has_a_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        cert: dir.path().join("crt"),
        key: dir.path().join("key"),
    };
    std::fs::write(&files.cert, pair.cert.pem()).unwrap();
    std::fs::write(&files.key, pair.signing_key.serialize_pem()).unwrap();
    let config = files.server_config(&[b"h2", b"http/1.1"]).unwrap();
    let office = Office::open_with(Setup {
        tls: Some(config),
        ..Setup::default()
    })
    .await;

    let authority = Certificate::from_pem(pair.cert.pem());
    let tls = ClientTlsConfig::new()
        .ca_certificate(authority)
        .domain_name("localhost");
    let endpoint = Endpoint::from_shared(format!("https://{}", office.address)).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    let check = HealthCheckRequest {
        service: String::new(),
    };
    let answer = HealthClient::new(channel)
        .check(check)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.status(), ServingStatus::Serving);
    let plain = Endpoint::from_shared(format!("http://{}", office.address)).unwrap();
    let plain = HealthClient::new(plain.connect_lazy())
        .check(HealthCheckRequest::default())
        .await;
    plain.unwrap_err();
    office.database.stop().await;
}

#[tokio::test]
async fn connection_that_says_nothing_is_closed() {
    let office = Office::open().await;
    let mut silent = TcpStream::connect(office.address).await.unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), silent.read_u8()).await;
    assert!(ended.expect("the server closes it").is_err());
    office.database.stop().await;
}

/// Agents 1 to 3 are called `web`, 4 and 5 `db-4` and `db-5`.
async fn five(office: &Office) -> Vec<Actor> {
    let mut actors = Vec::new();
    for n in 1..=5_u8 {
        let mut hello = hello(n);
        hello.name = if n <= 3 {
            "web".to_owned()
        } else {
            format!("db-{n}")
        };
        hello.labels = [("zone".to_owned(), "a".to_owned())].into();
        let mut actor = Actor::join(&office.house, hello).await;
        actor.ack_welcome().await;
        actors.push(actor);
    }
    actors
}

#[tokio::test]
async fn agents_are_listed_in_pages_in_the_order_of_their_names() {
    let office = Office::open().await;
    let _actors = five(&office).await;
    let mut client = office.client().await;
    let mut names = Vec::new();
    let mut request = v1::ListAgentsRequest {
        page_size: 2,
        ..v1::ListAgentsRequest::default()
    };
    loop {
        let page = client
            .list_agents(request.clone())
            .await
            .unwrap()
            .into_inner();
        assert_eq!(page.total, 5);
        names.extend(
            page.agents
                .iter()
                .map(|agent| format!("{} {}", agent.name, &agent.agent_id[..4])),
        );
        assert_eq!(page.agents[0].labels["reported.zone"], "a");
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(
        names,
        ["db-4 0404", "db-5 0505", "web 0101", "web 0202", "web 0303"]
    );

    for wrong in [
        v1::ListAgentsRequest {
            page_size: 1_001,
            ..v1::ListAgentsRequest::default()
        },
        v1::ListAgentsRequest {
            page_token: "x".to_owned(),
            ..v1::ListAgentsRequest::default()
        },
        v1::ListAgentsRequest {
            verdicts: vec![9],
            ..v1::ListAgentsRequest::default()
        },
    ] {
        assert_eq!(
            client.list_agents(wrong).await.unwrap_err().code(),
            Code::InvalidArgument
        );
    }
    let online = v1::ListAgentsRequest {
        verdicts: vec![v1::Verdict::Offline.into()],
        ..v1::ListAgentsRequest::default()
    };
    assert_eq!(
        client.list_agents(online).await.unwrap().into_inner().total,
        0
    );
    office.database.stop().await;
}

#[tokio::test]
async fn agent_is_found_by_name_or_id_and_ambiguity_is_told() {
    let office = Office::open().await;
    let _actors = five(&office).await;
    let mut client = office.client().await;
    let get = |agent: &str| v1::GetAgentRequest {
        agent: agent.to_owned(),
    };
    for text in [
        "db-4",
        "04040404-0404-0404-0404-040404040404",
        "04040404-04",
        "0404",
    ] {
        let found = client.get_agent(get(text)).await.unwrap().into_inner();
        assert_eq!(found.agent.unwrap().name, "db-4");
        assert_eq!(found.history_unavailable, "");
    }
    for (text, code, said) in [
        ("web", Code::InvalidArgument, "means 3 agents: 01010101"),
        ("", Code::InvalidArgument, "name an agent"),
        ("040", Code::NotFound, "agents list"),
        ("nobody", Code::NotFound, "agents list"),
        (
            "09090909-0909-0909-0909-090909090909",
            Code::NotFound,
            "no agent has the id",
        ),
    ] {
        let refused = client.get_agent(get(text)).await.unwrap_err();
        assert_eq!(refused.code(), code, "{text}: {}", refused.message());
        assert!(
            refused.message().contains(said),
            "{text}: {}",
            refused.message()
        );
    }
    office.database.stop().await;
}

#[tokio::test]
async fn what_is_known_goes_on_without_postgres_and_what_is_not_says_so() {
    let mut office = Office::open().await;
    let mut agent = Actor::join(&office.house, hello(1)).await;
    agent.ack_welcome().await;
    let mut client = office.client().await;
    client.set_tuning(set("g2", interval(5_000))).await.unwrap();
    office.database.private.take().unwrap().stop().await;

    let known = v1::GetTuningRequest {
        group: "g2".to_owned(),
        ..v1::GetTuningRequest::default()
    };
    let known = client.get_tuning(known).await.unwrap().into_inner();
    assert_eq!(known.policies.unwrap().revision, 1);
    assert_eq!(
        known.effective.unwrap().tuning.unwrap().interval_ns,
        Some(5_000_000_000)
    );
    assert!(known.effective_because.contains("policy group-g2"));
    let found = client
        .get_agent(v1::GetAgentRequest {
            agent: "agent-1".to_owned(),
        })
        .await;
    assert_ne!(found.unwrap().into_inner().history_unavailable, "");
    for refused in [
        client
            .set_tuning(set("g1", interval(5_000)))
            .await
            .unwrap_err(),
        client
            .list_revisions(v1::ListRevisionsRequest::default())
            .await
            .unwrap_err(),
        client
            .watch_events(v1::WatchEventsRequest::default())
            .await
            .unwrap_err(),
    ] {
        assert_eq!(refused.code(), Code::Unavailable, "{}", refused.message());
        assert!(
            refused.message().contains("needs Postgres"),
            "{}",
            refused.message()
        );
    }
    assert!(office.house.session(1).ending().is_none());
}

#[tokio::test]
async fn open_streams_end_when_the_server_stops() {
    let office = Office::open().await;
    let mut client = office.client().await;
    let follow = v1::WatchEventsRequest {
        follow: true,
        ..v1::WatchEventsRequest::default()
    };
    let mut events = client.watch_events(follow).await.unwrap().into_inner();
    office.begin_to_stop();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(5), events.message()).await;
    let status = ended.expect("the stream ends").unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(
        status.message().contains("stopping"),
        "{}",
        status.message()
    );
    office.database.stop().await;
}

#[test]
fn first_token_is_made_once_and_only_its_owner_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let made = FirstToken::read_or_make(dir.path(), &mut rand::rng()).unwrap();
    let again = FirstToken::read_or_make(dir.path(), &mut rand::rng()).unwrap();
    assert!(made.fresh && !again.fresh);
    assert_eq!(made.token.expose(), again.token.expose());
    let change = |mode| std::fs::set_permissions(&made.path, std::fs::Permissions::from_mode(mode));
    assert_eq!(
        std::fs::metadata(&made.path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    change(0o640).unwrap();
    let exposed = FirstToken::read_or_make(dir.path(), &mut rand::rng()).unwrap_err();
    assert!(
        matches!(exposed, NoToken::Exposed { mode: 0o640, .. }),
        "{exposed}"
    );
    change(0o600).unwrap();
    std::fs::write(&made.path, "half").unwrap();
    let broken = FirstToken::read_or_make(dir.path(), &mut rand::rng()).unwrap_err();
    assert!(broken.to_string().contains("move it away"), "{broken}");
}
