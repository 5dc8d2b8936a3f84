-- What happened: sessions and the events around them.

CREATE TABLE sessions (
    session_id   uuid PRIMARY KEY,
    agent_id     uuid NOT NULL,
    server_id    uuid NOT NULL,
    run_id       uuid NOT NULL,
    instance_id  uuid,
    incarnation  bigint NOT NULL,
    connection   bigint NOT NULL,
    address      text NOT NULL,
    opened_at    timestamptz NOT NULL,
    closed_at    timestamptz,
    close_reason smallint CHECK (close_reason BETWEEN 1 AND 12),
    close_detail text NOT NULL DEFAULT '',
    beats        bigint,
    CONSTRAINT sessions_one_end CHECK ((closed_at IS NULL) = (close_reason IS NULL))
);
CREATE INDEX sessions_by_agent ON sessions (agent_id, opened_at DESC);
CREATE INDEX sessions_open ON sessions (server_id, run_id) WHERE closed_at IS NULL;
COMMENT ON TABLE sessions IS 'One row per stream, from Hello to close; an end, once written, never changes';
COMMENT ON COLUMN sessions.session_id IS 'Made by the server that accepted the stream';
COMMENT ON COLUMN sessions.agent_id IS 'Agent that opened it';
COMMENT ON COLUMN sessions.server_id IS 'Server that held it';
COMMENT ON COLUMN sessions.run_id IS 'Run of that server';
COMMENT ON COLUMN sessions.instance_id IS 'Run of the agent process';
COMMENT ON COLUMN sessions.incarnation IS 'First half of its fence';
COMMENT ON COLUMN sessions.connection IS 'Second half of its fence';
COMMENT ON COLUMN sessions.address IS 'Peer address with port';
COMMENT ON COLUMN sessions.opened_at IS 'Receipt of Hello';
COMMENT ON COLUMN sessions.closed_at IS 'End; for server_lost the last time at which it was known to live; null while it lives';
COMMENT ON COLUMN sessions.close_reason IS '1 goodbye, 2 missed_heartbeats, 3 transport_error, 4 peer_gave_up, 5 superseded, 6 slow_consumer, 7 server_drain, 8 shed, 9 protocol_error, 10 auth_revoked, 11 duplicate_identity, 12 server_lost';
COMMENT ON COLUMN sessions.close_detail IS 'The reason as a sentence';
COMMENT ON COLUMN sessions.beats IS 'Heartbeats received, written with the end; null while it lives and for server_lost, where beat_rollups has what was recorded';

CREATE TABLE session_events (
    event_id     bigint GENERATED ALWAYS AS IDENTITY,
    at           timestamptz NOT NULL,
    agent_id     uuid NOT NULL,
    session_id   uuid,
    server_id    uuid NOT NULL,
    kind         text NOT NULL CHECK (length(kind) BETWEEN 1 AND 40),
    close_reason smallint CHECK (close_reason BETWEEN 1 AND 12),
    verdict      smallint CHECK (verdict BETWEEN 1 AND 5),
    revision     bigint,
    detail       text NOT NULL DEFAULT '',
    PRIMARY KEY (event_id, at)
) PARTITION BY RANGE (at);
CREATE INDEX session_events_by_agent ON session_events (agent_id, at DESC);
CREATE INDEX session_events_by_time ON session_events (at);
COMMENT ON TABLE session_events IS 'Changes of state, one row each, partitioned by UTC day; heartbeats are not events';
COMMENT ON COLUMN session_events.event_id IS 'Increases in the order of recording';
COMMENT ON COLUMN session_events.at IS 'When it happened, by the server''s wall clock';
COMMENT ON COLUMN session_events.agent_id IS 'Agent that it happened to';
COMMENT ON COLUMN session_events.session_id IS 'Session that it belongs to; null without one';
COMMENT ON COLUMN session_events.server_id IS 'Server that saw it';
COMMENT ON COLUMN session_events.kind IS 'session_opened, session_closed, session_refused, verdict_changed, tuning_acked, tuning_refused, history_incomplete';
COMMENT ON COLUMN session_events.close_reason IS 'Of session_closed, numbered as in sessions.close_reason';
COMMENT ON COLUMN session_events.verdict IS 'Of verdict_changed, numbered as in agent_state.verdict';
COMMENT ON COLUMN session_events.revision IS 'Of tuning events';
COMMENT ON COLUMN session_events.detail IS 'What happened, as a sentence';
