use anyhow::Result;

use crate::steps;
use crate::workspace::{cargo, root};

/// Makes the tables of the documentation again.
pub(crate) fn run() -> Result<()> {
    let study = ["run", "--package", "fleetbeat-study", "--", "--write"];
    steps::run(cargo(study).arg(root()))
}
