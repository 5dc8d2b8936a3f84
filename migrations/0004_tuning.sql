-- Desired tuning: immutable revisions of the whole policy set.

CREATE TABLE tuning_head (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    revision bigint NOT NULL
);
INSERT INTO tuning_head (revision) VALUES (0);
COMMENT ON TABLE tuning_head IS 'One row; its lock makes the order of commits the order of revisions';
COMMENT ON COLUMN tuning_head.only_row IS 'Keeps the table at one row';
COMMENT ON COLUMN tuning_head.revision IS 'Newest revision; 0 means that only built-in defaults apply';

CREATE TABLE tuning_revisions (
    revision   bigint PRIMARY KEY CHECK (revision > 0),
    parent     bigint NOT NULL,
    author     text NOT NULL,
    reason     text NOT NULL,
    created_at timestamptz NOT NULL,
    policies   jsonb NOT NULL,
    changes    text[] NOT NULL
);
COMMENT ON TABLE tuning_revisions IS 'Every revision of the policy set that was ever made; a rollback is a newer one';
COMMENT ON COLUMN tuning_revisions.revision IS 'Grows in the order of commits; above every revision that an agent has reported';
COMMENT ON COLUMN tuning_revisions.parent IS 'Revision that was the newest when this one was made';
COMMENT ON COLUMN tuning_revisions.author IS 'Name of the operator''s token';
COMMENT ON COLUMN tuning_revisions.reason IS 'Why, as the operator told it';
COMMENT ON COLUMN tuning_revisions.created_at IS 'When it was made';
COMMENT ON COLUMN tuning_revisions.policies IS 'The whole policy set of this revision';
COMMENT ON COLUMN tuning_revisions.changes IS 'What changed against the parent, a line per policy';

CREATE TABLE tuning_acks (
    revision   bigint NOT NULL,
    agent_id   uuid NOT NULL,
    session_id uuid NOT NULL,
    outcome    text NOT NULL CHECK (outcome IN ('refused', 'late')),
    reason     text NOT NULL DEFAULT '',
    at         timestamptz NOT NULL,
    took_ns    bigint,
    PRIMARY KEY (revision, agent_id)
);
COMMENT ON TABLE tuning_acks IS 'Answers to a revision that need attention; what was applied in time is in agent_state.applied_revision';
COMMENT ON COLUMN tuning_acks.revision IS 'Revision that was pushed';
COMMENT ON COLUMN tuning_acks.agent_id IS 'Agent that answered';
COMMENT ON COLUMN tuning_acks.session_id IS 'Session in which it answered';
COMMENT ON COLUMN tuning_acks.outcome IS 'refused: it keeps what it had; late: it applied, but slowly';
COMMENT ON COLUMN tuning_acks.reason IS 'What the agent said';
COMMENT ON COLUMN tuning_acks.at IS 'Receipt of the answer';
COMMENT ON COLUMN tuning_acks.took_ns IS 'Time from push to answer; null when the push was of an earlier run';
