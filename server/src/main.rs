//! `fleetbeat-server`: a doorway to [`fleetbeat_server::app`].

use std::process::ExitCode;

fn main() -> ExitCode {
    fleetbeat_server::app::main()
}
