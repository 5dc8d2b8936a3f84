use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const LONGEST_ANSWER: u64 = 4 << 20;

/// One reading of a Prometheus endpoint.
#[derive(Debug)]
pub struct Metrics {
    samples: Vec<(String, f64)>,
}

impl Metrics {
    /// Reads `/metrics` as a scraper does.
    pub async fn read(address: SocketAddr) -> Result<Self> {
        let text = timeout(ANSWER_WITHIN, fetch(address)).await;
        Self::parse(&text.with_context(|| format!("{address} did not answer for /metrics"))??)
    }

    /// Sum over the samples of that name, whatever their labels. None when there are none.
    #[must_use]
    pub fn total(&self, name: &str) -> Option<f64> {
        let mut named = self
            .samples
            .iter()
            .filter(|(full, _)| bare(full) == name)
            .peekable();
        named.peek()?;
        Some(named.map(|(_, value)| value).sum())
    }

    /// Names without labels, for messages.
    #[must_use]
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.samples.iter().map(|(full, _)| bare(full)).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn parse(text: &str) -> Result<Self> {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let samples = lines.map(|line| {
            let (name, value) = line
                .rsplit_once(' ')
                .with_context(|| format!("not a sample: {line}"))?;
            let value = value
                .parse()
                .with_context(|| format!("not a number: {line}"))?;
            Ok((name.to_owned(), value))
        });
        Ok(Self {
            samples: samples.collect::<Result<_>>()?,
        })
    }
}

fn bare(full: &str) -> &str {
    full.split_once('{').map_or(full, |(name, _)| name)
}

async fn fetch(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream
        .take(LONGEST_ANSWER)
        .read_to_string(&mut answer)
        .await?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("not an HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    if !status.contains(" 200 ") {
        bail!("/metrics answered {status}");
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    const TEXT: &str = "# HELP beats_total Beats\n# TYPE beats_total counter\n\
        beats_total{lane=\"0\"} 3\nbeats_total{lane=\"1\"} 4\nbacklog_rows 0\n";

    #[test]
    fn samples_of_one_name_add_up_over_their_labels() {
        assert_eq!(
            Metrics::parse(TEXT).unwrap().total("beats_total"),
            Some(7.0)
        );
    }

    #[test]
    fn a_metric_at_zero_differs_from_one_that_is_not_there() {
        let metrics = Metrics::parse(TEXT).unwrap();
        assert_eq!(
            (metrics.total("backlog_rows"), metrics.total("backlog")),
            (Some(0.0), None)
        );
    }

    #[test]
    fn a_line_that_is_no_sample_is_an_error() {
        assert!(Metrics::parse("beats_total three\n").is_err());
    }
}
