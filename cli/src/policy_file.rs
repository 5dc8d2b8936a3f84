//! Policies as a file that people keep beside their other configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use fleetbeat_proto::{nanos, v1};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::format;

const HEAD: &str = "\
# Policies of Fleetbeat, for `fleetbeat tune apply -f FILE`. In order: of several that give an agent the
# same value the last one holds. `group`, `agents` and `labels` must all be met; without them a policy
# speaks of everybody. `interval`, `misses` and `timeout` go together.
";

/// What a file says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Read {
    /// The revision that it was made from.
    pub(crate) revision: Option<u64>,
    pub(crate) policies: Vec<v1::Policy>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(default, rename = "policy", skip_serializing_if = "Vec::is_empty")]
    policies: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    misses: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pong_every: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    adaptive: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<BTreeMap<String, Values>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "a string, or a list of strings")]
enum Values {
    One(String),
    Several(Vec<String>),
}

/// Reads a file. The error says where and what to do.
pub(crate) fn read(text: &str) -> Result<Read, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let policies = file.policies.into_iter().map(|entry| {
        let name = entry.name.clone();
        entry
            .policy()
            .map_err(|error| format!("policy {name}: {error}"))
    });
    Ok(Read {
        revision: file.revision,
        policies: policies.collect::<Result<_, _>>()?,
    })
}

/// Writes a set of policies so that reading it gives the same.
pub(crate) fn write(set: &v1::PolicySet, with_revision: bool) -> Result<String, String> {
    let file = File {
        revision: with_revision.then_some(set.revision),
        policies: set.policies.iter().map(Entry::of).collect(),
    };
    let text = toml::to_string(&file).map_err(|error| format!("cannot write policies: {error}"))?;
    Ok(format!("{HEAD}\n{text}"))
}

impl Entry {
    fn of(policy: &v1::Policy) -> Self {
        let selector = policy.selector.clone().unwrap_or_default();
        let tuning = policy.tuning.unwrap_or_default();
        let time = |ns: u64| humantime::format_duration(Duration::from_nanos(ns)).to_string();
        let labels = selector.labels.into_iter().map(|(key, of)| {
            let mut values = of.values;
            let values = match (values.len(), values.pop()) {
                (1, Some(only)) => Values::One(only),
                (_, last) => {
                    values.extend(last);
                    Values::Several(values)
                }
            };
            (key, values)
        });
        let labels: BTreeMap<_, _> = labels.collect();
        Self {
            name: policy.name.clone(),
            group: selector.group,
            agents: (!selector.agent_ids.is_empty()).then_some(selector.agent_ids),
            interval: tuning.interval_ns.map(time),
            misses: tuning.misses,
            timeout: tuning.timeout_ns.map(time),
            pong_every: tuning.pong_every,
            adaptive: tuning.adaptive,
            expires_at: policy.expires_unix_us.and_then(format::rfc3339),
            labels: (!labels.is_empty()).then_some(labels),
        }
    }

    fn policy(self) -> Result<v1::Policy, String> {
        let said = [
            self.interval.is_some(),
            self.misses.is_some(),
            self.timeout.is_some(),
        ];
        if said.contains(&true) && said.contains(&false) {
            return Err(
                "interval, misses and timeout go together: give all three or none".to_owned(),
            );
        }
        if self.agents.as_ref().is_some_and(Vec::is_empty) {
            return Err("agents is empty: name some, or leave it out to mean any".to_owned());
        }
        let labels = self
            .labels
            .unwrap_or_default()
            .into_iter()
            .map(|(key, values)| {
                let values = match values {
                    Values::One(only) => vec![only],
                    Values::Several(values) => values,
                };
                (key, v1::LabelValues { values })
            });
        let tuning = v1::Tuning {
            interval_ns: self
                .interval
                .map(|text| time(&text, "interval"))
                .transpose()?,
            misses: self.misses,
            timeout_ns: self
                .timeout
                .map(|text| time(&text, "timeout"))
                .transpose()?,
            pong_every: self.pong_every,
            adaptive: self.adaptive,
        };
        Ok(v1::Policy {
            selector: Some(v1::Selector {
                group: self.group,
                agent_ids: self.agents.unwrap_or_default(),
                labels: labels.collect(),
            }),
            tuning: Some(tuning),
            name: self.name,
            expires_unix_us: self.expires_at.map(|text| moment(&text)).transpose()?,
        })
    }
}

