//! The identity of a server, kept in its data directory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// Why a server has no identity, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{} does not hold a UUID; restore it, or remove it to start as another server (sessions \
         that the old one left open are then closed after a day)",
        .0.display()
    )]
    Corrupt(PathBuf),
    #[error("could not {doing} {}", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Reads `server.id` in `data_dir`; the first time, makes it.
///
/// # Errors
/// [`Error::Corrupt`] when the file holds something else: it is never replaced.
pub fn load_or_create(data_dir: &Path) -> Result<Uuid, Error> {
    let path = data_dir.join("server.id");
    match fs::read_to_string(&path) {
        Ok(text) => Uuid::parse_str(text.trim()).map_err(|_| Error::Corrupt(path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = Uuid::new_v4();
            create(data_dir, &path, id).map_err(|source| Error::Io {
                doing: "write",
                path,
                source,
            })?;
            Ok(id)
        }
        Err(source) => Err(Error::Io {
            doing: "read",
            path,
            source,
        }),
    }
}

/// Whole or not at all, also when the power fails.
fn create(data_dir: &Path, path: &Path, id: Uuid) -> io::Result<()> {
    fs::create_dir_all(data_dir)?;
    let partial = path.with_extension("id.partial");
    let mut file = File::create(&partial)?;
    writeln!(file, "{id}")?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    File::open(data_dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_is_made_once() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = dir.path().join("data");
        let id = load_or_create(&data_dir).unwrap();
        assert_eq!(load_or_create(&data_dir).unwrap(), id);
    }

    #[test]
    fn a_file_that_holds_something_else_is_refused_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.id");
        fs::write(&path, "").unwrap();
        let error = load_or_create(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"");
    }
}
