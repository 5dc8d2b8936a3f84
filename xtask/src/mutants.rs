//! Plants bugs in a copy of the product and expects the simulator to find each.
//!
//! All of them are planted at once, each behind a switch that an environment variable turns, so that the
//! copy is built once. The product itself holds no hooks.

mod planted;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::steps;
use crate::workspace::{cargo, root, target};
use planted::{EDITS, Edit};

/// Crates that the simulator consists of, and what they read while they are built.
const COPIED: [&str; 6] = [
    "proto",
    "liveness",
    "server",
    "agent",
    "simulation",
    "migrations",
];
/// The first seed, and how many are tried for each bug.
const FROM: u64 = 1;
const SEEDS: u64 = 60;
/// Seeds that must be green without any bug.
const GREEN: u64 = 10;
const SWITCH: &str = "FLEETBEAT_MUTANT";
/// What the copy's `liveness` gets, which all the other crates use.
const SWITCHES: &str = r#"
/// Which planted bug is on.
pub mod mutant {
    static ON: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("FLEETBEAT_MUTANT").unwrap_or_default());

    /// Whether this one is.
    #[must_use]
    pub fn on(name: &str) -> bool {
        ON.as_str() == name
    }
}
"#;

/// What a seed brought to light.
#[derive(Debug)]
struct Found {
    seed: u64,
    invariant: String,
    violation: String,
}

/// Builds the copy with all bugs and expects the simulator to find each.
pub(crate) fn run() -> Result<()> {
    let copy = target()?.join("mutants");
    plant(&copy)?;
    let program = build(&copy)?;
    if let Some(found) = simulate(&program, "", GREEN)? {
        bail!("without any planted bug, {}", found.sentence());
    }
    println!("Without a planted bug: {GREEN} seeds are green");
    let names: BTreeSet<_> = EDITS.iter().map(|edit| edit.bug).collect();
    let mut survivors = Vec::new();
    for name in &names {
        if let Some(found) = simulate(&program, name, SEEDS)? {
            println!("{name}: {}", found.sentence());
        } else {
            println!("{name}: SURVIVES {SEEDS} seeds");
            survivors.push(*name);
        }
    }
    ensure!(
        survivors.is_empty(),
        "planted bugs survive {SEEDS} seeds: {}",
        survivors.join(", ")
    );
    println!("{} planted bugs, all found", names.len());
    Ok(())
}

/// Copies the crates and applies every edit.
fn plant(copy: &Path) -> Result<()> {
    // The copy lies deeper than the original: cargo tells packages by their place in the workspace.
    let crates = copy.join("planted");
    if crates.exists() {
        fs::remove_dir_all(&crates)
            .with_context(|| format!("cannot clear {}", crates.display()))?;
    }
    for name in COPIED {
        copy_folder(&root().join(name), &crates.join(name))?;
    }
    for edit in EDITS {
        apply(&crates, edit)?;
    }
    let lib = crates.join("liveness/src/lib.rs");
    change(&lib, |text| Ok(text + SWITCHES))?;
    // Its own name, so that it does not take the place of the real one.
    change(&crates.join("simulation/Cargo.toml"), |text| {
        Ok(text.replace(
            "name = \"fleetbeat-simulate\"",
            "name = \"fleetbeat-mutants\"",
        ))
    })?;
    write_workspace(copy)
}

fn apply(crates: &Path, edit: &Edit) -> Result<()> {
    let path = if edit.file.starts_with("liveness/") {
        "crate::mutant::on"
    } else {
        "fleetbeat_liveness::mutant::on"
    };
    let switch = format!("{path}(\"{}\")", edit.bug);
    change(&crates.join(edit.file), |text| {
        let places = text.matches(edit.find).count();
        ensure!(
            places == 1,
            "{} bug {:?}: its text is there {places} times instead of once; adapt xtask/src/mutants/planted.rs",
            edit.file,
            edit.bug
        );
        Ok(text.replacen(edit.find, &edit.put.replace("BUG", &switch), 1))
    })
}

fn change(file: &Path, edit: impl FnOnce(String) -> Result<String>) -> Result<()> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::write(file, edit(text)?).with_context(|| format!("cannot write {}", file.display()))
}

/// The same workspace with fewer members.
fn write_workspace(copy: &Path) -> Result<()> {
    let manifest =
        fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let members: Vec<_> = COPIED
        .iter()
        .filter(|name| **name != "migrations")
        .collect();
    let mut lines: Vec<String> = Vec::new();
    for line in manifest.lines() {
        if line.starts_with("members = ") {
            let members: Vec<_> = members
                .iter()
                .map(|name| format!("\"planted/{name}\""))
                .collect();
            lines.push(format!("members = [{}]", members.join(", ")));
        } else {
            lines.push(line.replace("{ path = \"", "{ path = \"planted/"));
        }
    }
    let text = lines.join("\n") + "\n";
    fs::write(copy.join("Cargo.toml"), text).context("cannot write the copy's Cargo.toml")?;
    fs::copy(root().join("Cargo.lock"), copy.join("Cargo.lock"))
        .context("cannot copy Cargo.lock")?;
    Ok(())
}

fn build(copy: &Path) -> Result<PathBuf> {
    let target = target()?;
    let mut build = cargo([
        "build",
        "--quiet",
        "--offline",
        "--package",
        "fleetbeat-simulation",
    ]);
    build.current_dir(copy).env("CARGO_TARGET_DIR", &target);
    steps::run(&mut build)?;
    Ok(target.join("debug/fleetbeat-mutants"))
}

/// Runs seeds with one bug on, until it shows.
fn simulate(program: &Path, bug: &str, seeds: u64) -> Result<Option<Found>> {
    let output = Command::new(program)
        .env(SWITCH, bug)
        .args([
            "--output",
            "json",
            "--from",
            &FROM.to_string(),
            "--seeds",
            &seeds.to_string(),
        ])
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if output.status.success() {
        return Ok(None);
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "{bug}: no report, but {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })?;
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    Ok(Some(Found {
        seed: report["seed"].as_u64().unwrap_or_default(),
        invariant: text("invariant"),
        violation: text("violation"),
    }))
}

impl Found {
    fn sentence(&self) -> String {
        let Self {
            seed,
            invariant,
            violation,
        } = self;
        let seeds = seed + 1 - FROM;
        format!("found by invariant {invariant} after {seeds} seeds: {violation}")
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
    }
    Ok(())
}