fn time(text: &str, key: &str) -> Result<u64, String> {
    let time = humantime::parse_duration(text).map(nanos);
    time.map_err(|error| {
        format!("{key} is {text:?}: {error}; write it like \"500ms\" or \"1m30s\"")
    })
}

fn moment(text: &str) -> Result<i64, String> {
    let moment = OffsetDateTime::parse(text, &Rfc3339).map_err(|error| {
        format!("expires_at is {text:?}: {error}; write it like \"2027-01-15T08:00:00Z\"")
    })?;
    let micros = moment.unix_timestamp_nanos() / 1_000;
    i64::try_from(micros).map_err(|_| format!("expires_at is {text:?}, which is out of reach"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> v1::PolicySet {
        let values = |values: &[&str]| v1::LabelValues {
            values: values.iter().map(ToString::to_string).collect(),
        };
        let labels = [
            ("zone", values(&["b1", "b2"])),
            ("role", values(&["gate \"way\""])),
        ];
        v1::PolicySet {
            revision: 12,
            policies: vec![
                v1::Policy {
                    selector: Some(v1::Selector::default()),
                    tuning: Some(v1::Tuning {
                        interval_ns: Some(90_000_000_001),
                        misses: Some(3),
                        timeout_ns: Some(500_000_000),
                        pong_every: Some(1),
                        adaptive: Some(false),
                    }),
                    name: "fleet".to_owned(),
                    expires_unix_us: None,
                },
                v1::Policy {
                    selector: Some(v1::Selector {
                        group: Some("edge".to_owned()),
                        agent_ids: vec!["0198".to_owned()],
                        labels: labels.map(|(key, of)| (key.to_owned(), of)).into(),
                    }),
                    tuning: Some(v1::Tuning {
                        adaptive: Some(true),
                        ..v1::Tuning::default()
                    }),
                    name: "hunt".to_owned(),
                    expires_unix_us: Some(1_800_000_000_123_456),
                },
            ],
            staged: None,
        }
    }

    #[test]
    fn what_is_exported_reads_back_the_same() {
        let text = write(&full(), true).unwrap();
        let read = read(&text).unwrap();
        assert_eq!(read.revision, Some(12));
        assert_eq!(read.policies, full().policies, "{text}");
        assert_eq!(write(&full(), false).unwrap().find("revision"), None);
    }

    #[test]
    fn no_policies_are_a_file_as_well() {
        let none = v1::PolicySet::default();
        let text = write(&none, false).unwrap();
        assert_eq!(read(&text).unwrap(), Read::default());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let policy = |lines: &str| format!("[[policy]]\nname = \"a\"\n{lines}");
        for (text, said) in [
            (policy("interwal = \"5s\""), "unknown field `interwal`"),
            (
                policy("interval = \"5s\""),
                "policy a: interval, misses and timeout go together",
            ),
            (
                policy("interval = \"5\"\nmisses = 3\ntimeout = \"1s\""),
                "policy a: interval is \"5\"",
            ),
            (policy("agents = []"), "policy a: agents is empty"),
            (
                policy("labels = { zone = 1 }"),
                "a string, or a list of strings",
            ),
            (
                policy("expires_at = \"soon\""),
                "write it like \"2027-01-15T08:00:00Z\"",
            ),
            (
                "[[policy]]\ngroup = \"x\"".to_owned(),
                "missing field `name`",
            ),
            ("polices = []".to_owned(), "unknown field `polices`"),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(said), "wanted {said}, got {error}");
        }
    }
}
