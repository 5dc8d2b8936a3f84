//! The composition root: builds every part, and stops them in order.

mod data_dir;
mod endpoints;
mod history;
mod process;
mod server;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::settings::{self, Asked, Settings};
use crate::telemetry::Telemetry;
use data_dir::DataDir;
pub use server::Server;

/// Threads for everything that is not a heartbeat.
const CONTROL_THREADS: usize = 2;
/// How long tasks may go on after everything was stopped.
const LAST_TASKS: Duration = Duration::from_secs(2);

/// Runs the program as its arguments ask.
#[must_use]
#[expect(
    clippy::print_stdout,
    reason = "what was asked for belongs on standard output"
)]
#[expect(clippy::print_stderr, reason = "the log may not be running yet")]
pub fn main() -> ExitCode {
    match settings::read(std::env::args_os(), |name| -> Option<OsString> {
        std::env::var_os(name)
    }) {
        Ok(Asked::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Asked::Run(settings)) => match run(&settings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        },
        Err(refusal) => {
            if refusal.status == 0 {
                print!("{}", refusal.text);
            } else {
                eprint!("{}", refusal.text);
            }
            ExitCode::from(refusal.status)
        }
    }
}

fn run(settings: &Settings) -> anyhow::Result<()> {
    process::end_on_panic();
    let open_files = process::raise_open_files();
    let data_dir = DataDir::open(&settings.data_dir)?;
    let control = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all()
        .build()
        .context("start the control runtime")?;
    let telemetry = Telemetry::start(settings, data_dir.server_id(), control.handle())?;
    match open_files {
        Ok(limit) => info!(
            limit,
            "Open files, which bound the connections of this process"
        ),
        Err(error) => warn!(%error, "Limit of open files could not be raised"),
    }
    let served = control.block_on(serve(settings, data_dir, &telemetry));
    if let Err(error) = &served {
        error!("Server failed: {error:#}");
    }
    // What still has to be exported is sent by tasks of the control runtime.
    telemetry.stop();
    control.shutdown_timeout(LAST_TASKS);
    served
}

async fn serve(
    settings: &Settings,
    data_dir: DataDir,
    telemetry: &Telemetry,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut asked = async || {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    };
    let stop = CancellationToken::new();
    let mut starting = std::pin::pin!(Server::start(
        settings,
        data_dir,
        telemetry,
        Clock::start(),
        &stop
    ));
    let server = tokio::select! {
        started = &mut starting => started?,
        signal = asked() => {
            info!(signal, "Stopping while starting");
            stop.cancel();
            if let Ok(server) = starting.await {
                server.stop().await;
            }
            return Ok(());
        }
    };
    tell_supervisor(&[NotifyState::Ready, NotifyState::Status("serving")]);
    let signal = asked().await;
    info!(signal, "Stopping");
    tell_supervisor(&[NotifyState::Stopping]);
    tokio::select! {
        () = server.stop() => info!("Stopped"),
        signal = asked() => warn!(signal, "Stopped without waiting any longer"),
    }
    Ok(())
}

fn tell_supervisor(states: &[NotifyState<'_>]) {
    // Without a supervisor there is nobody to tell.
    let _ = sd_notify::notify(states);
}
