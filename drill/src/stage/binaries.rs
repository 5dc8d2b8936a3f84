use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Overrides where the programs are looked for.
const FOLDER: &str = "FLEETBEAT_BIN_DIR";

/// Where the programs under test are.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// `FLEETBEAT_BIN_DIR`, or the profile's folder (`target/debug`, `target/release`) in which the
    /// running executable lies. A test's executable lies one folder deeper, in `deps`.
    pub fn find() -> Result<Self> {
        if let Some(folder) = std::env::var_os(FOLDER) {
            return Ok(Self {
                folder: folder.into(),
            });
        }
        let executable = std::env::current_exe().context("cannot tell where this executable is")?;
        let beside = executable
            .parent()
            .context("this executable is in no folder")?;
        let folder = if beside.ends_with("deps") {
            beside.parent().unwrap_or(beside)
        } else {
            beside
        };
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Path of one program, which must have been built.
    pub fn path(&self, program: &str) -> Result<PathBuf> {
        let path = self.folder.join(program);
        ensure!(
            path.is_file(),
            "{} is missing: run `cargo build --workspace` first, or name its folder in {FOLDER}",
            path.display(),
        );
        Ok(path)
    }

    /// The folder itself, for people.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
