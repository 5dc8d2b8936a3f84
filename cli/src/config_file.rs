//! The operator's config file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::output::Shape;

/// Bytes that a config or token file may have.
const LIMIT: u64 = 64 * 1024;

/// What the file says. Paths in it are relative to its own directory.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) allow_plaintext: Option<bool>,
    pub(crate) output: Option<Shape>,
}

impl ConfigFile {
    /// Reads the named file, which must exist, or the usual one, which need not.
    pub(crate) fn find(
        named: Option<&Path>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let usual = usual_path(environment);
        let Some(path) = named.or(usual.as_deref()) else {
            return Ok(Self::default());
        };
        match read_bounded(path) {
            Ok(text) => Self::parse(&text, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
                Ok(Self::default())
            }
            Err(error) => Err(Failure::refused(format!(
                "cannot read config file {}: {error}",
                path.display()
            ))
            .next("name a readable file with --config, or leave the option away")),
        }
    }

    fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        let mut file: Self = toml::from_str(text).map_err(|error| {
            let error = error.to_string();
            Failure::refused(format!(
                "config file {}: {}",
                path.display(),
                error.trim_end()
            ))
            .next("correct that line; `fleetbeat --help` lists the keys")
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        for relative in [&mut file.token_file, &mut file.ca].into_iter().flatten() {
            *relative = directory.join(&*relative);
        }
        Ok(file)
    }
}

fn usual_path(environment: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // The XDG specification says to ignore a relative path.
    let xdg = environment("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let base = xdg.or_else(|| Some(Path::new(&environment("HOME")?).join(".config")))?;
    Some(base.join("fleetbeat/config.toml"))
}

/// Reads a small text file.
pub(crate) fn read_bounded(path: &Path) -> io::Result<String> {
    bounded(File::open(path)?)
}

/// Reads a small text to its end.
pub(crate) fn bounded(source: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    source.take(LIMIT + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LIMIT {
        return Err(io::Error::other(format!(
            "larger than {} KiB",
            LIMIT / 1024
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, Failure> {
        ConfigFile::parse(text, Path::new("/etc/fb/config.toml"))
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let file = parse("token_file = \"t\"\nca = \"/abs/ca.pem\"\noutput = \"json\"\n").unwrap();
        assert_eq!(file.token_file.as_deref(), Some(Path::new("/etc/fb/t")));
        assert_eq!(file.ca.as_deref(), Some(Path::new("/abs/ca.pem")));
        assert_eq!(file.output, Some(Shape::Json));
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_line() {
        let report = parse("server = \"http://h:1\"\nsevrer = 1\n")
            .unwrap_err()
            .report()
            .unwrap();
        assert!(
            report.contains("line 2") && report.contains("sevrer"),
            "{report}"
        );
        assert!(report.contains("/etc/fb/config.toml"), "{report}");
    }

    #[test]
    fn xdg_wins_over_home_unless_it_is_relative() {
        let home = |xdg: &'static str| {
            usual_path(move |name| match name {
                "XDG_CONFIG_HOME" => Some(xdg.to_owned()),
                _ => Some("/home/o".to_owned()),
            })
        };
        assert_eq!(home("/x"), Some("/x/fleetbeat/config.toml".into()));
        assert_eq!(
            home("x"),
            Some("/home/o/.config/fleetbeat/config.toml".into())
        );
    }

    #[test]
    fn a_huge_file_is_refused() {
        assert!(bounded(io::repeat(b'a')).is_err());
    }
}
