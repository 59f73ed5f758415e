-- Version 3. What each run of a worker was, how it went and why it stopped; and what an attempt
-- suffered from its control group. A run that was killed has no end of its own: its worker's row says
-- that it died, its last sample how far it is known to have come.

ALTER TABLE attempt ADD COLUMN refaults INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN throttled_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt ADD COLUMN limit_hits INTEGER NOT NULL DEFAULT 0; -- of memory.high and memory.max
ALTER TABLE attempt ADD COLUMN peak_resident_bytes INTEGER NOT NULL DEFAULT 0;
CREATE INDEX attempt_worker ON attempt (worker_id);

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    worker_id INTEGER NOT NULL UNIQUE REFERENCES worker (id),
    started_us INTEGER NOT NULL,
    ended_us INTEGER,
    why TEXT,                                -- it stopped, in a word
    status INTEGER,                          -- the exit status
    error TEXT,                              -- the sentence of a failure
    machine TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(machine)),
    model TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(model)),
    configuration TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(configuration)),
    plan TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(plan)),
    totals TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(totals)),
    CHECK ((ended_us IS NULL) = (why IS NULL))
) STRICT;

-- One a minute or so. elapsed_us is of CLOCK_BOOTTIME, which no one sets; what is not marked as of
-- the moment has grown since the run began.
CREATE TABLE run_sample (
    run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    elapsed_us INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    stand INTEGER NOT NULL,                  -- of the moment: how far it stood back, 0: it worked
    running INTEGER NOT NULL,                -- of the moment: jobs
    ledger_bytes INTEGER NOT NULL,           -- of the moment
    resident_bytes INTEGER NOT NULL,         -- of the moment
    available_bytes INTEGER NOT NULL,        -- of the moment: to the whole machine
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    returned INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    decode_tokens INTEGER NOT NULL,
    read_bytes INTEGER NOT NULL,
    major_faults INTEGER NOT NULL,
    refaults INTEGER NOT NULL,
    pressure_some_us INTEGER NOT NULL,
    pressure_full_us INTEGER NOT NULL,
    throttled_us INTEGER NOT NULL,
    limit_hits INTEGER NOT NULL,
    PRIMARY KEY (run_id, elapsed_us)
) STRICT, WITHOUT ROWID;

-- What a worker has to tell of its run beside its jobs: gates, faults, full disks.
CREATE TABLE run_note (
    run_id INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(detail)),
    PRIMARY KEY (run_id, seq)
) STRICT, WITHOUT ROWID;

-- For the orders of people and the deaths of workers that fall into a run.
CREATE INDEX event_told ON event (at_us) WHERE kind NOT IN ('final', 'published', 'batch_finished');
