-- Heartbeats as numbers: per session, per group, and as distributions. A bucket without a row is a gap,
-- not a zero.

CREATE TABLE beat_rollups (
    bucket_start   timestamptz NOT NULL,
    bucket_seconds integer NOT NULL CHECK (bucket_seconds > 0),
    agent_id       uuid NOT NULL,
    session_id     uuid NOT NULL,
    beats          bigint NOT NULL CHECK (beats >= 0),
    late           bigint NOT NULL CHECK (late >= 0),
    rtt_count      bigint NOT NULL CHECK (rtt_count >= 0),
    rtt_sum_ns     bigint NOT NULL,
    rtt_min_ns     bigint,
    rtt_max_ns     bigint,
    PRIMARY KEY (bucket_start, agent_id, session_id)
) PARTITION BY RANGE (bucket_start);
CREATE INDEX beat_rollups_by_agent ON beat_rollups (agent_id, bucket_start);
COMMENT ON TABLE beat_rollups IS 'Heartbeats of one session in one bucket, partitioned by UTC day; the sum over a session is what it received';
COMMENT ON COLUMN beat_rollups.bucket_start IS 'Start of the bucket, aligned to the wall clock';
COMMENT ON COLUMN beat_rollups.bucket_seconds IS 'Width of the bucket; grows with the fleet to bound the rows per second';
COMMENT ON COLUMN beat_rollups.agent_id IS 'Agent that beat';
COMMENT ON COLUMN beat_rollups.session_id IS 'Session in which it beat';
COMMENT ON COLUMN beat_rollups.beats IS 'Heartbeats received';
COMMENT ON COLUMN beat_rollups.late IS 'Round trips that took longer than W';
COMMENT ON COLUMN beat_rollups.rtt_count IS 'Round trips sampled';
COMMENT ON COLUMN beat_rollups.rtt_sum_ns IS 'Sum of the round trips';
COMMENT ON COLUMN beat_rollups.rtt_min_ns IS 'Smallest round trip; null without samples';
COMMENT ON COLUMN beat_rollups.rtt_max_ns IS 'Largest round trip; null without samples';

CREATE TABLE group_rollups (
    bucket_start   timestamptz NOT NULL,
    bucket_seconds integer NOT NULL CHECK (bucket_seconds > 0),
    server_id      uuid NOT NULL,
    group_name     text NOT NULL,
    sessions       bigint NOT NULL,
    beats          bigint NOT NULL,
    opened         bigint NOT NULL,
    closed         bigint[] NOT NULL CHECK (cardinality(closed) = 12),
    PRIMARY KEY (bucket_start, group_name, server_id)
) PARTITION BY RANGE (bucket_start);
COMMENT ON TABLE group_rollups IS 'One row per group, server and 10 s, partitioned by UTC day; groups beyond 1,000 are "other"';
COMMENT ON COLUMN group_rollups.bucket_start IS 'Start of the bucket, aligned to the wall clock';
COMMENT ON COLUMN group_rollups.bucket_seconds IS 'Width of the bucket';
COMMENT ON COLUMN group_rollups.server_id IS 'Server that counted';
COMMENT ON COLUMN group_rollups.group_name IS 'Group of the agents';
COMMENT ON COLUMN group_rollups.sessions IS 'Live sessions at the end of the bucket';
COMMENT ON COLUMN group_rollups.beats IS 'Heartbeats received';
COMMENT ON COLUMN group_rollups.opened IS 'Sessions opened';
COMMENT ON COLUMN group_rollups.closed IS 'Sessions closed by reason: element i counts reason i of sessions.close_reason';

CREATE TABLE rtt_histograms (
    bucket_start   timestamptz NOT NULL,
    bucket_seconds integer NOT NULL CHECK (bucket_seconds > 0),
    server_id      uuid NOT NULL,
    group_name     text NOT NULL,
    first_bucket   integer NOT NULL CHECK (first_bucket >= 0),
    counts         bigint[] NOT NULL CHECK (cardinality(counts) > 0),
    PRIMARY KEY (bucket_start, group_name, server_id)
) PARTITION BY RANGE (bucket_start);
COMMENT ON TABLE rtt_histograms IS 'Round trips of one group, server and 10 s, partitioned by UTC day; counts of equal buckets add, so percentiles come from merged rows';
COMMENT ON COLUMN rtt_histograms.bucket_start IS 'Start of the time bucket, aligned to the wall clock';
COMMENT ON COLUMN rtt_histograms.bucket_seconds IS 'Width of the time bucket';
COMMENT ON COLUMN rtt_histograms.server_id IS 'Server that measured';
COMMENT ON COLUMN rtt_histograms.group_name IS 'Group of the agents';
COMMENT ON COLUMN rtt_histograms.first_bucket IS 'Log-linear bucket that counts[1] speaks of: 0 is below 512 ns, then 16 equal buckets for every power of two, 449 is from 2^37 ns on; buckets outside counts are empty';
COMMENT ON COLUMN rtt_histograms.counts IS 'Samples per log-linear bucket, from first_bucket on';
