//! The one list of options: the file's keys, their flags, variables, and what they mean.

/// Every variable of the agent starts so.
pub(super) const PREFIX: &str = "FLEETBEAT_AGENT_";

/// One option.
#[derive(Debug)]
pub(super) struct Key {
    /// In the file.
    pub name: &'static str,
    pub flag: &'static str,
    pub variable: &'static str,
    /// A TOML line (or table) as a person would write it.
    pub example: &'static str,
    /// Sentences for the example file, one a line.
    pub meaning: &'static [&'static str],
}

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "server",
        flag: "--server",
        variable: "FLEETBEAT_AGENT_SERVER",
        example: r#"server = ["https://fleetbeat.example.net:7601"]"#,
        meaning: &[
            "Where the server takes agents: https://HOST:PORT, one or several, tried in random order.",
            "http:// is accepted for this host only (see allow_plaintext). Required.",
        ],
    },
    Key {
        name: "name",
        flag: "--name",
        variable: "FLEETBEAT_AGENT_NAME",
        example: r#"name = "web-01""#,
        meaning: &["What people call this host, up to 255 bytes. Default: the host name."],
    },
    Key {
        name: "group",
        flag: "--group",
        variable: "FLEETBEAT_AGENT_GROUP",
        example: r#"group = "default""#,
        meaning: &["The group it belongs to: up to 63 of A-Z a-z 0-9 . _ -. Default: default."],
    },
    Key {
        name: "state_dir",
        flag: "--state-dir",
        variable: "FLEETBEAT_AGENT_STATE_DIR",
        example: r#"state_dir = "/var/lib/fleetbeat-agent""#,
        meaning: &[
            "Keeps the identity of this host and the tuning it acknowledged last. One agent per directory;",
            "do not copy it to another host. Default: /var/lib/fleetbeat-agent.",
        ],
    },
    Key {
        name: "ca",
        flag: "--ca",
        variable: "FLEETBEAT_AGENT_CA",
        example: r#"ca = "/etc/fleetbeat/ca.pem""#,
        meaning: &[
            "PEM file with the authorities that the server's certificate is checked against; read again at",
            "every connection. Required for https://.",
        ],
    },
    Key {
        name: "allow_plaintext",
        flag: "--allow-plaintext",
        variable: "FLEETBEAT_AGENT_ALLOW_PLAINTEXT",
        example: "allow_plaintext = false",
        meaning: &[
            "Accepts http:// to another host. Anyone on the path can then read the stream and retune the",
            "agent. Default: false.",
        ],
    },
    Key {
        name: "proxy",
        flag: "--proxy",
        variable: "FLEETBEAT_AGENT_PROXY",
        example: r#"proxy = "http://proxy.example.net:3128""#,
        meaning: &[
            "HTTP proxy that opens the connections to the servers by CONNECT: http://HOST:PORT, with",
            "USER:PASSWORD@ before the host when it wants them (special characters percent-encoded), or none",
            "for no proxy at all. Default: HTTPS_PROXY (HTTP_PROXY for an http:// server), else ALL_PROXY, but",
            "never for a server on this host. Hosts in NO_PROXY are reached directly in any case.",
        ],
    },
    Key {
        name: "keepalive",
        flag: "--keepalive",
        variable: "FLEETBEAT_AGENT_KEEPALIVE",
        example: r#"keepalive = "120s/30s/3""#,
        meaning: &[
            "TCP keepalive, the backstop behind the heartbeats: first probe after, gap between probes, number",
            "of probes. It is raised by itself where a tuning in force would contradict it. Default: 120s/30s/3.",
        ],
    },
    Key {
        name: "restart_within",
        flag: "--restart-within",
        variable: "FLEETBEAT_AGENT_RESTART_WITHIN",
        example: r#"restart_within = "30s""#,
        meaning: &[
            "How soon the agent is back whenever it is told to stop, 1 s to 24 h, for hosts on which stopping",
            "it always means a restart or an update. It says so in its goodbye, and the server tells when it",
            "is overdue. Default: no promise.",
        ],
    },
    Key {
        name: "log_format",
        flag: "--log-format",
        variable: "FLEETBEAT_AGENT_LOG_FORMAT",
        example: r#"log_format = "text""#,
        meaning: &["How log lines look on standard error: text or json. Default: text."],
    },
    Key {
        name: "log_level",
        flag: "--log-level",
        variable: "FLEETBEAT_AGENT_LOG_LEVEL",
        example: r#"log_level = "info""#,
        meaning: &[
            "The least severe line to log: error, warn, info, debug or trace. Default: info.",
        ],
    },
    // Last, because a TOML table swallows the keys that follow it.
    Key {
        name: "labels",
        flag: "--label",
        variable: "FLEETBEAT_AGENT_LABELS",
        example: "[labels]\nzone = \"a\"\nrack = \"12\"",
        meaning: &[
            "Labels that the agent reports: up to 32, keys up to 63 bytes, values up to 255. Given as flag or",
            "variable (key=value,key=value) they add to the file's and win over them.",
        ],
    },
];

/// Names of the variables, with the one that only names the file.
pub(super) fn variables() -> impl Iterator<Item = &'static str> {
    KEYS.iter()
        .map(|key| key.variable)
        .chain(["FLEETBEAT_AGENT_CONFIG"])
}

/// The candidate with the smallest edit distance to `word`.
pub(super) fn closest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    candidates.min_by_key(|candidate| strsim::levenshtein(word, candidate))
}

#[cfg(test)]
mod tests {
    use super::{KEYS, PREFIX, closest};

    #[test]
    fn a_slip_of_the_pen_finds_the_option_that_was_meant() {
        let names = || KEYS.iter().map(|key| key.name);
        assert_eq!(closest("servers", names()), Some("server"));
        assert_eq!(closest("statedir", names()), Some("state_dir"));
    }

    #[test]
    fn every_option_has_a_variable_with_the_prefix() {
        assert!(KEYS.iter().all(|key| key.variable.starts_with(PREFIX)));
    }
}
