use std::time::Duration;

use fleetbeat_liveness::Moment;
use fleetbeat_proto::v1;
use fleetbeat_proto::v1::from_agent::Message;
use rand::rngs::StdRng;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};
use tonic::Status;

use super::{Agent, Stopped, stopped};
use crate::config::ServerUrl;
use crate::keeper::Kept;
use crate::session::{Cause, Ending, Output, Session};
use crate::transport::{Fault, Link, explain};

/// How often the agent looks at its own lag, at its outbox and at the clocks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The transport has this long to take a message.
const SEND_WITHIN: Duration = Duration::from_secs(10);
/// Time for a last message to leave, inside the 2 s that stopping may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(1_500);
/// Time for telling a server that it cannot be confirmed.
const GIVE_UP_WITHIN: Duration = Duration::from_millis(500);

/// What woke the loop.
enum Event {
    Stop,
    Received(Result<Option<v1::FromServer>, Status>),
    Due,
    Kept(Kept),
    Look { scheduled: Instant },
}

impl Agent {
    /// Attends to one stream until it is over. Sending, receiving and judging never wait for each other:
    /// messages go to the outbox, which other tasks empty.
    pub(super) async fn attend(
        &mut self,
        mut link: Link,
        server: &ServerUrl,
    ) -> Result<Ending, Stopped> {
        let mut session = self.greet(&link);
        let mut looks = looks();
        let ending = loop {
            if let Some(ending) = self.act(&mut session, &link, server) {
                break ending;
            }
            follow(&mut link, &session);
            self.show(&session);
            let due = self.clock.instant(session.poll_timeout());
            let event = tokio::select! {
                () = stopped(&mut self.stop) => Event::Stop,
                received = link.receive() => Event::Received(received),
                () = sleep_until(due) => Event::Due,
                kept = self.keeper.kept() => Event::Kept(kept),
                scheduled = looks.tick() => Event::Look { scheduled },
            };
            self.apply(event, &mut session, &link, server.tls());
        };
        match ending.cause {
            Cause::Goodbye => {
                link.finish(GOODBYE_WITHIN).await;
                Err(Stopped)
            }
            Cause::ServerSilent
            | Cause::Slept
            | Cause::Broken
            | Cause::Calmed
            | Cause::Unanswered => {
                link.finish(GIVE_UP_WITHIN).await;
                Ok(ending)
            }
            Cause::Told(_) => Ok(ending),
        }
    }

    fn greet(&mut self, link: &Link) -> Session<StdRng> {
        let hello = self.hello();
        let now = self.clock.now();
        // Pauses before this session are no matter of it.
        self.pauses.skip(now);
        link.outbox.put(now, Message::Hello(hello));
        let patience = self.patience.current();
        Session::greet_patiently(now, self.acknowledged, patience, rand::make_rng())
    }

    /// Shows the watchdog what this loop believes.
    fn show(&self, session: &Session<StdRng>) {
        self.vitals.turned(self.clock.now());
        if session.live() {
            self.vitals.in_session(&session.expectation());
        } else {
            self.vitals.without_session();
        }
    }

    fn apply(&mut self, event: Event, session: &mut Session<StdRng>, link: &Link, tls: bool) {
        let now = self.clock.now();
        // First of all: what else happened may be the pause's doing.
        if let Some(pause) = self.pauses.look(now) {
            tracing::warn!(%pause, "Pause noticed");
            session.paused(now, pause, link.outbox.waiting());
        }
        match event {
            Event::Stop => {
                let back_within = self.settings.restart_within;
                session.leave(now, "the agent was told to stop", back_within);
            }
            Event::Received(Ok(Some(message))) => {
                self.vitals.exchanged(now);
                session.handle_message(now, message);
            }
            Event::Received(Ok(None)) => {
                session.broken(now, "the server ended the stream");
            }
            Event::Received(Err(status)) => {
                let (fault, detail) = explain(&status, session.live(), tls);
                match fault {
                    Fault::Calmed => session.rejected(now, &detail),
                    Fault::Other => session.broken(now, &detail),
                }
            }
            Event::Due => session.handle_timeout(now, link.outbox.waiting()),
            Event::Kept(kept) => {
                self.note_kept(&kept);
                session.kept(now, kept.revised);
            }
            Event::Look { scheduled } => self.look(now, scheduled, session, link),
        }
    }

    fn look(
        &mut self,
        now: Moment,
        scheduled: Instant,
        session: &mut Session<StdRng>,
        link: &Link,
    ) {
        session.lagged(scheduled.elapsed());
        self.notify.attend(now);
        let stuck = link.outbox.waiting_since().map(|since| now.since(since));
        if stuck.is_some_and(|stuck| stuck >= SEND_WITHIN) {
            session.give_up(now, Cause::Broken, "the transport took no message for 10 s");
        }
    }

    /// Does what the session asks for. Returns its ending when it has one.
    fn act(
        &mut self,
        session: &mut Session<StdRng>,
        link: &Link,
        server: &ServerUrl,
    ) -> Option<Ending> {
        while let Some(output) = session.poll() {
            match output {
                Output::Send(message) => link.outbox.put(self.clock.now(), message),
                Output::Welcomed {
                    session_id,
                    server: name,
                } => {
                    self.log_welcome(session, server, &session_id, &name);
                }
                Output::Keep(revised) => {
                    tracing::info!(
                        revision = revised.revision,
                        tuning = %revised.tuning,
                        "Tuning applied"
                    );
                    self.keeper.keep(revised);
                }
                Output::Refused { revision, reason } => {
                    tracing::warn!(
                        revision,
                        reason,
                        "Tuning refused, the one before stays in force"
                    );
                }
                Output::End(ending) => return Some(ending),
            }
        }
        None
    }

    fn log_welcome(
        &mut self,
        session: &Session<StdRng>,
        server: &ServerUrl,
        session_id: &[u8],
        name: &str,
    ) {
        let session_id = uuid::Uuid::from_slice(session_id).unwrap_or_default();
        let tuning = session.in_force().tuning;
        tracing::info!(
            session.id = %session_id,
            server = %server,
            server.name = name,
            tuning = %tuning,
            "Session opened"
        );
        self.notify.status(&format!("In session with {server}"));
        self.notify.ready();
        self.dialer.learn(true);
        self.patience.paid_off();
        self.state.told_stuck();
        self.complaint = None;
    }

    /// A tuning that cannot be written is in force all the same: the server hears at the next start that
    /// it is not, and gives it again.
    pub(super) fn note_kept(&mut self, kept: &Kept) {
        self.acknowledged = Some(kept.revised);
        if let Err(error) = &kept.result {
            tracing::warn!(
                %error,
                revision = kept.revised.revision,
                "Tuning cannot be written, it holds for this run only"
            );
        }
    }
}

/// Lets the kernel tolerate what the session tolerates.
fn follow(link: &mut Link, session: &Session<StdRng>) {
    match link.socket.follow(&session.expectation()) {
        Ok(Some(applied)) => tracing::debug!(
            keepalive = %applied.keepalive,
            keepalive.adjusted = applied.adjusted,
            user_timeout = ?applied.user_timeout,
            "Socket options applied"
        ),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "Socket options cannot be set"),
    }
}

/// After a stop of this process the looks that it missed are not made up for.
fn looks() -> Interval {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}
