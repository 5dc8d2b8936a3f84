use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use fleetbeat_liveness::{Keepalive, Tuning};
use serde::Deserialize;

use super::file::File;
use super::route;
use super::{Error, Options, Route, ServerUrl};

const STATE_DIR: &str = "/var/lib/fleetbeat-agent";
const GROUP: &str = "default";
/// More would only make a start-up that tries them all in turn slower.
const MAX_SERVERS: usize = 32;
const MAX_LABELS: usize = 32;
const MAX_LABEL_KEY: usize = 63;
const MAX_LABEL_VALUE: usize = 255;
const MAX_NAME: usize = 255;
const MAX_GROUP: usize = 63;
const RESTARTS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The least severe line to log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// Everything the agent runs by, checked.
#[derive(Debug, Clone)]
pub struct Settings {
    /// At least one.
    pub routes: Vec<Route>,
    /// `None`: the host's name, whatever it is at the time.
    pub name: Option<String>,
    pub group: String,
    pub labels: BTreeMap<String, String>,
    pub state_dir: PathBuf,
    /// Present whenever a server is `https://`.
    pub ca: Option<PathBuf>,
    pub keepalive: Keepalive,
    /// Back within this time whenever it is told to stop; `None` promises nothing.
    pub restart_within: Option<Duration>,
    pub log_format: LogFormat,
    pub log_level: LogLevel,
}

impl Settings {
    /// `variable` reads one variable of the environment.
    pub(super) fn merge(
        options: Options,
        file: File,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        let mut labels = file.labels;
        for label in &options.label {
            let (key, value) = label.split_once('=').ok_or_else(|| {
                Error::value(
                    "labels",
                    format!("`{label}` has no `=`: write it as key=value"),
                )
            })?;
            labels.insert(key.to_owned(), value.to_owned());
        }
        let urls = if options.server.is_empty() {
            file.server.into_vec()
        } else {
            options.server
        };
        let proxy = options.proxy.or(file.proxy);
        let keepalive = options.keepalive.or(file.keepalive);
        let settings = Self {
            routes: routes(&urls, proxy.as_deref(), variable)?,
            name: options.name.or(file.name),
            group: options
                .group
                .or(file.group)
                .unwrap_or_else(|| GROUP.to_owned()),
            labels,
            state_dir: options
                .state_dir
                .or(file.state_dir)
                .unwrap_or_else(|| STATE_DIR.into()),
            ca: options.ca.or(file.ca),
            keepalive: keepalive.map_or_else(|| Ok(Keepalive::default()), |text| checked(&text))?,
            restart_within: restart_within(options.restart_within.or(file.restart_within))?,
            log_format: options.log_format.or(file.log_format).unwrap_or_default(),
            log_level: options.log_level.or(file.log_level).unwrap_or_default(),
        };
        let plaintext = options.allow_plaintext.or(file.allow_plaintext);
        settings.check(plaintext.unwrap_or(false))?;
        Ok(settings)
    }

    fn check(&self, plaintext: bool) -> Result<(), Error> {
        for Route { server, .. } in &self.routes {
            if server.tls() && self.ca.is_none() {
                return Err(Error::value(
                    "ca",
                    format!(
                        "{server} needs the authorities to check its certificate against: \
                         pass --ca FILE or set `ca`"
                    ),
                ));
            }
            if !server.tls() && !server.loopback() && !plaintext {
                return Err(Error::value(
                    "server",
                    format!(
                        "{server} is another host and http:// has no protection: anyone on the path \
                         could read the stream and retune this agent; use https://, or pass \
                         --allow-plaintext to accept that"
                    ),
                ));
            }
        }
        if let Some(name) = &self.name {
            if name.is_empty() {
                return Err(Error::value(
                    "name",
                    "it is empty: give a name, or leave it out for the host's own",
                ));
            }
            printable("name", name, MAX_NAME)?;
        }
        check_group(&self.group)?;
        check_labels(&self.labels)
    }
}

