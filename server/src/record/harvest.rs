//! Looks at the registry, four times a second.

use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use time::OffsetDateTime;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::beats::Beats;
use super::bucket::{GROUPS_S, Timeline, beats_every, beats_width};
use super::draft::{Draft, sorted};
use super::groups::Groups;
use super::queue::Queue;
use super::status::Board;
use crate::registry::{self, Agent, Registry, Session};
use crate::store::batch::Batch;
use crate::store::incidents::Incident;
use crate::store::metrics::Bucket;
use crate::store::runs::Run;

const EVERY: Duration = Duration::from_millis(250);
/// The last known state of live agents is written in ten slices, one a second.
const SLICES: u128 = 10;
const SLICE_EVERY: Duration = Duration::from_secs(1);
/// Slices are left out while the writer is behind: they say what the next one says better.
const BEHIND: u64 = 8;
/// A run that has nothing to tell still raises its lease.
const LEASE_EVERY: Duration = Duration::from_secs(5);
/// Rows of one batch, a little more or less.
const BATCH_ROWS: usize = 5_000;
/// Agents looked at before other tasks of the runtime get their turn.
const AT_ONCE: usize = 1_000;

pub(super) struct Harvester {
    registry: Arc<Registry>,
    run: Run,
    queue: Arc<Queue>,
    board: Arc<Board>,
    /// Everybody, in the order of acquaintance.
    agents: Vec<Arc<Agent>>,
    dirty: Vec<Arc<Agent>>,
    beats: Beats,
    groups: Groups,
    beats_line: Timeline,
    beats_at: Moment,
    groups_line: Timeline,
    slice: u128,
    slice_at: Moment,
    pushed_at: Moment,
}

impl Harvester {
    pub(super) fn new(
        registry: Arc<Registry>,
        run: Run,
        queue: Arc<Queue>,
        board: Arc<Board>,
    ) -> Self {
        let (now, wall) = (registry.clock().now(), registry.clock().wall());
        Self {
            registry,
            run,
            queue,
            board,
            agents: Vec::new(),
            dirty: Vec::new(),
            beats: Beats::default(),
            groups: Groups::default(),
            beats_line: Timeline::new(wall, beats_width(0)),
            beats_at: now,
            groups_line: Timeline::new(wall, GROUPS_S),
            slice: 0,
            slice_at: now,
            pushed_at: now,
        }
    }

