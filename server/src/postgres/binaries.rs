use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use super::{Account, Error};

/// Oldest major version that has everything the schema uses.
const OLDEST: u32 = 14;

/// Where to look for `initdb` and `postgres`, first match first.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// Named by the operator: nothing else is looked at.
    pub named: Option<PathBuf>,
    /// Directories to look into, in order.
    pub directories: Vec<PathBuf>,
}

/// One set of binaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    pub directory: PathBuf,
    pub major: u32,
}

impl Search {
    /// `named` alone when it is given; otherwise `pg/bin` beside this executable, then Debian's
    /// directories from the newest on, then `path` (the value of `PATH`).
    #[must_use]
    pub fn new(named: Option<PathBuf>, path: Option<OsString>) -> Self {
        let executable = std::env::current_exe().ok();
        let beside = executable
            .as_deref()
            .and_then(Path::parent)
            .map(|dir| dir.join("pg/bin"));
        let path = path.unwrap_or_default();
        let mut directories: Vec<PathBuf> = beside.into_iter().collect();
        directories.extend(newest_first(Path::new("/usr/lib/postgresql")));
        directories.extend(std::env::split_paths(&path));
        Self { named, directories }
    }

    fn places(&self) -> Vec<PathBuf> {
        match &self.named {
            Some(named) => vec![named.clone()],
            None => self.directories.clone(),
        }
    }

    /// The binaries to use: those of version `data` when a cluster exists, else the first.
    pub(super) async fn find(
        &self,
        account: &Account,
        cluster: &Path,
        data: Option<u32>,
    ) -> Result<Binaries, Error> {
        let places = self.places();
        let mut found = Vec::new();
        for directory in places.iter().filter(|dir| complete(dir)) {
            let major = version(directory, account).await?;
            if major >= OLDEST && data.is_none_or(|data| data == major) {
                return Ok(Binaries {
                    directory: directory.clone(),
                    major,
                });
            }
            found.push(major.to_string());
        }
        found.dedup();
        match data {
            Some(data) if !found.is_empty() => Err(Error::OtherVersion {
                cluster: cluster.to_owned(),
                data,
                found: found.join(", "),
            }),
            None if !found.is_empty() => Err(Error::UnusableBinary {
                program: places[0].join("postgres"),
                why: format!(
                    "it is of version {}, at least {OLDEST} is needed",
                    found.join(", ")
                ),
            }),
            _ => Err(Error::NoBinaries { searched: places }),
        }
    }
}

/// `bin` of every version directory under `root`, the highest version first.
fn newest_first(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(root) else {
        return Vec::new();
    };
    let versions = entries.flatten().filter_map(|entry| {
        entry
            .file_name()
            .to_str()?
            .parse::<u32>()
            .ok()
            .map(|version| (version, entry.path()))
    });
    let mut versions: Vec<(u32, PathBuf)> = versions.collect();
    versions.sort_by(|a, b| b.cmp(a));
    versions
        .into_iter()
        .map(|(_, path)| path.join("bin"))
        .collect()
}

fn complete(directory: &Path) -> bool {
    directory.join("initdb").is_file() && directory.join("postgres").is_file()
}

/// Major version of the binaries, asked as the user that will run them.
async fn version(directory: &Path, account: &Account) -> Result<u32, Error> {
    let program = directory.join("postgres");
    let unusable = |why: String| Error::UnusableBinary {
        program: program.clone(),
        why,
    };
    let mut command = Command::new(&program);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .current_dir("/");
    account.run_as(&mut command);
    let output = command
        .output()
        .await
        .map_err(|e| unusable(format!("as {account}: {e}")))?;
    let said = String::from_utf8_lossy(&output.stdout);
    parse_version(&said)
        .ok_or_else(|| unusable(format!("it says {:?} of its version", said.trim())))
}

/// `postgres (PostgreSQL) 15.18 (Debian …)` is 15; so is `15beta1`.
fn parse_version(said: &str) -> Option<u32> {
    let version = said.split_once("(PostgreSQL) ")?.1;
    let digits = version
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(version.len());
    version[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_the_binary_says() {
        let table = [
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n",
                Some(15),
            ),
            ("postgres (PostgreSQL) 18beta1", Some(18)),
            ("postgres 15", None),
            ("", None),
        ];
        for (said, major) in table {
            assert_eq!(parse_version(said), major, "{said:?}");
        }
    }
}
