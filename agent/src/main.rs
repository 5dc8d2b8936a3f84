//! Doorway of the agent: command line, signals, exit codes.

use std::io::Write as _;
use std::process::ExitCode;

use fleetbeat_agent::config::{self, Command, Flags, Settings};
use fleetbeat_agent::state::State;
use fleetbeat_agent::telemetry::Lines;
use fleetbeat_agent::{Vitals, run, telemetry};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// The command line was understood, the agent could not go on.
const RUNTIME: u8 = 1;
/// Wrong usage or configuration; clap exits with the same.
const USAGE: u8 = 2;
/// The state directory was refused.
const STATE: u8 = 3;
/// The agent found itself stuck; the service manager starts it again.
const STUCK: u8 = 4;
/// Threads for look-ups and disk writes, of which there are few at a time.
const BLOCKING_THREADS: usize = 4;

fn main() -> ExitCode {
    let flags = Flags::read();
    match enter(flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, error)) => {
            let _ = writeln!(std::io::stderr(), "fleetbeat-agent: {error:#}");
            ExitCode::from(code)
        }
    }
}

fn enter(flags: Flags) -> Result<(), (u8, anyhow::Error)> {
    if flags.command == Some(Command::ExampleConfig) {
        return print(&config::example());
    }
    let settings = config::load(flags.options).map_err(|error| (USAGE, error.into()))?;
    if flags.command == Some(Command::CheckConfig) {
        return print(&settings.to_string());
    }
    let log = telemetry::start(&settings).map_err(|error| (RUNTIME, error.into()))?;
    warn_of_unknown_variables();
    let result = match State::open(&settings.state_dir) {
        Ok(state) => serve(settings, state, &log).map_err(|error| (RUNTIME, error)),
        Err(error) => Err((STATE, error.into())),
    };
    log.flush();
    result
}

fn print(text: &str) -> Result<(), (u8, anyhow::Error)> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .map_err(|error| (RUNTIME, error.into()))
}

fn warn_of_unknown_variables() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for (name, closest) in config::unknown_variables(names) {
        tracing::warn!(name, closest, "Variable means nothing to the agent");
    }
}

fn serve(settings: Settings, state: State, log: &Lines) -> anyhow::Result<()> {
    let log = log.clone();
    let vitals = Vitals::watched(state.stuck_file(), move || {
        log.flush();
        std::process::exit(i32::from(STUCK));
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()?;
    let result = runtime.block_on(async {
        let (tell, stop) = watch::channel(false);
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            () = run(settings, state, vitals, stop) => {}
            () = on_signal(terminate, interrupt, tell) => {}
        }
        Ok(())
    });
    // A look-up under way cannot be cancelled and must not hold up the exit.
    runtime.shutdown_background();
    result
}

/// The first signal asks the agent to leave, the second one leaves at once.
async fn on_signal(mut terminate: Signal, mut interrupt: Signal, tell: watch::Sender<bool>) {
    for _ in 0..2 {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tell.send_replace(true);
    }
}
