//! One parse over flags, environment, file and defaults.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _};

use super::declaration::{self, Action, CONFIG, CommandLine, DEFAULT_FILE, Setting};
use super::file::{self, Entry, Place};
use super::{Settings, example, report};

const USAGE: u8 = 2;

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// Serve with these settings.
    Run(Box<Settings>),
    /// Print this on standard output and end with status 0.
    Print(String),
}

/// Why there is nothing to run.
#[derive(Debug)]
pub struct Refusal {
    /// Text for people, with a final newline.
    pub text: String,
    /// 0 when the text was asked for (`--help`, `--version`) and belongs on standard output; else 2.
    pub status: u8,
}

impl Refusal {
    fn wrong(text: impl fmt::Display) -> Self {
        Self {
            text: format!("error: {text}\n"),
            status: USAGE,
        }
    }
}

/// Where a value in force came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Flag(String),
    Env(String),
    File(PathBuf, Place),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => write!(f, "--{flag}"),
            Self::Env(name) => write!(f, "{name}"),
            Self::File(path, place) => {
                write!(f, "{}:{}:{}", path.display(), place.line, place.column)
            }
            Self::Default => write!(f, "default"),
        }
    }
}

/// A setting with what is in force.
#[derive(Debug)]
pub(super) struct InForce {
    pub(super) setting: Setting,
    pub(super) value: Option<String>,
    pub(super) origin: Origin,
}

/// Reads everything; `args` begins with the program's name, `env` looks up one variable.
pub fn read<A, E>(args: A, env: E) -> Result<Asked, Refusal>
where
    A: IntoIterator<Item = OsString>,
    E: Fn(&str) -> Option<OsString>,
{
    let args: Vec<OsString> = args.into_iter().collect();
    let settings = declaration::settings();
    // The first pass sees only the command line, so whatever is wrong in it is the caller's typing.
    let flags = parse(declaration::command(), &args, &settings, |setting| {
        Origin::Flag(setting.flag.clone())
    })?;
    if action(&flags)? == Action::ExampleConfig {
        return Ok(Asked::Print(example::render(&settings)));
    }
    let path = config_path(&flags, &env);
    let entries = match &path {
        Some(path) => read_file(path, &settings)?,
        None => Vec::new(),
    };
    let layers = settings
        .iter()
        .map(|setting| lower(setting, &env, path.as_deref(), &entries))
        .collect::<Result<Vec<_>, _>>()?;
    let mut command = declaration::command();
    for (setting, layer) in settings.iter().zip(&layers) {
        if let Some((value, _)) = layer {
            let value = value.clone();
            command = command.mut_arg(&setting.key, |arg| arg.default_value(value));
        }
    }
    let origin = |setting: &Setting| {
        let layer = settings
            .iter()
            .zip(&layers)
            .find(|(other, _)| other.key == setting.key);
        layer
            .and_then(|(_, layer)| layer.clone())
            .map_or(Origin::Default, |(_, origin)| origin)
    };
    let matches = parse(command, &args, &settings, origin)?;
    let line = CommandLine::from_arg_matches(&matches).map_err(Refusal::wrong)?;
    let in_force: Vec<InForce> = settings
        .iter()
        .map(|setting| in_force(setting, &matches, origin(setting)))
        .collect();
    refuse_contradictions(&line.settings, &in_force)?;
    Ok(match line.action.unwrap_or(Action::Run) {
        Action::CheckConfig => Asked::Print(report::render(path.as_deref(), &in_force)),
        Action::Run | Action::ExampleConfig => Asked::Run(Box::new(line.settings)),
    })
}

fn action(matches: &ArgMatches) -> Result<Action, Refusal> {
    let line = CommandLine::from_arg_matches(matches).map_err(Refusal::wrong)?;
    Ok(line.action.unwrap_or(Action::Run))
}

fn config_path(flags: &ArgMatches, env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let named = flags.get_one::<PathBuf>(CONFIG).cloned();
    let named = named.or_else(|| {
        env(&declaration::env(CONFIG))
            .filter(|path| !path.is_empty())
            .map(PathBuf::from)
    });
    named.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists()))
}

