use std::pin::pin;
use std::time::Duration;

use fleetbeat_proto::v1;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::super::Trouble;
use super::{AHEAD, Parts, Streamed, message};
use crate::tuning::Tally;

const WAIT: Duration = Duration::from_mins(1);
const WAIT_MOST: Duration = Duration::from_hours(1);
/// Shortest time between two messages: thousands of answers need not be thousands of messages.
const PACE: Duration = Duration::from_millis(100);

pub(super) fn watch(
    parts: &Parts,
    request: &v1::WatchRevisionRequest,
    place: OwnedSemaphorePermit,
) -> Result<Streamed<v1::RevisionProgress>, Trouble> {
    let wait = match request.wait_ns {
        0 => WAIT,
        nanos => Duration::from_nanos(nanos),
    };
    if wait > WAIT_MOST {
        return Err(Trouble::Wrong("`wait_ns` is at most one hour".into()));
    }
    let tally = parts.ledger.watch(request.revision);
    let tally = tally.ok_or_else(|| unknown(request.revision, parts.desk.policies().revision()))?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let stop = parts.stop.clone();
    parts.tasks.spawn(async move {
        follow(tally, &sender, wait, &stop).await;
        drop(place);
    });
    Ok(Streamed::new(receiver))
}

fn unknown(revision: u64, newest: u64) -> Trouble {
    Trouble::NotFound(if revision > newest {
        format!("there is no revision {revision}; the newest is {newest}")
    } else {
        format!(
            "the progress of revision {revision} is not kept: only of the last 32 that this run of \
             the server pushed; `fleetbeat tune history` shows how many agents run it"
        )
    })
}

async fn follow(
    mut tally: watch::Receiver<Tally>,
    sender: &mpsc::Sender<Result<v1::RevisionProgress, Status>>,
    wait: Duration,
    stop: &CancellationToken,
) {
    let mut end = pin!(sleep(wait));
    loop {
        let last = tally.borrow_and_update().clone();
        if sender
            .send(Ok(message::progress(&last, false)))
            .await
            .is_err()
            || last.done
        {
            return;
        }
        tokio::select! {
            () = stop.cancelled() => {
                // The reader may be gone as well.
                let _ = sender.send(Err(Trouble::Stopping.into())).await;
                return;
            }
            () = sender.closed() => return,
            () = end.as_mut() => {
                let last = tally.borrow().clone();
                let _ = sender.send(Ok(message::progress(&last, true))).await;
                return;
            }
            // An account that is forgotten stays as it was.
            changed = tally.changed() => if changed.is_err() {
                let last = tally.borrow().clone();
                let _ = sender.send(Ok(message::progress(&last, true))).await;
                return;
            }
        }
        sleep(PACE).await;
    }
}
