//! The command line, and what every other form of a setting is derived from.

use std::path::PathBuf;

use clap::{Arg, Command, CommandFactory as _, Parser, Subcommand};

use super::Settings;

/// Read when neither `--config` nor `FLEETBEAT_CONFIG` names a file and this one exists.
pub const DEFAULT_FILE: &str = "/etc/fleetbeat/server.toml";

/// Id of the argument that names the file; the only one that is no setting.
pub(super) const CONFIG: &str = "config";

const EXAMPLES: &str = "\
Examples:
  Try it on one machine, with a private Postgres under ./data:
    fleetbeat-server --data-dir ./data

  Serve a fleet, with your Postgres and certificates:
    FLEETBEAT_DATABASE_URL=postgres://fleetbeat:…@db/fleetbeat \\
    fleetbeat-server --lane-listen 0.0.0.0:7601 \\
      --lane-tls-cert /etc/fleetbeat/lane.crt --lane-tls-key /etc/fleetbeat/lane.key

  Begin a configuration file, then see what would be in force and from where:
    fleetbeat-server example-config > /etc/fleetbeat/server.toml
    fleetbeat-server check-config

Flags win over the environment, the environment over the file, the file over defaults.
Exit status: 0 ended well, 1 failed while running, 2 wrong usage or configuration.";

/// Judges agents by their heartbeats, retunes them live, records what happened
#[derive(Debug, Parser)]
#[command(name = "fleetbeat-server", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
    /// Configuration file (TOML); /etc/fleetbeat/server.toml when unset and present
    #[arg(id = "config", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    #[command(flatten)]
    pub(super) settings: Settings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(super) enum Action {
    /// Serve (what happens without a command)
    Run,
    /// Check flags, environment and file; show what is in force and where each value came from
    CheckConfig,
    /// Print a documented configuration file with every setting at its default
    ExampleConfig,
}

/// One setting as declared, in all its forms.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) flag: String,
    pub(super) env: String,
    /// Paragraphs, without the example.
    pub(super) doc: String,
    pub(super) default: Option<String>,
    pub(super) example: Option<String>,
    /// Values are not shown.
    pub(super) secret: bool,
}

/// The command line with flag, help and environment name of each setting derived from its key.
pub(super) fn command() -> Command {
    CommandLine::command().mut_args(|arg| {
        let id = arg.get_id().to_string();
        let flag = flag(&id);
        let note = if id == CONFIG {
            format!("[env: {}]", env(&id))
        } else {
            format!("[env: {}, file: {id}]", env(&id))
        };
        let short = arg.get_help().map(|text| format!("{text} {note}"));
        let long = arg.get_long_help().map(|text| format!("{text}\n\n{note}"));
        let arg = arg.long(flag).global(true);
        let arg = if let Some(short) = short {
            arg.help(short)
        } else {
            arg
        };
        if let Some(long) = long {
            arg.long_help(long)
        } else {
            arg
        }
    })
}

/// Every setting, in the order of declaration.
pub(super) fn settings() -> Vec<Setting> {
    CommandLine::command()
        .get_arguments()
        .filter(|arg| arg.get_id() != CONFIG)
        .map(setting)
        .collect()
}

fn setting(arg: &Arg) -> Setting {
    let key = arg.get_id().to_string();
    let text = arg
        .get_long_help()
        .or_else(|| arg.get_help())
        .map(ToString::to_string);
    let text = text.unwrap_or_default();
    let (doc, example) = match text.split_once("Example: `") {
        Some((doc, example)) => (
            doc,
            Some(example.trim_end_matches(['`', '.', '\n']).to_owned()),
        ),
        None => (text.as_str(), None),
    };
    Setting {
        flag: flag(&key),
        env: env(&key),
        doc: doc.trim_end().to_owned(),
        default: arg
            .get_default_values()
            .first()
            .map(|v| v.to_string_lossy().into_owned()),
        example,
        secret: arg.is_hide_env_values_set(),
        key,
    }
}

fn flag(key: &str) -> String {
    key.replace(['.', '_'], "-")
}

pub(super) fn env(key: &str) -> String {
    format!("FLEETBEAT_{}", key.replace('.', "_").to_uppercase())
}
