/* What the files of this folder share; night.h is for the others. */
#ifndef BATCH_NIGHT_PARTS_H
#define BATCH_NIGHT_PARTS_H

#include "batch/night/night.h"

#define NIGHT_DAY_US INT64_C(86400000000)

/* choose.c: the runs of the night with their spans, and the title. */
int night_choose(struct queue *q, const struct night_choice *choice, struct night *n,
                 struct error *e);

/* course.c: what the samples of a run say; and added to the night's. */
void night_course(struct night_run *r);
/* What the worker did between two samples. */
enum night_time { NIGHT_BUSY, NIGHT_HELD, NIGHT_IDLE };
enum night_time night_kind_of_time(const struct queue_sample *a, const struct queue_sample *b);
void night_course_add(struct night_course *sum, const struct night_course *one);

/* events.c */
int night_events(struct queue *q, struct night *n, struct error *e);

/* forecast.c: what is left and how long it takes. */
int night_forecast(struct queue *q, struct night *n, struct error *e);

/* page_time.c: what a page draws over time. */
int night_page_time(const struct night *n, struct buf *out, struct error *e);

/* A number of a parsed object, or 0; a text, or "". */
double night_number(const cJSON *o, const char *name);
const char *night_word(const cJSON *o, const char *name);

#endif
