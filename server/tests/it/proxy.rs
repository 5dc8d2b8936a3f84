//! Stands between a store and its Postgres, and loses what it is told to lose.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

const SOCKET: &str = ".s.PGSQL.5432";

/// A proxy of the Postgres protocol on a socket of its own. It ends when dropped.
pub(crate) struct Proxy {
    dir: TempDir,
    down: watch::Sender<bool>,
    swallow: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// In front of the Postgres of `url`.
    pub(crate) fn before(url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join(SOCKET)).unwrap();
        let behind = url.split_once("?host=").unwrap().1;
        let behind = PathBuf::from(behind.split('&').next().unwrap()).join(SOCKET);
        let (down, cut) = watch::channel(false);
        let swallow = Arc::new(AtomicU32::new(0));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, behind, cut, Arc::clone(&swallow)));
        Self {
            dir,
            down,
            swallow,
            _tasks: tasks,
        }
    }

    pub(crate) fn url(&self) -> String {
        let dir = self.dir.path().display();
        format!("postgres://fleetbeat@localhost:5432/fleetbeat?host={dir}&sslmode=disable")
    }

    /// While down, Postgres can't be reached; whatever is open is cut.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.send_replace(down);
    }

    /// The next `count` commits reach Postgres, and their answers nobody.
    pub(crate) fn swallow_answers(&self, count: u32) {
        self.swallow.store(count, Ordering::SeqCst);
    }

    /// How many answers are still to be swallowed.
    pub(crate) fn to_swallow(&self) -> u32 {
        self.swallow.load(Ordering::SeqCst)
    }
}

async fn serve(
    listener: UnixListener,
    behind: PathBuf,
    cut: watch::Receiver<bool>,
    swallow: Arc<AtomicU32>,
) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *cut.borrow() {
            continue;
        }
        if let Ok(server) = UnixStream::connect(&behind).await {
            connections.spawn(carry(client, server, cut.clone(), Arc::clone(&swallow)));
        }
    }
}

async fn carry(
    mut client: UnixStream,
    mut server: UnixStream,
    mut cut: watch::Receiver<bool>,
    swallow: Arc<AtomicU32>,
) {
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut committing = false;
    loop {
        tokio::select! {
            read = client.read(&mut up) => {
                let Ok(length @ 1..) = read else { return };
                committing |= holds(&up[..length], b"Q\0\0\0\x0bCOMMIT\0");
                if server.write_all(&up[..length]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut down) => {
                let Ok(length @ 1..) = read else { return };
                let answered = committing && holds(&down[..length], b"COMMIT\0");
                let take = |left: u32| left.checked_sub(1);
                if answered && swallow.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                    return;
                }
                committing &= !answered;
                if client.write_all(&down[..length]).await.is_err() {
                    return;
                }
            }
            () = until_cut(&mut cut) => return,
        }
    }
}

async fn until_cut(cut: &mut watch::Receiver<bool>) {
    // An error means that the proxy is gone, and its tasks with it.
    let _ = cut.wait_for(|down| *down).await;
}

fn holds(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
