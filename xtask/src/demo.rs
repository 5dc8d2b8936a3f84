use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result};

use crate::packages;
use crate::steps::{self, Steps};
use crate::workspace::{cargo, target};

/// Builds a release of everything and hands over to `fleetbeat-drill demo`.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let mut steps = Steps::default();
    steps.step("Postgres", packages::postgres)?;
    // The whole workspace, so that features unify as in every other build.
    steps.step("Release build", || {
        steps::run(&mut cargo(["build", "--release", "--workspace"]))
    })?;
    let drill = target()?.join("release/fleetbeat-drill");
    println!();
    // Replaces this process, so that Ctrl-C reaches the demonstration alone and it can clean up.
    let failure = Command::new(&drill).arg("demo").args(arguments).exec();
    Err(failure).with_context(|| format!("cannot start {}", drill.display()))
}
