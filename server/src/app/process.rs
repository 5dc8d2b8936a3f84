use std::io::Write as _;
use std::panic;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Status of a process that ends because a part of it broke.
const BROKEN: i32 = 70;

/// A panic anywhere ends the process: a server of which a part has silently died would go on saying
/// that all is well.
pub(super) fn end_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        report(info);
        end("a part of the server panicked");
    }));
}

/// Ends the process at once with a failing status, for its supervisor to start it again.
pub(super) fn end(why: &str) -> ! {
    // The log may be what broke.
    let _ = writeln!(std::io::stderr(), "fatal: {why}");
    std::process::exit(BROKEN)
}

/// Raises the soft limit of open files to the hard one, and returns it.
pub(super) fn raise_open_files() -> nix::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}
