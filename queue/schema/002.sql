-- Version 2. A job may be done without an answer that says anything: `empty` is why, in the word of
-- whoever ended it.

ALTER TABLE job ADD COLUMN empty TEXT;
CREATE INDEX job_empty ON job (batch_id) WHERE empty IS NOT NULL;

-- As before, and an empty answer does not replace one that says something.
DROP TRIGGER job_moved;
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
            AND (answer_job IS NULL
                OR (SELECT state FROM job WHERE id = answer_job) <> 'done'
                OR new.state = 'done' AND (new.empty IS NULL
                    OR (SELECT empty FROM job WHERE id = answer_job) IS NOT NULL));
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
