#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#define US_PER_S 1000000

static _Atomic int64_t wall_shift_us;
static _Atomic int64_t boot_shift_us;
static _Atomic uint64_t last_uuid_stamp;

static int64_t read_clock_us(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
    return read_clock_us(CLOCK_REALTIME) + atomic_load(&wall_shift_us);
}

int64_t clock_mono_us(void)
{
    return read_clock_us(CLOCK_MONOTONIC);
}

int64_t clock_boot_us(void)
{
    return read_clock_us(CLOCK_BOOTTIME) + atomic_load(&boot_shift_us);
}

void clock_sleep_us(int64_t us)
{
    if (us <= 0)
        return;
    struct timespec left = {.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR)
        continue;
}

/* The start of a small file of /proc as text; its length, or -1. */
static ssize_t read_proc(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n;
    do {
        n = read(fd, out, size - 1);
    } while (n < 0 && errno == EINTR);
    close(fd);
    if (n >= 0)
        out[n] = '\0';
    return n;
}

void clock_boot_id(char out[37])
{
    if (read_proc("/proc/sys/kernel/random/boot_id", out, 37) != 36)
        memcpy(out, "unknown", sizeof("unknown"));
}

uint64_t clock_process_start(int pid)
{
    char path[64];
    char line[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    if (read_proc(path, line, sizeof(line)) <= 0)
        return 0;
    /* The name (field 2) may hold blanks and parentheses; the fields go on after the last ')'. */
    char *field = strrchr(line, ')');
    if (!field || strlen(field) < 3)
        return 0;
    field += 2;
    if (*field == 'Z' || *field == 'X') /* dead, only not yet waited for */
        return 0;
    for (int number = 3; number < 22; number++) {
        field = strchr(field, ' ');
        if (!field)
            return 0;
        field++;
    }
    return strtoull(field, NULL, 10);
}

const char *clock_format(int64_t wall_us, char out[32])
{
    int64_t seconds = wall_us / US_PER_S - (wall_us % US_PER_S < 0);
    time_t when = (time_t)seconds;
    struct tm utc;
    if (!gmtime_r(&when, &utc) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        memcpy(out, "?", sizeof("?"));
    return out;
}

/*
 * Milliseconds and a 12-bit counter in one number that only grows: the counter starts at a random
 * value below 2048 in each millisecond and runs over into the milliseconds when it must.
 */
static uint64_t next_uuid_stamp(unsigned start)
{
    uint64_t fresh = (uint64_t)(clock_wall_us() / 1000) << 12 | (start & 0x7FFu);
    uint64_t last = atomic_load(&last_uuid_stamp);
    uint64_t stamp;
    do {
        stamp = fresh > last ? fresh : last + 1;
    } while (!atomic_compare_exchange_weak(&last_uuid_stamp, &last, stamp));
    return stamp;
}

void clock_uuid7(uint8_t out[16])
{
    uuid_generate_random(out); /* its bytes 8 to 15, with the variant's two bits, stay */
    uint64_t stamp = next_uuid_stamp((unsigned)out[0] << 8 | out[1]);
    for (int i = 0; i < 6; i++)
        out[i] = (uint8_t)(stamp >> (52 - 8 * i));
    out[6] = (uint8_t)(0x70u | (stamp >> 8 & 0x0Fu));
    out[7] = (uint8_t)stamp;
}

const char *clock_uuid_text(const uint8_t id[16], char out[37])
{
    uuid_unparse_lower(id, out);
    return out;
}

int clock_uuid_parse(const char *text, uint8_t out[16])
{
    return uuid_parse(text, out) == 0 ? 0 : -1;
}

void clock_test_shift(int64_t wall_us, int64_t boot_us)
{
    atomic_store(&wall_shift_us, wall_us);
    atomic_store(&boot_shift_us, boot_us);
}
