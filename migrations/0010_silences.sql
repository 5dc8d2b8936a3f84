-- Silences that outlasted T + W: what a tuning is replayed against.

CREATE TABLE silences (
    began_at    timestamptz NOT NULL,
    session_id  uuid NOT NULL,
    agent_id    uuid NOT NULL,
    group_name  text NOT NULL,
    gap_ns      bigint NOT NULL CHECK (gap_ns >= 0),
    interval_ns bigint NOT NULL CHECK (interval_ns > 0),
    timeout_ns  bigint NOT NULL CHECK (timeout_ns > 0),
    lateness_ns bigint CHECK (lateness_ns >= 0),
    ended       text NOT NULL CHECK (ended IN ('heard', 'returned', 'died', 'open')),
    PRIMARY KEY (began_at, session_id)
) PARTITION BY RANGE (began_at);
CREATE INDEX silences_by_group ON silences (group_name, began_at);
COMMENT ON TABLE silences IS 'Gaps between two messages of one agent that were longer than T + W then, without those for which the server itself was to blame; one row each, partitioned by UTC day';
COMMENT ON COLUMN silences.began_at IS 'Receipt of the last message before it';
COMMENT ON COLUMN silences.session_id IS 'Session that fell silent';
COMMENT ON COLUMN silences.agent_id IS 'Agent that fell silent';
COMMENT ON COLUMN silences.group_name IS 'Group that it was in';
COMMENT ON COLUMN silences.gap_ns IS 'From the last message before to the first after; up to the verdict while it is open';
COMMENT ON COLUMN silences.interval_ns IS 'T that the agent had acknowledged';
COMMENT ON COLUMN silences.timeout_ns IS 'W that the agent had acknowledged; silences up to T + W are not recorded';
COMMENT ON COLUMN silences.lateness_ns IS 'How much longer the gap was for the server than between the agent''s two sendings, on the agent''s clock; null when the session ended or another message than a PING came';
COMMENT ON COLUMN silences.ended IS 'heard: the session spoke again; returned: the same instance opened another session, so it had lived; died: another instance opened one; open: offline, and nobody has come back to this run of the server';
