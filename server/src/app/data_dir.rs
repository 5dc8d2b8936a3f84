use std::fs::{DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use uuid::Uuid;

const SERVER_ID: &str = "server.id";
const LOCK: &str = "server.lock";

/// The server's own directory, held by this process alone.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    server_id: Uuid,
    _lock: File,
}

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot {doing} {}; check `data_dir` and who owns it", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} is in use by another fleetbeat-server; stop it, or give this one a `data_dir` of its own",
        .0.display()
    )]
    InUse(PathBuf),
    #[error(
        "{} does not hold the id of a server; restore it, or remove it to start as another server: what \
         this one left open before is then closed by nobody",
        .0.display()
    )]
    Malformed(PathBuf),
}

impl DataDir {
    /// Makes the directory when it is missing, and takes it.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let fail = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| Error::File {
                doing,
                path,
                source,
            }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            .map_err(fail("make the directory", path))?;
        let path = path.canonicalize().map_err(fail("enter", path))?;
        let lock_path = path.join(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path);
        let lock = lock.map_err(fail("open", &lock_path))?;
        if let Err(error) = lock.try_lock() {
            return Err(match error {
                std::fs::TryLockError::WouldBlock => Error::InUse(path),
                std::fs::TryLockError::Error(source) => fail("lock", &lock_path)(source),
            });
        }
        let server_id = server_id(&path.join(SERVER_ID), fail)?;
        Ok(Self {
            path,
            server_id,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Stays the same over restarts.
    pub(crate) fn server_id(&self) -> Uuid {
        self.server_id
    }
}

fn server_id<E: FnOnce(io::Error) -> Error>(
    path: &Path,
    fail: impl Fn(&'static str, &Path) -> E,
) -> Result<Uuid, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => text
            .trim()
            .parse()
            .map_err(|_| Error::Malformed(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = Uuid::new_v4();
            write_whole(path, format!("{id}\n").as_bytes()).map_err(fail("write", path))?;
            Ok(id)
        }
        Err(error) => Err(fail("read", path)(error)),
    }
}

/// Replaces a file so that a reader, or the next start after a crash, sees all of it or none.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = File::create(&partial)?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&partial, path)?;
    path.parent()
        .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_stays_and_the_directory_has_one_user() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/on/demand");
        let first = DataDir::open(&path).unwrap();
        assert!(matches!(DataDir::open(&path), Err(Error::InUse(_))));
        let id = first.server_id();
        drop(first);
        assert_eq!(DataDir::open(&path).unwrap().server_id(), id);
    }

    #[test]
    fn a_damaged_id_is_refused_with_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(SERVER_ID), "nonsense").unwrap();
        let refusal = DataDir::open(dir.path()).unwrap_err().to_string();
        assert!(refusal.contains("remove it"), "{refusal}");
    }
}
