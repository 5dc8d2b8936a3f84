use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::target;

/// Names the file in which a test that cannot run here notes that it was skipped.
const LIST: &str = "FLEETBEAT_SKIPPED";

/// What tests skipped during one run, for want of a program or of a part of the kernel.
pub(crate) struct Skipped(PathBuf);

impl Skipped {
    /// With nothing on the list.
    pub(crate) fn none() -> Result<Self> {
        let list = target()?.join("skipped-tests.txt");
        match std::fs::remove_file(&list) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", list.display()))
            }
            Ok(()) | Err(_) => Ok(Self(list)),
        }
    }

    /// Lets the tests of this command note what they skip.
    pub(crate) fn noted_by(&self, command: &mut Command) {
        command.env(LIST, &self.0);
    }

    /// Says what was skipped and why.
    pub(crate) fn tell(&self) {
        let list = std::fs::read_to_string(&self.0).unwrap_or_default();
        let count = list.lines().count();
        println!("\nSkipped for want of what they need here: {count} tests");
        for line in list.lines() {
            println!("  {line}");
        }
    }
}
