use std::io::{BufRead as _, Write as _};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use fleetbeat_drill::relay::{Command, GRAMMAR, Relay, Tally};
use tokio::net::lookup_host;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

const SHOW_EVERY: Duration = Duration::from_secs(1);
/// Lines of standard input that may wait.
const LINES: usize = 16;

const EXAMPLES: &str = "\
Examples:
  Agents behind a path of 3 s, whose bytes come in bursts:
    fleetbeat-drill relay --listen 127.0.0.1:7700 --to 127.0.0.1:7601 \"both delay=3s gather=2s\"

  A middlebox that forgets flows after 60 s of quiet:
    fleetbeat-drill relay --listen 127.0.0.1:7700 --to 127.0.0.1:7601 \"idle 60s forget\"

  Six of ten flows stop for 20 s, one minute from the start:
    (sleep 60; echo flows 6/10 both stop; sleep 20; echo heal) | \\
      fleetbeat-drill relay --listen 127.0.0.1:7700 --to 127.0.0.1:7601

It prints what it did, as a line of JSON, each second in which something happened.";

#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Arguments {
    /// Where connections are taken, such as 127.0.0.1:7700; port 0 lets the system choose
    #[arg(long)]
    listen: SocketAddr,
    /// Where they lead, such as 127.0.0.1:7601
    #[arg(long)]
    to: String,
    /// What is wrong from the start; none means nothing
    #[arg(value_name = "COMMAND")]
    commands: Vec<Command>,
}

fn help() -> String {
    format!("{GRAMMAR}\n\n{EXAMPLES}")
}

/// One thread is enough for thousands of flows.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(relay(arguments))?;
    Ok(ExitCode::SUCCESS)
}

async fn relay(arguments: &Arguments) -> Result<()> {
    let to = lookup_host(&arguments.to).await;
    let to = to
        .with_context(|| format!("cannot resolve {}", arguments.to))?
        .next();
    let to = to.with_context(|| format!("{} has no address", arguments.to))?;
    let relay = Relay::start(arguments.listen, to).await?;
    for command in &arguments.commands {
        relay.obey(command);
    }
    println!("Relaying {} to {to}", relay.address());
    let mut lines = lines();
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut ticks = tokio::time::interval(SHOW_EVERY);
    let mut shown = Tally::default();
    loop {
        tokio::select! {
            _ = terminated.recv() => return show(&relay.tally()),
            _ = interrupted.recv() => return show(&relay.tally()),
            Some(line) = lines.recv() => match relay.tell(&line) {
                Ok(()) => println!("Doing `{line}`"),
                Err(error) => eprintln!("error: {error:#}"),
            },
            _ = ticks.tick() => {
                let tally = relay.tally();
                if tally != shown {
                    show(&tally)?;
                    shown = tally;
                }
            }
        }
    }
}

/// Lines of standard input, until it ends.
fn lines() -> mpsc::Receiver<String> {
    let (told, lines) = mpsc::channel(LINES);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if !line.trim().is_empty() && told.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn show(tally: &Tally) -> Result<()> {
    println!("{}", serde_json::to_string(tally)?);
    Ok(std::io::stdout().flush()?)
}
