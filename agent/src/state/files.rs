use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use fleetbeat_liveness::Revised;
use fleetbeat_proto::free_text;

use super::{Error, document};

/// A document is some hundred bytes; what is larger is no document of ours.
const MAX_FILE: u64 = 64 << 10;

/// Writes the acknowledged tuning; may be used from any thread, by one at a time.
#[derive(Debug, Clone)]
pub struct TuningFile {
    dir: PathBuf,
    name: &'static str,
}

impl TuningFile {
    pub(super) fn new(dir: PathBuf, name: &'static str) -> Self {
        Self { dir, name }
    }

    /// Returns when `revised` would survive a power cut. Blocks for as long as the disk takes.
    ///
    /// # Errors
    /// The file before stays in place.
    pub fn write(&self, revised: &Revised) -> io::Result<()> {
        write(&self.dir, self.name, &document::render_tuning(revised))
    }
}

/// Says why a run ended itself, to the run after it.
#[derive(Debug, Clone)]
pub struct StuckFile {
    dir: PathBuf,
    name: &'static str,
}

impl StuckFile {
    pub(super) fn new(dir: PathBuf, name: &'static str) -> Self {
        Self { dir, name }
    }

    pub(crate) fn write(&self, reason: &str) -> io::Result<()> {
        write(&self.dir, self.name, reason)
    }

    /// At most 255 bytes for people. What cannot be read is worth less than a start, and counts as nothing.
    pub(super) fn read(&self) -> Option<String> {
        let bytes = read_bytes(&self.dir.join(self.name)).ok()?;
        let text = free_text(String::from_utf8_lossy(&bytes).trim());
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn remove(&self) {
        // Where it stays, the next start tells it once more.
        let _ = fs::remove_file(self.dir.join(self.name));
    }
}

/// Makes `dir` and its parents for this user alone; an existing one is left as it is.
pub(super) fn create_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// Reads a document; `None` when there is none.
pub(super) fn read<T>(
    path: &Path,
    consequence: &'static str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, Error> {
    let bytes = match read_bytes(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(Error::Unreadable {
                path: path.to_owned(),
                source,
            });
        }
    };
    let damaged = |why| Error::Damaged {
        path: path.to_owned(),
        why,
        consequence,
    };
    let text = String::from_utf8(bytes).map_err(|error| damaged(error.to_string()))?;
    parse(&text).map(Some).map_err(damaged)
}

fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces `dir/name` so that a crash at any point leaves the old text or the whole new one.
pub(super) fn write(dir: &Path, name: &str, text: &str) -> io::Result<()> {
    let temporary = dir.join(format!(".{name}.tmp"));
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, dir.join(name))?;
    File::open(dir)?.sync_all()
}
