//! Silences while Postgres is away.

use fleetbeat_liveness::verdict::Verdict;
use fleetbeat_server::record::Room;

use super::Site;
use crate::actor::{Actor, fence, hello};
use crate::database::{Database, eventually};
use crate::proxy::Proxy;

/// T, N, W in milliseconds: suspect after 800 ms, offline after 1.6 s.
const SHORT: (u64, u32, u64) = (400, 3, 400);

/// Hard case E1: one that began and ended meanwhile is written, one that was open is settled, and a commit
/// whose answer is lost writes nothing twice.
#[tokio::test]
async fn silences_outlive_an_absence_of_postgres_and_are_written_once() {
    let (database, _store) = Database::with_schema().await;
    let proxy = Proxy::before(database.url());
    let site = Site::open(&proxy.url(), 1, Room::default());
    site.house.policy(1, SHORT);
    site.house.policy(2, SHORT);
    site.written().await;
    let heard = Actor::beating(&site.house, 1).await;
    let lost = Actor::beating(&site.house, 2).await;
    proxy.set_down(true);
    site.house.verdict(1, Verdict::Suspect).await;
    heard.ping(2, 0).await;
    site.house.verdict(1, Verdict::Online).await;
    site.house.verdict(2, Verdict::Offline).await;
    let _back = Actor::join(&site.house, fence(hello(2), 1, 2)).await;
    proxy.swallow_answers(1);
    proxy.set_down(false);
    eventually("an answer was lost", async || proxy.to_swallow() == 0).await;
    site.written().await;
    site.close().await;
    let told: String = database
        .value(
            "SELECT concat_ws(' ', \
                 bool_or(group_name = 'g1' AND ended = 'heard'), \
                 count(*) FILTER (WHERE group_name = 'g2' AND ended = 'returned'), \
                 bool_or(gap_ns <= interval_ns + timeout_ns)) FROM silences",
        )
        .await;
    assert_eq!(told, "t 1 f");
    drop(lost);
    database.stop().await;
}
