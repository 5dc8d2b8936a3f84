use std::process::{Command, Stdio};

use anyhow::Result;

use crate::mutants;
use crate::packages;
use crate::skipped::Skipped;
use crate::steps::{self, Steps};
use crate::workspace::{cargo, root};

/// Leaves out the fleets of real processes.
const WITHOUT_FLEETS: &str = "not (package(fleetbeat-drill) and kind(test))";

/// Leaves out what runs through networks, which has a step of its own.
const WITHOUT_NETWORKS: &str = "not binary(network)";

/// Everything that must hold, cheapest first; ends at the first failure.
pub(crate) fn run(quick: bool) -> Result<()> {
    let mut steps = Steps::default();
    steps.step("Formatting", || {
        steps::run(&mut cargo(["fmt", "--all", "--check"]))
    })?;
    steps.step("Dependencies: bans, licences, sources", dependencies)?;
    steps.step("Postgres", packages::postgres)?;
    if !quick {
        steps.step("Programs of the tests through networks", packages::network)?;
    }
    steps.step("Lints", || {
        let clippy = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ];
        steps::run(&mut cargo(clippy))
    })?;
    // The tests start the real programs, which `cargo test` alone would not build.
    steps.step("Build", || {
        steps::run(&mut cargo(["build", "--workspace", "--bins"]))
    })?;
    let skipped = Skipped::none()?;
    steps.step("Tests", || tests(quick, &skipped))?;
    if !quick {
        if has_nextest() {
            steps.step("Tests through networks", || through_networks(&skipped))?;
        }
        steps.step("Planted bugs", mutants::run)?;
        let examples = ["test", "--workspace", "--doc", "--quiet"];
        steps.step("Documentation's examples", || {
            steps::run(&mut cargo(examples))
        })?;
    }
    let units = root().join("deploy/verify");
    if units.is_file() {
        steps.step("Deployment files", || {
            steps::run(Command::new(units).current_dir(root()))
        })?;
    }
    steps.summary();
    skipped.tell();
    Ok(())
}

fn dependencies() -> Result<()> {
    println!("Advisories are not checked: their database is not reachable everywhere this runs");
    let mut deny = Command::new(packages::cargo_deny()?);
    deny.current_dir(root()).args([
        "--log-level",
        "error",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    steps::run(&mut deny)
}

fn tests(quick: bool, skipped: &Skipped) -> Result<()> {
    if has_nextest() {
        let mut nextest = cargo(["nextest", "run", "--workspace", "--filterset"]);
        nextest.arg(if quick {
            WITHOUT_FLEETS
        } else {
            WITHOUT_NETWORKS
        });
        skipped.noted_by(&mut nextest);
        return steps::run(&mut nextest);
    }
    println!(
        "No cargo-nextest here: the tests run one after the other, and one that hangs is not ended"
    );
    steps::run(&mut cargo(["test", "--workspace", "--lib", "--bins"]))?;
    let mut one_by_one = cargo(["test", "--workspace", "--test", "*"]);
    if quick {
        one_by_one.args(["--exclude", "fleetbeat-drill"]);
    }
    skipped.noted_by(&mut one_by_one);
    steps::run(one_by_one.args(["--", "--test-threads=1"]))
}

/// They mostly wait, so that more of them run at once than there are cores.
fn through_networks(skipped: &Skipped) -> Result<()> {
    let mut nextest = cargo(["nextest", "run", "--workspace", "--profile", "network"]);
    skipped.noted_by(&mut nextest);
    steps::run(nextest.args(["--filterset", "binary(network)"]))
}

fn has_nextest() -> bool {
    let mut version = cargo(["nextest", "--version"]);
    version
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
