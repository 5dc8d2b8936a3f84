//! Heartbeats beside bulk data on a narrow link with a deep queue.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fleetbeat_drill::skip::skip;
use fleetbeat_proto::v1::Verdict;

use crate::scene::{Scene, Tuned};
use crate::world::{SERVER, World, no_discipline, on_a_network};

const CHUNK: usize = 16 << 10;
/// How often both sides look whether it is over.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Bytes from the server's host to another one, as fast as the path takes them, until dropped.
#[derive(Default)]
struct Download {
    over: AtomicBool,
    received: AtomicU64,
}

/// Ends a download when dropped.
struct Running(Arc<Download>);

impl Download {
    fn start(world: &World, host: &str) -> Running {
        let download = Arc::new(Self::default());
        let listener = TcpListener::bind((SERVER, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (sending, receiving) = (Arc::clone(&download), Arc::clone(&download));
        thread::spawn(move || sending.send(&listener));
        let host = world.namespace(host);
        thread::spawn(move || {
            World::enter_namespace(&host);
            receiving.receive(TcpStream::connect(address).unwrap());
        });
        Running(download)
    }

    fn send(&self, to: &TcpListener) {
        let (mut stream, _) = to.accept().unwrap();
        stream.set_write_timeout(Some(LOOK_EVERY)).unwrap();
        while !self.over.load(Ordering::Relaxed) {
            // A full queue is the point.
            let _ = stream.write(&[0; CHUNK]);
        }
    }

    fn receive(&self, mut stream: TcpStream) {
        let mut chunk = [0; CHUNK];
        stream.set_read_timeout(Some(LOOK_EVERY)).unwrap();
        while !self.over.load(Ordering::Relaxed) {
            let read = stream.read(&mut chunk).unwrap_or(0);
            self.received.fetch_add(read as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

/// Field report A29: PONGs and pushes queue behind bulk data for seconds, and cost nobody his session.
#[test]
fn heartbeats_and_a_retune_get_through_beside_a_download_on_a_narrow_link() {
    const TUNED: Tuned = Tuned::seconds(2, 5, 2);
    const OTHER: Tuned = Tuned::seconds(1, 10, 1);
    if let Some(missing) = no_discipline("tbf") {
        return skip(&missing);
    }
    on_a_network(&["narrow"], async |world: &mut World| {
        let mut scene = Scene::on_server_host().await;
        scene.tune("", TUNED).await;
        scene.inhabit(world, &[("narrow", "default")]).await;
        let before = scene.operator.agent("narrow").await.unwrap();
        world.limit_down("narrow", "256kbit");
        let download = Download::start(world, "narrow");
        // The fault itself takes time.
        tokio::time::sleep(TUNED.deadline()).await;
        let told = scene.tune("", OTHER).await;
        assert_eq!(told["progress"]["applied"].as_u64(), Some(1), "{told}");
        tokio::time::sleep(OTHER.deadline()).await;
        let received = download.0.received.load(Ordering::Relaxed);
        let after = scene.operator.agent("narrow").await.unwrap();
        let rtt = Duration::from_nanos(after.rtt_p95_ns.unwrap());
        eprintln!("narrow: {received} bytes beside it, P95 of the round trip {rtt:?}");
        assert!(received > 256_000, "{received} bytes came down the link");
        assert!(rtt >= Duration::from_millis(500), "{rtt:?}: nothing queued");
        assert_eq!(after.session_id, before.session_id);
        assert_eq!(scene.ever(Verdict::Offline).await, Vec::<String>::new());
    });
}
