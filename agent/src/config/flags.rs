use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use super::settings::{LogFormat, LogLevel};

const EXAMPLES: &str = "\
Examples:
  Keep this host's heartbeats going to one of two servers:
    fleetbeat-agent --server https://a.example.net:7601 --server https://b.example.net:7601 \\
        --ca /etc/fleetbeat/ca.pem --group web --label zone=a

  Try it against a server on this machine, without installing anything:
    fleetbeat-agent --server http://127.0.0.1:7601 --state-dir ./agent-state

  Check a configuration file:
    fleetbeat-agent check-config --config /etc/fleetbeat/agent.toml

Exit codes: 0 stopped as asked, 1 the agent failed, 2 wrong usage or configuration, 3 the state
directory was refused, 4 the agent found itself stuck and ended, to be started again. A server that
cannot be reached never ends the agent.";

/// Keeps a host's heartbeat stream to a Fleetbeat server.
#[derive(Debug, Parser)]
#[command(name = "fleetbeat-agent", version, after_help = EXAMPLES)]
pub struct Flags {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    pub command: Option<Command>,
}

impl Flags {
    /// Reads the command line and the environment of the process; ends it on wrong usage, and after
    /// `--help` and `--version`. A variable that is set but empty counts as not set: that is how unit
    /// files write it.
    #[must_use]
    pub fn read() -> Self {
        let command = Self::command().mut_args(|argument| {
            let empty = argument
                .get_env()
                .and_then(std::env::var_os)
                .is_some_and(|value| value.is_empty());
            if empty {
                argument.env(Resettable::Reset)
            } else {
                argument
            }
        });
        Self::from_arg_matches(&command.get_matches()).unwrap_or_else(|error| error.exit())
    }
}

/// What to do instead of running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Check the configuration, print what would be in force, and exit
    CheckConfig,
    /// Print a configuration file with every option and what it means
    ExampleConfig,
}

/// Flags and their variables.
#[derive(Debug, Default, Args)]
pub struct Options {
    /// Configuration file (TOML)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "FLEETBEAT_AGENT_CONFIG"
    )]
    pub config: Option<PathBuf>,
    /// Where the server takes agents; repeat it for more, tried in random order
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "FLEETBEAT_AGENT_SERVER",
        value_delimiter = ','
    )]
    pub server: Vec<String>,
    /// What people call this host [default: the host name]
    #[arg(long, global = true, env = "FLEETBEAT_AGENT_NAME")]
    pub name: Option<String>,
    /// The group it belongs to [default: default]
    #[arg(long, global = true, env = "FLEETBEAT_AGENT_GROUP")]
    pub group: Option<String>,
    /// A label to report; repeat it for more. A value with a comma goes into the file
    #[arg(
        long,
        global = true,
        value_name = "KEY=VALUE",
        env = "FLEETBEAT_AGENT_LABELS",
        value_delimiter = ','
    )]
    pub label: Vec<String>,
    /// Keeps identity and tuning [default: /var/lib/fleetbeat-agent]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "FLEETBEAT_AGENT_STATE_DIR"
    )]
    pub state_dir: Option<PathBuf>,
    /// Authorities to check the server's certificate against (PEM)
    #[arg(long, global = true, value_name = "FILE", env = "FLEETBEAT_AGENT_CA")]
    pub ca: Option<PathBuf>,
    /// Accept http:// to another host
    #[arg(
        long,
        global = true,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        env = "FLEETBEAT_AGENT_ALLOW_PLAINTEXT"
    )]
    pub allow_plaintext: Option<bool>,
    /// HTTP proxy to reach the servers through, or `none` [default: as the proxy variables say]
    ///
    /// On the command line other users of the host can read a password: prefer the environment or the file.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "FLEETBEAT_AGENT_PROXY",
        hide_env_values = true
    )]
    pub proxy: Option<String>,
    /// TCP keepalive behind the heartbeats [default: 120s/30s/3]
    #[arg(
        long,
        global = true,
        value_name = "IDLE/GAP/PROBES",
        env = "FLEETBEAT_AGENT_KEEPALIVE"
    )]
    pub keepalive: Option<String>,
    /// How soon the agent is back whenever it is told to stop, such as 30s [default: no promise]
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        env = "FLEETBEAT_AGENT_RESTART_WITHIN"
    )]
    pub restart_within: Option<String>,
    /// How log lines look on standard error [default: text]
    #[arg(long, global = true, env = "FLEETBEAT_AGENT_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
    /// The least severe line to log [default: info]
    #[arg(long, global = true, env = "FLEETBEAT_AGENT_LOG_LEVEL")]
    pub log_level: Option<LogLevel>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::{Command, Flags};
    use crate::config::keys::{KEYS, variables};

    #[test]
    fn the_command_line_is_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn every_option_of_the_file_has_its_flag_and_variable() {
        let command = Flags::command();
        for key in KEYS {
            let argument = command
                .get_arguments()
                .find(|argument| argument.get_long() == key.flag.strip_prefix("--"))
                .unwrap_or_else(|| panic!("no flag {}", key.flag));
            assert_eq!(argument.get_env().unwrap(), key.variable);
        }
        let with_variable = command
            .get_arguments()
            .filter(|argument| argument.get_env().is_some())
            .count();
        assert_eq!(with_variable, variables().count());
    }

    #[test]
    fn options_stand_before_or_after_the_command() {
        for line in [
            ["fleetbeat-agent", "--group", "web", "check-config"],
            ["fleetbeat-agent", "check-config", "--group", "web"],
        ] {
            let flags = Flags::try_parse_from(line).unwrap();
            assert_eq!(flags.command, Some(Command::CheckConfig));
            assert_eq!(flags.options.group.as_deref(), Some("web"));
        }
    }
}
