-- Who is in the fleet, and the last thing known about each.

CREATE TABLE servers (
    server_id  uuid PRIMARY KEY,
    run_id     uuid NOT NULL,
    name       text NOT NULL,
    version    text NOT NULL,
    started_at timestamptz NOT NULL,
    lease      bigint NOT NULL DEFAULT 0,
    lease_at   timestamptz NOT NULL,
    stopped_at timestamptz
);
COMMENT ON TABLE servers IS 'Server processes, one row per data directory';
COMMENT ON COLUMN servers.server_id IS 'Identity kept in the data directory, the same over restarts';
COMMENT ON COLUMN servers.run_id IS 'Random, one per run of the process; the run that owns this row';
COMMENT ON COLUMN servers.name IS 'What people call the server, its host name by default';
COMMENT ON COLUMN servers.version IS 'Version of the server software';
COMMENT ON COLUMN servers.started_at IS 'When this run registered itself';
COMMENT ON COLUMN servers.lease IS 'Raised with every recorded batch and at least every 10 s; a run is lost when an observer with a good connection saw it stand still for a whole lease';
COMMENT ON COLUMN servers.lease_at IS 'When the lease was last raised, by the server''s clock; for people, never compared across hosts';
COMMENT ON COLUMN servers.stopped_at IS 'When this run ended in order; null while it runs and after a crash';

CREATE TABLE agents (
    agent_id      uuid PRIMARY KEY,
    name          text NOT NULL,
    group_name    text NOT NULL,
    labels        jsonb NOT NULL DEFAULT '{}',
    agent_version text NOT NULL DEFAULT '',
    boot_id       text NOT NULL DEFAULT '',
    instance_id   uuid,
    address       text NOT NULL DEFAULT '',
    incarnation   bigint NOT NULL,
    connection    bigint NOT NULL,
    first_seen    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL
);
CREATE INDEX agents_by_group ON agents (group_name, name, agent_id);
CREATE INDEX agents_by_name ON agents (name, agent_id);
COMMENT ON TABLE agents IS 'Identity of every agent that was ever seen; written when a session opens, never by a heartbeat';
COMMENT ON COLUMN agents.agent_id IS 'Stable identity of the host, made by the agent once';
COMMENT ON COLUMN agents.name IS 'What people call the host; may repeat and may change';
COMMENT ON COLUMN agents.group_name IS 'Configured group, "default" when the agent told none';
COMMENT ON COLUMN agents.labels IS 'Labels as the agent reported them: an object of strings';
COMMENT ON COLUMN agents.agent_version IS 'Version of the agent software';
COMMENT ON COLUMN agents.boot_id IS 'Changes with every boot of the host; empty when not told';
COMMENT ON COLUMN agents.instance_id IS 'Run of the agent process that told this row';
COMMENT ON COLUMN agents.address IS 'Peer address of the session that told this row, with port';
COMMENT ON COLUMN agents.incarnation IS 'First half of the fence of the session that told this row';
COMMENT ON COLUMN agents.connection IS 'Second half of the fence; a row is replaced only by an equal or higher fence';
COMMENT ON COLUMN agents.first_seen IS 'First session ever recorded';
COMMENT ON COLUMN agents.updated_at IS 'When the session opened that told this row';

-- Hot: rewritten once per 10 s for every live agent, so the row is narrow, has room to be updated in
-- place, and no index names a column that a heartbeat changes.
CREATE TABLE agent_state (
    agent_id            uuid PRIMARY KEY,
    verdict             smallint NOT NULL CHECK (verdict BETWEEN 1 AND 5),
    verdict_since       timestamptz NOT NULL,
    last_seen_at        timestamptz,
    session_id          uuid,
    incarnation         bigint NOT NULL,
    connection          bigint NOT NULL,
    applied_revision    bigint,
    applied_interval_ns bigint,
    applied_misses      integer,
    applied_timeout_ns  bigint,
    applied_pong_every  integer,
    desired_revision    bigint,
    updated_at          timestamptz NOT NULL,
    CONSTRAINT agent_state_applied_whole CHECK (num_nulls(applied_revision, applied_interval_ns,
        applied_misses, applied_timeout_ns, applied_pong_every) IN (0, 5))
) WITH (fillfactor = 70);
COMMENT ON TABLE agent_state IS 'Last known state of every agent, flushed in ten slices, each once per 10 s';
COMMENT ON COLUMN agent_state.agent_id IS 'Agent that this row speaks of';
COMMENT ON COLUMN agent_state.verdict IS '1 online, 2 suspect, 3 offline, 4 left, 5 unknown';
COMMENT ON COLUMN agent_state.verdict_since IS 'When the verdict was reached';
COMMENT ON COLUMN agent_state.last_seen_at IS 'Receipt of the last valid message; null when this was never known';
COMMENT ON COLUMN agent_state.session_id IS 'Live session; null without one';
COMMENT ON COLUMN agent_state.incarnation IS 'First half of the highest fence seen';
COMMENT ON COLUMN agent_state.connection IS 'Second half of the highest fence seen; a row is replaced only by an equal or higher fence';
COMMENT ON COLUMN agent_state.applied_revision IS 'Tuning revision that the agent acknowledged last; null when it never did';
COMMENT ON COLUMN agent_state.applied_interval_ns IS 'T of that tuning';
COMMENT ON COLUMN agent_state.applied_misses IS 'N of that tuning';
COMMENT ON COLUMN agent_state.applied_timeout_ns IS 'W of that tuning';
COMMENT ON COLUMN agent_state.applied_pong_every IS 'The agent is answered every so many heartbeats';
COMMENT ON COLUMN agent_state.desired_revision IS 'Tuning revision that the policies want for it';
COMMENT ON COLUMN agent_state.updated_at IS 'When the server read this state';
