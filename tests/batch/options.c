#include "batch/options.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ledger.h"
#include "batch/model_options.h"
#include "engine/experts/policy.h"
#include "tests/test.h"

static const enum option_id allowed[] = {OPTION_MODEL,     OPTION_SLOTS,  OPTION_EXACT,
                                         OPTION_STOP,      OPTION_MEMORY, OPTION_CONFIG,
                                         OPTION_REASONING, OPTION_NONE};

static char *no_environment[] = {NULL};

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0);
    CHECK_OK(file_write_fd(fd, text, strlen(text), path, NULL), (&(struct error){0}));
    close(fd);
}

static int parse(struct options *o, char **words, int n, int *ret_n, struct error *e)
{
    CHECK_OK(options_init(o, no_environment, e), e);
    return options_parse(o, allowed, n, words, ret_n, e);
}

TEST(options_are_taken_in_every_spelling)
{
    struct options o;
    struct error e = {0};
    char *words[] = {(char[]){"first"},    (char[]){"--slots=3"}, (char[]){"-mx.gguf"},
                     (char[]){"--memory"}, (char[]){"2G"},        (char[]){"--exact"},
                     (char[]){"--stop"},   (char[]){"a"},         (char[]){"-"},
                     (char[]){"--stop=b"}, (char[]){"--"},        (char[]){"--slots"}};
    int n = 0;
    CHECK_OK(parse(&o, words, 12, &n, &e), &e);
    CHECK_INT(n, 3);
    CHECK_STR(words[0], "first");
    CHECK_STR(words[1], "-");
    CHECK_STR(words[2], "--slots");
    CHECK_INT(option_int(&o, OPTION_SLOTS), 3);
    CHECK_STR(option_text(&o, OPTION_MODEL), "x.gguf");
    CHECK(option_size(&o, OPTION_MEMORY) == UINT64_C(2) << 30);
    CHECK(option_on(&o, OPTION_EXACT));
    CHECK_STR(option_item(&o, OPTION_STOP, 0), "a");
    CHECK_STR(option_item(&o, OPTION_STOP, 1), "b");
    CHECK(!option_item(&o, OPTION_STOP, 2));
    options_release(&o);
}

TEST(options_refuse_what_they_do_not_know)
{
    static const struct {
        const char *word, *part;
    } cases[] = {
        {"--slot=1", "did you mean --slots"},
        {"--drain", "this command has no option '--drain'"},
        {"--nonsense", "unknown option"},
        {"-z", "unknown option '-z'"},
        {"--slots", "needs a value"},
        {"--slots=0", "0 is not between"},
        {"--slots=many", "not a number"},
        {"--memory=big", "not a size"},
        {"--memory=0", "'0' is less than 1 bytes"},
        {"--exact=perhaps", "neither true"},
        {"--reasoning=o", "--reasoning: 'o' is none of on|off|auto"},
        {"--reasoning=", "is none of on|off|auto"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct options o;
        struct error e = {0};
        char word[64];
        snprintf(word, sizeof(word), "%s", cases[i].word);
        char *words[] = {word};
        int n = 0;
        CHECK_ERROR(parse(&o, words, 1, &n, &e), &e, ERROR_USAGE, cases[i].part);
        options_release(&o);
    }
}

TEST(options_come_from_flag_environment_file_default_in_this_order)
{
    struct options o;
    struct error e = {0};
    write_file("config", "slots = 2\n# nothing\n\nmemory=1G\nmodel =  file name.gguf \n");
    char *environment[] = {(char[]){"NOCTURNE_CONFIG=config"}, (char[]){"NOCTURNE_MEMORY=2G"},
                           (char[]){"NOCTURNE_SLOTS=5"}, NULL};
    char *words[] = {(char[]){"--slots=7"}};
    int n = 0;
    CHECK_OK(options_init(&o, environment, &e), &e);
    CHECK_OK(options_parse(&o, allowed, 1, words, &n, &e), &e);
    CHECK_OK(options_read_file(&o, &e), &e);
    CHECK_INT(option_int(&o, OPTION_SLOTS), 7);
    CHECK_INT(o.value[OPTION_SLOTS].origin, ORIGIN_FLAG);
    CHECK(option_size(&o, OPTION_MEMORY) == UINT64_C(2) << 30);
    CHECK_INT(o.value[OPTION_MEMORY].origin, ORIGIN_ENVIRONMENT);
    CHECK_STR(option_text(&o, OPTION_MODEL), "file name.gguf");
    CHECK_INT(o.value[OPTION_MODEL].origin, ORIGIN_FILE);
    CHECK_INT(o.value[OPTION_MODEL].line, 5);
    CHECK_STR(option_text(&o, OPTION_LEASE), "12s");
    CHECK_INT(o.value[OPTION_LEASE].origin, ORIGIN_DEFAULT);
    options_release(&o);
}

TEST(options_file_errors_name_the_line)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"\nslotz = 1\n", "config:2: unknown key 'slotz'; did you mean 'slots'?"},
        {"slots = 0\n", "config:1: slots: 0 is not between"},
        {"a\n", "config:1: 'a' is not KEY = VALUE"},
        {"config = x\n", "config:1: 'config' cannot stand"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct options o;
        struct error e = {0};
        write_file("config", cases[i].text);
        char *environment[] = {(char[]){"NOCTURNE_CONFIG=config"}, NULL};
        CHECK_OK(options_init(&o, environment, &e), &e);
        CHECK_ERROR(options_read_file(&o, &e), &e, ERROR_CONFIG, cases[i].part);
        options_release(&o);
    }
}

