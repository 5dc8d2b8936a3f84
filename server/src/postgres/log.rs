//! What Postgres says, in a file of bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Size at which the log is set aside; one older log is kept.
const BOUND: u64 = 8 << 20;
/// How much of the log an error quotes.
const QUOTED: u64 = 2_000;

/// Postgres writes to it without us, so it stays whole when the server dies.
pub(super) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// Copies a log that has grown past its bound aside and empties it. The writer appends, so it goes
/// on at the start.
pub(super) fn bound(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.len() > BOUND {
        fs::copy(path, older(path))?;
        OpenOptions::new().write(true).open(path)?.set_len(0)?;
    }
    Ok(())
}

/// What was written last, in one line.
pub(super) fn tail(path: &Path) -> String {
    last_bytes(path).map_or_else(
        |error| error.to_string(),
        |text| {
            let lines: Vec<&str> = text.lines().rev().take(4).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join(" / ")
        },
    )
}

fn last_bytes(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(QUOTED)))?;
    let mut bytes = Vec::new();
    file.take(QUOTED).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("log.1")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_log_past_its_bound_is_set_aside_while_its_writer_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("postgres.log");
        let mut writer = open(&path).unwrap();
        let size = usize::try_from(BOUND).unwrap();
        writer.write_all(&vec![b'x'; size]).unwrap();
        bound(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), BOUND);
        writer.write_all(b"\nFATAL:  y\n").unwrap();
        assert!(tail(&path).ends_with(" / FATAL:  y"));
        bound(&path).unwrap();
        writer.write_all(b"z").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"z");
        assert!(fs::metadata(older(&path)).unwrap().len() > BOUND);
    }
}
