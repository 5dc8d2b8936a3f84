-- What happened to many agents at once, or to a server.

CREATE TABLE incidents (
    incident_id uuid PRIMARY KEY,
    server_id   uuid NOT NULL,
    run_id      uuid NOT NULL,
    kind        text NOT NULL CHECK (length(kind) BETWEEN 1 AND 40),
    group_name  text NOT NULL DEFAULT '',
    began_at    timestamptz NOT NULL,
    ended_at    timestamptz,
    because     text NOT NULL,
    outcome     text NOT NULL DEFAULT ''
);
CREATE INDEX incidents_by_time ON incidents (began_at DESC, incident_id DESC);
COMMENT ON TABLE incidents IS 'Many related symptoms told as one, and times in which a server could not hear';
COMMENT ON COLUMN incidents.incident_id IS 'Made by the server that noticed it';
COMMENT ON COLUMN incidents.server_id IS 'Server that noticed it';
COMMENT ON COLUMN incidents.run_id IS 'Run of that server; one that ended leaves its open incidents to its next start';
COMMENT ON COLUMN incidents.kind IS 'mass_silence (verdicts are held), partial_silence, group_silence, server_stalled, lane_stalled, lane_deaf, verdicts_late';
COMMENT ON COLUMN incidents.group_name IS 'Group that it is about; empty for the whole server';
COMMENT ON COLUMN incidents.began_at IS 'By the server''s wall clock';
COMMENT ON COLUMN incidents.ended_at IS 'Null while it lasts';
COMMENT ON COLUMN incidents.because IS 'The evidence, as a sentence';
COMMENT ON COLUMN incidents.outcome IS 'How it ended, as a sentence; empty while it lasts';
