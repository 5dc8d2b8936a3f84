//! Log lines on their way to standard error: a bounded queue and a thread, because a reader that has
//! stopped reading must not stop a lane.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait; further ones are dropped and counted.
const WAITING: usize = 8192;

enum Item {
    Line(Vec<u8>),
    Flushed(SyncSender<()>),
}

/// Counts lines that were dropped because nobody read the log.
#[derive(Debug, Clone, Default)]
pub struct LostLines(Arc<AtomicU64>);

impl LostLines {
    /// Lines lost since the start.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The queue; its thread ends when the last writer is gone.
#[derive(Debug)]
pub(super) struct Lines {
    sender: SyncSender<Item>,
    lost: LostLines,
}

impl Lines {
    pub(super) fn start(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        let lost = LostLines::default();
        let counted = lost.clone();
        thread::Builder::new()
            .name("log".into())
            .spawn(move || drain(&receiver, sink, &counted))?;
        Ok(Self { sender, lost })
    }

    pub(super) fn writer(&self) -> Writer {
        Writer {
            sender: self.sender.clone(),
            lost: self.lost.clone(),
        }
    }

    pub(super) fn lost(&self) -> LostLines {
        self.lost.clone()
    }

    /// Waits until every line sent before is written, at most `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let (done, flushed) = sync_channel(1);
        if self.sender.try_send(Item::Flushed(done)).is_ok() {
            // A time-out means that nobody reads the log: there is nothing left to do about it.
            let _ = flushed.recv_timeout(patience);
        }
    }
}

fn drain(items: &Receiver<Item>, mut sink: impl Write, lost: &LostLines) {
    while let Ok(item) = items.recv() {
        match item {
            Item::Line(line) => {
                if sink.write_all(&line).is_err() {
                    lost.0.fetch_add(1, Ordering::Relaxed);
                }
            }
            Item::Flushed(done) => {
                // Whoever asked may have given up waiting.
                let _ = sink.flush();
                let _ = done.try_send(());
            }
        }
    }
}

/// Hands each event's text to the queue.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    sender: SyncSender<Item>,
    lost: LostLines,
}

impl Write for Writer {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(Item::Line(line.to_vec())).is_err() {
            self.lost.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Writer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
