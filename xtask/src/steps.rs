use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Runs named steps one after the other and remembers how long each took.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Runs `step` under a heading. Its error ends the whole run, after the summary.
    pub(crate) fn step(&mut self, name: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("\n== {name}");
        let started = clock();
        let outcome = step();
        let took = clock().saturating_duration_since(started);
        match &outcome {
            Ok(()) => println!("== {name}: done in {:.1} s", took.as_secs_f64()),
            Err(error) => {
                println!(
                    "== {name}: FAILED after {:.1} s: {error:#}",
                    took.as_secs_f64()
                );
                self.summary();
            }
        }
        self.done.push((name.to_owned(), took));
        outcome.with_context(|| format!("{name} failed"))
    }

    /// Prints the steps that passed with their times.
    pub(crate) fn summary(&self) {
        println!("\nPassed:");
        for (name, took) in &self.done {
            println!("  {:>7.1} s  {name}", took.as_secs_f64());
        }
        let total: Duration = self.done.iter().map(|(_, took)| *took).sum();
        println!("  {:>7.1} s  in all", total.as_secs_f64());
    }
}

/// Shows the command, runs it with this terminal, and fails when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` ended with {status}");
    }
    Ok(())
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut shown = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        shown.push(' ');
        shown.push_str(&argument.to_string_lossy());
    }
    shown
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one clock of this tool, for its steps' times"
)]
fn clock() -> Instant {
    Instant::now()
}
