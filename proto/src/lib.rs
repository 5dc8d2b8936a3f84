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
