use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use fleetbeat_liveness::fence::Fence;
use rand::seq::SliceRandom as _;

use super::{Agent, LastSession, Stopped};
use crate::config::{Route, ServerUrl};
use crate::session::{Cause, Ending};
use crate::transport;

/// The servers in random order, each once before any comes again.
#[derive(Debug, Default)]
pub(super) struct Round(Vec<usize>);

impl Round {
    /// `routes` holds at least one.
    pub(super) fn next<'a>(&mut self, routes: &'a [Route]) -> &'a Route {
        if self.0.is_empty() {
            self.0 = (0..routes.len()).collect();
            self.0.shuffle(&mut rand::rng());
        }
        &routes[self.0.pop().unwrap_or_default()]
    }
}

impl Agent {
    /// No stream came about. Returns how long to stay away.
    pub(super) fn failed(&mut self, server: &ServerUrl, error: &transport::Error) -> Duration {
        self.dialer.learn(false);
        if error.is_late() {
            self.patience.ran_out();
        }
        let wait = self.comeback.after_failure();
        self.complain(server, &chain(error), wait);
        wait
    }

    /// A stream ended, with or without a session on it. Returns how long to stay away.
    pub(super) async fn ended(
        &mut self,
        server: &ServerUrl,
        ending: Ending,
    ) -> Result<Duration, Stopped> {
        self.vitals.without_session();
        if ending.cause == Cause::Unanswered {
            self.patience.ran_out();
        }
        let plan = self.comeback.after(&ending);
        if let Cause::Told(told) = ending.cause
            && let Some(floor) = told.floor
            && told.floor_beyond_reach()
        {
            tracing::error!(
                server = %server,
                fence.floor = %floor,
                "Server knows an incarnation of this agent that none can follow, its record is damaged"
            );
        }
        if let Some(floor) = plan.above {
            self.raise_above(floor).await?;
            tracing::warn!(
                agent.incarnation = self.state.incarnation(),
                fence.floor = %floor,
                "Server knows a later incarnation of this agent, a higher one is taken"
            );
        } else if ending.lived.is_some() {
            tracing::warn!(
                server = %server,
                close.reason = ending.word(),
                close.detail = ending.told(),
                retry_in = ?plan.wait,
                "Session ended"
            );
            self.notify.status(&format!(
                "Session ended ({}), next attempt in {:.0?}",
                ending.word(),
                plan.wait
            ));
        } else {
            let word = ending.word();
            let error = match ending.detail.as_str() {
                "" => word.to_owned(),
                detail => format!("{word}: {detail}"),
            };
            self.complain(server, &error, plan.wait);
        }
        if ending.lived.is_some() {
            let at = self.clock.now();
            self.last = Some(LastSession { ending, at });
        } else {
            self.dialer.learn(plan.above.is_some());
        }
        Ok(plan.wait)
    }

    async fn raise_above(&mut self, floor: Fence) -> Result<(), Stopped> {
        let write = tokio::task::spawn_blocking(self.state.raise_above(floor));
        self.connection = 0;
        match self.while_attending(write).await? {
            Ok(written) => self.state.raised(written),
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
        Ok(())
    }

    /// Says that the server is out of reach, once for each reason.
    fn complain(&mut self, server: &ServerUrl, error: &str, wait: Duration) {
        if self.complaint.as_deref() == Some(error) {
            tracing::debug!(server = %server, error, retry_in = ?wait, "No session");
        } else {
            tracing::warn!(server = %server, error, retry_in = ?wait, "No session");
            self.complaint = Some(error.to_owned());
        }
        let probing = if self.comeback.probing() {
            ", probing"
        } else {
            ""
        };
        self.notify.status(&format!(
            "No session with {server}{probing}, next attempt in {wait:.0?}: {error}"
        ));
    }
}

/// `error` and what is behind it, on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Round, Route, ServerUrl};

    /// Field report D05.
    #[test]
    fn every_server_is_tried_before_any_is_tried_again() {
        let servers: Vec<_> = (1..=5)
            .map(|port| Route {
                server: ServerUrl::parse(&format!("https://fleet.example:{port}")).unwrap(),
                proxy: None,
            })
            .collect();
        let mut round = Round::default();
        for _ in 0..20 {
            let mut ports: Vec<_> = (0..5).map(|_| round.next(&servers).server.port()).collect();
            ports.sort_unstable();
            assert_eq!(ports, [1, 2, 3, 4, 5]);
        }
    }
}
