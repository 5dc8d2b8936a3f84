use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use super::Error;
use super::keys::{KEYS, closest};
use super::settings::{LogFormat, LogLevel};

/// The configuration file as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub server: Servers,
    pub name: Option<String>,
    pub group: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub state_dir: Option<PathBuf>,
    pub ca: Option<PathBuf>,
    pub allow_plaintext: Option<bool>,
    pub proxy: Option<String>,
    pub keepalive: Option<String>,
    pub restart_within: Option<String>,
    pub log_format: Option<LogFormat>,
    pub log_level: Option<LogLevel>,
}

/// One server or a list of them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Servers {
    One(String),
    Many(Vec<String>),
}

impl Default for Servers {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Servers {
    pub(super) fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(server) => vec![server],
            Self::Many(servers) => servers,
        }
    }
}

impl File {
    /// Parses `text`; `path` is for messages only.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        let located = |offset: usize, message: String| Error::File {
            path: path.to_owned(),
            line: line_of(text, offset),
            message,
        };
        let broken = |error: &toml::de::Error| {
            located(
                error.span().map_or(0, |span| span.start),
                error.message().to_owned(),
            )
        };
        let table = DeTable::parse(text).map_err(|error| broken(&error))?;
        for key in table.get_ref().keys() {
            let name = key.get_ref().as_ref();
            if !KEYS.iter().any(|known| known.name == name) {
                return Err(located(key.span().start, unknown(name)));
            }
        }
        toml::from_str(text).map_err(|error| broken(&error))
    }
}

fn unknown(name: &str) -> String {
    match closest(name, KEYS.iter().map(|key| key.name)) {
        Some(known) => format!("unknown key `{name}`: did you mean `{known}`?"),
        None => format!("unknown key `{name}`"),
    }
}

/// Number of the line that holds the byte at `offset`; the first is 1.
fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    1 + before.filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::File;

    fn error(text: &str) -> String {
        File::parse(Path::new("agent.toml"), text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_the_closest_known_one() {
        assert_eq!(
            error("group = \"a\"\n\nstatedir = \"/x\"\n"),
            "agent.toml:3: unknown key `statedir`: did you mean `state_dir`?"
        );
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_with_its_line() {
        let message = error("name = \"a\"\nallow_plaintext = \"yes\"\n");
        assert!(message.starts_with("agent.toml:2: "), "{message}");
        assert!(message.contains("boolean"), "{message}");
    }

    #[test]
    fn broken_syntax_is_named_with_its_line() {
        let message = error("name = \"a\"\ngroup = \n");
        assert!(message.starts_with("agent.toml:2: "), "{message}");
    }

    #[test]
    fn a_server_is_one_or_a_list() {
        let parse = |text| File::parse(Path::new("x"), text).unwrap().server.into_vec();
        assert_eq!(parse("server = \"https://a:1\""), ["https://a:1"]);
        assert_eq!(
            parse("server = [\"https://a:1\", \"https://b:1\"]").len(),
            2
        );
        assert!(parse("").is_empty());
    }
}
