-- Rollouts: a candidate policy set on its way to the fleet in phases; and who leads what.

CREATE TABLE rollouts (
    rollout_id     bigint PRIMARY KEY CHECK (rollout_id > 0),
    state          text NOT NULL CHECK (state IN
                       ('soaking', 'paused', 'completed', 'rolled_back', 'aborted', 'superseded')),
    plan           jsonb NOT NULL,
    progress       jsonb NOT NULL,
    members        jsonb NOT NULL,
    candidate      jsonb NOT NULL,
    candidate_hash text NOT NULL CHECK (length(candidate_hash) = 64),
    last_good      bigint NOT NULL,
    revision       bigint NOT NULL,
    author         text NOT NULL,
    reason         text NOT NULL,
    started_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    outcome        text NOT NULL DEFAULT '',
    steps          bigint NOT NULL DEFAULT 0,
    CHECK ((ended_at IS NULL) = (state IN ('soaking', 'paused')))
);
CREATE UNIQUE INDEX rollouts_running ON rollouts ((true)) WHERE ended_at IS NULL;
CREATE INDEX rollouts_failed ON rollouts (candidate_hash) WHERE state = 'rolled_back';
COMMENT ON TABLE rollouts IS 'Every rollout that was ever begun, and at most one that runs; failed candidates stay on record';
COMMENT ON COLUMN rollouts.rollout_id IS 'Counts from 1';
COMMENT ON COLUMN rollouts.state IS 'soaking: a phase is watched; paused: it waits for an operator; the others are ends';
COMMENT ON COLUMN rollouts.plan IS 'What it was asked: phases, looks, guards, the seed of its order; fixed when it began';
COMMENT ON COLUMN rollouts.progress IS 'Phase, split, soak time, looks, findings, and the evidence counted so far';
COMMENT ON COLUMN rollouts.members IS 'Who is watched in the phase, frozen at its push: the cohort by how each stands, and the rest';
COMMENT ON COLUMN rollouts.candidate IS 'The policy set that is tried, in the form of tuning_revisions.policies';
COMMENT ON COLUMN rollouts.candidate_hash IS 'SHA-256 of the candidate, hexadecimal: the same is not offered again by itself after it failed';
COMMENT ON COLUMN rollouts.last_good IS 'Revision whose policies everybody else keeps, and returns to; 0 means only built-in defaults';
COMMENT ON COLUMN rollouts.revision IS 'The newest revision that this rollout made';
COMMENT ON COLUMN rollouts.author IS 'Name of the operator''s token that began it';
COMMENT ON COLUMN rollouts.reason IS 'Why, as the operator told it';
COMMENT ON COLUMN rollouts.started_at IS 'When its first phase was pushed';
COMMENT ON COLUMN rollouts.updated_at IS 'When this row was written last';
COMMENT ON COLUMN rollouts.ended_at IS 'Null while it runs';
COMMENT ON COLUMN rollouts.outcome IS 'How it ended, or why it is paused, as a sentence; empty while it soaks';
COMMENT ON COLUMN rollouts.steps IS 'Grows with every write; a writer states the one it has read';

CREATE TABLE leases (
    name       text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 40),
    holder     uuid NOT NULL,
    run_id     uuid NOT NULL,
    epoch      bigint NOT NULL CHECK (epoch > 0),
    until      timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL
);
COMMENT ON TABLE leases IS 'Who leads what only one server may do at a time';
COMMENT ON COLUMN leases.name IS 'What is led';
COMMENT ON COLUMN leases.holder IS 'Server that leads, or led last';
COMMENT ON COLUMN leases.run_id IS 'Run of that server';
COMMENT ON COLUMN leases.epoch IS 'Grows with every change of the run that holds it; every write of the leader states it';
COMMENT ON COLUMN leases.until IS 'By the clock of Postgres; from then on any server may take it';
COMMENT ON COLUMN leases.renewed_at IS 'By the clock of Postgres';
