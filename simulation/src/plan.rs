//! What one seed is about: the fleet, its tunings, and which faults strike how often.

use std::time::Duration;

use fleetbeat_liveness::Tuning;

use crate::dice::Dice;
use crate::fault::Kind;

/// What may be chosen for a run; everything else comes from the seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub seed: u64,
    /// Agents of the fleet; 20 to 80 unless chosen.
    pub agents: Option<usize>,
    /// Virtual minutes in which faults strike; 5 to 12 unless chosen.
    pub minutes: Option<u32>,
    /// Leaves the wall clocks of the servers alone, with everything else the same.
    pub steady_wall_clocks: bool,
    /// One server with the default tuning, and no fault but hosts that lose power: how late verdicts are.
    pub calm: bool,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub agents: usize,
    pub servers: usize,
    pub lanes: usize,
    pub groups: usize,
    pub faults_for: Duration,
    pub between_faults: Duration,
    /// Faults of this seed; one that is there twice strikes twice as often.
    pub kinds: Vec<Kind>,
    /// The longest silence that may be tolerated anywhere.
    pub longest: Duration,
    pub steady_wall_clocks: bool,
    pub calm: bool,
}

impl Plan {
    pub(crate) fn draw(options: &Options, dice: &mut Dice) -> Self {
        let agents = dice.number(20, 80) as usize;
        let minutes = dice.number(5, 12);
        let mut kinds: Vec<_> = (0..dice.number(2, 7))
            .map(|_| dice.pick(Kind::ALL))
            .collect();
        kinds.extend([Kind::Retune, Kind::AgentKilled]);
        Self {
            agents: options.agents.unwrap_or(agents),
            servers: dice.pick(&[1, 1, 2, 3]),
            lanes: dice.pick(&[1, 2, 2, 3]),
            groups: dice.number(1, 4) as usize,
            faults_for: Duration::from_mins(options.minutes.unwrap_or(minutes).into()),
            between_faults: Duration::from_millis(dice.pick(&[1_000, 3_000, 8_000])),
            kinds,
            longest: Tuning::default().deadline(),
            steady_wall_clocks: options.steady_wall_clocks,
            calm: false,
        }
    }

    /// A twentieth of the fleet loses power, one after the other.
    pub(crate) fn calm(self) -> Self {
        let strikes = u32::try_from(self.agents / 20).unwrap_or(u32::MAX).max(1);
        Self {
            servers: 1,
            kinds: vec![Kind::HostLosesPower],
            between_faults: self.faults_for / strikes,
            calm: true,
            ..self
        }
    }
}

/// A tuning within the bounds, mostly fast, now and then slow.
pub(crate) fn tuning(dice: &mut Dice) -> Tuning {
    let (least, most) = if dice.chance(0.1) {
        (Duration::from_secs(20), Duration::from_secs(50))
    } else {
        (Duration::from_millis(700), Duration::from_secs(12))
    };
    let misses = dice.number(1, 4);
    let shortest = Duration::from_millis(if misses == 1 { 1_000 } else { 300 });
    let interval = dice.log_between(least, most).max(shortest);
    let timeout = dice.between(shortest, interval.min(Duration::from_secs(4)).max(shortest));
    let pong_every = if dice.chance(0.3) {
        dice.number(2, 6)
    } else {
        1
    };
    let adaptive = pong_every == 1 && dice.chance(0.3);
    let tuning = Tuning::new(interval, misses, timeout, pong_every);
    let tuning = tuning.and_then(|tuning| tuning.with_adaptive(adaptive));
    tuning.unwrap_or_default()
}
