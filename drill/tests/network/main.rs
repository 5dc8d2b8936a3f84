//! What the promises are worth on a network that is not right: real programs in network namespaces with
//! faults in the router between them, behind a relay of ours, and through the proxies that people run.
//!
//! What this machine or its kernel lacks skips the tests that need it, which is said and counted.
#![expect(
    clippy::unwrap_used,
    reason = "what is not there fails the test, and shows the logs"
)]

mod bulk;
mod cuts;
mod isolation;
mod middleboxes;
mod proxies;
mod proxy;
mod scene;
mod slow;
mod swarms;
mod world;
