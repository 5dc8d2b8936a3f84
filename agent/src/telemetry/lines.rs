//! Log lines on their way to standard error: a bounded queue and a thread, because a reader that has
//! stopped reading must not stop the heartbeats.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait; further ones are dropped and counted.
const WAITING: usize = 1024;
/// Time for the last lines to be written.
const FLUSH_WITHIN: Duration = Duration::from_millis(200);

enum Item {
    Line(Vec<u8>),
    Flushed(SyncSender<()>),
}

/// The queue; its thread ends when the last copy is gone.
#[derive(Debug, Clone)]
pub struct Lines {
    sender: SyncSender<Item>,
    lost: Arc<AtomicU64>,
}

impl Lines {
    pub(super) fn start(sink: impl Write + Send + 'static) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING);
        let lost = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&lost);
        thread::Builder::new()
            .name("log".into())
            .spawn(move || drain(&receiver, sink, &counted))?;
        Ok(Self { sender, lost })
    }

    /// Waits until every line logged before is written, for at most 200 ms.
    pub fn flush(&self) {
        let (done, flushed) = sync_channel(1);
        if self.sender.try_send(Item::Flushed(done)).is_ok() {
            // A time-out means that nobody reads the log: there is nothing left to do about it.
            let _ = flushed.recv_timeout(FLUSH_WITHIN);
        }
    }
}

fn drain(items: &Receiver<Item>, mut sink: impl Write, lost: &AtomicU64) {
    while let Ok(item) = items.recv() {
        match item {
            Item::Line(line) => match sink.write_all(&line) {
                Ok(()) => tell_lost(lost),
                Err(_) => {
                    lost.fetch_add(1, Ordering::Relaxed);
                }
            },
            Item::Flushed(done) => {
                // Whoever asked may have given up waiting.
                let _ = sink.flush();
                let _ = done.try_send(());
            }
        }
    }
}

/// The log is read again: its reader learns of the gap.
fn tell_lost(lost: &AtomicU64) {
    let lines = lost.load(Ordering::Relaxed);
    if lines > 0 {
        tracing::warn!(
            log.lost = lines,
            "Log lines were lost because nobody read them"
        );
        // Where the queue was full again this line is lost too, and the count goes with a later one.
        let _ = lost.compare_exchange(lines, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Hands each event's text to the queue.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(Item::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Duration;

    use super::{Lines, WAITING};

    /// Takes a line only when told to.
    struct Stuck {
        entered: SyncSender<()>,
        go: Receiver<()>,
    }

    impl Write for Stuck {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.entered.try_send(()).ok();
            self.go.recv().map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_nobody_reads_drops_lines_and_never_waits() {
        let (entered, has_entered) = sync_channel(1);
        let (proceed, go) = sync_channel(2 * WAITING);
        let mut lines = Lines::start(Stuck { entered, go }).unwrap();
        lines.write_all(b"first\n").unwrap();
        has_entered.recv_timeout(Duration::from_secs(5)).unwrap();
        for _ in 0..WAITING + 100 {
            lines.write_all(b"line\n").unwrap();
        }
        assert_eq!(lines.lost.load(Ordering::Relaxed), 100);
        for _ in 0..=WAITING {
            proceed.send(()).unwrap();
        }
    }
}
