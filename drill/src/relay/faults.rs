use std::time::Duration;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the side that connected.
    Up,
    Down,
}

/// How a flow is ended, or not even that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// RST to both peers.
    Reset,
    /// FIN to both peers.
    Close,
    /// Nothing is said; whatever comes is swallowed.
    Forget,
    /// Nothing is said until something comes, which is answered with RST.
    ForgetThenReset,
}

/// What is wrong with one way of a flow.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Direction {
    /// Every byte comes this much later, in order,
    pub delay: Duration,
    /// and up to this much later again.
    pub jitter: Duration,
    /// Bytes are held until the next multiple of this, then come together.
    pub gather: Duration,
    /// Bytes per second.
    pub rate: Option<u32>,
    /// Nothing passes. What comes meanwhile follows when this ends.
    pub stopped: bool,
    /// FIN and RST do not pass.
    pub ends_held: bool,
}

/// What becomes of a flow without bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    pub after: Duration,
    pub how: Cut,
    /// Only bytes that go this way count; both when unset.
    pub watching: Option<Way>,
}

/// What is wrong with a flow.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Faults {
    pub up: Direction,
    pub down: Direction,
    pub idle: Option<Idle>,
    /// Connections are taken, then nothing is said and nobody is connected to.
    pub mute: bool,
    /// The last cut of everything that was open, by its number in [`Plan::cuts`].
    pub cut: Option<(u64, Cut)>,
}

impl Faults {
    pub(super) fn direction(&self, way: Way) -> &Direction {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }

    /// Whether a connection would get through at all.
    pub(super) fn passable(&self) -> bool {
        !(self.mute || self.up.stopped || self.down.stopped)
    }
}

/// `of` out of every `per` flows, by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub of: u32,
    pub per: u32,
}

impl Share {
    fn holds(self, flow: u64) -> bool {
        flow % u64::from(self.per.max(1)) < u64::from(self.of)
    }
}

/// What is wrong with each flow.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Plan {
    pub all: Faults,
    /// Flows that fare differently from all others.
    pub share: Option<(Share, Faults)>,
    /// Cuts that were told, of all flows or of a share of them.
    pub cuts: u64,
}

impl Plan {
    /// The faults of the flow that was accepted as that one, counted from 0.
    #[must_use]
    pub fn of(&self, flow: u64) -> &Faults {
        match &self.share {
            Some((share, faults)) if share.holds(flow) => faults,
            Some(_) | None => &self.all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_spread_over_the_flows() {
        let share = Share { of: 6, per: 10 };
        let held = (0..1_000).filter(|flow| share.holds(*flow)).count();
        assert_eq!(held, 600);
    }
}
