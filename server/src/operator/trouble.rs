use std::fmt::Display;

use tonic::{Code, Status};

/// Why a call fails. The text says what to do next; the code follows from the kind, here and nowhere
/// else.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// A value of the request is out of bounds.
    #[error("{0}")]
    Wrong(String),
    #[error("{0}")]
    NotFound(String),
    #[error(
        "the policies moved on: revision {expected} was expected and {newest} is the newest; \
         look at it and try again{}",
        told(since)
    )]
    MovedOn {
        expected: u64,
        newest: u64,
        /// What changed in between, a line each.
        since: Vec<String>,
    },
    /// Something else stands in the way.
    #[error("{0}")]
    NotNow(String),
    #[error("{}; choose other values, or force the change (`--force`), which the audit tells", .0.join("; "))]
    Exceeds(Vec<String>),
    #[error(
        "no valid token: send `authorization: Bearer <token>`; the first one is in \
             operator.token in the server's data directory"
    )]
    Unknown,
    #[error("{0}")]
    NotAllowed(String),
    #[error(
        "{doing} needs Postgres, which cannot be reached ({why}); retry later, the fleet runs on"
    )]
    Away { doing: &'static str, why: String },
    #[error("the server has too many calls at once; retry in a moment")]
    Busy,
    #[error("the call took longer than {0} s; narrow it down or retry later")]
    TooSlow(u64),
    #[error("the server is stopping; retry on another one or in a moment")]
    Stopping,
    #[error("{0}")]
    Broken(String),
}

impl Trouble {
    /// Something that a person has to look at: the log has the whole of it.
    pub(crate) fn broken(doing: &'static str, error: impl Display) -> Self {
        tracing::error!(%error, "Operator call failed while {doing}");
        Self::Broken(format!(
            "{doing} failed: {error}; the server's log has more"
        ))
    }

    fn code(&self) -> Code {
        match self {
            Self::Wrong(_) => Code::InvalidArgument,
            Self::NotFound(_) => Code::NotFound,
            Self::MovedOn { .. } | Self::NotNow(_) => Code::FailedPrecondition,
            Self::Exceeds(_) => Code::OutOfRange,
            Self::Unknown => Code::Unauthenticated,
            Self::NotAllowed(_) => Code::PermissionDenied,
            Self::Away { .. } | Self::Stopping => Code::Unavailable,
            Self::Busy => Code::ResourceExhausted,
            Self::TooSlow(_) => Code::DeadlineExceeded,
            Self::Broken(_) => Code::Internal,
        }
    }
}

fn told(lines: &[String]) -> String {
    let told = lines.iter().flat_map(|line| ["\n  ", line.as_str()]);
    told.collect()
}

impl From<Trouble> for Status {
    fn from(trouble: Trouble) -> Self {
        Self::new(trouble.code(), trouble.to_string())
    }
}
