use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{Account, Error};

/// Longest path of a socket on Linux, without its closing NUL.
const LONGEST: usize = 107;
const FILE: &str = ".s.PGSQL.5432";

/// A directory for the socket that only the account can enter: inside `home`, or a short one named
/// after it when the path would be too long for the kernel.
pub(super) fn directory(home: &Path, account: &Account) -> Result<PathBuf, Error> {
    let inside = home.join("run");
    if fits(&inside) {
        account.own_directory(&inside)?;
        return Ok(inside);
    }
    let digest = Sha256::digest(home.as_os_str().as_bytes());
    let short = digest[..6]
        .iter()
        .fold(0_u64, |short, byte| short << 8 | u64::from(*byte));
    let mut why = format!("{} is too long", inside.join(FILE).display());
    for root in ["/run", "/tmp"] {
        let candidate = Path::new(root).join(format!("fleetbeat-{}-{short:012x}", account.uid()));
        match account.own_directory(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(error) => why = format!("{why}; {error}"),
        }
    }
    Err(Error::NoSocketDirectory { why })
}

fn fits(directory: &Path) -> bool {
    directory.join(FILE).as_os_str().len() <= LONGEST
}

/// Whether a postmaster's socket is there.
pub(super) fn exists(directory: &Path) -> bool {
    directory.join(FILE).exists()
}

/// URL of `database` as `user` through the socket in `directory`.
pub(super) fn url(directory: &Path, user: &str, database: &str) -> String {
    let encoded: String = directory
        .as_os_str()
        .as_bytes()
        .iter()
        .map(|byte| encode(*byte))
        .collect();
    format!("postgres://{user}@localhost:5432/{database}?host={encoded}&sslmode=disable")
}

fn encode(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_escaped_in_the_url() {
        let url = url(Path::new("/a b/c&d%/é"), "u", "d");
        let expected = "postgres://u@localhost:5432/d?host=/a%20b/c%26d%25/%C3%A9&sslmode=disable";
        assert_eq!(url, expected);
    }

    #[test]
    fn a_path_fits_up_to_the_longest_that_the_kernel_takes() {
        let room = LONGEST - FILE.len() - 1;
        assert!(fits(Path::new(&"x".repeat(room))));
        assert!(!fits(Path::new(&"x".repeat(room + 1))));
    }
}
