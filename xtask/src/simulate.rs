use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps;
use crate::workspace::{cargo, target};

/// Builds the simulator and hands over to it.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let build = ["build", "--quiet", "--package", "fleetbeat-simulation"];
    steps::run(&mut cargo(build))?;
    let program = target()?.join("debug/fleetbeat-simulate");
    let failure = Command::new(&program).args(arguments).exec();
    Err(failure).with_context(|| format!("cannot start {}", program.display()))
}
