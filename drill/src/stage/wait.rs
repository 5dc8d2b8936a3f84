use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock;

/// Between two looks at a level.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Looks until `level` holds and yields what it found.
///
/// # Errors
///
/// At once when a look fails, and after `within` when the level never held; both name `what`.
pub async fn until<T>(
    what: &str,
    within: Duration,
    mut level: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let deadline = clock::now() + within;
    loop {
        if let Some(found) = level()
            .await
            .with_context(|| format!("while waiting for {what}"))?
        {
            return Ok(found);
        }
        if clock::now() >= deadline {
            bail!("waited {within:?} in vain for {what}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
