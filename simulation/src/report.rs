//! What the command line says in the end.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use fleetbeat_simulation::{Options, Tally, Violation, run, story};

use super::Form;

/// Runs the seed once more, listening.
pub(super) fn broken(options: &Options, violation: &Violation, form: Form) -> Result<()> {
    let told = run(options, true);
    let lines: Vec<_> = story(&told.lines, violation)
        .iter()
        .map(ToString::to_string)
        .collect();
    if form == Form::Json {
        let report = serde_json::json!({
            "seed": options.seed,
            "invariant": violation.invariant,
            "violation": violation.text,
            "story": lines,
        });
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    println!("{}\n", lines.join("\n"));
    println!(
        "Seed {} breaks invariant {}: {}",
        options.seed, violation.invariant, violation.text
    );
    println!(
        "Replay it with `fleetbeat-simulate --seed {}`",
        replay(options)?
    );
    Ok(())
}

fn replay(options: &Options) -> Result<String> {
    let mut words = options.seed.to_string();
    if let Some(agents) = options.agents {
        write!(words, " --agents {agents}")?;
    }
    if let Some(minutes) = options.minutes {
        write!(words, " --minutes {minutes}")?;
    }
    if options.calm {
        words.push_str(" --calm");
    }
    Ok(words)
}

pub(super) fn summary(from: u64, ran: u64, broken: u64, tally: &Tally, form: Form) -> Result<()> {
    let lateness = [50, 99, 100].map(|percent| tally.lateness(percent).unwrap_or_default());
    if form == Form::Json {
        let millis = lateness.map(|late| late.as_secs_f64() * 1_000.0);
        let summary = serde_json::json!({
            "from": from,
            "seeds": ran,
            "broken": broken,
            "tally": tally,
            "lateness_ms": { "p50": millis[0], "p99": millis[1], "max": millis[2] },
        });
        println!("{}", serde_json::to_string_pretty(&summary)?);
        return Ok(());
    }
    match broken {
        0 => println!("{ran} seeds from {from}: every promise was kept"),
        _ => println!("{ran} seeds from {from}: {broken} broke a promise"),
    }
    let hours = tally.virtual_seconds / 3_600;
    println!(
        "  {hours} h of virtual time, {} events, {} beats, {} sessions, {} pushes",
        tally.events, tally.beats, tally.opened, tally.pushes
    );
    println!(
        "  {} holds of verdicts, {} lanes died, {} servers given up by agents",
        tally.holds, tally.lanes_died, tally.servers_given_up
    );
    println!("  endings: {}", counts(&tally.endings));
    println!("  verdicts: {}", counts(&tally.verdicts));
    println!("  faults: {}", counts(&tally.faults));
    println!(
        "  lateness of {} convictions that nothing held up: p50 {:.1?}, p99 {:.1?}, max {:.1?}",
        tally.lateness.len(),
        lateness[0],
        lateness[1],
        lateness[2]
    );
    Ok(())
}

fn counts(counts: &BTreeMap<&'static str, u64>) -> String {
    let counts: Vec<_> = counts
        .iter()
        .map(|(word, count)| format!("{word} {count}"))
        .collect();
    counts.join(", ")
}
