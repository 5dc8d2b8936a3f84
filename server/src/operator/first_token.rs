use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rand::CryptoRng;

use super::token::Token;

const FILE: &str = "operator.token";
/// Longest file that is read: a token and its newline, with room for stray blanks.
const LONGEST: u64 = 256;

/// The token of this host: whoever can read its file may do everything.
#[derive(Debug)]
pub struct FirstToken {
    pub token: Token,
    pub path: PathBuf,
    /// Made by this call.
    pub fresh: bool,
}

/// Why there is no token to begin with.
#[derive(Debug, thiserror::Error)]
pub enum NoToken {
    /// The file cannot be read or written.
    #[error("cannot {doing} {}; check the owner and mode of its directory", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "{} does not hold a token of 64 hexadecimal digits; move it away and a fresh one is made at the next start",
        .0.display()
    )]
    Malformed(PathBuf),
    /// Others could read it.
    #[error(
        "{} can be read by others (mode {mode:03o}); run `chmod 600` on it, or remove it to get a fresh token",
        path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
}

impl FirstToken {
    /// Reads `<data_dir>/operator.token`, or makes it with mode 0600. The directory must exist.
    pub fn read_or_make(data_dir: &Path, rng: &mut impl CryptoRng) -> Result<Self, NoToken> {
        let path = data_dir.join(FILE);
        match File::open(&path) {
            Ok(file) => read(file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(data_dir, path, rng),
            Err(source) => Err(NoToken::File {
                doing: "read",
                path,
                source,
            }),
        }
    }
}

fn read(file: File, path: PathBuf) -> Result<FirstToken, NoToken> {
    let failed = |source| NoToken::File {
        doing: "read",
        path: path.clone(),
        source,
    };
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(NoToken::Exposed { path, mode });
    }
    let mut text = String::new();
    match file.take(LONGEST).read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(NoToken::Malformed(path));
        }
        Err(source) => {
            return Err(NoToken::File {
                doing: "read",
                path,
                source,
            });
        }
    }
    match text.trim().parse() {
        Ok(token) => Ok(FirstToken {
            token,
            path,
            fresh: false,
        }),
        Err(_) => Err(NoToken::Malformed(path)),
    }
}

fn make(data_dir: &Path, path: PathBuf, rng: &mut impl CryptoRng) -> Result<FirstToken, NoToken> {
    let token = Token::generate(rng);
    // A half-written file would lock everybody out: it gets its name only when it is complete.
    let draft = data_dir.join(format!("{FILE}.new"));
    let written = write(&draft, &token).and_then(|()| fs::rename(&draft, &path));
    match written {
        Ok(()) => Ok(FirstToken {
            token,
            path,
            fresh: true,
        }),
        Err(source) => Err(NoToken::File {
            doing: "write",
            path,
            source,
        }),
    }
}

fn write(draft: &Path, token: &Token) -> io::Result<()> {
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(draft)?;
    writeln!(file, "{}", token.expose())?;
    file.sync_all()
}
