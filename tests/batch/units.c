/* The units for systemd: what they say of exit codes is what the document says, and systemd reads them. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/test.h"

static const char *const services[] = {"packaging/systemd/nocturne.service",
                                       "packaging/systemd/user/nocturne.service"};

static char *read_source(const char *name, struct buf *out)
{
    struct error e = {0};
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", test_source_root(), name);
    buf_init(out, 1u << 20);
    CHECK_OK(file_read_text(path, (1u << 20) - 1, out, &e), &e);
    return out->ptr;
}

/* The value of the only line of that key. */
static const char *value_of(const char *unit, const char *key, char out[256])
{
    char line[64];
    snprintf(line, sizeof(line), "\n%s=", key);
    const char *at = strstr(unit, line);
    if (!at || strstr(at + 1, line))
        test_fail(__FILE__, __LINE__, "%s= is there %s", key, at ? "twice" : "not at all");
    at += strlen(line);
    snprintf(out, 256, "%.*s", (int)strcspn(at, "\n"), at);
    return out;
}

/* Marks the numbers of a text, up to its first that is none. */
static void mark(const char *text, bool codes[256])
{
    char *end;
    for (;; text = end) {
        const long n = strtol(text, &end, 10);
        if (end == text)
            return;
        CHECK(n > 0 && n < 256 && !codes[n]);
        codes[n] = true;
    }
}

TEST(units_restart_on_none_of_the_codes_that_the_document_says)
{
    struct buf document, unit;
    bool wanted[256] = {false};
    char value[256], row[32];
    const char *at = strstr(read_source("docs/exit-codes.md", &document), "on none of ");
    CHECK(at != NULL);
    mark(at + strlen("on none of "), wanted);
    for (size_t i = 0; i < ARRAY_LEN(services); i++) {
        bool codes[256] = {false};
        read_source(services[i], &unit);
        CHECK_STR(value_of(unit.ptr, "Restart", value), "on-failure");
        CHECK_STR(value_of(unit.ptr, "SuccessExitStatus", value), "1 75");
        mark(value, codes);
        mark(value_of(unit.ptr, "RestartPreventExitStatus", value), codes);
        for (int n = 0; n < 256; n++) {
            if (codes[n] != wanted[n])
                test_fail(__FILE__, __LINE__, "%s: a service %s on %d", services[i],
                          wanted[n] ? "restarts" : "does not restart", n);
            snprintf(row, sizeof(row), "\n| %d |", n);
            CHECK(!codes[n] || strstr(document.ptr, row));
        }
        buf_release(&unit);
    }
    buf_release(&document);
}

TEST(units_begin_no_night_late_and_survive_a_few_crashes)
{
    struct buf unit;
    char value[256];
    read_source("packaging/systemd/nocturne.timer", &unit);
    CHECK_STR(value_of(unit.ptr, "Persistent", value), "false");
    buf_release(&unit);
    for (size_t i = 0; i < ARRAY_LEN(services); i++) {
        read_source(services[i], &unit);
        CHECK_STR(value_of(unit.ptr, "StartLimitIntervalSec", value), "1h");
        /* Four requests that kill it, twelve deaths until the last of eight is known (tests/fault/poison.c). */
        CHECK(strtol(value_of(unit.ptr, "StartLimitBurst", value), NULL, 10) >= 4 * 12);
        CHECK_STR(value_of(unit.ptr, "MemorySwapMax", value), "0");
        CHECK(strstr(value_of(unit.ptr, "ExecStopPost", value), " pause --after-service"));
        /* A user's manager cannot do most of the rest. */
        CHECK(i > 0 || strcmp(value_of(unit.ptr, "ProtectSystem", value), "strict") == 0);
        CHECK(i > 0 || strstr(value_of(unit.ptr, "SystemCallFilter", value), "@aio"));
        buf_release(&unit);
    }
}

/* Installed with this program in the place of the installed one, which has to exist. */
TEST_FOR(units_are_understood_by_systemd, 60)
{
    static const char *const installed[] = {"system/nocturne.service", "system/nocturne.timer",
                                            "user/nocturne.service", "user/nocturne.timer"};
    char line[9000];
    struct buf said;
    struct error e = {0};
    if (system("systemd-analyze --version > version.txt 2>&1") != 0)
        SKIP("systemd-analyze is not here");
    snprintf(line, sizeof(line),
             "sh '%s/packaging/systemd/install.sh' \"$PWD/root\" /usr && mkdir root/usr/bin && "
             "sed -i \"s|/usr/bin/nocturne|/bin/true|\" root/usr/lib/systemd/*/*.service",
             test_source_root());
    CHECK_INT(system(line), 0);
    for (size_t i = 0; i < ARRAY_LEN(installed); i++) {
        snprintf(line, sizeof(line),
                 "systemd-analyze verify --man=no root/usr/lib/systemd/%s > said.txt 2>&1",
                 installed[i]);
        const int status = system(line);
        buf_init(&said, 1u << 16);
        CHECK_OK(file_read_text("said.txt", 1u << 16, &said, &e), &e);
        if (status != 0 || said.len > 1)
            test_fail(__FILE__, __LINE__, "%s: %s", installed[i], said.ptr);
        buf_release(&said);
    }
}
