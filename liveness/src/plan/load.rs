use crate::tuning::Tuning;

/// Gaps are drawn from [0.9·T, T]: as many more heartbeats than one in T.
const MEAN_GAP: f64 = 0.95;

/// What agents with a tuning cost a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// One per agent and T.
    pub beats_per_second: f64,
    /// With the gaps that agents really leave, 5.3 % more.
    pub expected_beats_per_second: f64,
    /// Heartbeats and their answers, nominal.
    pub messages_per_second: f64,
    pub bytes_per_second: f64,
}

impl Load {
    /// Of `agents` whose messages take `frame_bytes` each.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate, for people")]
    pub fn of(tuning: &Tuning, agents: u64, frame_bytes: u64) -> Self {
        let beats_per_second = agents as f64 / tuning.interval().as_secs_f64();
        let messages_per_second = beats_per_second * (1.0 + 1.0 / f64::from(tuning.pong_every()));
        Self {
            beats_per_second,
            expected_beats_per_second: beats_per_second / MEAN_GAP,
            messages_per_second,
            bytes_per_second: messages_per_second * frame_bytes as f64,
        }
    }
}
