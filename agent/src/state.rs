//! What outlives the process: the identity of the host and the tuning that it acknowledged last.

mod document;
mod files;

pub use files::{StuckFile, TuningFile};

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use fleetbeat_liveness::Revised;
use fleetbeat_liveness::fence::Fence;
use uuid::Uuid;

use document::Identity;

const IDENTITY: &str = "identity.json";
const TUNING: &str = "tuning.json";
const STUCK: &str = "stuck.txt";

/// Why a state directory is refused. Every message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot use the state directory {}: create it for the user that runs the agent, or give \
         another one with --state-dir",
        dir.display()
    )]
    Unusable { dir: PathBuf, source: io::Error },
    #[error(
        "another agent uses the state directory {}: stop it, or give this one its own with --state-dir",
        dir.display()
    )]
    Locked { dir: PathBuf },
    #[error(
        "the state directory {} holds no identity and one cannot be written: make it writable for the \
         user that runs the agent, or give another one with --state-dir",
        dir.display()
    )]
    NoIdentity { dir: PathBuf, source: io::Error },
    #[error("cannot read {}: let the user that runs the agent read it", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged ({why}): restore it from a backup, or delete it. {consequence}",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        why: String,
        consequence: &'static str,
    },
}

const NEW_IDENTITY: &str = "Without it this host starts as a new agent with a new identity, and its \
                            history stays with the old one";
const NEW_TUNING: &str = "Without it the agent keeps its identity and takes the tuning that the server \
                          gives";

/// The state directory, locked for this process.
#[derive(Debug)]
pub struct State {
    dir: PathBuf,
    identity: Identity,
    tuning: Option<Revised>,
    volatile: Option<io::Error>,
    /// Why the run before ended itself.
    stuck: Option<String>,
    /// The lock is on the directory itself, so that it works where nothing can be written.
    _lock: File,
}

impl State {
    /// Locks `dir` (made when missing), reads it, and raises the incarnation. Where that cannot be
    /// written the incarnation holds for this process only, see [`State::volatile`].
    ///
    /// # Errors
    /// The directory is in use, unusable, or holds a damaged file.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let lock = lock(dir)?;
        let stored = files::read(&dir.join(IDENTITY), NEW_IDENTITY, Identity::parse)?;
        let tuning = files::read(&dir.join(TUNING), NEW_TUNING, document::parse_tuning)?;
        let fresh = stored.is_none();
        let identity = match stored {
            Some(identity) => identity.raised(),
            None => Identity::first(),
        };
        let mut state = Self {
            dir: dir.to_owned(),
            identity,
            tuning,
            volatile: None,
            stuck: StuckFile::new(dir.to_owned(), STUCK).read(),
            _lock: lock,
        };
        match state.write_identity() {
            Ok(()) => {}
            Err(source) if fresh => {
                return Err(Error::NoIdentity {
                    dir: dir.to_owned(),
                    source,
                });
            }
            Err(source) => state.volatile = Some(source),
        }
        Ok(state)
    }

    #[must_use]
    pub fn agent_id(&self) -> Uuid {
        self.identity.agent_id
    }

    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.identity.incarnation
    }

    /// The tuning acknowledged last, when there ever was one.
    #[must_use]
    pub fn tuning(&self) -> Option<Revised> {
        self.tuning
    }

    /// Why the incarnation is not persistent; `None` while it is.
    #[must_use]
    pub fn volatile(&self) -> Option<&io::Error> {
        self.volatile.as_ref()
    }

    /// Takes the first incarnation above `floor`. What is returned makes it persistent: run it on another
    /// thread, because it blocks for as long as the disk takes, and hand its result to [`State::raised`].
    pub fn raise_above(&mut self, floor: Fence) -> impl FnOnce() -> io::Result<()> + Send + use<> {
        self.identity.incarnation = self.identity.incarnation.max(floor.above().incarnation);
        let (dir, text) = (self.dir.clone(), self.identity.render());
        move || files::write(&dir, IDENTITY, &text)
    }

    /// Takes note of whether the raised incarnation is persistent.
    pub fn raised(&mut self, written: io::Result<()>) {
        self.volatile = written.err();
    }

    /// Why the run before this one ended itself, until a server was told.
    #[must_use]
    pub fn stuck(&self) -> Option<&str> {
        self.stuck.as_deref()
    }

    /// A server knows why the run before ended: forgets it, on another thread.
    pub(crate) fn told_stuck(&mut self) {
        if self.stuck.take().is_some() {
            let file = self.stuck_file();
            drop(tokio::task::spawn_blocking(move || file.remove()));
        }
    }

    /// Where the run that ends itself says why.
    #[must_use]
    pub fn stuck_file(&self) -> StuckFile {
        StuckFile::new(self.dir.clone(), STUCK)
    }

    /// Writes tuning from another thread, so that a slow disk delays no heartbeat.
    #[must_use]
    pub fn tuning_file(&self) -> TuningFile {
        TuningFile::new(self.dir.clone(), TUNING)
    }

    fn write_identity(&self) -> io::Result<()> {
        files::write(&self.dir, IDENTITY, &self.identity.render())
    }
}

