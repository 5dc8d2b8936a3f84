//! The wire contract of Fleetbeat.
//!
//! `v1` holds what `session.proto` (agents) and `fleet.proto` (operators) define; the comments in
//! those files are the specification. Conversions to and from the values of `fleetbeat-liveness` are
//! here as well, so that each end reads a message the same way. Nothing here decides anything.

mod codec;
mod convert;

pub use codec::SmallCodec;
pub use convert::{PROTOCOL, Unusable, free_text, nanos};

/// Version 1 of the contract.
pub mod v1 {
    #![allow(
        clippy::pedantic,
        clippy::allow_attributes_without_reason,
        clippy::large_enum_variant,
        clippy::wildcard_enum_match_arm,
        missing_debug_implementations,
        unreachable_pub,
        reason = "generated code"
    )]
    tonic::include_proto!("fleetbeat.v1");
}

/// The encoded `FileDescriptorSet`, for server reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("fleetbeat_descriptor");

/// What a heartbeat takes of a connection, in bytes: the message with a round trip, as agents send it all
/// day, in gRPC's and HTTP/2's frames, before TLS and TCP.
pub const PING_FRAME_BYTES: u64 = 38;

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::{PING_FRAME_BYTES, v1};

    #[test]
    fn a_heartbeat_takes_as_much_as_is_told() {
        const GRPC_PREFIX: usize = 5;
        const HTTP2_FRAME: usize = 9;
        const SECOND: u64 = 1_000_000_000;
        let ping = v1::Ping {
            seq: 100_000,
            sent_ns: 30 * 86_400 * SECOND,
            rtt_ns: Some(SECOND / 25),
            rtt_seq: Some(99_999),
            ..v1::Ping::default()
        };
        let message = v1::FromAgent {
            message: Some(v1::from_agent::Message::Ping(ping)),
        };
        let bytes = message.encoded_len() + GRPC_PREFIX + HTTP2_FRAME;
        assert_eq!(bytes as u64, PING_FRAME_BYTES);
    }
}
