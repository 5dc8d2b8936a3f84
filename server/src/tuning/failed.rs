use fleetbeat_liveness::rollout::NotNow;

use super::Unreadable;
use super::rollout::StagingError;
use super::rules::Wrong;
use crate::store;

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error(transparent)]
    Wrong(#[from] Wrong),
    #[error("revision {newest} is the newest, not {expected}")]
    MovedOn {
        expected: u64,
        newest: u64,
        /// What changed since the one expected, oldest first.
        since: Vec<String>,
    },
    #[error("{}", .0.join("; "))]
    Exceeds(Vec<String>),
    #[error("there is no revision {0}")]
    NoRevision(u64),
    #[error("rollout {rollout} is on its way ({place})")]
    Underway { rollout: u64, place: String },
    #[error("rollout {rollout} tried the same policies, and was {outcome}")]
    TriedBefore { rollout: u64, outcome: String },
    #[error("there is no rollout {0}")]
    NoRollout(u64),
    #[error("no rollout runs")]
    NoneRuns,
    #[error(transparent)]
    NotNow(#[from] NotNow),
    #[error(transparent)]
    Staging(#[from] StagingError),
    #[error("the rollout moves on at the same time")]
    Contended,
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("the server is stopping")]
    Stopped,
}

impl Failed {
    /// In one line, with its cause.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Store(error) => error.sentence(),
            Self::Unreadable(error) => match std::error::Error::source(error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            },
            Self::Wrong(_)
            | Self::MovedOn { .. }
            | Self::Exceeds(_)
            | Self::NoRevision(_)
            | Self::Underway { .. }
            | Self::TriedBefore { .. }
            | Self::NoRollout(_)
            | Self::NoneRuns
            | Self::NotNow(_)
            | Self::Staging(_)
            | Self::Contended
            | Self::Stopped => self.to_string(),
        }
    }
}
