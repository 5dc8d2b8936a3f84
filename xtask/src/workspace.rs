use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The workspace's root.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo puts what it builds: this executable lies in its `debug` or `release`.
pub(crate) fn target() -> Result<PathBuf> {
    let executable = std::env::current_exe().context("cannot tell where this executable is")?;
    let target = executable.parent().and_then(Path::parent);
    Ok(target
        .context("this executable is not in a target directory; run it as `cargo xtask`")?
        .to_owned())
}

/// The cargo that runs this task, at the workspace's root.
pub(crate) fn cargo<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(arguments: I) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    command
}

/// Whether a program of that name is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}
