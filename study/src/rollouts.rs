//! How rarely a harmless rollout is halted, and how early a harmful one, by the size of the fleet.

use std::time::Duration;

use fleetbeat_liveness::rollout::guard::Guard;
use fleetbeat_liveness::rollout::{
    Change, Gathering, Guards, OnLittle, Part, Phase, Plan, Push, Rollout, Shown, Size, Standing,
    State,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::table::{Table, real, thousands};

const SEED: u64 = 1;
const RUNS: u64 = 200;
/// Each is an owner's look at its members.
const TICK: Duration = Duration::from_secs(30);
/// What the server takes when nobody says.
const SOAK: Duration = Duration::from_mins(10);
const LOOKS: u32 = 4;
/// Disconnects per member-hour on the last good revision: one in ten hours.
const USUAL: f64 = 0.1;
const FLEETS: [u32; 4] = [10, 50, 200, 1_000];
/// Disconnects per member-hour on the candidate.
const HARMS: [(&str, f64); 4] = [
    ("none", USUAL),
    ("5 times the disconnects", 5.0 * USUAL),
    ("20 times", 20.0 * USUAL),
    ("each member drops every 2 min", 30.0),
];
const CAREFUL: [Size; 3] = [Size::Percent(5), Size::Percent(25), Size::Percent(100)];
const AT_ONCE: [Size; 1] = [Size::Percent(100)];

/// What became of many rollouts.
#[derive(Debug, Default)]
struct Told {
    halted: u64,
    halted_in_first: u64,
    /// Completed, and nobody could say whether the disconnects rose.
    blind: u64,
    reached: u64,
}

pub(crate) fn tables() -> Vec<(&'static str, String)> {
    vec![
        ("phases of 5 %, 25 % and 100 %", table(&CAREFUL)),
        ("everybody in one phase", table(&AT_ONCE)),
    ]
}

fn table(sizes: &[Size]) -> String {
    let mut table = Table::new(&[
        "what the candidate does",
        "members",
        "halted",
        "in the first phase",
        "members that saw it",
        "completed with little evidence",
    ]);
    for (name, rate) in HARMS {
        for members in FLEETS {
            let told = play(sizes, members, rate, RUNS);
            let percent = |count: u64| format!("{:.1} %", real(count * 100) / real(RUNS));
            table.row([
                name.to_owned(),
                thousands(members.into()),
                percent(told.halted),
                percent(told.halted_in_first),
                format!("{:.0}", real(told.reached) / real(RUNS)),
                percent(told.blind),
            ]);
        }
    }
    table.text()
}

fn play(sizes: &[Size], members: u32, rate: f64, runs: u64) -> Told {
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut told = Told::default();
    for _ in 0..runs {
        let (rollout, reached) = roll_out(sizes, members, rate, &mut rng);
        let progress = &rollout.progress;
        let halted = matches!(progress.state, State::RolledBack(_));
        let little = progress
            .findings
            .iter()
            .any(|finding| finding.guard == Guard::Disconnects && finding.is_little());
        told.halted += u64::from(halted);
        told.halted_in_first += u64::from(halted && progress.phase == 0);
        told.blind += u64::from(!halted && little);
        told.reached += reached;
    }
    told
}

/// Returns also how many members had the candidate at the end.
fn roll_out(sizes: &[Size], members: u32, rate: f64, rng: &mut StdRng) -> (Rollout, u64) {
    let connected: Vec<[u8; 16]> = (0..members).map(|i| u128::from(i).to_be_bytes()).collect();
    let plan = Plan {
        seed: rng.random(),
        candidate: 2,
        last_good: 1,
        phases: sizes
            .iter()
            .map(|size| Phase {
                size: *size,
                soak: SOAK,
            })
            .collect(),
        looks: LOOKS,
        guards: Guards::default(),
        on_little: OnLittle::Advance,
    };
    let mut rollout = Rollout::new(plan).expect("a valid plan");
    let push = |now| Push {
        now,
        connected: &connected,
        revision: 2,
    };
    rollout
        .start(push(Duration::ZERO))
        .expect("a planned rollout");
    let mut gathering = Gathering::default();
    let mut cohort = begin(&rollout, &mut gathering, members);
    let mut now = Duration::ZERO;
    let mut reached = cohort;
    while rollout.is_running() {
        now += TICK;
        for agent in &connected {
            rollout.tell(agent, 2, Standing::Applied);
        }
        gathering.add(Part::Candidate, &live(cohort, rate, rng));
        gathering.add(Part::Rest, &live(u64::from(members) - cohort, USUAL, rng));
        let change = rollout.observe(push(now), &gathering.evidence());
        if let Some(Change::Split(_)) = change {
            cohort = begin(&rollout, &mut gathering, members);
            reached = reached.max(cohort);
        }
    }
    (rollout, reached)
}

fn begin(rollout: &Rollout, gathering: &mut Gathering, members: u32) -> u64 {
    let cohort = rollout.progress.cohort.len();
    let rest = usize::try_from(members).map_or(0, |members| members.saturating_sub(cohort));
    gathering.begin(rest);
    u64::try_from(cohort).unwrap_or(u64::MAX)
}

/// What so many members show in one tick. Round trips are left out.
fn live(members: u64, rate: f64, rng: &mut StdRng) -> Shown {
    let lost = (0..members).filter(|_| rng.random_bool(rate * TICK.as_secs_f64() / 3_600.0));
    let lost = u32::try_from(lost.count()).unwrap_or(u32::MAX);
    Shown {
        connected: TICK * u32::try_from(members).unwrap_or(u32::MAX),
        disconnects: lost,
        reconnects: lost,
        ..Shown::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hard case C6: 1 % is the chance that was given.
    #[test]
    fn harmless_rollouts_are_hardly_ever_halted_and_harmful_ones_before_everybody_has_them() {
        for members in [10, 200] {
            let harmless = play(&CAREFUL, members, USUAL, 200);
            assert!(harmless.halted <= 5, "{members}: {harmless:?}");
            let harmful = play(&CAREFUL, members, 30.0, 200);
            assert_eq!(harmful.halted, 200, "{members}: {harmful:?}");
            let saw_it = harmful.reached / 200;
            assert!(saw_it < u64::from(members) / 2, "{members}: {harmful:?}");
        }
    }
}
