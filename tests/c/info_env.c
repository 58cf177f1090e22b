/* MPI_Info_create_env before MPI_Init returns the same as MPI_INFO_ENV after it (MPI-5.0 chapter 10 and section
 * 11.2.1), for a process of the world and for one with sessions only.
 * ranks: 1 2
 * variants: shm single
 */
#include "check.h"

static const char *const keys[] = {"command",
                                   "maxprocs",
                                   "mpi_initial_errhandler",
                                   "host",
                                   "arch",
                                   "wdir",
                                   "thread_level",
                                   "mpi_memory_alloc_kinds"};

enum { KEYS = sizeof keys / sizeof keys[0] };

static void get(MPI_Info info, const char *key, char value[1024]) {
    int length = 1024, flag;
    OK(MPI_Info_get_string(info, key, &length, value, &flag));
    if (!flag) {
        fprintf(stderr, "no key %s\n", key);
    }
    CHECK(flag);
    CHECK(length > 1);
}

int main(int argc, char **argv) {
    MPI_Info before, beside;
    char one[1024], other[1024];
    OK(MPI_Info_create_env(argc, argv, &before));
    MPI_Session session;
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Info_create_env(argc, argv, &beside));
    OK(MPI_Session_finalize(&session));
    OK(MPI_Init(&argc, &argv));
    world_rank();
    for (int i = 0; i < KEYS; i++) {
        get(before, keys[i], one);
        get(beside, keys[i], other);
        CHECK(!strcmp(one, other));
        get(MPI_INFO_ENV, keys[i], other);
        CHECK(!strcmp(one, other));
    }
    get(before, "maxprocs", one);
    CHECK_EQ(atoi(one), world_size());
    get(before, "mpi_initial_errhandler", one);
    CHECK(!strcmp(one, "mpi_errors_are_fatal"));
    OK(MPI_Info_free(&before));
    OK(MPI_Info_free(&beside));
    OK(MPI_Finalize());
    return 0;
}
