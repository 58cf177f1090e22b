/* Wrong uses are found, and what comes after works.
 *
 * ranks: 1 2
 */
#include "rma.h"

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), n = 0, *base, flag;
    const MPI_Comm world = MPI_COMM_WORLD;
    MPI_Aint bytes;
    MPI_Win win;
    MPI_Request request;
    MPI_Group group, empty = MPI_GROUP_EMPTY;
    int data[4] = {1, 2, 3, 4}, unit;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    FAILS(MPI_Win_allocate(-1, 1, MPI_INFO_NULL, world, &base, &win), MPI_ERR_SIZE);
    FAILS(MPI_Win_allocate(8, 0, MPI_INFO_NULL, world, &base, &win), MPI_ERR_DISP);
    FAILS(MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_NULL, &base, &win), MPI_ERR_COMM);
    FAILS(MPI_Win_create(NULL, 8, 1, MPI_INFO_NULL, world, &win), MPI_ERR_BASE);
    FAILS(MPI_Win_allocate(8, 1, (MPI_Info)77, world, &base, &win), MPI_ERR_INFO);
    FAILS(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    FAILS(MPI_Win_fence(0, (MPI_Win)12345), MPI_ERR_WIN);
    win = MPI_WIN_NULL;
    FAILS(MPI_Win_free(&win), MPI_ERR_WIN);

    OK(MPI_Win_allocate(64, 4, MPI_INFO_NULL, world, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    /* No epoch. */
    FAILS(MPI_Put(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Get(data, 1, MPI_INT, 0, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Accumulate(data, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_complete(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_wait(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_test(win, &flag), MPI_ERR_RMA_SYNC);
    /* Arguments of synchronisation. */
    FAILS(MPI_Win_lock(1, 0, 0, win), MPI_ERR_LOCKTYPE);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, MPI_MODE_NOPUT, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_fence(1, win), MPI_ERR_ASSERT);
    FAILS(MPI_Win_post(MPI_GROUP_NULL, 0, win), MPI_ERR_GROUP);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, MPI_PROC_NULL, 0, win));
    OK(MPI_Win_unlock(MPI_PROC_NULL, win));
    /* Epochs of several kinds. */
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_start(empty, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    if (size > 1) {
        FAILS(MPI_Put(data, 1, MPI_INT, 1 - rank, 0, 1, MPI_INT, win), MPI_ERR_RMA_SYNC);
        FAILS(MPI_Win_unlock(1 - rank, win), MPI_ERR_RMA_SYNC);
    }
    /* Arguments of transfers. */
    FAILS(MPI_Put(data, -1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(data, 1, MPI_INT, rank, 0, -1, MPI_INT, win), MPI_ERR_COUNT);
    FAILS(MPI_Put(data, 1, MPI_DATATYPE_NULL, rank, 0, 1, MPI_INT, win), MPI_ERR_TYPE);
    FAILS(MPI_Put(NULL, 1, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_BUFFER);
    FAILS(MPI_Put(data, 1, MPI_INT, size, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    FAILS(MPI_Put(data, 1, MPI_INT, -7, 0, 1, MPI_INT, win), MPI_ERR_RANK);
    FAILS(MPI_Put(data, 2, MPI_INT, rank, 0, 1, MPI_INT, win), MPI_ERR_TRUNCATE);
    FAILS(MPI_Put(data, 1, MPI_INT, rank, 16, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(data, 2, MPI_INT, rank, 15, 2, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put(data, 1, MPI_INT, rank, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    FAILS(MPI_Get(data, 1, MPI_INT, rank, (MPI_Aint)1 << 62, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Rput(data, 1, MPI_INT, rank, 0, 1, MPI_INT, win, NULL), MPI_ERR_ARG);
    FAILS(MPI_Accumulate(data, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_OP_NULL, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(data, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_MAXLOC, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(data, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
    FAILS(MPI_Accumulate(data, 1, MPI_INT, rank, 0, 1, MPI_FLOAT, MPI_SUM, win), MPI_ERR_TYPE);
    double real = 1;
    FAILS(MPI_Compare_and_swap(&real, &real, &real, MPI_DOUBLE, rank, 0, win), MPI_ERR_TYPE);
    OK(MPI_Win_unlock(rank, win));
    /* A fence in which nothing was done is no epoch; one in which something was is. */
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    OK(MPI_Win_unlock(rank, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(data, 1, MPI_INT, rank, 0, 1, MPI_INT, win));
    FAILS(MPI_Rput(data, 1, MPI_INT, rank, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_fence(MPI_MODE_NOPRECEDE, win), MPI_ERR_ASSERT);
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    CHECK_EQ(base[0], 1);
    int *asked;
    FAILS(MPI_Win_shared_query(win, size, &bytes, &unit, &asked), MPI_ERR_RANK);
    FAILS(MPI_Win_shared_query(win, 0, NULL, &unit, &asked), MPI_ERR_ARG);
    FAILS(MPI_Win_attach(win, data, sizeof data), MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Win_post(group, 0, win));
    FAILS(MPI_Win_post(group, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_start(group, 0, win));
    FAILS(MPI_Win_start(group, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    OK(MPI_Group_free(&group));
    FAILS(MPI_Win_set_attr(win, MPI_WIN_SIZE, &n), MPI_ERR_KEYVAL);
    OK(MPI_Win_free(&win));

    /* Dynamic windows. */
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(win, data, sizeof data));
    FAILS(MPI_Win_attach(win, data + 1, 4), MPI_ERR_RMA_ATTACH);
    FAILS(MPI_Win_detach(win, data + 1), MPI_ERR_RMA_ATTACH);
    FAILS(MPI_Win_attach(win, NULL, 4), MPI_ERR_BASE);
    FAILS(MPI_Win_attach(win, data, -1), MPI_ERR_SIZE);
    OK(MPI_Barrier(world));
    for (int target = 0; target < size; target++) {
        /* Nothing is at this address of any process. */
        OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
        int put = MPI_Put(data, 1, MPI_INT, target, 64, 1, MPI_INT, win);
        int unlock = MPI_Win_unlock(target, win);
        CHECK_EQ(class_of(put == MPI_SUCCESS ? unlock : put), MPI_ERR_RMA_RANGE);
    }
    OK(MPI_Barrier(world));
    OK(MPI_Win_detach(win, data));
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
