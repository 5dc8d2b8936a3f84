use std::time::Duration;

use fleetbeat_proto::v1;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::super::Trouble;
use super::tuning::store_trouble;
use super::{AHEAD, Parts, Streamed, find, message};
use crate::store::Store;
use crate::store::events::{Event, Scope};

const RECENT_MOST: u32 = 10_000;
/// Events read at once.
const BATCH: u32 = 500;
/// How often newly recorded events are looked for.
const POLL: Duration = Duration::from_millis(500);
const DOING: &str = "reading events";

pub(super) async fn watch(
    parts: &Parts,
    request: &v1::WatchEventsRequest,
    place: OwnedSemaphorePermit,
) -> Result<Streamed<v1::Event>, Trouble> {
    if request.recent > RECENT_MOST {
        return Err(Trouble::Wrong(format!("`recent` is at most {RECENT_MOST}")));
    }
    let scope = match (request.agent.as_str(), request.group.as_str()) {
        ("", "") => Scope::All,
        ("", group) => Scope::Group(group.to_owned()),
        (agent, "") => Scope::Agent(find::agent(&parts.registry, agent)?.id),
        (_, _) => return Err(Trouble::Wrong("give an agent or a group, not both".into())),
    };
    let store = parts.store.clone();
    let begin = match request.after_event_id {
        Some(after) => Begin {
            first: Vec::new(),
            cursor: after,
        },
        None => recent(&store, &scope, request.recent).await?,
    };
    let (sender, receiver) = mpsc::channel(AHEAD);
    let (stop, follow) = (parts.stop.clone(), request.follow);
    let reader = Reader {
        store,
        scope,
        cursor: begin.cursor,
        sender,
        stop,
    };
    parts.tasks.spawn(async move {
        reader.run(begin.first, follow).await;
        drop(place);
    });
    Ok(Streamed::new(receiver))
}

struct Begin {
    first: Vec<Event>,
    cursor: u64,
}

async fn recent(store: &Store, scope: &Scope, count: u32) -> Result<Begin, Trouble> {
    // Before the events themselves, so that none recorded in between is skipped.
    let newest = store.newest_event().await;
    let newest = newest.map_err(|error| store_trouble(DOING, &error))?;
    let first = match count {
        0 => Ok(Vec::new()),
        count => store.recent_events(scope, count).await,
    };
    let first = first.map_err(|error| store_trouble(DOING, &error))?;
    let last = first.last().map_or(0, |event| event.event_id);
    Ok(Begin {
        first,
        cursor: newest.max(last),
    })
}

/// Reads on from the last id it has seen. The server's one recorder commits events in the order of
/// their ids, so nothing appears behind the cursor.
struct Reader {
    store: Store,
    scope: Scope,
    cursor: u64,
    sender: mpsc::Sender<Result<v1::Event, Status>>,
    stop: CancellationToken,
}

impl Reader {
    async fn run(mut self, first: Vec<Event>, follow: bool) {
        if self.send(first).await.is_err() {
            return;
        }
        let mut begun = false;
        loop {
            match self.read().await {
                Ok(events) => {
                    begun = true;
                    let ended = events.is_empty();
                    if self.send(events).await.is_err() || (ended && !follow) {
                        return;
                    }
                    if !ended {
                        continue;
                    }
                }
                // A follower outlives a restart of Postgres; who has seen nothing yet is told.
                Err(_) if follow && begun => {}
                Err(trouble) => {
                    let _ = self.sender.send(Err(trouble.into())).await;
                    return;
                }
            }
            if self.pause().await.is_err() {
                return;
            }
        }
    }

    async fn read(&mut self) -> Result<Vec<Event>, Trouble> {
        let newest = self.store.newest_event().await;
        let newest = newest.map_err(|error| store_trouble(DOING, &error))?;
        if newest <= self.cursor {
            return Ok(Vec::new());
        }
        let events = self
            .store
            .events_after(&self.scope, self.cursor, BATCH)
            .await;
        let events = events.map_err(|error| store_trouble(DOING, &error))?;
        // Where the scope had no event up to `newest`, the next look need not begin there again.
        if events.is_empty() {
            self.cursor = newest;
        }
        Ok(events)
    }

    async fn send(&mut self, events: Vec<Event>) -> Result<(), Ended> {
        for event in events {
            self.cursor = self.cursor.max(event.event_id);
            tokio::select! {
                () = self.stop.cancelled() => return Err(self.stopping()),
                sent = self.sender.send(Ok(message::event(event))) => sent.map_err(|_| Ended)?,
            }
        }
        Ok(())
    }

    async fn pause(&self) -> Result<(), Ended> {
        tokio::select! {
            () = self.stop.cancelled() => Err(self.stopping()),
            () = self.sender.closed() => Err(Ended),
            () = sleep(POLL) => Ok(()),
        }
    }

    fn stopping(&self) -> Ended {
        // A reader that takes nothing is not waited for.
        let _ = self.sender.try_send(Err(Trouble::Stopping.into()));
        Ended
    }
}

/// The stream is over.
struct Ended;