/* The program's own defaults pass their own checks, and a flag has one meaning as a setting. */
TEST(options_overwrite_no_model_and_no_database)
{
    static const enum option_id outputs[] = {OPTION_OUT, OPTION_ERRORS, OPTION_SAVE_LOGITS,
                                             OPTION_NONE};
    static const struct {
        const char *name, *content, *refusal; /* NULL: none */
    } cases[] = {
        {"model", "GGUF...", "'model' is a model"},
        {"queue", "SQLite format 3.........", "'queue' is a database"},
        {"old", "GGU", NULL},
        {"empty", "", NULL},
        {"absent", NULL, NULL},
    };
    static const char *const flags[] = {"--output", "--errors", "--save-logits"};
    for (size_t i = 0; i < ARRAY_LEN(cases) * ARRAY_LEN(flags); i++) {
        struct options o;
        struct error e = {0};
        char word[64];
        char *words[] = {word};
        int n = 0;
        const size_t k = i % ARRAY_LEN(cases);
        if (cases[k].content)
            write_file(cases[k].name, cases[k].content);
        snprintf(word, sizeof(word), "%s=%s", flags[i / ARRAY_LEN(cases)], cases[k].name);
        CHECK_OK(options_init(&o, no_environment, &e), &e);
        if (cases[k].refusal)
            CHECK_ERROR(options_parse(&o, outputs, 1, words, &n, &e), &e, ERROR_USAGE,
                        cases[k].refusal);
        else
            CHECK_OK(options_parse(&o, outputs, 1, words, &n, &e), &e);
        options_release(&o);
    }
}

TEST(options_table_is_sound)
{
    struct options o;
    struct error e = {0};
    CHECK_OK(options_init(&o, no_environment, &e), &e);
    for (int a = OPTION_NONE + 1; a < OPTION_COUNT; a++) {
        const struct option_row *row = option_row((enum option_id)a);
        CHECK((row->kind == OPTION_FLAG) == (row->argument == NULL));
        for (int b = a + 1; b < OPTION_COUNT; b++) {
            const struct option_row *other = option_row((enum option_id)b);
            if (strcmp(row->flag, other->flag) == 0)
                CHECK(row->where == OPTION_ORDER && other->where == OPTION_ORDER);
        }
    }
    options_release(&o);
}

/* Written out in the table, for help; the engine's own list says which there are. */
/* A model larger than the machine: no command may take all of it because nobody said how much. */
TEST(options_limit_memory_that_nobody_named)
{
    struct options o;
    struct error e;
    struct ledger *ledger = NULL;
    CHECK_OK(options_init(&o, no_environment, &e), &e);
    CHECK_OK(model_ledger_new(&ledger, &o, &e), &e);
    CHECK(ledger_limit(ledger) > 0 && ledger_limit(ledger) < UINT64_MAX);
    ledger_free(ledger);
    options_release(&o);
}

TEST(options_name_every_expert_policy)
{
    const struct option_row *row = option_row(OPTION_EXPERT_POLICY);
    char words[100] = "";
    size_t at = 0;
    for (size_t i = 0; expert_policy_at(i); i++)
        at += (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", i ? "|" : "",
                               expert_policy_at(i)->name);
    CHECK_STR(row->argument, words);
    CHECK_STR(row->value, expert_policy_at(0)->name);
}