/// What is in force, one option a line.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for route in &self.routes {
            writeln!(f, "server {} {}", route.server, route.path())?;
        }
        let name = self.name.as_deref().unwrap_or("(the host name)");
        writeln!(f, "name {name}")?;
        writeln!(f, "group {}", self.group)?;
        for (key, value) in &self.labels {
            writeln!(f, "label {key}={value}")?;
        }
        writeln!(f, "state_dir {}", self.state_dir.display())?;
        if let Some(ca) = &self.ca {
            writeln!(f, "ca {}", ca.display())?;
        }
        writeln!(f, "keepalive {}", self.keepalive)?;
        if let Some(within) = self.restart_within {
            writeln!(f, "restart_within {}", humantime::format_duration(within))?;
        }
        let log = format!("log {:?} {:?}", self.log_format, self.log_level);
        writeln!(f, "{}", log.to_lowercase())
    }
}

/// A keepalive that contradicts the tuning of an agent without a policy would never be what is meant.
fn checked(text: &str) -> Result<Keepalive, Error> {
    let refused = |error| Error::value("keepalive", format!("{error}"));
    let keepalive: Keepalive = text.parse().map_err(refused)?;
    keepalive.check(&Tuning::default()).map_err(refused)?;
    Ok(keepalive)
}

fn routes(
    urls: &[String],
    proxy: Option<&str>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Vec<Route>, Error> {
    let route = |server| {
        let proxy = route::choose(&server, proxy, &variable)?;
        Ok(Route { server, proxy })
    };
    servers(urls)?.into_iter().map(route).collect()
}

fn servers(urls: &[String]) -> Result<Vec<ServerUrl>, Error> {
    if urls.is_empty() {
        return Err(Error::value(
            "server",
            "no server is given: pass --server https://HOST:PORT, set FLEETBEAT_AGENT_SERVER, or set \
             `server` in the file of --config",
        ));
    }
    if urls.len() > MAX_SERVERS {
        return Err(Error::value(
            "server",
            format!(
                "{} servers are given, at most {MAX_SERVERS} are allowed",
                urls.len()
            ),
        ));
    }
    let parse = |url: &String| ServerUrl::parse(url).map_err(|why| Error::value("server", why));
    urls.iter().map(parse).collect()
}

fn restart_within(text: Option<String>) -> Result<Option<Duration>, Error> {
    let Some(text) = text else { return Ok(None) };
    let wrong = || {
        let message = format!("`{text}` is no time of 1s to 24h, such as 30s");
        Error::value("restart_within", message)
    };
    let within = humantime::parse_duration(&text).map_err(|_| wrong())?;
    if RESTARTS.contains(&within) {
        Ok(Some(within))
    } else {
        Err(wrong())
    }
}

fn check_group(group: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if group.is_empty() || group.len() > MAX_GROUP || !group.chars().all(allowed) {
        return Err(Error::value(
            "group",
            format!("{group:?} must be 1 to {MAX_GROUP} of A-Z a-z 0-9 . _ -"),
        ));
    }
    Ok(())
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Error> {
    if labels.len() > MAX_LABELS {
        return Err(Error::value(
            "labels",
            format!(
                "{} labels are given, at most {MAX_LABELS} are allowed",
                labels.len()
            ),
        ));
    }
    for (key, value) in labels {
        if key.is_empty() {
            return Err(Error::value(
                "labels",
                "a label needs a key: write it as key=value",
            ));
        }
        printable("labels", key, MAX_LABEL_KEY)?;
        printable("labels", value, MAX_LABEL_VALUE)?;
    }
    Ok(())
}

fn printable(key: &'static str, text: &str, max: usize) -> Result<(), Error> {
    if text.len() > max {
        return Err(Error::value(
            key,
            format!(
                "{text:?} is {} bytes long, at most {max} are allowed",
                text.len()
            ),
        ));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::value(
            key,
            format!("{text:?} holds a control character"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{File, LogFormat, Options, Settings};

    fn file(text: &str) -> File {
        File::parse(std::path::Path::new("agent.toml"), text).unwrap()
    }

    fn local() -> Options {
        Options {
            server: vec!["http://127.0.0.1:7601".to_owned()],
            ..Options::default()
        }
    }

    fn error(options: Options, text: &str) -> String {
        Settings::merge(options, file(text), |_| None)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
        let options = Options {
            group: Some("flag".to_owned()),
            label: vec!["zone=b".to_owned()],
            ..local()
        };
        let text = "group = \"file\"\nlog_format = \"json\"\n[labels]\nzone = \"a\"\nrack = \"1\"";
        let settings = Settings::merge(options, file(text), |_| None).unwrap();
        assert_eq!(settings.group, "flag");
        assert_eq!(settings.log_format, LogFormat::Json);
        assert_eq!(
            settings.state_dir.to_str(),
            Some("/var/lib/fleetbeat-agent")
        );
        assert_eq!(settings.labels["zone"], "b");
        assert_eq!(settings.labels["rack"], "1");
        assert_eq!(settings.name, None);
    }

    #[test]
    fn without_a_server_the_error_says_how_to_give_one() {
        let message = error(Options::default(), "");
        assert!(message.contains("--server https://HOST:PORT"), "{message}");
    }

    #[test]
    fn plaintext_to_another_host_needs_consent() {
        let text = "server = \"http://192.0.2.1:7601\"";
        let message = error(Options::default(), text);
        assert!(message.contains("--allow-plaintext"), "{message}");
        let consent = Options {
            allow_plaintext: Some(true),
            ..Options::default()
        };
        assert!(Settings::merge(consent, file(text), |_| None).is_ok());
    }

    #[test]
    fn tls_needs_the_authorities() {
        let message = error(
            Options::default(),
            "server = \"https://fleet.example:7601\"",
        );
        assert!(message.contains("--ca FILE"), "{message}");
    }

    /// S1.
    #[test]
    fn a_keepalive_that_contradicts_the_heartbeats_is_refused() {
        let text = |keepalive| format!("keepalive = \"{keepalive}\"");
        for (keepalive, word) in [
            ("20s/30s/3", "lower the gap"),
            ("20s/10s/9", "raise idle"),
            ("30s/1s/3", "raise idle, gap or probes"),
            ("soon", "120s/30s/3"),
        ] {
            let message = error(local(), &text(keepalive));
            assert!(
                message.starts_with("keepalive: ") && message.contains(word),
                "{keepalive}: {message}"
            );
        }
        let settings = Settings::merge(local(), file(&text("60s/10s/3")), |_| None).unwrap();
        assert_eq!(settings.keepalive.to_string(), "60s/10s/3");
    }

    #[test]
    fn a_promise_to_be_back_is_a_time_within_a_day() {
        let text = "restart_within = \"1m 30s\"";
        let settings = Settings::merge(local(), file(text), |_| None).unwrap();
        assert_eq!(settings.restart_within.unwrap().as_secs(), 90);
        assert!(settings.to_string().contains("restart_within 1m 30s"));
        for text in ["0s", "25h", "soon", "-1s"] {
            let options = Options {
                restart_within: Some(text.to_owned()),
                ..local()
            };
            let message = error(options, "");
            assert!(message.contains("1s to 24h"), "{message}");
        }
    }

    #[test]
    fn names_groups_and_labels_keep_the_bounds_of_the_contract() {
        let long = "x".repeat(256);
        for text in [
            format!("name = \"{long}\""),
            "name = \"a\\u0007b\"".to_owned(),
            "name = \"\"".to_owned(),
            "group = \"a b\"".to_owned(),
            "group = \"\"".to_owned(),
            format!("group = \"{}\"", "g".repeat(64)),
            format!("[labels]\nzone = \"{long}\""),
            format!("[labels]\n{} = \"a\"", "k".repeat(64)),
            "[labels]\n\"\" = \"a\"".to_owned(),
        ] {
            assert!(
                Settings::merge(local(), file(&text), |_| None).is_err(),
                "{text}"
            );
        }
        let many: Vec<_> = (0..33).map(|i| format!("k{i} = \"v\"")).collect();
        assert!(error(local(), &format!("[labels]\n{}", many.join("\n"))).contains("at most 32"));
        let options = Options {
            label: vec!["zone".to_owned()],
            ..local()
        };
        assert!(error(options, "").contains("key=value"));
    }
}
