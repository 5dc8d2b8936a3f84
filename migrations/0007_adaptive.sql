-- Adaptive mode is part of the tuning that an agent applied.

ALTER TABLE agent_state
    ADD COLUMN applied_adaptive boolean,
    ADD CONSTRAINT agent_state_adaptive_whole
        CHECK (applied_adaptive IS NULL OR applied_revision IS NOT NULL);
COMMENT ON COLUMN agent_state.applied_adaptive IS 'That tuning is adaptive; null as in applied_revision, and where an earlier version wrote it: then it is not';
