//! The half of a session that writes: it drains the outbox and does nothing else.

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
}

impl Mail {
    #[must_use]
    pub fn new(outbox: Arc<Outbox>, context: Arc<super::Context>) -> Self {
        Self { outbox, context }
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
        };
        self.outbox
            .poll_next(cx, || context.clock.now(), fill)
            .map(|message| message.map(Ok))
    }
}