fn lock(dir: &Path) -> Result<File, Error> {
    let unusable = |source| Error::Unusable {
        dir: dir.to_owned(),
        source,
    };
    files::create_dir(dir).map_err(unusable)?;
    let file = File::open(dir).map_err(unusable)?;
    if !file.metadata().map_err(unusable)?.is_dir() {
        return Err(unusable(io::ErrorKind::NotADirectory.into()));
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::Locked {
            dir: dir.to_owned(),
        }),
        Err(std::fs::TryLockError::Error(source)) => Err(unusable(source)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use fleetbeat_liveness::fence::Fence;
    use fleetbeat_liveness::{Revised, Tuning};

    use super::{Error, State};

    fn open(dir: &Path) -> State {
        State::open(dir).unwrap()
    }

    fn raise(state: &mut State, floor: Fence) {
        let write = state.raise_above(floor);
        state.raised(write());
    }

    #[test]
    fn the_identity_stays_and_the_incarnation_grows_with_every_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made/on/the/way");
        let first = open(&path);
        let id = first.agent_id();
        assert_eq!(first.incarnation(), 1);
        assert!(!id.is_nil());
        drop(first);
        for expected in 2..5 {
            let next = open(&path);
            assert_eq!((next.agent_id(), next.incarnation()), (id, expected));
        }
    }

    #[test]
    fn one_directory_serves_one_agent() {
        let dir = tempfile::tempdir().unwrap();
        let held = open(dir.path());
        let error = State::open(dir.path()).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        assert!(error.to_string().contains("--state-dir"), "{error}");
        drop(held);
        assert_eq!(open(dir.path()).incarnation(), 2);
    }

    #[test]
    fn a_floor_is_passed_and_stays_passed_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let mut state = open(dir.path());
        raise(
            &mut state,
            Fence {
                incarnation: 40,
                connection: 9,
            },
        );
        assert_eq!(state.incarnation(), 41);
        raise(
            &mut state,
            Fence {
                incarnation: 3,
                connection: 1,
            },
        );
        assert_eq!(state.incarnation(), 41);
        drop(state);
        assert_eq!(open(dir.path()).incarnation(), 42);
    }

    #[test]
    fn tuning_is_read_back_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(dir.path());
        assert_eq!(state.tuning(), None);
        let tuning = Tuning::new(
            Duration::from_millis(1_500),
            4,
            Duration::from_millis(700),
            2,
        )
        .unwrap();
        let revised = Revised {
            revision: u64::MAX,
            tuning,
        };
        state.tuning_file().write(&revised).unwrap();
        drop(state);
        assert_eq!(open(dir.path()).tuning(), Some(revised));
    }

    #[test]
    fn the_mode_is_kept_and_an_older_agents_file_is_not_adaptive() {
        let dir = tempfile::tempdir().unwrap();
        let state = open(dir.path());
        let revised = Revised {
            revision: 7,
            tuning: Tuning::default().with_adaptive(true).unwrap(),
        };
        state.tuning_file().write(&revised).unwrap();
        drop(state);
        assert_eq!(open(dir.path()).tuning(), Some(revised));
        let older = r#"{"format":1,"revision":7,"interval_ns":20000000000,"misses":3,"timeout_ns":2000000000,"pong_every":1}"#;
        fs::write(dir.path().join("tuning.json"), older).unwrap();
        let tuning = open(dir.path()).tuning().map(|kept| kept.tuning);
        assert_eq!(tuning, Some(Tuning::default()));
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_name_the_reason_and_the_way_out() {
        let identity =
            r#"{"format":1,"agent_id":"6f0d7a50-1111-4222-8333-444455556666","incarnation":3}"#;
        for (name, content, consequence) in [
            ("identity.json", "", "new identity"),
            ("identity.json", "{", "new identity"),
            ("identity.json", "{}", "new identity"),
            (
                "identity.json",
                &identity.replace("\"format\":1", "\"format\":2"),
                "new identity",
            ),
            (
                "identity.json",
                &identity.replace("6f0d7a50", "zzzzzzzz"),
                "new identity",
            ),
            (
                "identity.json",
                &identity.replace(
                    "6f0d7a50-1111-4222-8333-444455556666",
                    &uuid::Uuid::nil().to_string(),
                ),
                "new identity",
            ),
            (
                "identity.json",
                &identity.replace(":3", ":0"),
                "new identity",
            ),
            (
                "identity.json",
                &identity.replace(":3", ":18446744073709551615"),
                "new identity",
            ),
            (
                "identity.json",
                &identity.replace(":3", ":9223372036854775807"),
                "new identity",
            ),
            ("tuning.json", "\0\0\0\0", "keeps its identity"),
            (
                "tuning.json",
                r#"{"format":1,"revision":1,"interval_ns":0,"misses":3,"timeout_ns":0,"pong_every":1}"#,
                "keeps its identity",
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("identity.json"), identity).unwrap();
            fs::write(dir.path().join(name), content).unwrap();
            let error = State::open(dir.path()).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{content}: {error}");
            let message = error.to_string();
            assert!(
                message.contains(name) && message.contains("delete it"),
                "{message}"
            );
            assert!(message.contains(consequence), "{message}");
            assert_eq!(fs::read_to_string(dir.path().join(name)).unwrap(), content);
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_still_serves_a_known_identity() {
        let dir = tempfile::tempdir().unwrap();
        let first = open(dir.path());
        let id = first.agent_id();
        drop(first);
        // A directory in the way of the temporary file stops every writer, root included.
        fs::create_dir(dir.path().join(".identity.json.tmp")).unwrap();
        let mut state = open(dir.path());
        assert_eq!((state.agent_id(), state.incarnation()), (id, 2));
        assert!(state.volatile().is_some());
        raise(
            &mut state,
            Fence {
                incarnation: 9,
                connection: 1,
            },
        );
        assert_eq!(state.incarnation(), 10);
        assert!(state.volatile().is_some());
        fs::remove_dir(dir.path().join(".identity.json.tmp")).unwrap();
        raise(
            &mut state,
            Fence {
                incarnation: 10,
                connection: 1,
            },
        );
        assert!(state.volatile().is_none());
    }

    #[test]
    fn without_an_identity_a_directory_that_cannot_be_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(".identity.json.tmp")).unwrap();
        let error = State::open(dir.path()).unwrap_err();
        assert!(matches!(error, Error::NoIdentity { .. }), "{error}");
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let error = State::open(&path).unwrap_err();
        assert!(matches!(error, Error::Unusable { .. }), "{error}");
    }
}
