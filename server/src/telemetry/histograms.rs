//! Prometheus histograms that are made from the registry's own counts when asked. (`OpenTelemetry` has no
//! histogram that is read instead of fed.)

use std::sync::Arc;

use fleetbeat_liveness::histogram;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};

use super::Error;
use crate::registry::Registry;

type Counts = [u64; histogram::BUCKETS];
type Read = fn(&Registry) -> Counts;

/// Upper bounds in nanoseconds: powers of two, where the counted buckets end as well, so that counts
/// need no guessing. 65.5 µs … 68.7 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 16..=36;

/// What is shown: name, sentence, where it is counted.
const SHOWN: [(&str, &str, Read); 2] = [
    (
        "fleetbeat_rtt_seconds",
        "Round trips of heartbeats as agents measured them, without the server's hold time",
        round_trips,
    ),
    (
        "fleetbeat_verdict_lateness_seconds",
        "How long after its deadline, or the end of a grace, an agent was called offline; held verdicts are \
         not counted",
        |registry| registry.lateness().counts(),
    ),
];

#[derive(Debug)]
struct Shown {
    name: &'static str,
    help: &'static str,
    read: Read,
    registry: Arc<Registry>,
    desc: Desc,
}

fn round_trips(registry: &Registry) -> Counts {
    let mut counts = [0; histogram::BUCKETS];
    for meter in registry.meters().all() {
        meter.add_rtt(&mut counts);
    }
    counts
}

pub(super) fn register(
    metrics: &prometheus::Registry,
    registry: &Arc<Registry>,
) -> Result<(), Error> {
    let failed = |error: prometheus::Error| Error::Metrics(error.into());
    for (name, help, read) in SHOWN {
        let labels = std::collections::HashMap::new();
        let desc = Desc::new(name.into(), help.into(), Vec::new(), labels);
        let shown = Shown {
            name,
            help,
            read,
            registry: Arc::clone(registry),
            desc: desc.map_err(failed)?,
        };
        metrics.register(Box::new(shown)).map_err(failed)?;
    }
    Ok(())
}

impl Collector for Shown {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut metric = Metric::default();
        metric.set_histogram(cumulated(&(self.read)(&self.registry)));
        let mut family = MetricFamily::default();
        family.set_name(self.name.into());
        family.set_help(self.help.into());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(vec![metric]);
        vec![family]
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
fn cumulated(counts: &Counts) -> Histogram {
    let mut below = 0;
    let mut next = 0;
    let mut buckets = Vec::new();
    for power in BOUNDS {
        let bound = 1_u64 << power;
        while next < counts.len() && histogram::bounds(next).1 < bound {
            below += counts[next];
            next += 1;
        }
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound as f64 / 1e9);
        bucket.set_cumulative_count(below);
        buckets.push(bucket);
    }
    let sum: f64 = counts
        .iter()
        .enumerate()
        .map(|(at, count)| *count as f64 * histogram::value(at) as f64)
        .sum();
    let mut cumulated = Histogram::default();
    cumulated.set_bucket(buckets);
    cumulated.set_sample_count(counts.iter().sum());
    cumulated.set_sample_sum(sum / 1e9);
    cumulated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_bucket_that_bounds_it() {
        let mut counts = [0; histogram::BUCKETS];
        let samples = [
            1_000,
            65_535,
            65_536,
            1_000_000,
            200_000_000,
            500_000_000_000,
        ];
        for nanos in samples {
            counts[histogram::bucket(nanos)] += 1;
        }
        let cumulated = cumulated(&counts);
        assert_eq!(cumulated.get_sample_count(), 6);
        for (bucket, power) in cumulated.get_bucket().iter().zip(BOUNDS) {
            let below = samples.iter().filter(|nanos| **nanos < 1 << power);
            assert_eq!(
                bucket.cumulative_count(),
                u64::try_from(below.count()).unwrap(),
                "{bucket:?}"
            );
        }
    }
}