fn read_file(path: &Path, settings: &[Setting]) -> Result<Vec<Entry>, Refusal> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Refusal::wrong(format!(
            "cannot read the configuration file {}: {error}; name another with --config",
            path.display()
        ))
    })?;
    file::parse(&text, settings).map_err(|wrong| {
        let lines: Vec<String> = wrong
            .iter()
            .map(|w| {
                format!(
                    "{}:{}:{}: {}",
                    path.display(),
                    w.place.line,
                    w.place.column,
                    w.text
                )
            })
            .collect();
        Refusal::wrong(lines.join("\nerror: "))
    })
}

/// The value below the flags: environment, else file.
fn lower(
    setting: &Setting,
    env: impl Fn(&str) -> Option<OsString>,
    path: Option<&Path>,
    entries: &[Entry],
) -> Result<Option<(String, Origin)>, Refusal> {
    // An empty variable is how unit files and compose files write "not set".
    if let Some(value) = env(&setting.env).filter(|value| !value.is_empty()) {
        let value = value
            .into_string()
            .map_err(|_| Refusal::wrong(format!("{} is not valid UTF-8", setting.env)))?;
        return Ok(Some((value, Origin::Env(setting.env.clone()))));
    }
    let entry = entries.iter().find(|entry| entry.key == setting.key);
    Ok(entry.zip(path).map(|(entry, path)| {
        (
            entry.value.clone(),
            Origin::File(path.to_owned(), entry.place),
        )
    }))
}

/// Parses, naming the origin of a value that is refused.
fn parse(
    command: Command,
    args: &[OsString],
    settings: &[Setting],
    origin: impl Fn(&Setting) -> Origin,
) -> Result<ArgMatches, Refusal> {
    command.try_get_matches_from(args).map_err(|error| {
        if !error.use_stderr() {
            return Refusal {
                text: error.render().to_string(),
                status: 0,
            };
        }
        match refused_setting(&error, settings) {
            Some(setting) => Refusal::wrong(refused_value(&error, setting, &origin(setting))),
            None => Refusal {
                text: error.render().to_string(),
                status: USAGE,
            },
        }
    })
}

fn refused_setting<'a>(error: &clap::Error, settings: &'a [Setting]) -> Option<&'a Setting> {
    if !matches!(
        error.kind(),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue
    ) {
        return None;
    }
    let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = arg.trim_start_matches("--").split([' ', '=']).next()?;
    settings.iter().find(|setting| setting.flag == flag)
}

fn refused_value(error: &clap::Error, setting: &Setting, origin: &Origin) -> String {
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) if !setting.secret && !value.is_empty() => {
            format!(" `{value}`")
        }
        _ => String::new(),
    };
    let reason = match (
        error.get(ContextKind::ValidValue),
        std::error::Error::source(error),
    ) {
        (Some(ContextValue::Strings(valid)), _) if !valid.is_empty() => {
            format!("expected {}", valid.join(" or "))
        }
        (_, Some(source)) => source.to_string(),
        _ => "a value is required".into(),
    };
    format!(
        "{origin}: wrong value{value} for `{}`: {reason}",
        setting.key
    )
}

fn in_force(setting: &Setting, matches: &ArgMatches, lower: Origin) -> InForce {
    let origin = match matches.value_source(&setting.key) {
        Some(ValueSource::CommandLine) => Origin::Flag(setting.flag.clone()),
        _ => lower,
    };
    let raw = matches
        .get_raw(&setting.key)
        .and_then(|mut values| values.next());
    let value = raw.map(|value| value.to_string_lossy().into_owned());
    InForce {
        setting: setting.clone(),
        value,
        origin,
    }
}

fn refuse_contradictions(settings: &Settings, in_force: &[InForce]) -> Result<(), Refusal> {
    let lines: Vec<String> = settings
        .contradictions()
        .into_iter()
        .map(|wrong| {
            let origin = in_force
                .iter()
                .find(|entry| entry.setting.key == wrong.key)
                .map_or(&Origin::Default, |entry| &entry.origin);
            format!("{origin}: `{}`: {}", wrong.key, wrong.text)
        })
        .collect();
    if lines.is_empty() {
        Ok(())
    } else {
        Err(Refusal::wrong(lines.join("\nerror: ")))
    }
}
