-- How recording itself stands.

CREATE TABLE spools (
    run_id     uuid PRIMARY KEY,
    server_id  uuid NOT NULL,
    applied    bigint NOT NULL,
    updated_at timestamptz NOT NULL
);
COMMENT ON TABLE spools IS 'How far each run''s numbered batches were applied; a batch claims its number in the transaction that writes it';
COMMENT ON COLUMN spools.run_id IS 'Run of the server that numbers the batches';
COMMENT ON COLUMN spools.server_id IS 'Server of that run';
COMMENT ON COLUMN spools.applied IS 'Number of the last batch applied; the first batch is 1';
COMMENT ON COLUMN spools.updated_at IS 'When it was applied, by Postgres'' clock';

CREATE TABLE rejected (
    rejected_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at          timestamptz NOT NULL DEFAULT now(),
    run_id      uuid NOT NULL,
    batch       bigint NOT NULL,
    table_name  text NOT NULL,
    row_json    text NOT NULL,
    sqlstate    text NOT NULL,
    why         text NOT NULL
);
COMMENT ON TABLE rejected IS 'Rows that Postgres refused, set aside so that they block nothing';
COMMENT ON COLUMN rejected.rejected_id IS 'Key';
COMMENT ON COLUMN rejected.at IS 'When it was set aside, by Postgres'' clock';
COMMENT ON COLUMN rejected.run_id IS 'Run of the server that recorded it';
COMMENT ON COLUMN rejected.batch IS 'Batch that it came in';
COMMENT ON COLUMN rejected.table_name IS 'Table that it was meant for';
COMMENT ON COLUMN rejected.row_json IS 'The row as JSON; text, because it may hold what jsonb refuses';
COMMENT ON COLUMN rejected.sqlstate IS 'SQLSTATE of the refusal';
COMMENT ON COLUMN rejected.why IS 'Message of the refusal';
