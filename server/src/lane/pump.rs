//! The half of a session that reads: feeds what its stream brings to its [`Attendance`].

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fleetbeat_proto::v1::{CloseReason, FromAgent};
use futures_util::Stream;
use tokio::time::Sleep;
use tonic::Streaming;

use super::attendance::Attendance;
use super::breakage;
use crate::registry::{Link, Outbox};

/// An agent says Hello within this time of opening its stream.
const HELLO_WITHIN: Duration = Duration::from_secs(10);

/// Reads one stream.
#[derive(Debug)]
pub(super) struct Pump {
    inbound: Streaming<FromAgent>,
    attendance: Attendance,
    /// Runs until a session opened.
    hello_due: Option<Pin<Box<Sleep>>>,
}

impl Pump {
    pub(super) fn new(
        inbound: Streaming<FromAgent>,
        outbox: Arc<Outbox>,
        link: Arc<Link>,
        context: Arc<super::Context>,
        peer: SocketAddr,
    ) -> Self {
        Self {
            inbound,
            attendance: Attendance::new(context, outbox, link, peer),
            hello_due: Some(Box::pin(tokio::time::sleep(HELLO_WITHIN))),
        }
    }

    /// Runs until nothing is left to read; ready when the session is over, with its reason.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        let attendance = &mut self.attendance;
        while let Poll::Ready(input) = Pin::new(&mut self.inbound).poll_next(cx) {
            match input {
                Some(Ok(message)) => attendance.received(message),
                Some(Err(status)) => {
                    let (reason, detail) = breakage::reason_of(&status);
                    attendance.broken(reason, &detail);
                }
                None => attendance.ended(),
            }
            if attendance.over() {
                return Poll::Ready(attendance.finish());
            }
        }
        if let Some(session) = attendance.session() {
            self.hello_due = None;
            session.register(cx.waker());
            attendance.convict_or_spare();
        } else if let Some(due) = &mut self.hello_due
            && due.as_mut().poll(cx).is_ready()
        {
            attendance.late();
        }
        if attendance.over() {
            Poll::Ready(attendance.finish())
        } else {
            Poll::Pending
        }
    }
}
