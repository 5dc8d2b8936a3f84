//! Checks a Hello for form before anybody believes it.

use std::net::{IpAddr, SocketAddr};

use fleetbeat_liveness::cause::Account;
use fleetbeat_liveness::fence::{Fence, InstanceId};
use fleetbeat_liveness::retune::Revised;
use fleetbeat_proto::PROTOCOL;
use fleetbeat_proto::v1::{Hello, LastEnding, last_ending};
use uuid::Uuid;

use crate::registry::Facts;

const DEFAULT_GROUP: &str = "default";
const SHORT: usize = 63;
const LONG: usize = 255;
const LABELS: usize = 32;
/// Bytes of all labels together, which every known agent keeps in memory.
const LABEL_BYTES: usize = 2_048;

/// A Hello that keeps the bounds of the contract.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) agent_id: Uuid,
    pub(super) instance: InstanceId,
    pub(super) fence: Fence,
    pub(super) facts: Facts,
    pub(super) applied: Option<Revised>,
    pub(super) volatile_state: bool,
    pub(super) ip: IpAddr,
    pub(super) account: Option<Account>,
    pub(super) wall_unix_us: Option<i64>,
}

/// Which field of a Hello is wrong, and how.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("protocol {0} is not spoken here, only {PROTOCOL}; update the older side")]
    Protocol(u32),
    #[error("{0} is not set")]
    Missing(&'static str),
    #[error("{field} has {len} bytes where {expected} are expected")]
    Length {
        field: &'static str,
        len: usize,
        expected: &'static str,
    },
    #[error("{0} holds control characters")]
    Control(&'static str),
    #[error("group {0:?} may hold letters, digits, '.', '_' and '-' only")]
    Group(String),
    #[error("{0} labels are more than {LABELS}")]
    Labels(usize),
    #[error("labels of {0} bytes are more than {LABEL_BYTES}")]
    LabelBytes(usize),
    #[error("fence {0} is not counted from 1, or too large to be recorded")]
    Fence(Fence),
    #[error("applied tuning: {0}")]
    Applied(String),
}

impl Greeting {
    pub(super) fn read(hello: Hello, peer: SocketAddr) -> Result<Self, Malformed> {
        if hello.protocol != PROTOCOL {
            return Err(Malformed::Protocol(hello.protocol));
        }
        let agent_id = Uuid::from_bytes(identity("agent_id", &hello.agent_id)?);
        let instance = InstanceId(identity("instance_id", &hello.instance_id)?);
        let fence: Fence = hello.fence.ok_or(Malformed::Missing("fence"))?.into();
        let recordable = 1..=i64::MAX as u64;
        if !recordable.contains(&fence.incarnation) || !recordable.contains(&fence.connection) {
            return Err(Malformed::Fence(fence));
        }
        let applied = hello.applied.map(Revised::try_from).transpose();
        let applied = applied.map_err(|error| Malformed::Applied(error.to_string()))?;
        if hello.labels.len() > LABELS {
            return Err(Malformed::Labels(hello.labels.len()));
        }
        let bytes = hello
            .labels
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if bytes > LABEL_BYTES {
            return Err(Malformed::LabelBytes(bytes));
        }
        for (key, value) in &hello.labels {
            text("label key", key, SHORT, "1 to 63")?;
            text("label value", value, LONG, "at most 255")?;
        }
        let facts = Facts {
            name: text("name", &hello.name, LONG, "at most 255")?,
            group: group(&hello.group)?,
            labels: hello.labels.into_iter().collect(),
            agent_version: text("agent_version", &hello.agent_version, SHORT, "at most 63")?,
            boot_id: text("boot_id", &hello.boot_id, SHORT, "at most 63")?,
            address: peer.to_string(),
        };
        let volatile_state = hello.volatile_state;
        Ok(Self {
            agent_id,
            instance,
            fence,
            facts,
            applied,
            volatile_state,
            ip: peer.ip().to_canonical(),
            account: hello.last_ending.as_ref().and_then(account),
            wall_unix_us: hello.wall_unix_us,
        })
    }
}

/// A kind of a later version says nothing.
fn account(ending: &LastEnding) -> Option<Account> {
    match ending.cause() {
        last_ending::Cause::ServerSilent => Some(Account::ServerSilent),
        last_ending::Cause::TransportError => Some(Account::TransportError),
        last_ending::Cause::Bye => Some(Account::Told),
        last_ending::Cause::Suspend => Some(Account::Suspend),
        last_ending::Cause::Goodbye => Some(Account::Goodbye),
        last_ending::Cause::Unspecified => None,
    }
}

fn identity(field: &'static str, bytes: &[u8]) -> Result<[u8; 16], Malformed> {
    let wrong = Malformed::Length {
        field,
        len: bytes.len(),
        expected: "16",
    };
    let id: [u8; 16] = bytes.try_into().map_err(|_| wrong)?;
    if id == [0; 16] {
        Err(Malformed::Missing(field))
    } else {
        Ok(id)
    }
}

fn text(
    field: &'static str,
    text: &str,
    most: usize,
    expected: &'static str,
) -> Result<String, Malformed> {
    let len = text.len();
    if len > most || (field == "label key" && len == 0) {
        return Err(Malformed::Length {
            field,
            len,
            expected,
        });
    }
    if text.chars().any(char::is_control) {
        return Err(Malformed::Control(field));
    }
    Ok(text.to_owned())
}

fn group(name: &str) -> Result<String, Malformed> {
    if name.is_empty() {
        return Ok(DEFAULT_GROUP.to_owned());
    }
    let name = text("group", name, SHORT, "at most 63")?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.chars().all(allowed) {
        Ok(name)
    } else {
        Err(Malformed::Group(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleetbeat_proto::v1;

    type Change = fn(&mut Hello);

    fn hello() -> Hello {
        Hello {
            protocol: 1,
            agent_id: vec![1; 16],
            instance_id: vec![2; 16],
            fence: Some(v1::Fence {
                incarnation: 1,
                connection: 1,
            }),
            name: "web-1".into(),
            ..Hello::default()
        }
    }

    fn read(change: impl FnOnce(&mut Hello)) -> Result<Greeting, Malformed> {
        let mut hello = hello();
        change(&mut hello);
        Greeting::read(hello, "127.0.0.1:9".parse().unwrap())
    }

    #[test]
    fn a_plain_hello_joins_the_default_group() {
        assert_eq!(read(|_| ()).unwrap().facts.group, "default");
    }

    #[test]
    fn each_broken_field_is_named() {
        let numbered = |incarnation| {
            Some(v1::Fence {
                incarnation,
                connection: 1,
            })
        };
        assert_eq!(
            read(|h| h.fence = numbered(7)).unwrap().fence.incarnation,
            7
        );
        let cases: [(Change, &str); 14] = [
            (|h| h.protocol = 2, "protocol"),
            (|h| h.agent_id = vec![1; 15], "agent_id"),
            (|h| h.agent_id = vec![0; 16], "agent_id"),
            (|h| h.instance_id.clear(), "instance_id"),
            (|h| h.fence = None, "fence"),
            (|h| h.fence.as_mut().unwrap().incarnation = 0, "fence"),
            (|h| h.fence.as_mut().unwrap().connection = u64::MAX, "fence"),
            (|h| h.name = "a\0b".into(), "name"),
            (|h| h.name = "a\nb".into(), "name"),
            (|h| h.name = "x".repeat(256), "name"),
            (|h| h.group = "a b".into(), "group"),
            (
                |h| drop(h.labels.insert(String::new(), "v".into())),
                "label key",
            ),
            (
                |h| h.labels = (0..33).map(|n| (n.to_string(), String::new())).collect(),
                "labels",
            ),
            (
                |h| h.applied = Some(v1::RevisedTuning::default()),
                "applied",
            ),
        ];
        for (change, field) in cases {
            let error = read(change).unwrap_err().to_string();
            assert!(error.contains(field), "{error:?} names {field}");
        }
    }
}
