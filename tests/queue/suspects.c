/* Whose fault a death is: groups in halves, cleared by progress, failed after three deaths alone. */
#include <unistd.h>

#include "tests/queue/help.h"

#define N_JOBS 9
#define KILLER 6 /* job number, 1-based: "r5" */

struct life {
    size_t slots;
    bool progress; /* of everybody but the killer */
    const char *stopping;
    int64_t killer; /* dies when this job is claimed; 0: after the first claim */
};

/* Claims, makes progress where it may, ends what lives; dies without a word at the killer. */
static int work(void *arg)
{
    const struct life *life = arg;
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_worker *w = help_worker(q);
    struct queue_claims c;
    if (life->stopping)
        CHECK_OK(queue_worker_stopping(w, str_of(life->stopping), &e), &e);
    while (help_claim(w, life->slots, &c) > 0) {
        bool dies = life->killer == 0;
        for (size_t i = 0; i < c.n; i++)
            dies |= c.item[i].job == life->killer;
        for (size_t i = 0; i < c.n && life->progress; i++) {
            if (c.item[i].job != life->killer)
                help_progress(q, &c.item[i], "t");
        }
        if (dies)
            _exit(9);
        for (size_t i = 0; i < c.n; i++)
            help_end(q, c.item[i].job, c.item[i].attempt, QUEUE_END_DONE);
    }
    _exit(0);
}

static int run_life(struct life life)
{
    return help_wait(help_fork(work, &life));
}

TEST(queue_suspects_a_job_that_always_kills_fails_alone_and_all_others_are_done)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_id batch = help_submit(q, N_JOBS, 1);
    const struct life life = {.slots = 8, .killer = KILLER};
    int deaths = 0;
    while (run_life(life) == 9)
        CHECK(++deaths < 30);
    /* 8 together, then 4, 2, and 1 three times. */
    CHECK_INT(deaths, 6);
    struct queue_counts n = help_counts(q);
    CHECK_INT(n.state[QUEUE_DONE], N_JOBS - 1);
    CHECK_INT(n.state[QUEUE_FAILED], 1);
    struct queue_results r;
    CHECK_OK(queue_results(q, &batch, 0, 0, &r, &e), &e);
    CHECK_INT(r.n, N_JOBS);
    CHECK_INT(r.item[KILLER - 1].state, QUEUE_FAILED);
    CHECK_STR(r.item[KILLER - 1].finish, "worker_crashed");
    CHECK(strstr(r.item[KILLER - 1].json, "worker_crashed"));
    queue_results_release(&r);
    CHECK_OK(queue_integrity(q, &e), &e);
    queue_close(q);
}

TEST(queue_suspects_progress_of_the_others_narrows_it_down_at_once)
{
    struct queue *q = help_open(DB);
    help_submit(q, N_JOBS, 1);
    const struct life life = {.slots = 8, .progress = true, .killer = KILLER};
    int deaths = 0;
    while (run_life(life) == 9)
        CHECK(++deaths < 30);
    CHECK_INT(deaths, 4); /* once with the others, then three times alone */
    CHECK_INT(help_counts(q).state[QUEUE_DONE], N_JOBS - 1);
    queue_close(q);
}

static int n_suspects(struct queue *q)
{
    struct error e = {0};
    struct queue_requests r;
    const struct queue_filter all = {.limit = 0};
    int n = 0;
    CHECK_OK(queue_requests(q, &all, &r, &e), &e);
    for (size_t i = 0; i < r.n; i++) {
        struct queue_show show;
        CHECK_OK(queue_show(q, r.item[i].id, &show, &e), &e);
        n += show.job[0].suspect;
        queue_show_release(&show);
    }
    queue_requests_release(&r);
    return n;
}

