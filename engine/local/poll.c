/* Events as the outside sees them. */
#include "engine/local/local.h"

static void describe_event(const struct event *event, struct engine_event *ret)
{
    const struct sequence *s = event->s;
    *ret = (struct engine_event){.kind = event->kind,
                                 .tag = s->tag,
                                 .token = event->token,
                                 .text = event->text,
                                 .reasoning = event->thought,
                                 .prefilled = event->prefilled,
                                 .prompt_tokens = s->n_prompt + s->n_resumed};
    if (event->kind != ENGINE_EVENT_DONE && event->kind != ENGINE_EVENT_FAILED)
        return;
    sequence_usage(s, &ret->usage);
    ret->text = buf_str(&s->answer);
    ret->reasoning = buf_str(&s->reasoning.thought);
    ret->in_thought = sequence_in_thought(s);
    ret->finish = s->finish;
    ret->detail = s->detail;
    ret->error = s->error;
}

int engine_poll(struct engine *en, struct engine_event *ret, struct error *e)
{
    scheduler_reap(en);
    if (en->events.n == 0 && en->n_running > 0) {
        int rc = scheduler_step(en, e);
        if (rc < 0)
            return rc;
    }
    struct event event;
    if (!events_pop(&en->events, &event))
        return 0;
    describe_event(&event, ret);
    if (event.kind == ENGINE_EVENT_DONE || event.kind == ENGINE_EVENT_FAILED)
        en->leaving = event.s;
    return 1;
}

void engine_step(const struct engine *en, struct engine_step *ret)
{
    *ret = (struct engine_step){0};
    if (en->forward && en->n_rows > 0)
        *ret = (struct engine_step){forward_layer(en->forward), en->model.hp.n_layers, en->n_rows};
}

bool engine_busy(const struct engine *en)
{
    return en->events.n > 0 || en->n_running > 0;
}

bool engine_has_event(const struct engine *en)
{
    return en->events.n > 0;
}

bool engine_room(const struct engine *en)
{
    return en->forward && (en->leaving || scheduler_free_entry(en));
}
