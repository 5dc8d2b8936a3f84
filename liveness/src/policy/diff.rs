//! What differs between two policy sets, in words.

use std::collections::BTreeMap;

use super::{Policy, PolicySet, Staged};

pub(super) fn changes(newer: &PolicySet, older: &PolicySet) -> Vec<String> {
    let mut lines = of_policies(newer.policies(), older.policies());
    lines.extend(of_staging(newer, older));
    lines
}

fn of_policies(newer: &[Policy], older: &[Policy]) -> Vec<String> {
    let mut pairs: BTreeMap<&str, (Option<&Policy>, Option<&Policy>)> = BTreeMap::new();
    for policy in older {
        pairs.entry(&policy.name).or_default().0 = Some(policy);
    }
    for policy in newer {
        pairs.entry(&policy.name).or_default().1 = Some(policy);
    }
    let mut lines: Vec<String> = pairs
        .iter()
        .filter_map(|(name, change)| match change {
            (Some(was), Some(is)) if was != is => Some(format!("{name}: {}", moved(was, is))),
            (None, Some(is)) => Some(format!("{name}: set to {}", whole(is))),
            (Some(was), None) => Some(format!("{name}: removed, was {}", whole(was))),
            (Some(_), Some(_)) | (None, None) => None,
        })
        .collect();
    // Whoever stays, in both orders.
    let names = |policies: &[Policy], others: &[Policy]| -> Vec<String> {
        let stays = |policy: &&Policy| others.iter().any(|other| other.name == policy.name);
        policies
            .iter()
            .filter(stays)
            .map(|policy| policy.name.clone())
            .collect()
    };
    let (is, was) = (names(newer, older), names(older, newer));
    if is != was {
        lines.push(format!("order: {} → {}", was.join(", "), is.join(", ")));
    }
    lines
}

/// `T=20s N=3 W=2s for group web, until 2026-01-01T00:00:00Z`; the selector is left out where the name
/// says it.
fn whole(policy: &Policy) -> String {
    let mut text = policy.values.to_string();
    if policy.name != policy.selector.usual_name() {
        text = format!("{text} for {}", policy.selector);
    }
    match policy.expires_at {
        Some(_) => format!("{text}, {}", until(policy)),
        None => text,
    }
}

fn moved(was: &Policy, is: &Policy) -> String {
    let mut parts = Vec::new();
    if was.values != is.values {
        parts.push(format!("{} → {}", was.values, is.values));
    }
    if was.selector != is.selector {
        let (from, to) = (was.selector.to_string(), is.selector.to_string());
        // Two lists of as many agents read alike.
        let to = if from == to { "others".to_owned() } else { to };
        parts.push(format!("for {from} → {to}"));
    }
    if was.expires_at != is.expires_at {
        parts.push(format!("{} → {}", until(was), until(is)));
    }
    parts.join(", ")
}

fn until(policy: &Policy) -> String {
    policy.expires_at.map_or_else(
        || "for good".to_owned(),
        |at| {
            format!(
                "until {}",
                humantime::format_rfc3339(std::time::UNIX_EPOCH + at)
            )
        },
    )
}

fn of_staging(newer: &PolicySet, older: &PolicySet) -> Vec<String> {
    match (newer.staged(), older.staged()) {
        (None, None) => Vec::new(),
        (None, Some(was)) => vec![if newer.policies() == was.policies {
            "candidate: for everybody".to_owned()
        } else {
            "candidate: for nobody".to_owned()
        }],
        // The same rollout: how its candidate and its reach moved.
        (Some(is), Some(was)) if is.split.seed == was.split.seed => {
            let lines = of_policies(is.policies, was.policies).into_iter();
            let mut lines: Vec<String> = lines.map(|line| format!("candidate: {line}")).collect();
            if is.split != was.split {
                lines.push(format!("candidate: for {} → {}", reach(was), reach(is)));
            }
            lines
        }
        (Some(is), _) => {
            let lines = of_policies(is.policies, newer.policies());
            let staged = |line: String| format!("candidate for {}: {line}", reach(is));
            lines.into_iter().map(staged).collect()
        }
    }
}

/// `5 %`: the share of ranks, which is about that of members.
fn reach(staged: Staged<'_>) -> String {
    let all = u128::from(u64::MAX);
    let hundredths = (u128::from(staged.split.reach) * 10_000 + all / 2) / all;
    let (whole, rest) = (hundredths / 100, hundredths % 100);
    match (whole, rest) {
        (0, 0) => "less than 0.01 %".to_owned(),
        (_, 0) => format!("{whole} %"),
        (_, _) => format!("{whole}.{rest:02} %"),
    }
}
