use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::postmaster::{Launch, Postmaster};
use super::{State, log};

const BACKOFF_LEAST: Duration = Duration::from_millis(100);
const BACKOFF_MOST: Duration = Duration::from_secs(5);
/// A postmaster that lived that long is started again without delay.
const STABLE: Duration = Duration::from_mins(1);
const LOG_CHECK: Duration = Duration::from_secs(10);

/// Keeps Postgres running until the launch is asked to end, then stops it.
pub(super) async fn run(launch: Launch, mut postmaster: Postmaster, tell: watch::Sender<State>) {
    let mut backoff = BACKOFF_LEAST;
    loop {
        let began = Instant::now();
        let Some(how) = watch_over(&launch, &mut postmaster).await else {
            break;
        };
        tracing::warn!(postgres.pid = postmaster.pid(), %how, "The private Postgres died; starting it again");
        tell.send_replace(State::Down { why: how });
        if began.elapsed() > STABLE {
            backoff = BACKOFF_LEAST;
        }
        let Some(next) = restart(&launch, &tell, &mut backoff).await else {
            tell.send_replace(State::Stopped);
            return;
        };
        tell.send_replace(State::Running { pid: next.pid() });
        postmaster = next;
    }
    postmaster.stop(&launch.place.cluster).await;
    tracing::info!("Stopped the private Postgres");
    tell.send_replace(State::Stopped);
}

/// How it ended; `None` when it is to be stopped.
async fn watch_over(launch: &Launch, postmaster: &mut Postmaster) -> Option<String> {
    let mut log_check = interval(LOG_CHECK);
    log_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            how = postmaster.ended(&launch.place.cluster) => return Some(how),
            () = launch.asked.cancelled() => return None,
            _ = log_check.tick() => {
                if let Err(error) = log::bound(&launch.place.log) {
                    tracing::warn!(%error, "Could not bound the log of the private Postgres");
                }
            }
        }
    }
}

/// Tries until it runs; `None` when asked to stop meanwhile.
async fn restart(
    launch: &Launch,
    tell: &watch::Sender<State>,
    backoff: &mut Duration,
) -> Option<Postmaster> {
    loop {
        tokio::select! {
            () = sleep(*backoff) => {}
            () = launch.asked.cancelled() => return None,
        }
        *backoff = (*backoff * 2).min(BACKOFF_MOST);
        match launch.adopt_or_start().await {
            Ok(postmaster) => return Some(postmaster),
            Err(_) if launch.asked.is_cancelled() => return None,
            Err(error) => {
                tracing::error!(%error, "The private Postgres does not start");
                tell.send_replace(State::Down {
                    why: error.to_string(),
                });
            }
        }
    }
}
