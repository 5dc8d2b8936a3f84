use std::fs;
use std::path::{Path, PathBuf};

/// What a postmaster writes about itself into `postmaster.pid`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PidFile {
    pub pid: i32,
    pub socket_dir: PathBuf,
    pub ready: bool,
}

impl PidFile {
    /// `None` when there is none, or it is still being written.
    pub(super) fn read(cluster: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(path(cluster)).ok()?)
    }

    /// Lines: pid, data directory, start time, port, socket directory, listen address, shared memory
    /// key, status.
    fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        Some(Self {
            pid: lines.first()?.parse().ok().filter(|pid| *pid > 1)?,
            socket_dir: PathBuf::from(lines.get(4).copied().unwrap_or_default()),
            ready: lines.get(7).is_some_and(|status| *status == "ready"),
        })
    }

    /// Clears away a file whose process is gone: Postgres itself would refuse to start if another
    /// process of the same user has got that pid meanwhile.
    pub(super) fn remove(cluster: &Path) -> std::io::Result<()> {
        match fs::remove_file(path(cluster)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

fn path(cluster: &Path) -> PathBuf {
    cluster.join("postmaster.pid")
}

/// Whether process `pid` is the postmaster of `cluster`: a pid alone may have been given to another
/// process since. Its command line is readable also where its other facts are not.
pub(super) fn is_postmaster(pid: i32, cluster: &Path) -> bool {
    let Ok(command_line) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let arguments: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    let cluster = cluster.as_os_str().as_encoded_bytes();
    arguments
        .windows(2)
        .any(|pair| pair[0] == b"-D" && pair[1] == cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_file_is_ready_only_with_its_last_line() {
        let whole = "4242\n/data\n1700000000\n5432\n/run/x\n\n  123 456\nready   \n";
        let expected = PidFile {
            pid: 4242,
            socket_dir: PathBuf::from("/run/x"),
            ready: true,
        };
        assert_eq!(PidFile::parse(whole), Some(expected.clone()));
        let starting = whole.replace("ready   ", "starting");
        assert_eq!(
            PidFile::parse(&starting),
            Some(PidFile {
                ready: false,
                ..expected
            })
        );
        assert_eq!(PidFile::parse(""), None);
        assert_eq!(PidFile::parse("-1\n"), None);
    }
}
