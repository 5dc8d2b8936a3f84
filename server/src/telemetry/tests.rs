use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use http::HeaderMap;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

use super::lines::Lines;
use super::{LostLines, Metrics, parent_of, traceparent};

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
fn log_without_reader_drops_lines_and_never_waits() {
    let (entered, has_entered) = sync_channel(1);
    let (proceed, go) = sync_channel(20_000);
    let lines = Lines::start(Stuck { entered, go }).unwrap();
    let mut writer = lines.writer();
    writer.write_all(b"first\n").unwrap();
    has_entered.recv_timeout(Duration::from_secs(5)).unwrap();
    for _ in 0..10_000 {
        writer.write_all(b"line\n").unwrap();
    }
    assert_eq!(lines.lost().count(), 10_000 - 8192);
    for _ in 0..10_000 {
        proceed.send(()).unwrap();
    }
}

#[test]
fn flush_waits_for_every_line() {
    struct Sink(SyncSender<Vec<u8>>);
    impl Write for Sink {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (written, lines_written) = sync_channel(100);
    let lines = Lines::start(Sink(written)).unwrap();
    for _ in 0..100 {
        lines.writer().write_all(b"x").unwrap();
    }
    lines.flush(Duration::from_secs(5));
    assert_eq!(lines_written.try_iter().count(), 100);
}

#[test]
fn metrics_keep_their_names_and_begin_at_zero() {
    let resource = Resource::builder_empty()
        .with_service_name("fleetbeat-server")
        .build();
    let metrics = Metrics::start(None, resource, LostLines::default()).unwrap();
    let text = metrics.render().unwrap();
    for line in [
        "# TYPE fleetbeat_log_lines_lost_total counter",
        "fleetbeat_log_lines_lost_total 0",
        "# TYPE process_resident_memory_bytes gauge",
        "process_cpu_seconds_total ",
        "process_open_fds ",
        "target_info{service_name=\"fleetbeat-server\"} 1",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[test]
fn thousand_groups_of_five_verdicts_fit_an_instrument() {
    let resource = Resource::builder_empty().build();
    let metrics = Metrics::start(None, resource, LostLines::default()).unwrap();
    metrics
        .meter()
        .u64_observable_gauge("fleetbeat_many")
        .with_callback(|out| {
            for series in 0..5005 {
                out.observe(1, &[KeyValue::new("series", series)]);
            }
        })
        .build();
    let text = metrics.render().unwrap();
    assert!(!text.contains("otel_metric_overflow"));
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("fleetbeat_many{"))
            .count(),
        5005
    );
}

#[test]
fn trace_context_of_a_caller_is_kept() {
    let mut headers = HeaderMap::new();
    assert_eq!(traceparent(&parent_of(&headers)), "");
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    headers.insert("traceparent", given.parse().unwrap());
    assert_eq!(traceparent(&parent_of(&headers)), given);
    headers.insert("traceparent", "00-nonsense-01".parse().unwrap());
    assert_eq!(traceparent(&parent_of(&headers)), "");
}
