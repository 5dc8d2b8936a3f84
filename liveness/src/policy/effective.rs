use std::fmt;

use super::{Cadence, Policy, Value, Values};
use crate::retune::Revised;
use crate::tuning::{Tuning, TuningError};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// The policy of this name.
    Policy(String),
    /// No policy speaks of it: the built-in tuning.
    Default,
}

/// Where each value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    pub cadence: Because,
    pub pong_every: Because,
    pub adaptive: Because,
}

/// A value that was given and is not in force, because it cannot stand beside another policy's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Yield {
    pub value: Value,
    /// Who gave it.
    pub given_by: Because,
    /// The rule that both together break.
    pub rule: TuningError,
}

/// What an agent should run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub tuning: Revised,
    pub sources: Sources,
    pub yields: Vec<Yield>,
    /// The agent is within the reach of a rollout: its values are the candidate's.
    pub staged: bool,
}

/// `policy group-web` or `built-in default`.
impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(name) => write!(f, "policy {name}"),
            Self::Default => f.write_str("built-in default"),
        }
    }
}

/// `policy fleet` when all values come from it, else `T, N, W by policy web; pong_every, adaptive by
/// built-in default`.
impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told: Vec<(&Because, Vec<Value>)> = Vec::new();
        for (value, because) in self.each() {
            match told.iter_mut().find(|(known, _)| *known == because) {
                Some((_, values)) => values.push(value),
                None => told.push((because, vec![value])),
            }
        }
        if let [(because, _)] = &told[..] {
            return because.fmt(f);
        }
        let clause = |(because, values): &(&Because, Vec<Value>)| {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            format!("{} by {because}", values.join(", "))
        };
        let clauses: Vec<String> = told.iter().map(clause).collect();
        f.write_str(&clauses.join("; "))
    }
}

/// `adaptive of policy mobile yields: …`.
impl fmt::Display for Yield {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} yields: {}",
            self.value, self.given_by, self.rule
        )
    }
}

impl Sources {
    /// Each value with where it comes from.
    pub fn each(&self) -> impl Iterator<Item = (Value, &Because)> {
        [
            (Value::Cadence, &self.cadence),
            (Value::PongEvery, &self.pong_every),
            (Value::Adaptive, &self.adaptive),
        ]
        .into_iter()
    }
}

/// The last value of each kind among `matching`, given in order, over the built-in tuning. When they
/// cannot stand together `pong_every` yields to T, and `adaptive` to both.
pub(super) fn fold<'a>(
    revision: u64,
    matching: impl Iterator<Item = &'a Policy>,
    staged: bool,
) -> Effective {
    let mut values = Values::of(Tuning::default());
    let [mut cadence, mut pong_every, mut adaptive] = [None, None, None];
    for policy in matching {
        let name = policy.name.as_str();
        replace(
            &mut values.cadence,
            policy.values.cadence,
            &mut cadence,
            name,
        );
        replace(
            &mut values.pong_every,
            policy.values.pong_every,
            &mut pong_every,
            name,
        );
        replace(
            &mut values.adaptive,
            policy.values.adaptive,
            &mut adaptive,
            name,
        );
    }
    let because =
        |name: Option<&str>| name.map_or(Because::Default, |name| Because::Policy(name.to_owned()));
    let mut effective = Effective {
        tuning: Revised {
            revision,
            tuning: Tuning::default(),
        },
        sources: Sources {
            cadence: because(cadence),
            pong_every: because(pong_every),
            adaptive: because(adaptive),
        },
        yields: Vec::new(),
        staged,
    };
    effective.settle(values);
    effective
}

fn replace<'a, T>(
    value: &mut Option<T>,
    given: Option<T>,
    by: &mut Option<&'a str>,
    name: &'a str,
) {
    if given.is_some() {
        *value = given;
        *by = Some(name);
    }
}

impl Effective {
    fn settle(&mut self, values: Values) {
        let cadence = values
            .cadence
            .unwrap_or_else(|| Cadence::from(Tuning::default()));
        let alone = Values {
            cadence: Some(cadence),
            ..Values::default()
        };
        let mut tuning = alone.over(Tuning::default()).unwrap_or_default();
        let pong_every = Values {
            pong_every: values.pong_every,
            ..alone
        };
        match pong_every.over(tuning) {
            Ok(with) => tuning = with,
            Err(rule) => {
                self.yields.push(Yield {
                    value: Value::PongEvery,
                    given_by: std::mem::replace(&mut self.sources.pong_every, Because::Default),
                    rule,
                });
            }
        }
        match tuning.with_adaptive(values.adaptive.unwrap_or_default()) {
            Ok(with) => tuning = with,
            Err(rule) => {
                self.yields.push(Yield {
                    value: Value::Adaptive,
                    given_by: std::mem::replace(&mut self.sources.adaptive, Because::Default),
                    rule,
                });
            }
        }
        self.tuning.tuning = tuning;
    }
}
