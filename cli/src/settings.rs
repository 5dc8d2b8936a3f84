//! What a run works with: options over environment over config file over defaults.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::Uri;

use crate::cli::Globals;
use crate::config_file::{self, ConfigFile};
use crate::failure::Failure;
use crate::output::Shape;

const DEFAULT_SERVER: &str = "http://127.0.0.1:7602";

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) server: Server,
    pub(crate) token: Option<TokenSource>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) shape: Shape,
}

impl Settings {
    pub(crate) fn resolve(
        globals: Globals,
        environment: impl Fn(&str) -> Option<String>,
        file: ConfigFile,
    ) -> Result<Self, Failure> {
        let url = globals
            .server
            .or_else(|| environment("FLEETBEAT_SERVER"))
            .or(file.server)
            .unwrap_or_else(|| DEFAULT_SERVER.to_owned());
        let plaintext = globals.allow_plaintext || file.allow_plaintext.unwrap_or(false);
        let from_environment = || {
            let file = environment("FLEETBEAT_TOKEN_FILE").map(PathBuf::from);
            let names = "FLEETBEAT_TOKEN and FLEETBEAT_TOKEN_FILE are";
            TokenSource::one_of(environment("FLEETBEAT_TOKEN"), file, names)
        };
        let token = match TokenSource::one_of(globals.token, globals.token_file, "both are")? {
            Some(source) => Some(source),
            None => match from_environment()? {
                Some(source) => Some(source),
                None => TokenSource::one_of(
                    file.token,
                    file.token_file,
                    "`token` and `token_file` of the config file are",
                )?,
            },
        };
        Ok(Self {
            server: Server::parse(&url, plaintext)?,
            token,
            ca: globals.ca.or(file.ca),
            shape: globals.output.or(file.output).unwrap_or(Shape::Table),
        })
    }
}

/// Address of a server that may be given the token.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    uri: Uri,
    shown: String,
}

impl Server {
    fn parse(url: &str, allow_plaintext: bool) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::refused(format!("`{url}` is not the address of a server: {why}"))
                .next("write it like http://127.0.0.1:7602 or https://fleet.example:7602")
        };
        let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
        let host = uri
            .host()
            .filter(|host| !host.is_empty())
            .ok_or_else(|| wrong("no host"))?;
        if uri
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(wrong("a user name has no place in it"));
        }
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_loopback(host) || allow_plaintext => {}
            Some("http") => {
                return Err(Failure::refused(format!(
                    "{url} is another machine and http is not encrypted: everyone on the way \
                     could read the token"
                ))
                .next(
                    "use https:// with --ca FILE, or say --allow-plaintext if that is acceptable",
                ));
            }
            _ => return Err(wrong("it starts with neither http:// nor https://")),
        }
        Ok(Self {
            shown: url.trim_end_matches('/').to_owned(),
            uri,
        })
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => bare.eq_ignore_ascii_case("localhost"),
    }
}

/// Where the token is.
#[derive(PartialEq, Eq)]
pub(crate) enum TokenSource {
    Given(String),
    File(PathBuf),
}

impl TokenSource {
    fn one_of(
        given: Option<String>,
        file: Option<PathBuf>,
        both: &str,
    ) -> Result<Option<Self>, Failure> {
        match (given, file) {
            (Some(_), Some(_)) => Err(Failure::refused(format!("{both} set, one is enough"))
                .next("keep the one with the file")),
            (Some(token), None) => Ok(Some(Self::Given(token))),
            (None, Some(path)) => Ok(Some(Self::File(path))),
            (None, None) => Ok(None),
        }
    }

