//! What the design promises, over seeds that are always the same and seeds that never were run before.
#![expect(
    clippy::print_stdout,
    reason = "the story of a broken promise, and the fresh seeds"
)]

use fleetbeat_simulation::{Line, Options, Outcome, run, story};

/// Runs the seed and tells its story when a promise was broken.
#[track_caller]
fn keeps_every_promise(options: &Options) -> Outcome {
    let outcome = run(options, false);
    if let Some(violation) = &outcome.violation {
        for line in story(&run(options, true).lines, violation) {
            println!("{line}");
        }
        panic!(
            "seed {} breaks invariant {}: {}; replay it with `cargo xtask simulate --seed {}`",
            options.seed, violation.invariant, violation.text, options.seed
        );
    }
    outcome
}

fn seed(seed: u64) -> Options {
    Options {
        seed,
        ..Options::default()
    }
}

fn told(options: &Options) -> Vec<Line> {
    run(options, true).lines
}

#[test]
fn seeds_that_are_always_the_same_keep_every_promise() {
    for number in 1..=24 {
        keeps_every_promise(&seed(number));
    }
}

#[test]
fn seeds_that_never_were_run_before_keep_every_promise() {
    let from = u64::from(rand::random::<u32>()) << 16;
    println!("seeds from {from}");
    for number in from..from + 12 {
        keeps_every_promise(&seed(number));
    }
}

#[test]
fn a_fleet_of_a_thousand_keeps_every_promise() {
    let options = Options {
        agents: Some(1_000),
        minutes: Some(1),
        ..seed(1)
    };
    let outcome = keeps_every_promise(&options);
    assert!(outcome.tally.opened >= 1_000, "{:?}", outcome.tally);
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for number in [3, 4] {
        let first = told(&seed(number));
        assert!(first.len() > 100, "{} lines", first.len());
        assert_eq!(first, told(&seed(number)));
    }
}

/// Only the monotonic clock of a server decides.
#[test]
fn steps_of_wall_clocks_change_nothing() {
    for number in [21, 23] {
        let tally = run(&seed(number), false).tally;
        assert!(
            tally.faults.contains_key("wall clock steps"),
            "seed {number}"
        );
        let steady = Options {
            steady_wall_clocks: true,
            ..seed(number)
        };
        assert_eq!(told(&seed(number)), told(&steady), "seed {number}");
    }
}

/// Outside of stalls, graces and holds a verdict is at most 100 ms late (p99).
#[test]
fn verdicts_of_a_calm_fleet_are_in_time() {
    let options = Options {
        agents: Some(2_000),
        minutes: Some(3),
        calm: true,
        ..seed(1)
    };
    let tally = keeps_every_promise(&options).tally;
    let late = tally.lateness(99).expect("hosts that lost power for good");
    assert!(late.as_millis() <= 100, "{late:?}");
}
