//! Compiles the contract without `protoc` and keeps its descriptors for reflection.

use prost::Message as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=fleetbeat");
    let files = protox::compile(
        ["fleetbeat/v1/session.proto", "fleetbeat/v1/fleet.proto"],
        ["."],
    )?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("fleetbeat_descriptor.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .codec_path("crate::SmallCodec")
        .compile_fds(files)?;
    Ok(())
}
