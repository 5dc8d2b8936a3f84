//! The half of a session that writes: it drains the outbox and does nothing else.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fleetbeat_proto::nanos;
use fleetbeat_proto::v1::{FromServer, Pong};
use futures_util::Stream;
use tonic::Status;

use crate::registry::Outbox;

/// Lag below this is not worth telling.
const NOTABLE_LAG: Duration = Duration::from_millis(50);

/// Response body of one session.
#[derive(Debug)]
pub struct Mail {
    outbox: Arc<Outbox>,
    context: Arc<super::Context>,
    /// What a Pong told last to spread a return over; zero before the first.
    spread: Cell<Duration>,
}

impl Mail {
    #[must_use]
    pub fn new(outbox: Arc<Outbox>, context: Arc<super::Context>) -> Self {
        Self {
            outbox,
            context,
            spread: Cell::default(),
        }
    }
}

impl Stream for Mail {
    type Item = Result<FromServer, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let context = &self.context;
        let fill = |pong: &mut Pong| {
            let lag = context.gauge.lag();
            pong.lag_ns = (lag > NOTABLE_LAG).then(|| nanos(lag));
            let backlog = context.registry.backlog();
            pong.queue_depth = (backlog > 0).then_some(backlog);
            let spread = context.registry.reconnect_spread();
            if notable(self.spread.get(), spread) {
                self.spread.set(spread);
                pong.reconnect_spread_ns = Some(nanos(spread));
            }
        };
        self.outbox
            .poll_next(cx, || context.clock.now(), fill)
            .map(|message| message.map(Ok))
    }
}

/// A change by over a quarter.
fn notable(told: Duration, spread: Duration) -> bool {
    spread.abs_diff(told) > told / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_told_first_and_when_it_changed_by_over_a_quarter() {
        let seconds = Duration::from_secs;
        assert!(notable(Duration::ZERO, seconds(1)));
        for (told, spread, tells) in [(8, 8, false), (8, 10, false), (8, 11, true), (8, 5, true)] {
            assert_eq!(
                notable(seconds(told), seconds(spread)),
                tells,
                "{told} {spread}"
            );
        }
    }
}
