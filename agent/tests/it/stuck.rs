use std::time::Duration;

use nix::sys::ptrace;
use nix::sys::wait::{WaitStatus, waitpid};

use crate::fake::{Fake, revised};
use crate::host::Host;
use crate::within;

/// Field report D11, S19: the thread of the main loop is held as a debugger holds it, while the process
/// and its other threads live on.
#[tokio::test]
async fn an_agent_whose_main_loop_stands_still_ends_itself_and_tells_it_at_the_next_start() {
    let mut fake = Fake::start().await;
    let host = Host::new();
    let mut agent = host.spawn(&["--server", &fake.url()]);
    // 3·D = 2.7 s, raised to 10 s.
    let (mut peer, _) = fake.welcome(revised(0, 300, 2, 300)).await;
    peer.ping().await;
    ptrace::seize(agent.pid(), ptrace::Options::empty()).unwrap();
    ptrace::interrupt(agent.pid()).unwrap();
    let held = waitpid(agent.pid(), None).unwrap();
    assert!(
        matches!(held, WaitStatus::PtraceEvent(..) | WaitStatus::Stopped(..)),
        "{held:?}"
    );
    let status = agent.exit(Duration::from_secs(16)).await;
    assert_eq!(status.code(), Some(4));
    drop(peer);

    let note = host.state_dir().join("stuck.txt");
    assert!(note.exists());
    let agent = host.spawn(&["--server", &fake.url()]);
    let (mut peer, hello) = fake.welcome(revised(0, 300, 20, 300)).await;
    let account = hello.last_ending.unwrap();
    assert!(account.detail.contains("stood still"), "{account:?}");
    assert_eq!(hello.fence.unwrap().incarnation, 2);
    peer.ping().await;
    let forgotten = async {
        while note.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(
        Duration::from_secs(5),
        "what was told is forgotten",
        forgotten,
    )
    .await;
    drop(agent);
}
