/* What ranks in containers of their own do: messages short and long, both ways and to oneself, collectives, a window, a
 * communicator of those that share memory. The first argument is the size of that. With a second argument the last rank
 * ends without a word, and the others notice it. */
#include "../check.h"

enum { LONG = 300000 };
static int out[LONG], in[LONG];

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK(argc > 1);
    MPI_Comm world = MPI_COMM_WORLD, shared;
    int rank = world_rank(), size, sum = 0, near = 0;
    OK(MPI_Comm_size(world, &size));
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int count = 1; count <= LONG; count = count == 1 ? 3000 : count * 100) {
        for (int i = 0; i < count; i++) {
            out[i] = rank * 7 + i;
        }
        OK(MPI_Sendrecv(out, count, MPI_INT, next, 1, in, count, MPI_INT, last, 1, world,
                        MPI_STATUS_IGNORE));
        for (int i = 0; i < count; i++) {
            CHECK_EQ(in[i], last * 7 + i);
        }
    }
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world));
    CHECK_EQ(sum, size * (size - 1) / 2);
    OK(MPI_Bcast(in, LONG, MPI_INT, size - 1, world));
    int *memory;
    MPI_Win win;
    OK(MPI_Win_allocate(sizeof *memory, sizeof *memory, MPI_INFO_NULL, world, &memory, &win));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    OK(MPI_Win_flush(next, win));
    OK(MPI_Barrier(world));
    CHECK_EQ(*memory, last);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared));
    OK(MPI_Comm_size(shared, &near));
    CHECK_EQ(near, atoi(argv[1]));
    OK(MPI_Win_allocate_shared(4, 1, MPI_INFO_NULL, shared, &memory, &win));
    *memory = rank;
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&shared));
    if (argc > 2) {
        OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
        if (rank == size - 1) {
            _exit(7);
        }
        int code = MPI_Recv(in, 1, MPI_INT, size - 1, 2, world, MPI_STATUS_IGNORE), class = MPI_SUCCESS;
        OK(MPI_Error_class(code, &class));
        CHECK_EQ(class, MPIX_ERR_PROC_FAILED);
    }
    if (rank == 0) {
        printf("all is well\n");
    }
    OK(MPI_Finalize());
    return 0;
}
