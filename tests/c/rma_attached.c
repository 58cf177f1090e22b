/* Puts, gets and accumulates that reach over several stretches of attached memory that follow each other
 * without a gap, and that is all they may: towards others and oneself. Accumulates of no elements are of
 * any type.
 * ranks: 1 3
 * variants: shm shm-2copy ofi ucx hosts
 */
#include "check.h"

enum { COUNT = 300 };

static long memory[COUNT];

static void failed(int code)
{
    CHECK_EQ(class_of(code), MPI_ERR_RMA_RANGE);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    MPI_Win win;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    /* In any order. */
    OK(MPI_Win_attach(win, memory + 100, 100 * sizeof *memory));
    OK(MPI_Win_attach(win, memory, 100 * sizeof *memory));
    OK(MPI_Win_attach(win, memory + 200, 50 * sizeof *memory));
    MPI_Aint all[8], here;
    CHECK(size <= 8);
    OK(MPI_Get_address(memory, &here));
    OK(MPI_Allgather(&here, 1, MPI_AINT, all, 1, MPI_AINT, MPI_COMM_WORLD));
    for (int away = 0; away < size; away++) {
        int to = (rank + away) % size;
        long data[COUNT], back[COUNT];
        for (int i = 0; i < COUNT; i++)
            data[i] = 1000 * rank + i;
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win));
        OK(MPI_Put(data, 250, MPI_LONG, to, all[to], 250, MPI_LONG, win));
        OK(MPI_Win_flush(to, win));
        OK(MPI_Accumulate(data, 100, MPI_LONG, to, MPI_Aint_add(all[to], 150 * 8), 100, MPI_LONG,
                          MPI_SUM, win));
        OK(MPI_Win_flush(to, win));
        OK(MPI_Get(back, 200, MPI_LONG, to, MPI_Aint_add(all[to], 50 * 8), 200, MPI_LONG, win));
        OK(MPI_Win_flush(to, win));
        for (int i = 0; i < 200; i++)
            CHECK_EQ(back[i], data[50 + i] + (i < 100 ? 0 : data[i - 100]));
        OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, back, 2, MPI_LONG, to,
                              MPI_Aint_add(all[to], 99 * 8), 2, MPI_LONG, MPI_NO_OP, win));
        OK(MPI_Win_flush(to, win));
        CHECK(back[0] == data[99] && back[1] == data[100]);
        OK(MPI_Accumulate(data, 0, MPI_INT, to, all[to], 0, MPI_DOUBLE, MPI_SUM, win));
        OK(MPI_Win_unlock(to, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* What is not attached is not reached: one element too many, and what was detached. */
    long one = 7, two[2] = {7, 7};
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    int code = MPI_Put(two, 2, MPI_LONG, rank, MPI_Aint_add(all[rank], 249 * 8), 2, MPI_LONG, win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_flush(rank, win);
    failed(code);
    CHECK_EQ(memory[250], 0);
    OK(MPI_Win_detach(win, memory + 100));
    code = MPI_Put(&one, 1, MPI_LONG, rank, MPI_Aint_add(all[rank], 150 * 8), 1, MPI_LONG, win);
    if (code == MPI_SUCCESS)
        code = MPI_Win_flush(rank, win);
    failed(code);
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Win_detach(win, memory));
    OK(MPI_Win_detach(win, memory + 200));
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
