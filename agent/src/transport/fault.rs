//! What a broken stream means, in words that say what to do.

use std::error::Error;
use std::io;

use h2::Reason;
use tonic::{Code, Status};

/// Why a stream broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The peer, or a proxy before it, takes the heartbeats for abuse.
    Calmed,
    Other,
}

/// The fault behind `status`, and its explanation. `welcomed`: a session was open; `tls`: over TLS.
pub(crate) fn explain(status: &Status, welcomed: bool, tls: bool) -> (Fault, String) {
    let http2 = behind::<h2::Error>(status);
    let broken = behind::<io::Error>(status).or_else(|| http2.and_then(h2::Error::get_io));
    let reason = http2.and_then(h2::Error::reason);
    let text = http2
        .map(ToString::to_string)
        .or_else(|| broken.map(ToString::to_string))
        .unwrap_or_else(|| told(status));
    let explained = match (reason, status.code()) {
        (Some(Reason::ENHANCE_YOUR_CALM), _) => {
            let text = format!(
                "{text}: the server or a proxy before it takes the heartbeats for abuse, \
                 raise its limit or the interval"
            );
            return (Fault::Calmed, text);
        }
        (Some(Reason::FRAME_SIZE_ERROR), _) if !welcomed => format!(
            "{text}: what answers there does not speak HTTP/2 without TLS, write https:// if it \
             expects TLS"
        ),
        (None, _) if broken.is_some() && !welcomed && !tls => {
            format!("{text}: write https:// if that port expects TLS")
        }
        (
            _,
            Code::Unimplemented | Code::NotFound | Code::Unauthenticated | Code::PermissionDenied,
        ) if !welcomed => format!(
            "{text}: this is not the port for agents (7601 unless the server was told otherwise); \
             7602 is the operators'"
        ),
        (_, _) => text,
    };
    (Fault::Other, explained)
}

fn told(status: &Status) -> String {
    match status.message() {
        "" => status.code().to_string(),
        message => format!("{}: {message}", status.code()),
    }
}

fn behind<E: Error + 'static>(status: &Status) -> Option<&E> {
    let mut source: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}
