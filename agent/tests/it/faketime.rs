//! A wall clock that a test moves while a process runs; the monotonic clock stays true.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skip;

const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
];

pub(crate) struct Wall {
    library: &'static str,
    file: PathBuf,
}

impl Wall {
    /// `None`, and a word about it, where the library is not installed.
    pub(crate) fn at(file: PathBuf, offset: &str) -> Option<Self> {
        let Some(library) = LIBRARIES.into_iter().find(|file| Path::new(file).exists()) else {
            skip("libfaketime (Debian package faketime)");
            return None;
        };
        let wall = Self { library, file };
        wall.shift(offset);
        Some(wall)
    }

    /// Such as `-5d` or `+2h`, counted from the true time.
    pub(crate) fn shift(&self, offset: &str) {
        let temporary = self.file.with_extension("tmp");
        std::fs::write(&temporary, format!("{offset}\n")).unwrap();
        std::fs::rename(&temporary, &self.file).unwrap();
    }

    pub(crate) fn put_on(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
    }
}
