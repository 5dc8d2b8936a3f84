//! How long each side may hear nothing.

use std::time::Duration;

use crate::hearing::owed_per_s;

/// What a tuning means to those who wait. Everything that waits reads only this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expectation {
    /// Longest time between two messages of the agent: T.
    pub interval: Duration,
    /// Silence of the agent after which it is suspect: `T + W`. Equal to `offline_after` when N = 1,
    /// which leaves no time for suspicion.
    pub suspect_after: Duration,
    /// Silence of the agent after which it is offline: `D = N·T + W`.
    pub offline_after: Duration,
    /// Silence of the agent that nothing tolerates: 2·D in adaptive mode, else D. See [`crate::Limits`].
    pub offline_at_most: Duration,
    /// How long the answer to a CHECK is waited for at least, in adaptive mode: W.
    pub answer_within: Duration,
    /// Time without a PING after which a busy agent's beat loop is dead: D, and at least `2·T + W`,
    /// because messages of another kind may put a PING off to 2·T.
    pub beatless_after: Duration,
    /// Longest time between two answers of the server: `R = pong_every·T`.
    pub reverse_gap: Duration,
    /// Silence of the server after which the agent leaves: `N·R + W`.
    pub server_dead_after: Duration,
    /// Silence of the server that no agent tolerates: twice that in adaptive mode.
    pub server_dead_at_most: Duration,
    /// How long the kernel of either side retransmits before it gives up: `D + W` (`2·D + W` in adaptive
    /// mode), so that it never ends what the judge tolerates.
    /// [`Keepalive::under`](crate::socket::Keepalive::under) makes it the socket's option.
    pub kernel_gives_up_after: Duration,
    /// How far to look back, when this agent is silent, for whether anybody else was heard:
    /// `max(W, (N−1)·T)`, in which a live fleet sends enough to tell.
    pub look_back: Duration,
}

impl Expectation {
    /// Patience follows the round trips: some of what may be in force is adaptive.
    #[must_use]
    pub fn adaptive(&self) -> bool {
        self.offline_at_most > self.offline_after
    }

    /// Messages that the agent owes in a look-back.
    #[must_use]
    pub fn owed_in_look_back(&self) -> f64 {
        owed_per_s(self.interval) * self.look_back.as_secs_f64()
    }

    /// The larger of each component: tolerates whatever either of the two tolerates.
    #[must_use]
    pub fn component_max(self, other: Self) -> Self {
        Self {
            interval: self.interval.max(other.interval),
            suspect_after: self.suspect_after.max(other.suspect_after),
            offline_after: self.offline_after.max(other.offline_after),
            offline_at_most: self.offline_at_most.max(other.offline_at_most),
            answer_within: self.answer_within.max(other.answer_within),
            beatless_after: self.beatless_after.max(other.beatless_after),
            reverse_gap: self.reverse_gap.max(other.reverse_gap),
            server_dead_after: self.server_dead_after.max(other.server_dead_after),
            server_dead_at_most: self.server_dead_at_most.max(other.server_dead_at_most),
            kernel_gives_up_after: self.kernel_gives_up_after.max(other.kernel_gives_up_after),
            look_back: self.look_back.max(other.look_back),
        }
    }
}
