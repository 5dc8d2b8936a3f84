use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use fleetbeat_liveness::Moment;
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::from_agent::Message;
use futures_util::Stream;

/// What waits for the transport: one place for each kind of message, where the newest replaces what was
/// not taken yet. Memory does not depend on how long the transport takes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox(Arc<Mutex<Places>>);

#[derive(Debug, Default)]
struct Places {
    /// By [`place`].
    messages: [Option<Message>; PLACES],
    closed: bool,
    /// Since when something has been waiting without a break.
    waiting_since: Option<Moment>,
    reader: Option<Waker>,
}

const PLACES: usize = 6;

/// Order in which waiting messages go out.
fn place(message: &Message) -> usize {
    match message {
        Message::Hello(_) => 0,
        Message::CheckReply(_) => 1,
        Message::TuningAck(_) => 2,
        Message::Ping(_) => 3,
        Message::ProbeReport(_) => 4,
        Message::Goodbye(_) => 5,
    }
}

impl Outbox {
    pub(crate) fn put(&self, now: Moment, message: Message) {
        let mut places = self.lock();
        places.waiting_since.get_or_insert(now);
        let place = place(&message);
        places.messages[place] = Some(message);
        places.wake();
    }

    /// Nothing follows what waits: the stream ends behind it.
    pub(crate) fn close(&self) {
        let mut places = self.lock();
        places.closed = true;
        places.wake();
    }

    /// Messages that the transport did not take yet.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().messages.iter().flatten().count()
    }

    /// Since when the transport has left something waiting.
    pub(crate) fn waiting_since(&self) -> Option<Moment> {
        self.lock().waiting_since
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    fn take(&mut self) -> Option<Message> {
        let taken = self.messages.iter_mut().find_map(Option::take);
        if self.messages.iter().all(Option::is_none) {
            self.waiting_since = None;
        }
        taken
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

impl Stream for Outbox {
    type Item = v1::FromAgent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut places = self.lock();
        if let Some(message) = places.take() {
            return Poll::Ready(Some(v1::FromAgent {
                message: Some(message),
            }));
        }
        if places.closed {
            return Poll::Ready(None);
        }
        places.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use fleetbeat_liveness::Moment;
    use fleetbeat_liveness::strain::QUEUE_MOST;
    use fleetbeat_proto::v1;
    use fleetbeat_proto::v1::from_agent::Message;
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::Outbox;

    const NOW: Moment = Moment::from_nanos(5);

    fn ping(seq: u64) -> Message {
        Message::Ping(v1::Ping {
            seq,
            ..v1::Ping::default()
        })
    }

    fn goodbye() -> Message {
        Message::Goodbye(v1::Goodbye::default())
    }

    /// What the transport gets, in a word.
    fn next(outbox: &mut Outbox) -> String {
        let Some(item) = outbox.next().now_or_never() else {
            return "nothing".to_owned();
        };
        match item.map(|item| item.message.unwrap()) {
            Some(Message::Ping(ping)) => format!("ping {}", ping.seq),
            Some(message) if message == goodbye() => "goodbye".to_owned(),
            Some(message) => format!("{message:?}"),
            None => "end".to_owned(),
        }
    }

    #[test]
    fn the_newest_of_a_kind_replaces_what_was_not_taken() {
        let mut outbox = Outbox::default();
        for seq in 1..100 {
            outbox.put(NOW, ping(seq));
        }
        assert_eq!(outbox.waiting(), 1);
        assert_eq!(next(&mut outbox), "ping 99");
        assert_eq!(next(&mut outbox), "nothing");
    }

    /// Field report D09.
    #[test]
    fn an_outbox_that_is_not_emptied_tells_of_more_than_is_taken_for_healthy() {
        let outbox = Outbox::default();
        outbox.put(NOW, ping(1));
        outbox.put(NOW, Message::CheckReply(v1::CheckReply::default()));
        assert!(outbox.waiting() > QUEUE_MOST as usize);
    }

    #[test]
    fn goodbye_is_the_last_message_and_the_stream_ends_behind_it() {
        let mut outbox = Outbox::default();
        outbox.put(NOW, goodbye());
        outbox.put(NOW, ping(1));
        outbox.close();
        assert_eq!(next(&mut outbox), "ping 1");
        assert_eq!(next(&mut outbox), "goodbye");
        assert_eq!(next(&mut outbox), "end");
    }

    #[test]
    fn waiting_counts_from_the_first_message_that_found_the_outbox_empty() {
        let mut outbox = Outbox::default();
        assert_eq!(outbox.waiting_since(), None);
        outbox.put(NOW, ping(1));
        outbox.put(Moment::from_nanos(9), goodbye());
        assert_eq!(outbox.waiting_since(), Some(NOW));
        next(&mut outbox);
        assert_eq!(outbox.waiting_since(), Some(NOW));
        next(&mut outbox);
        assert_eq!(outbox.waiting_since(), None);
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken() {
        let mut outbox = Outbox::default();
        let writer = outbox.clone();
        let (read, ()) = tokio::join!(outbox.next(), async move { writer.put(NOW, ping(1)) });
        assert_eq!(read.and_then(|item| item.message), Some(ping(1)));
    }
}
