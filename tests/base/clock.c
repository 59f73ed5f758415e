#include "base/clock.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

TEST(clock_formats_utc)
{
    char text[32];
    CHECK_STR(clock_format(0, text), "1970-01-01T00:00:00Z");
    CHECK_STR(clock_format(-1, text), "1969-12-31T23:59:59Z");
    CHECK_STR(clock_format(1795989600999999, text), "2026-11-29T22:00:00Z");
}

TEST(clock_shifts_for_tests_only_what_it_says)
{
    int64_t wall = clock_wall_us();
    int64_t boot = clock_boot_us();
    int64_t mono = clock_mono_us();
    clock_test_shift(3600000000, -5000000);
    CHECK(clock_wall_us() - wall >= 3600000000);
    CHECK(clock_boot_us() - boot < 0);
    CHECK(clock_mono_us() >= mono);
    CHECK(clock_mono_us() - mono < 60000000);
}

TEST(clock_sleeps_at_least_so_long)
{
    int64_t start = clock_mono_us();
    clock_sleep_us(20000);
    clock_sleep_us(0);
    clock_sleep_us(-1);
    CHECK(clock_mono_us() - start >= 20000);
}

TEST(clock_identifies_boot_and_process)
{
    char first[37];
    char second[37];
    clock_boot_id(first);
    clock_boot_id(second);
    CHECK_INT(strlen(first), 36);
    CHECK_STR(second, first);

    uint64_t own = clock_process_start(getpid());
    CHECK(own > 0);
    CHECK_INT(clock_process_start(getpid()), own);
    CHECK_INT(clock_process_start(0), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    CHECK_INT(clock_process_start(child), 0); /* dead, though not waited for */
    waitpid(child, NULL, 0);
    CHECK_INT(clock_process_start(child), 0);
}

TEST(clock_uuid_has_version_variant_and_time)
{
    uint8_t id[16];
    uint64_t before = (uint64_t)clock_wall_us() / 1000;
    clock_uuid7(id);
    uint64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | id[i];
    CHECK(ms >= before && ms <= (uint64_t)clock_wall_us() / 1000 + 1);
    CHECK_INT(id[6] >> 4, 7);
    CHECK_INT(id[8] >> 6, 2);

    char text[37];
    uint8_t back[16];
    clock_uuid_text(id, text);
    CHECK_INT(strlen(text), 36);
    CHECK_INT(clock_uuid_parse(text, back), 0);
    CHECK(memcmp(id, back, 16) == 0);
    CHECK_INT(clock_uuid_parse("0192", back), -1);
    CHECK_INT(clock_uuid_parse("", back), -1);
}

TEST(clock_uuid_never_goes_back)
{
    uint8_t last[16];
    clock_uuid7(last);
    for (int i = 0; i < 100000; i++) {
        if (i == 50000)
            clock_test_shift(-3600000000, 0); /* the clock is set back by an hour */
        uint8_t next[16];
        clock_uuid7(next);
        CHECK(memcmp(next, last, 8) > 0);
        memcpy(last, next, 16);
    }
}

#define UUID_THREADS 4
#define UUIDS_EACH 5000

static uint8_t made[UUID_THREADS][UUIDS_EACH][16];

static void *make_ids(void *number)
{
    for (int i = 0; i < UUIDS_EACH; i++)
        clock_uuid7(made[(size_t)number][i]);
    return NULL;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, 16);
}

TEST(clock_uuid_is_unique_across_threads)
{
    pthread_t thread[UUID_THREADS];
    for (size_t t = 0; t < UUID_THREADS; t++)
        CHECK_INT(pthread_create(&thread[t], NULL, make_ids, (void *)t), 0);
    for (size_t t = 0; t < UUID_THREADS; t++)
        pthread_join(thread[t], NULL);
    uint8_t(*all)[16] = made[0];
    qsort(all, (size_t)UUID_THREADS * UUIDS_EACH, 16, by_bytes);
    for (size_t i = 1; i < (size_t)UUID_THREADS * UUIDS_EACH; i++)
        CHECK(memcmp(all[i - 1], all[i], 8) != 0); /* the stamps alone already differ */
}