    /// The value of the `authorization` header.
    pub(crate) fn header(&self) -> Result<MetadataValue<Ascii>, Failure> {
        let text = match self {
            Self::Given(token) => token.clone(),
            Self::File(path) => read_token(path)?,
        };
        let token = text.trim();
        let mut header = MetadataValue::try_from(format!("Bearer {token}"))
            .ok()
            .filter(|_| !token.is_empty() && !token.contains(char::is_whitespace))
            .ok_or_else(|| {
                Failure::refused(format!(
                    "{self:?} is not a token: it must be one word of ASCII"
                ))
                .next("take the file that the server wrote, <data-dir>/operator.token")
            })?;
        header.set_sensitive(true);
        Ok(header)
    }
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let text = if path == Path::new("-") {
        config_file::bounded(std::io::stdin())
    } else {
        config_file::read_bounded(path)
    };
    text.map_err(|error| {
        Failure::refused(format!(
            "cannot read token file {}: {error}",
            path.display()
        ))
        .next("name a readable file with --token-file; the server's is <data-dir>/operator.token")
    })
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("the given token"),
            Self::File(path) => write!(f, "the content of {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        globals: Globals,
        environment: &[(&str, &str)],
        file: ConfigFile,
    ) -> Result<Settings, Failure> {
        let environment = |name: &str| {
            environment
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, v)| (*v).to_owned())
        };
        Settings::resolve(globals, environment, file)
    }

    fn file() -> ConfigFile {
        ConfigFile {
            server: Some("http://127.0.0.1:3".to_owned()),
            token: Some("file".to_owned()),
            output: Some(Shape::Json),
            ..ConfigFile::default()
        }
    }

    #[test]
    fn options_win_over_environment_over_file_over_defaults() {
        let flags = || Globals {
            server: Some("http://127.0.0.1:1".to_owned()),
            token: Some("flag".to_owned()),
            output: Some(Shape::Table),
            ..Globals::default()
        };
        let environment = [
            ("FLEETBEAT_SERVER", "http://127.0.0.1:2"),
            ("FLEETBEAT_TOKEN_FILE", "/env"),
        ];
        let cases = [
            (
                flags(),
                &environment[..],
                file(),
                "http://127.0.0.1:1",
                Shape::Table,
            ),
            (
                Globals::default(),
                &environment[..],
                file(),
                "http://127.0.0.1:2",
                Shape::Json,
            ),
            (
                Globals::default(),
                &[],
                file(),
                "http://127.0.0.1:3",
                Shape::Json,
            ),
            (
                Globals::default(),
                &[],
                ConfigFile::default(),
                DEFAULT_SERVER,
                Shape::Table,
            ),
        ];
        let tokens = [
            Some(TokenSource::Given("flag".to_owned())),
            Some(TokenSource::File("/env".into())),
            Some(TokenSource::Given("file".to_owned())),
            None,
        ];
        for ((globals, environment, file, server, shape), token) in cases.into_iter().zip(tokens) {
            let settings = resolve(globals, environment, file).unwrap();
            assert_eq!(settings.server.to_string(), server);
            assert_eq!(settings.shape, shape);
            assert_eq!(settings.token, token);
        }
    }

    #[test]
    fn two_tokens_from_one_place_are_refused() {
        let both = [("FLEETBEAT_TOKEN", "a"), ("FLEETBEAT_TOKEN_FILE", "b")];
        assert!(resolve(Globals::default(), &both, ConfigFile::default()).is_err());
    }

    #[test]
    fn plaintext_goes_only_to_this_machine_unless_allowed() {
        let local = [
            "http://127.0.0.1:1",
            "http://127.9.9.9:1",
            "http://localhost:1",
            "http://[::1]:1",
        ];
        for url in local {
            assert!(Server::parse(url, false).is_ok(), "{url}");
        }
        let remote = [
            "http://10.0.0.1:1",
            "http://fleet.example",
            "http://[2001:db8::1]:1",
            "http://0.0.0.0:1",
        ];
        for url in remote {
            assert!(Server::parse(url, false).is_err(), "{url}");
            assert!(Server::parse(url, true).is_ok(), "{url}");
            assert!(
                Server::parse(&url.replace("http:", "https:"), false).is_ok(),
                "{url}"
            );
        }
    }

    #[test]
    fn what_is_not_an_address_is_refused() {
        for url in [
            "",
            "127.0.0.1:7602",
            "/x",
            "ftp://h:1",
            "http://u:p@127.0.0.1:1",
            "http://:1",
        ] {
            assert!(Server::parse(url, true).is_err(), "{url}");
        }
    }

    #[test]
    fn a_token_is_one_word_of_ascii_and_is_never_shown() {
        for bad in ["", "  ", "a b", "a\nb", "é\u{1}"] {
            assert!(
                TokenSource::Given(bad.to_owned()).header().is_err(),
                "{bad:?}"
            );
        }
        let source = TokenSource::Given("secret\n".to_owned());
        let header = source.header().unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer secret");
        assert!(!format!("{source:?} {header:?}").contains("secret"));
    }
}
