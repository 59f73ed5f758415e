/* The manual page says what the tables say: every command and option, and none besides. */
#include <ctype.h>

#include "base/file.h"
#include "batch/command.h"
#include "tests/test.h"

static void read_manual(struct buf *out)
{
    struct error e = {0};
    char path[4096];
    snprintf(path, sizeof(path), "%s/packaging/man/nocturne.1", test_source_root());
    buf_init(out, 1u << 20);
    CHECK_OK(file_read_all(path, 1u << 20, out, &e), &e);
}

/* The flag as roff writes it: hyphens with a backslash. */
static void escape(const char *flag, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "\\-\\-");
    for (; *flag && n + 3 < size; flag++) {
        if (*flag == '-')
            out[n++] = '\\';
        out[n++] = *flag;
    }
    out[n] = '\0';
}

TEST(manual_has_every_command_and_option)
{
    struct buf page;
    read_manual(&page);
    for (size_t i = 0; command_at(i); i++) {
        char heading[64];
        snprintf(heading, sizeof(heading), "\n.SS %s", command_at(i)->name);
        if (!strstr(page.ptr, heading))
            test_fail(__FILE__, __LINE__, "no section for the command '%s'", command_at(i)->name);
    }
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        char flag[64], entry[96];
        escape(option_row((enum option_id)id)->flag, flag, sizeof(flag));
        snprintf(entry, sizeof(entry), "\\fB%s\\fR", flag);
        if (!strstr(page.ptr, entry))
            test_fail(__FILE__, __LINE__, "no entry for %s", entry);
    }
    buf_release(&page);
}

static bool is_flag(const char *at, size_t n)
{
    for (int id = OPTION_NONE + 1; id < OPTION_COUNT; id++) {
        char flag[64];
        escape(option_row((enum option_id)id)->flag, flag, sizeof(flag));
        if (strlen(flag) == n && strncmp(flag, at, n) == 0)
            return true;
    }
    return false;
}

TEST(manual_names_no_option_that_does_not_exist)
{
    struct buf page;
    read_manual(&page);
    const char *at = page.ptr;
    while ((at = strstr(at, "\\-\\-")) != NULL) {
        size_t n = 4;
        while (isalnum((unsigned char)at[n]) || strncmp(at + n, "\\-", 2) == 0)
            n += at[n] == '\\' ? 2 : 1;
        if (!is_flag(at, n))
            test_fail(__FILE__, __LINE__, "%.*s is no option", (int)n, at);
        at += n;
    }
    buf_release(&page);
}

TEST(commands_take_options_of_the_table_once)
{
    for (size_t i = 0; command_at(i); i++) {
        const struct command *c = command_at(i);
        bool seen[OPTION_COUNT] = {false};
        CHECK(c->run && c->arguments);
        for (const enum option_id *id = c->option; id && *id; id++) {
            for (const enum option_id *other = id + 1; *other; other++)
                CHECK(strcmp(option_row(*id)->flag, option_row(*other)->flag) != 0);
            CHECK(!seen[*id]);
            seen[*id] = true;
        }
    }
}

/* To roff a line that begins with a quote is an instruction, and what it does not know is left out. */
TEST(manual_has_no_line_that_begins_with_a_quote)
{
    struct buf page;
    read_manual(&page);
    const char *at = strstr(page.ptr, "\n'");
    if (at)
        test_fail(__FILE__, __LINE__, "not printed: %.60s", at + 1);
    buf_release(&page);
}
