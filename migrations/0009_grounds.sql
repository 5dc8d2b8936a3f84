-- Why: the facts behind a verdict, and what really ended a session.

ALTER TABLE session_events ADD COLUMN facts jsonb;
COMMENT ON COLUMN session_events.facts IS 'What the event rests on: {"grounds": {…}} of verdict_changed and overdue (durations in nanoseconds, as Grounds of fleet.proto), {"cause": word} of cause_settled, {"condition": word} of condition_began and condition_ended; null for other kinds';
COMMENT ON COLUMN session_events.kind IS 'session_opened, session_closed, session_refused, verdict_changed, condition_began, condition_ended, cause_settled, renamed, overdue, tuning_acked, tuning_refused, history_incomplete';

ALTER TABLE sessions ADD COLUMN cause smallint CHECK (cause BETWEEN 1 AND 6);
COMMENT ON COLUMN sessions.cause IS 'Why it was really lost, settled once when the agent returned: 1 crash, 2 host_restart, 3 path, 4 middlebox_suspected, 5 suspend, 6 unknown; null for sessions that were not lost or whose agent has not returned';
