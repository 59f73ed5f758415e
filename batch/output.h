/*
 * What the program says: data on stdout, messages on stderr.
 *
 * Owns the buffer before stdout. Stays true: colour and alignment for people only on a terminal and
 * without NO_COLOR; with --json or --jsonl only JSON is printed; a reader that went away (EPIPE) ends
 * the command quietly, a full disk ends it with ERROR_FULL. One thread.
 */
#ifndef BATCH_OUTPUT_H
#define BATCH_OUTPUT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

struct output {
    struct buf text; /* not yet written */
    int fd;
    bool terminal;
    bool color;
    int columns; /* of the terminal; 0: none */
    int sys;     /* errno of the first write that failed, or 0 */
};

void output_init(struct output *o, int fd, bool no_color);
/* Writes what is left. 0, ERROR_FULL or ERROR_IO; a closed pipe is ERROR_IO with sys EPIPE. */
int output_flush(struct output *o, struct error *e);
void output_release(struct output *o);
/* Whether writing makes no sense any more. */
bool output_broken(const struct output *o);

void output_put(struct output *o, const char *fmt, ...) ATTR_PRINTF(2, 3);
void output_bytes(struct output *o, struct str s);
/* What a model or a document wrote: as it is, but on a terminal made harmless. */
void output_text(struct output *o, struct str s);
/* Control characters become '?', C1 ones too (each byte); newlines and tabs are kept if `lines`. */
void output_harmless(char *text, size_t n, bool lines);
/*
 * One JSON value and a newline; `pretty` indents, whole numbers keep every digit. Takes the value and
 * frees it; NULL: out of memory.
 */
int output_json(struct output *o, cJSON *value, bool pretty, struct error *e);

enum output_color { OUTPUT_RED, OUTPUT_GREEN, OUTPUT_YELLOW, OUTPUT_BOLD, OUTPUT_DIM };
/* The text in a colour, or plain. */
void output_colored(struct output *o, enum output_color color, const char *text);

/*
 * Rows with aligned columns. Cells are copied; control characters in them become '?'. Columns whose
 * title begins with '>' are aligned to the right. The last column is not padded.
 */
#define TABLE_COLUMNS 12
struct table {
    struct output *out;
    int n_columns;
    const char *title[TABLE_COLUMNS];
    struct buf cells; /* NUL-terminated cells, row after row, the titles first */
    size_t n_cells;
};
void table_init(struct table *t, struct output *out, const char *const *titles);
void table_cell(struct table *t, const char *fmt, ...) ATTR_PRINTF(2, 3);
/* Prints everything and releases the table. */
int table_end(struct table *t, struct error *e);

/* "nocturne: " and the sentence on stderr, one write. */
void message(const char *fmt, ...) ATTR_PRINTF(1, 2);

#endif
