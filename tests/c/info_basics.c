/* ranks: 1 2
 * local: infos
 * launcher: -memory-alloc-kinds system,mpi:alloc_mem,cuda
 */
/* Info objects, MPI_INFO_ENV, and hints on communicators (MPI-3.1 chapter 9, section 6.4.4). */
#include "fails.h"

static const char *get(MPI_Info info, const char *key) {
    static char value[MPI_MAX_INFO_VAL + 1];
    int flag;
    OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag));
    return flag ? value : NULL;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int size = world_size(), n, flag, length;
    char key[MPI_MAX_INFO_KEY + 1], value[8];
    MPI_Info info, copy;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_get_nkeys(info, &n));
    CHECK_EQ(n, 0);
    OK(MPI_Info_set(info, "one", "1"));
    OK(MPI_Info_set(info, "two", "zwei"));
    OK(MPI_Info_set(info, "three", ""));
    OK(MPI_Info_set(info, "one", "eins"));
    OK(MPI_Info_get_nkeys(info, &n));
    CHECK_EQ(n, 3);
    OK(MPI_Info_get_nthkey(info, 0, key));
    CHECK(!strcmp(key, "one"));
    OK(MPI_Info_get_nthkey(info, 2, key));
    CHECK(!strcmp(key, "three"));
    CHECK(!strcmp(get(info, "one"), "eins"));
    CHECK(!strcmp(get(info, "three"), ""));
    CHECK(get(info, "four") == NULL);
    OK(MPI_Info_get_valuelen(info, "two", &length, &flag));
    CHECK(flag && length == 4);
    OK(MPI_Info_get_valuelen(info, "ONE", &length, &flag));
    CHECK(!flag);
    memset(value, '#', sizeof value);
    OK(MPI_Info_get(info, "two", 2, value, &flag));
    CHECK(flag && !memcmp(value, "zw\0#", 4));
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "two"));
    CHECK(get(info, "two") == NULL && !strcmp(get(copy, "two"), "zwei"));
    OK(MPI_Info_free(&copy));
    CHECK_EQ(copy, MPI_INFO_NULL);

    /* The environment. */
    CHECK(get(MPI_INFO_ENV, "command") != NULL && strstr(get(MPI_INFO_ENV, "command"), "info_b"));
    CHECK(get(MPI_INFO_ENV, "wdir") != NULL && get(MPI_INFO_ENV, "host") != NULL);
    CHECK_EQ(atoi(get(MPI_INFO_ENV, "maxprocs")), size);
    CHECK(!strcmp(get(MPI_INFO_ENV, "thread_level"), "MPI_THREAD_SINGLE"));

    /* Hints: those that are understood stay, and are copied by MPI_Comm_dup. */
    MPI_Comm comm, dup;
    MPI_Info used;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_get_info(comm, &used));
    CHECK(!strcmp(get(used, "mpi_assert_no_any_tag"), "false"));
    CHECK(!strcmp(get(used, "mpi_assert_exact_length"), "false"));
    CHECK(!strcmp(get(used, "mpi_assert_strict_persistent_collective_ordering"), "false"));
    CHECK(strstr(get(used, "mpi_memory_alloc_kinds"), "mpi"));
    OK(MPI_Info_free(&used));
    OK(MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "system,mpi:alloc_mem"));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Info_set(info, "mpi_assert_strict_persistent_collective_ordering", "true"));
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Comm_set_info(comm, MPI_INFO_NULL));
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPI_Comm_get_info(dup, &used));
    /* A copy is not bound by promises that were made of the original. */
    CHECK(!strcmp(get(used, "mpi_assert_no_any_tag"), "false"));
    CHECK(get(used, "mpi_assert_memory_alloc_kinds") == NULL);
    CHECK(get(used, "one") == NULL);
    OK(MPI_Info_free(&used));
    int got, rank;
    OK(MPI_Comm_rank(dup, &rank));
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, rank, 7, &got, 1, MPI_INT, rank, MPI_ANY_TAG, dup,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(got, rank);
    OK(MPI_Comm_free(&dup));
    MPI_Request request;
    OK(MPI_Comm_idup(comm, &dup, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_get_info(dup, &used));
    CHECK(!strcmp(get(used, "mpi_assert_no_any_tag"), "false"));
    OK(MPI_Info_free(&used));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_get_info(comm, &used));
    CHECK(!strcmp(get(used, "mpi_assert_no_any_tag"), "true"));
    CHECK(!strcmp(get(used, "mpi_assert_strict_persistent_collective_ordering"), "true"));
    CHECK(!strcmp(get(used, "mpi_assert_memory_alloc_kinds"), "system,mpi:alloc_mem"));
    OK(MPI_Info_free(&used));
    OK(MPI_Comm_dup_with_info(comm, MPI_INFO_NULL, &dup));
    OK(MPI_Comm_get_info(dup, &used));
    CHECK(!strcmp(get(used, "mpi_assert_no_any_tag"), "false"));
    CHECK(get(used, "mpi_assert_memory_alloc_kinds") == NULL);
    OK(MPI_Info_free(&used));
    OK(MPI_Comm_free(&dup));
    OK(MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "cuda"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &dup));
    OK(MPI_Comm_get_info(dup, &used));
    CHECK(!strcmp(get(used, "mpi_assert_no_any_tag"), "true"));
    CHECK(get(used, "mpi_assert_memory_alloc_kinds") == NULL);
    OK(MPI_Info_free(&used));
    OK(MPI_Comm_free(&dup));

    OK(MPI_Info_delete(info, "mpi_assert_memory_alloc_kinds"));
    OK(MPI_Info_delete(info, "mpi_assert_strict_persistent_collective_ordering"));

    /* Wrong uses. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    char text[MPI_MAX_INFO_VAL + 10];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    FAILS(MPI_Info_set(info, text, "1"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(info, "", "1"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(info, NULL, "1"), MPI_ERR_INFO_KEY);
    FAILS(MPI_Info_set(info, "a", text), MPI_ERR_INFO_VALUE);
    FAILS(MPI_Info_set(info, "a", NULL), MPI_ERR_INFO_VALUE);
    FAILS(MPI_Info_delete(info, "a"), MPI_ERR_INFO_NOKEY);
    FAILS(MPI_Info_get(info, "one", -1, value, &flag), MPI_ERR_ARG);
    FAILS(MPI_Info_get_nthkey(info, 3, key), MPI_ERR_ARG);
    FAILS(MPI_Info_get_nthkey(info, -1, key), MPI_ERR_ARG);
    FAILS(MPI_Info_set(MPI_INFO_NULL, "a", "b"), MPI_ERR_INFO);
    FAILS(MPI_Info_set(MPI_INFO_ENV, "a", "b"), MPI_ERR_INFO);
    FAILS(MPI_Info_delete(MPI_INFO_ENV, "wdir"), MPI_ERR_INFO);
    copy = MPI_INFO_ENV;
    FAILS(MPI_Info_free(&copy), MPI_ERR_INFO);
    copy = info;
    OK(MPI_Info_free(&info));
    FAILS(MPI_Info_free(&copy), MPI_ERR_INFO);
    FAILS(MPI_Comm_set_info(comm, copy), MPI_ERR_INFO);
    FAILS(MPI_Comm_get_info(comm, NULL), MPI_ERR_ARG);

    OK(MPI_Comm_free(&comm));
    MPI_Finalize();
    return 0;
}
