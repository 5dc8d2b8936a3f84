//! Why a stream broke: because of what it carried, because HTTP/2 protected this server, or underway.

use std::error::Error;

use fleetbeat_proto::free_text;
use fleetbeat_proto::v1::CloseReason;
use h2::Reason;
use tonic::{Code, Status};

/// The reason of the session's end and its detail.
pub(super) fn reason_of(status: &Status) -> (CloseReason, String) {
    if let Some(error) = http2_error(status)
        && error.reason() == Some(Reason::ENHANCE_YOUR_CALM)
        && error.is_library()
    {
        let detail = format!("HTTP/2 protected this server from the connection: {error}");
        return (CloseReason::Shed, free_text(&detail));
    }
    let refused = matches!(status.code(), Code::OutOfRange | Code::Internal);
    let reason = if refused && status.message().contains("decod") {
        CloseReason::ProtocolError
    } else {
        CloseReason::TransportError
    };
    (reason, free_text(status.message()))
}

fn http2_error(status: &Status) -> Option<&h2::Error> {
    let mut source: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = source {
        if let Some(http2) = error.downcast_ref() {
            return Some(http2);
        }
        source = error.source();
    }
    None
}
