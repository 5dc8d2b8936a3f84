//! Exit codes and errors: every error carries its exit code and the next step.

use std::error::Error as _;
use std::process::ExitCode;

use tonic::{Code, Status};

use crate::format;

/// Exit codes are an interface for scripts: a number never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    Failed = 1,
    Refused = 2,
    Unreachable = 3,
    Denied = 4,
    NotFound = 5,
    Conflict = 6,
}

/// The same list for people; part of `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the operation failed: the server refused it, or not every agent applied the tuning; or a
     change got no answer and may have been made; or a planned tuning fails a check
  2  wrong usage, or refused here before anything was sent
  3  the server cannot be reached
  4  the token is missing, wrong or lacks the right
  5  no such agent, revision or rollout
  6  conflict: the policies moved on, or a rollout stands in the way";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{what}")]
    Told {
        exit: Exit,
        what: String,
        next: Option<String>,
        passing: bool,
    },
    /// Whoever read our output is gone (`fleetbeat events | head`): nobody is left to tell.
    #[error("the reader of the output went away")]
    ReaderGone,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self::Told {
            exit,
            what: what.into(),
            next: None,
            passing: exit == Exit::Unreachable,
        }
    }

    /// Refused before anything was sent.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::new(Exit::Refused, what)
    }

    /// Adds what to do about it.
    #[must_use]
    pub(crate) fn next(mut self, step: impl Into<String>) -> Self {
        if let Self::Told { next, .. } = &mut self {
            *next = Some(step.into());
        }
        self
    }

    /// May go away by itself, so that a following command tries again.
    #[must_use]
    pub(crate) fn passing(mut self) -> Self {
        if let Self::Told { passing, .. } = &mut self {
            *passing = true;
        }
        self
    }

    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Told { passing: true, .. })
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Told { exit, .. } => *exit,
            Self::ReaderGone => Exit::Done,
        }
    }

    /// What goes to standard error; nothing when nobody is to be told.
    pub(crate) fn report(&self) -> Option<String> {
        let Self::Told { what, next, .. } = self else {
            return None;
        };
        Some(match next {
            Some(next) => format!("error: {what}\n  next: {next}"),
            None => format!("error: {what}"),
        })
    }

    /// Nothing answers at `server`.
    pub(crate) fn unreachable(server: &str, why: &str) -> Self {
        let next = if server.starts_with("https:") && why.contains("certificate") {
            "give the file with the server's certificate authority with --ca FILE, and use the name \
             that is in its certificate"
        } else if server.starts_with("https:") && why.contains("corrupt message") {
            "that port does not speak TLS: write http://, or name the operator port"
        } else if server.starts_with("http:") && why.contains("frame with invalid size") {
            "that port expects TLS: write https://, and give its certificate authority with --ca FILE"
        } else if server.starts_with("http:") && why.contains("broken pipe") {
            "something there does not speak plain HTTP/2: if it expects TLS, write https:// and give its \
             certificate authority with --ca FILE"
        } else {
            "is fleetbeat-server running there, and is this its operator port? Name another with \
             --server URL, FLEETBEAT_SERVER or `server` in the config file"
        };
        Self::new(
            Exit::Unreachable,
            format!("no Fleetbeat server answers at {server}: {why}"),
        )
        .next(next)
    }

    /// A change was sent and nobody knows what became of it; `why` says what happened instead of an answer.
    pub(crate) fn unsettled(why: &str) -> Self {
        Self::new(Exit::Failed, format!("the change may have been made: {why}")).next(
            "look at `fleetbeat tune history` before you repeat it; `fleetbeat tune watch REVISION` \
             follows it",
        )
    }

    /// No token was given.
    pub(crate) fn no_token() -> Self {
        Self::new(Exit::Denied, "no token to show to the server").next(TOKEN_STEP)
    }

    /// An answer of `server` that is an error.
    pub(crate) fn from_status(status: &Status, server: &str) -> Self {
        if status.source().is_some() {
            return Self::unreachable(server, &deepest(status));
        }
        let message = format::clean(status.message());
        let told = |exit| Self::new(exit, message.clone());
        match status.code() {
            Code::Unauthenticated => told(Exit::Denied).next(TOKEN_STEP),
            Code::PermissionDenied => {
                told(Exit::Denied).next("ask for a token whose role allows this, then --token-file")
            }
            Code::NotFound => told(Exit::NotFound).next(
                "`fleetbeat agents list` shows the agents, `fleetbeat tune history` the revisions, \
                 `fleetbeat tune rollout list` the rollouts",
            ),
            Code::FailedPrecondition if message.contains("rollout") => told(Exit::Conflict).next(
                "`fleetbeat tune rollout show` tells how far it is, and what its guards found",
            ),
            Code::FailedPrecondition | Code::Aborted => told(Exit::Conflict)
                .next("look at `fleetbeat tune history`, then repeat on the newest revision"),
            Code::DeadlineExceeded => told(Exit::Failed).next("ask for less, or retry later"),
            Code::Unavailable | Code::ResourceExhausted => told(Exit::Failed)
                .passing()
                .next("retry later; `fleetbeat status` shows the state"),
            Code::Unimplemented => Self::new(
                Exit::Failed,
                format!("the server at {server} does not know this call"),
            )
            .next("is this its operator port, and is the server as new as `fleetbeat --version`?"),
            Code::InvalidArgument | Code::OutOfRange => told(Exit::Failed)
                .next("correct the named value; `--help` of the command shows what it takes"),
            Code::Ok
            | Code::Cancelled
            | Code::Unknown
            | Code::AlreadyExists
            | Code::Internal
            | Code::DataLoss => Self::new(
                Exit::Failed,
                format!("the server failed ({:?}): {message}", status.code()),
            )
            .next("its log says more; `fleetbeat status` shows whether it is well"),
        }
    }
}

