#include "batch/view.h"

#include "base/alloc.h"
#include "tests/test.h"

static void check_text(const char *json, const char *want)
{
    cJSON *tree = view_parse(json);
    CHECK(tree != NULL);
    CHECK_STR(view_answer_text(tree), want);
    cJSON_Delete(tree);
}

TEST(view_an_answer_goes_on_behind_a_nul)
{
    check_text("{\"choices\":[{\"text\":\"a\\u0000b\\n\\u0000\"}]}", "a\xEF\xBF\xBD"
                                                                     "b\n\xEF\xBF\xBD");
}

TEST(view_an_escaped_backslash_before_u0000_is_no_nul)
{
    check_text("{\"choices\":[{\"text\":\"\\\\u0000 \\\\\\u0000\"}]}", "\\u0000 \\\xEF\xBF\xBD");
}

TEST(view_what_is_no_json_and_no_memory_give_no_tree)
{
    CHECK(view_parse("{\"a\":\"\\") == NULL);
    CHECK(view_parse("") == NULL);
    mem_fail_after(1);
    CHECK(view_parse("{}") == NULL);
    mem_fail_after(0);
}
