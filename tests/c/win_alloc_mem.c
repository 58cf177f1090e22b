/* Windows that MPI_Win_create makes of memory from MPI_Alloc_mem, in whole or in part, by all members
 * or by some: data and atomics are right.
 * ranks: 2 4
 * variants: shm shm-2copy ofi hosts
 */
#include "check.h"

enum { LENGTH = 1 << 20, COUNT = 1000 };

static void use(MPI_Win win, long *memory, long first) {
    int rank = world_rank(), size = world_size(), right = (rank + 1) % size;
    static long mine[COUNT], back[COUNT];
    for (int i = 0; i < COUNT; i++)
        mine[i] = 1000000L * rank + i + first;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(mine, COUNT, MPI_LONG, right, 10, COUNT, MPI_LONG, win));
    OK(MPI_Win_fence(0, win));
    int left = (rank + size - 1) % size;
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(memory[10 + i], 1000000L * left + i + first);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(back, COUNT, MPI_LONG, right, 10, COUNT, MPI_LONG, win));
    long one = 1;
    OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 5, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(back[i], mine[i]);
    if (rank == 0)
        CHECK_EQ(memory[5], first + size);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    long *memory;
    MPI_Win win;
    OK(MPI_Alloc_mem(LENGTH, MPI_INFO_NULL, &memory));
    memory[5] = 7;
    OK(MPI_Win_create(memory, LENGTH, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    use(win, memory, 7);
    OK(MPI_Win_free(&win));
    /* A part of it that doesn't begin on a page, and of different sizes. */
    long *part = memory + 1001 + rank, size = LENGTH / 2 + 8 * rank;
    part[5] = 3;
    OK(MPI_Win_create(part, size, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    use(win, part, 3);
    /* Beyond the window, though not beyond the piece. */
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock_all(0, win));
    int class, code = MPI_Put(&size, 1, MPI_LONG, 0, LENGTH / 2 / 8, 1, MPI_LONG, win);
    OK(MPI_Error_class(code, &class));
    CHECK_EQ(class, MPI_ERR_RMA_RANGE);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    /* One member has other memory, one has none. */
    long *own = calloc(LENGTH, 1);
    long *some = rank == 0 ? own : memory;
    some[5] = 9;
    OK(MPI_Win_create(some, LENGTH, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    use(win, some, 9);
    OK(MPI_Win_free(&win));
    free(own);
    OK(MPI_Win_create(rank == 0 ? memory : NULL, rank == 0 ? LENGTH : 0, 8, MPI_INFO_NULL,
                      MPI_COMM_WORLD, &win));
    memory[0] = 0;
    OK(MPI_Win_fence(0, win));
    long all = 1;
    OK(MPI_Accumulate(&all, 1, MPI_LONG, 0, 0, 1, MPI_LONG, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    if (rank == 0)
        CHECK_EQ(memory[0], world_size());
    OK(MPI_Win_free(&win));
    OK(MPI_Free_mem(memory));

    /* Wrong: not the beginning of a piece, and a piece that is gone. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Alloc_mem(LENGTH, MPI_INFO_NULL, &memory));
    OK(MPI_Error_class(MPI_Free_mem(memory + 1), &class));
    CHECK_EQ(class, MPI_ERR_BASE);
    long *gone = memory;
    OK(MPI_Free_mem(memory));
    OK(MPI_Error_class(MPI_Free_mem(gone), &class));
    CHECK_EQ(class, MPI_ERR_BASE);
    OK(MPI_Finalize());
    return 0;
}