    /// Until `finish`; then once more, whatever is not over yet included.
    pub(super) async fn run(mut self, finish: CancellationToken) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = finish.cancelled() => break,
            }
            let room = self.queue.has_room();
            self.board.full(!room);
            if room {
                self.harvest().await;
            }
            let waiting = u32::try_from(self.queue.waiting().rows);
            self.registry.set_backlog(waiting.unwrap_or(u32::MAX));
        }
        self.harvest().await;
        let wall = self.registry.clock().wall();
        let (beats, groups) = (self.beats_line.current(), self.groups_line.current());
        self.beats(beats, wall).await;
        let ended = self.beats.ended();
        self.unheard(&ended, beats, wall);
        self.groups(groups);
        self.queue.close();
    }

    async fn harvest(&mut self) {
        let clock = self.registry.clock();
        let (now, wall) = (clock.now(), clock.wall());
        self.meet();
        self.transitions(now, wall).await;
        self.incidents();
        let sessions = self.registry.session_count();
        if let Some(bucket) = self.beats_line.ended(wall, beats_width(sessions)) {
            self.beats_at = now;
            self.beats(bucket, wall).await;
        } else if now.since(self.beats_at) >= beats_every(sessions) {
            self.beats_at = now;
            self.beats(self.beats_line.current(), wall).await;
        }
        if let Some(bucket) = self.groups_line.ended(wall, GROUPS_S) {
            self.groups(bucket);
        }
        if now.since(self.slice_at) >= SLICE_EVERY {
            self.slice_at = now;
            if self.queue.waiting().batches <= BEHIND {
                self.slice(now, wall).await;
            }
        }
        if now.since(self.pushed_at) >= LEASE_EVERY {
            self.push(Batch::default());
        }
    }

    fn meet(&mut self) {
        self.agents
            .extend(self.registry.agents_from(self.agents.len()));
    }

    async fn transitions(&mut self, now: Moment, wall: OffsetDateTime) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.registry.take_record_dirty(&mut dirty);
        let policies = self.registry.policies();
        for agents in dirty.chunks(AT_ONCE) {
            let mut agents = agents.iter();
            while agents.len() > 0 {
                let mut draft = Draft::new(&self.run, &mut self.beats, self.beats_line.current());
                for agent in agents.by_ref() {
                    // Before the view, so that the state is never older than what is told of it.
                    let entries = agent.take_journal();
                    let (live, view) = (agent.session(), agent.view(now, wall));
                    let attributes = view.facts.attributes(agent.id);
                    let desired = policies.effective(&attributes).tuning.revision;
                    draft.agent(&view, desired, live.as_ref(), entries, wall);
                    if draft.rows() >= BATCH_ROWS {
                        break;
                    }
                }
                let batch = draft.seal();
                self.push(batch);
            }
            tokio::task::yield_now().await;
        }
        dirty.clear();
        self.dirty = dirty;
    }

    /// What began or ended since the last look.
    fn incidents(&mut self) {
        let changed = self.registry.incidents().take();
        if changed.is_empty() {
            return;
        }
        let run = &self.run;
        let row = |told: registry::Incident| Incident {
            incident_id: told.id,
            server_id: run.server_id,
            run_id: run.run_id,
            kind: told.kind.as_str().to_owned(),
            group: told.group,
            began: told.began,
            ended: told.ended,
            because: told.because,
            outcome: told.outcome,
        };
        let incidents = changed.into_iter().map(row).collect();
        self.push(Batch {
            incidents,
            ..Batch::default()
        });
    }

    /// The heartbeats of every session in `bucket`.
    async fn beats(&mut self, bucket: Bucket, wall: OffsetDateTime) {
        let mut rows = Vec::new();
        for agents in self.agents.chunks(AT_ONCE) {
            for session in agents.iter().filter_map(|agent| agent.session()) {
                rows.extend(self.beats.look(&session, bucket));
            }
            tokio::task::yield_now().await;
        }
        for rows in rows.chunks(BATCH_ROWS) {
            self.push(sorted(Batch {
                beats: rows.to_vec(),
                ..Batch::default()
            }));
        }
        let unheard = self.beats.unheard();
        self.unheard(&unheard, bucket, wall);
    }

    fn unheard(&mut self, sessions: &[Arc<Session>], bucket: Bucket, wall: OffsetDateTime) {
        for sessions in sessions.chunks(BATCH_ROWS) {
            let mut draft = Draft::new(&self.run, &mut self.beats, bucket);
            for session in sessions {
                draft.unheard(session, wall);
            }
            let batch = draft.seal();
            self.push(batch);
        }
    }

    fn groups(&mut self, bucket: Bucket) {
        let meters = self.registry.meters();
        let (groups, histograms) = self.groups.look(meters, self.run.server_id, bucket);
        if !groups.is_empty() {
            self.push(Batch {
                groups,
                histograms,
                ..Batch::default()
            });
        }
    }

    /// One slice of the live agents, by a hash of their ids: rows of one page come in different
    /// slices, so that each can be updated in place.
    async fn slice(&mut self, now: Moment, wall: OffsetDateTime) {
        let slice = self.slice;
        self.slice = (slice + 1) % SLICES;
        let policies = self.registry.policies();
        let mut batches = Vec::new();
        let mut draft = Draft::new(&self.run, &mut self.beats, self.beats_line.current());
        for agents in self.agents.chunks(AT_ONCE) {
            for agent in agents
                .iter()
                .filter(|agent| agent.id.as_u128() % SLICES == slice)
            {
                let view = agent.view(now, wall);
                if view.session.is_none() {
                    continue;
                }
                let attributes = view.facts.attributes(agent.id);
                let desired = policies.effective(&attributes).tuning.revision;
                draft.state(&view, desired, wall);
                if draft.rows() >= BATCH_ROWS {
                    batches.push(draft.seal());
                    draft = Draft::new(&self.run, &mut self.beats, self.beats_line.current());
                }
            }
            tokio::task::yield_now().await;
        }
        batches.push(draft.seal());
        for batch in batches.into_iter().filter(|batch| batch.rows() > 0) {
            self.push(batch);
        }
    }

    fn push(&mut self, batch: Batch) {
        self.pushed_at = self.registry.clock().now();
        self.queue.push(batch, self.pushed_at);
    }
}
