//! Why a verdict was reached, as facts and as the sentence that they make.

mod sentence;

use std::time::Duration;

use crate::fence::Fence;
use crate::path::Evidence;
use crate::rtt;
use crate::span::Span;

/// What is known when a verdict is reached. Ages are on the server's monotonic clock at that moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Grounds {
    pub trigger: Trigger,
    /// Unset when this server never heard the agent.
    pub silence: Option<Silence>,
    /// Lateness of the lane's last tick.
    pub lane_lag: Duration,
    /// How long verdicts were held back: a grace after the server's own deafness, or a hold.
    pub held: Duration,
}

/// What made the verdict change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// Hello was accepted.
    Opened { fence: Fence },
    /// A message came from an agent that was not counted as online, after so much silence.
    HeardAgain { after: Duration },
    /// Silence of a live session passed `limit`: T + W for suspicion, D for conviction.
    Silent { limit: Duration },
    /// The session ended.
    Ended { fence: Fence, how: String },
    /// The agent said goodbye.
    Left {
        how: String,
        back_within: Option<Duration>,
    },
    /// A session ended, and the agent did not come back within `limit` of its last message.
    NotBack { limit: Duration, how: String },
    /// The session ended soon after the server itself had been deaf for so long.
    ServerDeaf { stall: Duration, how: String },
    /// The lane of the session does not read its sockets.
    LaneDeaf { lane: usize },
    /// The server was away and has not heard of the agent since.
    ServerAway,
    /// The agent did not come back although it had a fair chance after the server had been away.
    AwayTooLong,
    /// The agent did not come back although it had a fair chance after `doubt` had kept it from being
    /// judged.
    StayedAway { doubt: String },
    /// The agent left and did not come back within the time it had told.
    Overdue { how: String, within: Duration },
    /// The server cannot show that it would hear the agent.
    Doubt { because: String },
}

/// The silence of an agent and what is known of the session that fell silent.
#[derive(Debug, Clone, PartialEq)]
pub struct Silence {
    /// What arrived last.
    pub last: Heard,
    /// Its age.
    pub age: Duration,
    /// Heartbeats that the agent promised since and that did not come: one for every whole T.
    pub missed: u64,
    /// Heartbeats that the agent promised since its session opened, at least.
    pub owed: u64,
    /// Those that came.
    pub beats: u64,
    /// Round trips of the last beats.
    pub rtt: rtt::Summary,
    /// The agent's own lag as its last PING told it; zero when that was below 50 ms.
    pub agent_lag: Duration,
    /// Messages that waited inside the agent, as its last PING told it.
    pub agent_queue: u32,
    /// What the kernel says, once it was asked.
    pub evidence: Option<Evidence>,
}

/// A message of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heard {
    Hello,
    /// With its sequence number.
    Ping(u64),
    CheckReply,
    TuningAck,
    ProbeReport,
    Goodbye,
    /// A kind of a later version of the contract.
    Other,
}

impl Heard {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Ping(_) => "ping",
            Self::CheckReply => "check_reply",
            Self::TuningAck => "tuning_ack",
            Self::ProbeReport => "probe_report",
            Self::Goodbye => "goodbye",
            Self::Other => "other",
        }
    }
}

impl Trigger {
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::HeardAgain { .. } => "heard_again",
            Self::Silent { .. } => "silent",
            Self::Ended { .. } => "ended",
            Self::Left { .. } => "left",
            Self::NotBack { .. } => "not_back",
            Self::ServerDeaf { .. } => "server_deaf",
            Self::LaneDeaf { .. } => "lane_deaf",
            Self::ServerAway => "server_away",
            Self::AwayTooLong => "away_too_long",
            Self::StayedAway { .. } => "stayed_away",
            Self::Overdue { .. } => "overdue",
            Self::Doubt { .. } => "doubt",
        }
    }

    /// The silence that was allowed, when the verdict rests on silence.
    #[must_use]
    pub const fn limit(&self) -> Option<Duration> {
        match self {
            Self::Silent { limit } | Self::NotBack { limit, .. } => Some(*limit),
            Self::Opened { .. }
            | Self::HeardAgain { .. }
            | Self::Ended { .. }
            | Self::Left { .. }
            | Self::ServerDeaf { .. }
            | Self::LaneDeaf { .. }
            | Self::ServerAway
            | Self::AwayTooLong
            | Self::StayedAway { .. }
            | Self::Overdue { .. }
            | Self::Doubt { .. } => None,
        }
    }

    /// What is said of an agent that was unknown for this, and has had its fair chance to come back.
    #[must_use]
    pub fn outlasted(&self) -> Self {
        match self {
            Self::Doubt { because } => Self::StayedAway {
                doubt: because.clone(),
            },
            Self::ServerDeaf { stall, .. } => Self::StayedAway {
                doubt: format!("the server had been deaf for {}", Span(*stall)),
            },
            Self::LaneDeaf { lane } => Self::StayedAway {
                doubt: format!("lane {lane} of the server did not read its sockets"),
            },
            Self::Opened { .. }
            | Self::HeardAgain { .. }
            | Self::Silent { .. }
            | Self::Ended { .. }
            | Self::Left { .. }
            | Self::NotBack { .. }
            | Self::ServerAway
            | Self::AwayTooLong
            | Self::StayedAway { .. }
            | Self::Overdue { .. } => Self::AwayTooLong,
        }
    }
}

impl Grounds {
    /// Grounds that rest on nothing but `trigger`.
    #[must_use]
    pub fn bare(trigger: Trigger) -> Self {
        Self {
            trigger,
            silence: None,
            lane_lag: Duration::ZERO,
            held: Duration::ZERO,
        }
    }

    /// How late the judge was: silence beyond what was allowed and beyond what it was held back for.
    /// `None` when the verdict rests on something else.
    #[must_use]
    pub fn judged_late(&self) -> Option<Duration> {
        let silence = self.silence.as_ref()?;
        let due = self.trigger.limit()?.saturating_add(self.held);
        Some(silence.age.saturating_sub(due))
    }
}
