use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use fleetbeat_liveness::moment::Moment;
use fleetbeat_liveness::path::Kernel;
use futures_util::task::AtomicWaker;
use parking_lot::Mutex;

use super::Session;

/// What a session tells the connection that carries it.
#[derive(Debug, Default)]
pub struct Link {
    /// Our address on it.
    local: Option<IpAddr>,
    waker: AtomicWaker,
    sessions: Mutex<Vec<Weak<Session>>>,
    /// The kernel's buffer was seen empty at this moment, after everything before was read.
    quiet_at: AtomicU64,
    /// What the kernel told of the connection last, and when.
    kernel: Mutex<Option<(Moment, Kernel)>>,
    /// How often in a row bytes waited there.
    unread: AtomicU32,
    peek: AtomicBool,
    account: AtomicBool,
    retuned: AtomicBool,
}

impl Link {
    /// Of a connection that ended at this address of ours.
    #[must_use]
    pub fn at(local: Option<IpAddr>) -> Self {
        Self {
            local,
            ..Self::default()
        }
    }

    pub(super) fn local(&self) -> Option<IpAddr> {
        self.local
    }

    pub(super) fn carry(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|weak| weak.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
        drop(sessions);
        self.apply_socket_options();
    }

    /// Live sessions on this connection.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        let sessions = self.sessions.lock();
        let live = sessions.iter().filter_map(Weak::upgrade);
        live.filter(|session| session.ending().is_none()).collect()
    }

    /// The connection sleeps until its socket, or one of the requests below, wakes it.
    pub fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(super) fn request_peek(&self) {
        self.unread.store(0, Ordering::Release);
        self.peek.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub(super) fn request_account(&self) {
        self.account.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether somebody wants to know what the kernel tells of the connection; clears the request.
    #[must_use]
    pub fn take_account(&self) -> bool {
        self.account.swap(false, Ordering::AcqRel)
    }

    /// The kernel's account at `now`.
    pub fn tell(&self, now: Moment, kernel: Kernel) {
        *self.kernel.lock() = Some((now, kernel));
    }

    pub(super) fn kernel(&self) -> Option<(Moment, Kernel)> {
        *self.kernel.lock()
    }

    pub(super) fn apply_socket_options(&self) {
        self.retuned.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether somebody wants to know if bytes wait in the kernel; clears the request, so that one made
    /// while the answer is found is not lost with it.
    #[must_use]
    pub fn take_peek(&self) -> bool {
        self.peek.swap(false, Ordering::AcqRel)
    }

    /// Nothing waited in the kernel at `now`, and everything read before has been handed on.
    pub fn quiet(&self, now: Moment) {
        self.quiet_at.store(now.as_nanos(), Ordering::Release);
        self.unread.store(0, Ordering::Release);
    }

    /// Bytes waited in the kernel, and the connection will look again.
    pub fn unread(&self) {
        self.unread.fetch_add(1, Ordering::AcqRel);
    }

    /// How often the connection has looked since the last request, and found bytes that it could not read.
    #[must_use]
    pub fn looks_in_vain(&self) -> u32 {
        self.unread.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn quiet_since(&self, nominated: Moment) -> bool {
        Moment::from_nanos(self.quiet_at.load(Ordering::Acquire)) >= nominated
    }

    /// Whether the socket options have to follow a retune; clears the request.
    #[must_use]
    pub fn take_retuned(&self) -> bool {
        self.retuned.swap(false, Ordering::AcqRel)
    }
}