const TOKEN_STEP: &str = "pass --token-file FILE or set FLEETBEAT_TOKEN_FILE; the server writes its \
                          first token to <data-dir>/operator.token";

/// The text of the innermost source, which is the one that names the reason.
pub(crate) fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    format::clean(&innermost.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_exit_code_and_a_next_step() {
        let cases = [
            (Code::InvalidArgument, Exit::Failed),
            (Code::NotFound, Exit::NotFound),
            (Code::FailedPrecondition, Exit::Conflict),
            (Code::Unavailable, Exit::Failed),
            (Code::DeadlineExceeded, Exit::Failed),
            (Code::Unauthenticated, Exit::Denied),
            (Code::PermissionDenied, Exit::Denied),
            (Code::Internal, Exit::Failed),
        ];
        for (code, exit) in cases {
            let failure = Failure::from_status(&Status::new(code, "because"), "http://h:1");
            assert_eq!(failure.exit(), exit, "{code:?}");
            let report = failure.report().unwrap();
            assert!(
                report.contains("because") && report.contains("next: "),
                "{report}"
            );
        }
    }

    #[test]
    fn only_an_unavailable_server_is_worth_another_try() {
        let passing =
            |code| Failure::from_status(&Status::new(code, ""), "http://h:1").is_passing();
        assert!(passing(Code::Unavailable));
        assert!(passing(Code::ResourceExhausted));
        assert!(!passing(Code::Unauthenticated));
        assert!(Failure::unreachable("http://h:1", "refused").is_passing());
    }

    #[test]
    fn control_characters_of_the_server_do_not_reach_the_terminal() {
        let failure = Failure::from_status(&Status::internal("a\u{1b}[2Jb"), "http://h:1");
        assert!(!failure.report().unwrap().contains('\u{1b}'));
    }

    #[test]
    fn the_list_for_people_names_every_exit_code() {
        for exit in [Exit::Done, Exit::Failed, Exit::Refused, Exit::Unreachable]
            .into_iter()
            .chain([Exit::Denied, Exit::NotFound, Exit::Conflict])
        {
            assert!(EXIT_CODES.contains(&format!("\n  {}  ", exit as u8)));
        }
    }
}
