/* Sends a hundred messages to the next rank and checks how many a tool has seen: as many as the argument
 * says. */
#define _GNU_SOURCE
#include "../check.h"
#include <dlfcn.h>

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), value, expected = atoi(argv[1]), code;
    for (int i = 0; i < 100; i++) {
        if (rank % 2 == 0) {
            OK(MPI_Send(&i, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD));
        } else {
            OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(value, i);
        }
    }
    /* Errors come through a tool as well. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    code = MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    CHECK_EQ(class_of(code), MPI_ERR_COUNT);
    int (*sends)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "tool_sends");
    int (*barriers)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "tool_barriers");
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (expected) {
        CHECK(sends != NULL && barriers != NULL);
        CHECK_EQ(sends(), rank % 2 == 0 ? 101 : 1);
        CHECK_EQ(barriers(), 1);
    } else {
        CHECK(sends == NULL);
    }
    /* The library's own calls are not the program's: a tool doesn't see them. */
    OK(MPI_Finalize());
    if (expected) {
        CHECK_EQ(sends(), rank % 2 == 0 ? 101 : 1);
        CHECK_EQ(barriers(), 1);
    }
    return 0;
}
