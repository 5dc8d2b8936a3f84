//! Who may make which call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode, header};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::Status;

use super::{Keyring, Role, Trouble};
use crate::clock::Clock;

/// Calls in work at once, over all connections; a stream counts until its first message.
const CALLS: usize = 256;
/// Longest wait for the beginning of an answer.
const PATIENCE: Duration = Duration::from_secs(30);

const FLEET: &str = "/fleetbeat.v1.FleetService/";
/// How the calls begin that change nothing.
const READING: [&str; 5] = ["Get", "List", "Watch", "Plan", "Report"];

/// Who makes a call; found in its extensions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Name of the token.
    pub name: String,
    pub role: Role,
}

/// Where a call comes from; found in its extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Checks every request before it reaches a service.
#[derive(Debug)]
pub struct Door {
    keyring: Arc<Keyring>,
    clock: Clock,
    metrics_want_token: bool,
    calls: Semaphore,
}

impl Door {
    #[must_use]
    pub fn new(keyring: Arc<Keyring>, clock: Clock, metrics_want_token: bool) -> Arc<Self> {
        Arc::new(Self {
            keyring,
            clock,
            metrics_want_token,
            calls: Semaphore::new(CALLS),
        })
    }

    /// The role that a path asks for; `None` when it is open: health and reflection tell nothing
    /// about the fleet, and whoever probes them has no token yet.
    fn needs(&self, path: &str) -> Option<Role> {
        match path.strip_prefix(FLEET) {
            // What is not known to only read needs more.
            Some(call) if READING.iter().any(|verb| call.starts_with(verb)) => Some(Role::Viewer),
            Some(_) => Some(Role::Operator),
            None if path == "/metrics" && self.metrics_want_token => Some(Role::Viewer),
            None => None,
        }
    }

    fn admit(&self, path: &str, headers: &HeaderMap) -> Result<Option<Caller>, Trouble> {
        let Some(role) = self.needs(path) else {
            return Ok(None);
        };
        let caller =
            bearer(headers).and_then(|text| self.keyring.identify(text, self.clock.wall()));
        let caller = caller.ok_or(Trouble::Unknown)?;
        if caller.role < role {
            let (name, has, needs) = (&caller.name, caller.role.as_str(), role.as_str());
            tracing::warn!(operator = %name, call = path, "Operator call refused");
            return Err(Trouble::NotAllowed(format!(
                "token `{name}` has the role {has} and this call needs {needs}; use another token"
            )));
        }
        Ok(Some(caller))
    }

    /// Admits or refuses `request`, and bounds how many are in work and for how long.
    pub(super) async fn pass(
        State(door): State<Arc<Self>>,
        mut request: Request,
        next: Next,
    ) -> Response {
        let speaks_grpc = is_grpc(request.headers());
        let answer = async {
            if let Some(caller) = door.admit(request.uri().path(), request.headers())? {
                request.extensions_mut().insert(caller);
            }
            let _permit = door.calls.try_acquire().map_err(|_| Trouble::Busy)?;
            let answer = timeout(PATIENCE, next.run(request)).await;
            answer.map_err(|_| Trouble::TooSlow(PATIENCE.as_secs()))
        };
        answer
            .await
            .unwrap_or_else(|trouble| refuse(trouble, speaks_grpc))
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

fn refuse(trouble: Trouble, speaks_grpc: bool) -> Response {
    if speaks_grpc {
        return Status::from(trouble).into_http::<Body>();
    }
    let code = match trouble {
        Trouble::Unknown => StatusCode::UNAUTHORIZED,
        Trouble::NotAllowed(_) => StatusCode::FORBIDDEN,
        Trouble::Busy
        | Trouble::TooSlow(_)
        | Trouble::Stopping
        | Trouble::Away { .. }
        | Trouble::Wrong(_)
        | Trouble::NotFound(_)
        | Trouble::MovedOn { .. }
        | Trouble::Exceeds(_)
        | Trouble::NotNow(_)
        | Trouble::Broken(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = format!("{trouble}\n");
    if code == StatusCode::UNAUTHORIZED {
        return (code, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response();
    }
    (code, text).into_response()
}
