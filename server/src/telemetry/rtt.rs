//! Round trips as a Prometheus histogram, made from the lanes' own counts when asked. (`OpenTelemetry`
//! has no histogram that is read instead of fed.)

use std::sync::Arc;

use fleetbeat_liveness::histogram;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};

use super::Error;
use crate::registry::Registry;

const NAME: &str = "fleetbeat_rtt_seconds";
const HELP: &str =
    "Round trips of heartbeats as agents measured them, without the server's hold time";
/// Upper bounds in nanoseconds: powers of two, where the lanes' buckets end as well, so that counts
/// need no guessing. 65.5 µs … 68.7 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 16..=36;

#[derive(Debug)]
struct RoundTrips {
    registry: Arc<Registry>,
    desc: Desc,
}

pub(super) fn register(
    metrics: &prometheus::Registry,
    registry: Arc<Registry>,
) -> Result<(), Error> {
    let failed = |error: prometheus::Error| Error::Metrics(error.into());
    let desc = Desc::new(
        NAME.into(),
        HELP.into(),
        Vec::new(),
        std::collections::HashMap::new(),
    );
    let desc = desc.map_err(failed)?;
    metrics
        .register(Box::new(RoundTrips { registry, desc }))
        .map_err(failed)
}

impl Collector for RoundTrips {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut counts = [0; histogram::BUCKETS];
        for meter in self.registry.meters().all() {
            meter.add_rtt(&mut counts);
        }
        let mut metric = Metric::default();
        metric.set_histogram(cumulated(&counts));
        let mut family = MetricFamily::default();
        family.set_name(NAME.into());
        family.set_help(HELP.into());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(vec![metric]);
        vec![family]
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
fn cumulated(counts: &[u64; histogram::BUCKETS]) -> Histogram {
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
    fn every_round_trip_is_in_the_bucket_that_bounds_it() {
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
