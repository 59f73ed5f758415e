-- Version 1. Times are microseconds: *_us of rows are wall time, worker.beat_us is CLOCK_BOOTTIME.
-- Triggers use the changed_us that every update of a job's state brings along: SQL asks no clock.

CREATE TABLE transition (
    was TEXT NOT NULL,
    next TEXT NOT NULL,
    PRIMARY KEY (was, next)
) STRICT, WITHOUT ROWID;
INSERT INTO transition VALUES
    ('held', 'queued'), ('held', 'cancelled'), ('held', 'expired'),
    ('queued', 'held'), ('queued', 'running'), ('queued', 'cancelled'), ('queued', 'expired'),
    ('running', 'queued'), ('running', 'held'), ('running', 'done'), ('running', 'failed'),
    ('running', 'cancelled');

CREATE TABLE batch (
    id INTEGER PRIMARY KEY,
    uid BLOB NOT NULL UNIQUE CHECK (length(uid) = 16),
    name TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    metadata TEXT NOT NULL CHECK (json_valid(metadata)),
    identity BLOB CHECK (length(identity) = 32),
    created_us INTEGER NOT NULL,
    published_us INTEGER,                    -- NULL: belongs to its submitter
    promote_after INTEGER NOT NULL DEFAULT 0, -- the last job that the scan promoted
    promoted_us INTEGER,                     -- the scan is through
    cancelled_us INTEGER,
    finished_us INTEGER,                     -- kept by trigger
    submitter_pid INTEGER NOT NULL,
    submitter_start INTEGER NOT NULL,
    submitter_boot TEXT NOT NULL
) STRICT;
CREATE INDEX batch_unfinished ON batch (identity)
    WHERE published_us IS NOT NULL AND finished_us IS NULL;
CREATE INDEX batch_unpublished ON batch (id) WHERE published_us IS NULL;
CREATE INDEX batch_promoting ON batch (id)
    WHERE published_us IS NOT NULL AND promoted_us IS NULL;

