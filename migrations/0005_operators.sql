-- Who may do what, and what they did.

CREATE TABLE api_tokens (
    token_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 255),
    hash       bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    role       text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);
COMMENT ON TABLE api_tokens IS 'Bearer tokens of operators';
COMMENT ON COLUMN api_tokens.token_id IS 'Key';
COMMENT ON COLUMN api_tokens.name IS 'Whose token it is; becomes the author of what it does';
COMMENT ON COLUMN api_tokens.hash IS 'SHA-256 of the token; the token itself is never stored';
COMMENT ON COLUMN api_tokens.role IS 'viewer reads, operator also retunes, admin also manages tokens';
COMMENT ON COLUMN api_tokens.created_at IS 'When it was made';
COMMENT ON COLUMN api_tokens.created_by IS 'Name of the token that made it, or how it came to be';
COMMENT ON COLUMN api_tokens.expires_at IS 'Not accepted from then on; null means never';
COMMENT ON COLUMN api_tokens.revoked_at IS 'Not accepted since then; null while valid';

CREATE TABLE audit_log (
    audit_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL,
    actor    text NOT NULL,
    role     text NOT NULL,
    address  text NOT NULL DEFAULT '',
    action   text NOT NULL CHECK (length(action) BETWEEN 1 AND 80),
    target   text NOT NULL DEFAULT '',
    outcome  text NOT NULL,
    reason   text NOT NULL DEFAULT '',
    revision bigint,
    before   jsonb,
    after    jsonb
);
CREATE INDEX audit_log_by_time ON audit_log (at);
COMMENT ON TABLE audit_log IS 'Every operator call that changed something or was refused';
COMMENT ON COLUMN audit_log.audit_id IS 'Key';
COMMENT ON COLUMN audit_log.at IS 'When the call was made';
COMMENT ON COLUMN audit_log.actor IS 'Name of the operator''s token';
COMMENT ON COLUMN audit_log.role IS 'Role that the token had';
COMMENT ON COLUMN audit_log.address IS 'Peer address of the call';
COMMENT ON COLUMN audit_log.action IS 'What was asked for, as the name of the call';
COMMENT ON COLUMN audit_log.target IS 'What it was asked for: a selector, an agent, a token';
COMMENT ON COLUMN audit_log.outcome IS 'done, or why it was refused';
COMMENT ON COLUMN audit_log.reason IS 'Why, as the operator told it';
COMMENT ON COLUMN audit_log.revision IS 'Revision that it made, if any';
COMMENT ON COLUMN audit_log.before IS 'Value before';
COMMENT ON COLUMN audit_log.after IS 'Value after';
