//! The agent against a server that does exactly what each test says.

#![expect(clippy::unwrap_used, reason = "a step that fails fails its test")]

mod fake;
mod faketime;
mod host;

mod clocks;
mod configuration;
mod endings;
mod handshake;
mod lease;
mod mistakes;
mod names;
mod process;
mod proxy;
#[expect(unreachable_pub, reason = "one file for the tests of several crates")]
#[path = "../../../drill/src/skip.rs"]
mod skip;
mod stuck;
mod tls;
mod tuning;

use std::time::Duration;

/// Far beyond what any step takes; a step that takes it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// `step`, or a failed test.
async fn soon<T>(what: &str, step: impl Future<Output = T>) -> T {
    within(PATIENCE, what, step).await
}

async fn within<T>(limit: Duration, what: &str, step: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(limit, step).await;
    done.unwrap_or_else(|_| panic!("not within {limit:?}: {what}"))
}