TEST(queue_suspects_come_back_in_two_halves_one_after_the_other)
{
    struct queue *q = help_open(DB);
    help_submit(q, N_JOBS, 1);
    const struct life life = {.slots = 7};
    CHECK_INT(run_life(life), 9);
    struct queue_worker *w = help_worker(q);
    struct queue_claims first;
    struct queue_claims second;
    CHECK_INT(n_suspects(q), 7);
    CHECK_INT(help_claim(w, 8, &first), 4);
    CHECK_INT(help_claim(w, 8, &second), 0); /* until the first half is cleared */
    for (size_t i = 0; i < 3; i++)
        CHECK(!help_progress(q, &first.item[i], "t"));
    CHECK_INT(help_claim(w, 8, &second), 0);
    CHECK(!help_end(q, first.item[3].job, first.item[3].attempt, QUEUE_END_DONE));
    CHECK_INT(help_claim(w, 8, &second), 3);
    CHECK_INT(n_suspects(q), 3);
    struct queue_claims rest;
    CHECK_INT(help_claim(w, 8, &rest), 0);
    for (size_t i = 0; i < 3; i++)
        CHECK(!help_progress(q, &second.item[i], "t"));
    CHECK_INT(help_claim(w, 8, &rest), 2); /* those that never were suspects */
    queue_claims_release(&first);
    queue_claims_release(&second);
    queue_claims_release(&rest);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_suspects_nobody_is_blamed_for_an_explained_death)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    help_submit(q, N_JOBS, 1);
    const struct life stopping = {.slots = 4, .stopping = "SIGTERM"};
    for (int i = 0; i < 4; i++)
        CHECK_INT(run_life(stopping), 9);
    CHECK_INT(n_suspects(q), 0);

    const struct life silent = {.slots = 4};
    CHECK_INT(run_life(silent), 9);
    struct queue_worker *w = NULL;
    const struct queue_worker_options opt = {.explained = str_of("out of memory")};
    CHECK_OK(queue_worker_open(q, &opt, NULL, NULL, &w, &e), &e);
    CHECK_INT(n_suspects(q), 0);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_suspects_nobody_is_blamed_for_memory_that_ran_out_and_the_queue_waits)
{
    struct error e = {0};
    struct buf reason;
    bool dead = true, paused = false, killed = true;
    struct queue *q = help_open(DB);
    help_submit(q, N_JOBS, 1);
    CHECK_OK(queue_worker_killed(q, str_of("no worker yet"), &dead, &e), &e);
    CHECK(!dead);
    struct queue_worker *alive = help_worker(q);
    CHECK_OK(queue_worker_killed(q, str_of("it lives"), &dead, &e), &e);
    CHECK(!dead);
    queue_worker_close(alive, str_of("done"));

    const struct life silent = {.slots = 4};
    CHECK_INT(run_life(silent), 9);
    CHECK_OK(queue_paused_by_kill(q, &killed, &e), &e);
    CHECK(!killed);
    CHECK_OK(queue_worker_killed(q, str_of("out of \"memory\""), &dead, &e), &e);
    CHECK(dead);
    buf_init(&reason, 4096);
    CHECK_OK(queue_paused(q, &paused, &reason, &e), &e);
    CHECK(paused && reason.len == 15 && memcmp(reason.ptr, "out of \"memory\"", 15) == 0);
    buf_release(&reason);
    struct queue_worker *w = help_worker(q);
    CHECK_INT(n_suspects(q), 0);
    struct queue_claims none;
    CHECK_INT(help_claim(w, 8, &none), 0);
    queue_claims_release(&none);
    CHECK_OK(queue_paused_by_kill(q, &killed, &e), &e);
    CHECK(killed);
    CHECK_OK(queue_resume(q, &e), &e);
    CHECK_OK(queue_paused_by_kill(q, &killed, &e), &e);
    CHECK(!killed);
    queue_worker_close(w, str_of("done"));
    queue_close(q);
}

TEST(queue_suspects_new_progress_clears_lone_deaths)
{
    struct error e = {0};
    struct queue *q = help_open(DB);
    struct queue_id batch = help_submit(q, 1, 1);
    const struct life life = {.slots = 1};
    CHECK_INT(run_life(life), 9);
    CHECK_INT(run_life(life), 9);
    struct queue_worker *w = help_worker(q);
    struct queue_claim c = help_claim_one(w);
    struct queue_show show;
    CHECK_OK(queue_show(q, c.request, &show, &e), &e);
    CHECK_INT(show.job[0].lone_deaths, 2);
    queue_show_release(&show);
    CHECK(!help_progress(q, &c, "t"));
    queue_worker_close(w, str_of("stop"));
    CHECK_INT(run_life(life), 9);
    CHECK_INT(run_life(life), 9);
    queue_worker_close(help_worker(q), str_of("look"));
    CHECK_OK(queue_show(q, c.request, &show, &e), &e);
    CHECK_INT(show.job[0].lone_deaths, 2);
    CHECK_INT(show.request.state, QUEUE_QUEUED);
    queue_show_release(&show);
    CHECK_INT(run_life(life), 9);
    queue_worker_close(help_worker(q), str_of("look"));
    CHECK_INT(help_counts(q).state[QUEUE_FAILED], 1);
    (void)batch;
    help_free_claim(&c);
    queue_close(q);
}