CREATE TABLE batch_dep (
    batch_id INTEGER NOT NULL REFERENCES batch (id) ON DELETE CASCADE,
    on_batch INTEGER NOT NULL REFERENCES batch (id),
    PRIMARY KEY (batch_id, on_batch)
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_dep_on ON batch_dep (on_batch);

-- How many requests of a batch are in a state; kept by triggers alone.
CREATE TABLE batch_count (
    batch_id INTEGER NOT NULL REFERENCES batch (id) ON DELETE CASCADE,
    state TEXT NOT NULL,
    hold INTEGER NOT NULL,
    n INTEGER NOT NULL CHECK (n >= 0),
    PRIMARY KEY (batch_id, state, hold)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (
    id INTEGER PRIMARY KEY,
    uid BLOB NOT NULL UNIQUE CHECK (length(uid) = 16),
    batch_id INTEGER NOT NULL REFERENCES batch (id),
    custom_id TEXT NOT NULL,
    endpoint TEXT,                           -- NULL: the batch's
    line INTEGER NOT NULL,                   -- of the input; 0: none
    state TEXT NOT NULL
        CHECK (state IN ('held', 'queued', 'running', 'done', 'failed', 'cancelled', 'expired')),
    hold INTEGER NOT NULL CHECK ((state = 'held') = (hold <> 0)),
    answer_job INTEGER REFERENCES job (id),  -- the job whose outcome is the answer
    changed_us INTEGER NOT NULL,
    finished_us INTEGER,
    UNIQUE (batch_id, custom_id)
) STRICT;
CREATE INDEX request_batch ON request (batch_id);
CREATE INDEX request_answer ON request (answer_job) WHERE answer_job IS NOT NULL;

CREATE TABLE body (
    id INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;

CREATE TABLE worker (
    id INTEGER PRIMARY KEY,
    uid BLOB NOT NULL UNIQUE CHECK (length(uid) = 16),
    pid INTEGER NOT NULL,
    start_ticks INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    lock_path TEXT NOT NULL,
    planned_bytes INTEGER NOT NULL,
    beats INTEGER NOT NULL DEFAULT 0,
    beat_us INTEGER NOT NULL,
    started_us INTEGER NOT NULL,
    stopping TEXT,                           -- why it is about to end
    ended_us INTEGER,
    end TEXT,
    status TEXT NOT NULL CHECK (json_valid(status))
) STRICT;
-- At most one live worker, whatever the code believes.
CREATE UNIQUE INDEX worker_live ON worker ((1)) WHERE ended_us IS NULL;

CREATE TABLE job (
    id INTEGER PRIMARY KEY,
    request_id INTEGER NOT NULL REFERENCES request (id),
    batch_id INTEGER NOT NULL,               -- the request's; no key, that would need an index
    role TEXT NOT NULL,
    part INTEGER NOT NULL DEFAULT 0,
    body_id INTEGER NOT NULL,                -- of body; no key, likewise
    state TEXT NOT NULL
        CHECK (state IN ('held', 'queued', 'running', 'done', 'failed', 'cancelled', 'expired')),
    hold INTEGER NOT NULL CHECK ((state = 'held') = (hold <> 0)),
    priority INTEGER NOT NULL,
    not_before_us INTEGER NOT NULL DEFAULT 0,
    deadline_us INTEGER NOT NULL,            -- none: the largest integer
    attempt INTEGER NOT NULL DEFAULT 0,      -- the fence
    worker_id INTEGER REFERENCES worker (id),
    retries INTEGER NOT NULL DEFAULT 0,
    suspect INTEGER,                         -- group of suspects; lower ones run first
    lone_deaths INTEGER NOT NULL DEFAULT 0,
    fingerprint BLOB CHECK (length(fingerprint) = 32),
    http INTEGER NOT NULL DEFAULT 0,
    finish TEXT,
    queued_us INTEGER NOT NULL,
    changed_us INTEGER NOT NULL,
    CHECK ((state = 'running') <= (worker_id IS NOT NULL))
) STRICT;
CREATE INDEX job_claim ON job (priority DESC, deadline_us, id) WHERE state = 'queued';
CREATE INDEX job_open ON job (batch_id) WHERE state IN ('held', 'queued', 'running');
CREATE INDEX job_running ON job (worker_id) WHERE state = 'running';
CREATE INDEX job_request ON job (request_id);
CREATE INDEX job_suspect ON job (suspect) WHERE suspect IS NOT NULL;
CREATE INDEX job_not_before ON job (not_before_us) WHERE (hold & 2) <> 0;
CREATE INDEX job_deadline ON job (deadline_us)
    WHERE deadline_us < 9223372036854775807 AND state IN ('held', 'queued');

CREATE TABLE result (
    job_id INTEGER PRIMARY KEY REFERENCES job (id),
    json TEXT NOT NULL CHECK (json_valid(json))
) STRICT;

-- bytes NULL: everything before it was discarded. seq goes on, so that a follower notices.
CREATE TABLE progress (
    job_id INTEGER NOT NULL REFERENCES job (id),
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    bytes BLOB,
    PRIMARY KEY (job_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempt (
    job_id INTEGER NOT NULL REFERENCES job (id),
    attempt INTEGER NOT NULL,
    worker_id INTEGER NOT NULL REFERENCES worker (id),
    claimed_us INTEGER NOT NULL,
    wait_us INTEGER NOT NULL,
    ended_us INTEGER,
    end TEXT,
    load_ms INTEGER NOT NULL DEFAULT 0,
    prefill_tokens INTEGER NOT NULL DEFAULT 0,
    prefill_ms INTEGER NOT NULL DEFAULT 0,
    decode_tokens INTEGER NOT NULL DEFAULT 0,
    decode_ms INTEGER NOT NULL DEFAULT 0,
    resumed_tokens INTEGER NOT NULL DEFAULT 0,
    read_bytes INTEGER NOT NULL DEFAULT 0,
    expert_hits INTEGER NOT NULL DEFAULT 0,
    expert_misses INTEGER NOT NULL DEFAULT 0,
    major_faults INTEGER NOT NULL DEFAULT 0,
    pressure_some_us INTEGER NOT NULL DEFAULT 0,
    pressure_full_us INTEGER NOT NULL DEFAULT 0,
    peak TEXT CHECK (peak IS NULL OR json_valid(peak)),
    error TEXT CHECK (error IS NULL OR json_valid(error)),
    PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX attempt_ended ON attempt (ended_us) WHERE ended_us IS NOT NULL;

CREATE TABLE event (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    batch_id INTEGER,
    request_id INTEGER,
    job_id INTEGER,
    attempt INTEGER,
    again INTEGER NOT NULL DEFAULT 0,        -- of 'final': the request had been final before
    detail TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(detail))
) STRICT;
CREATE INDEX event_final ON event (batch_id, id) WHERE kind = 'final' AND again = 0;

CREATE TABLE control (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER job_transition BEFORE UPDATE OF state ON job
WHEN old.state <> new.state
    AND NOT EXISTS (SELECT 1 FROM transition WHERE was = old.state AND next = new.state)
BEGIN
    SELECT raise(ABORT, 'no such transition of a job');
END;

-- A request is as far as its most active job ('running' > 'queued' > 'held', which is also their
-- order as words), and when none is left, what its answer is. A success is never replaced by less.
CREATE TRIGGER job_moved AFTER UPDATE OF state, hold ON job
WHEN old.state <> new.state OR old.hold <> new.hold
BEGIN
    UPDATE attempt SET ended_us = new.changed_us,
            end = CASE new.state WHEN 'queued' THEN 'released' ELSE new.state END
        WHERE old.state = 'running' AND job_id = old.id AND attempt = old.attempt
            AND ended_us IS NULL;
    DELETE FROM progress
        WHERE job_id = new.id AND new.state NOT IN ('held', 'queued', 'running');
    UPDATE request SET answer_job = new.id
        WHERE id = new.request_id
            AND new.state NOT IN ('held', 'queued', 'running')
            AND NOT EXISTS (SELECT 1 FROM job WHERE request_id = new.request_id
                AND state IN ('held', 'queued', 'running'))
            AND (new.state = 'done' OR answer_job IS NULL
                OR (SELECT state FROM job WHERE id = answer_job) <> 'done');
    UPDATE request SET changed_us = new.changed_us,
            state = coalesce(
                (SELECT max(state) FROM job WHERE request_id = new.request_id
                    AND state IN ('held', 'queued', 'running')),
                (SELECT state FROM job WHERE id = answer_job)),
            hold = coalesce(
                (SELECT hold FROM job WHERE request_id = new.request_id
                    AND state IN ('held', 'queued', 'running') ORDER BY state DESC, id LIMIT 1), 0)
        WHERE id = new.request_id;
END;

-- A retry: the request is open again.
CREATE TRIGGER job_added AFTER INSERT ON job
BEGIN
    UPDATE request SET state = new.state, hold = new.hold, changed_us = new.changed_us
        WHERE id = new.request_id AND state NOT IN ('held', 'queued', 'running');
END;

CREATE TRIGGER request_added AFTER INSERT ON request
BEGIN
    INSERT INTO batch_count VALUES (new.batch_id, new.state, new.hold, 1)
        ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER request_removed AFTER DELETE ON request
BEGIN
    UPDATE batch_count SET n = n - 1
        WHERE batch_id = old.batch_id AND state = old.state AND hold = old.hold;
END;
-- One trigger, because SQLite promises no order among several and each step needs the one before.
CREATE TRIGGER request_moved AFTER UPDATE OF state, hold ON request
WHEN old.state <> new.state OR old.hold <> new.hold
BEGIN
    UPDATE batch_count SET n = n - 1
        WHERE batch_id = old.batch_id AND state = old.state AND hold = old.hold;
    INSERT INTO batch_count VALUES (new.batch_id, new.state, new.hold, 1)
        ON CONFLICT DO UPDATE SET n = n + 1;
    INSERT INTO event (at_us, kind, batch_id, request_id, job_id, again)
        SELECT new.changed_us, 'final', new.batch_id, new.id, new.answer_job,
            old.finished_us IS NOT NULL
        WHERE old.state IN ('held', 'queued', 'running')
            AND new.state NOT IN ('held', 'queued', 'running');
    UPDATE request SET finished_us = new.changed_us
        WHERE id = new.id AND new.state NOT IN ('held', 'queued', 'running');
    UPDATE batch SET finished_us = new.changed_us
        WHERE id = new.batch_id AND finished_us IS NULL
            AND new.state NOT IN ('held', 'queued', 'running')
            AND NOT EXISTS (SELECT 1 FROM batch_count WHERE batch_id = new.batch_id
                AND state IN ('held', 'queued', 'running') AND n > 0);
    UPDATE batch SET finished_us = NULL
        WHERE id = new.batch_id AND finished_us IS NOT NULL
            AND new.state IN ('held', 'queued', 'running');
END;
CREATE TRIGGER batch_finished AFTER UPDATE OF finished_us ON batch
WHEN old.finished_us IS NULL AND new.finished_us IS NOT NULL
BEGIN
    INSERT INTO event (at_us, kind, batch_id) VALUES (new.finished_us, 'batch_finished', new.id);
END;
