/* Locks around each access: uncontended ones, which are taken by the short way, beside those that others are in
 * the way of, with what must be refused in between.
 *
 * ranks: 2 4
 * variants: shm shm-2copy tcp
 */
#include "rma.h"

enum { ROUNDS = 80 };

/* Adds to a number of rank 0's by a read and a write, which an exclusive lock alone makes safe. Shared locks, and those
 * of all, come in between and must see both words alike. */
static void count(struct window *w, int rank, int size)
{
    for (int i = 0; i < ROUNDS; i++) {
        int64_t pair[2];
        MPI_Aint at = w->start[0];
        switch (i % 4) {
        case 0:
            OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
            break;
        case 1:
            OK(MPI_Win_lock_all(0, w->win));
            break;
        default:
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w->win));
        }
        OK(MPI_Get(pair, 2, MPI_INT64_T, 0, at, 2, MPI_INT64_T, w->win));
        OK(MPI_Win_flush(0, w->win));
        CHECK_EQ(pair[0], pair[1]);
        if (i % 4 > 1) {
            pair[0]++;
            OK(MPI_Put(pair, 1, MPI_INT64_T, 0, at, 1, MPI_INT64_T, w->win));
            OK(MPI_Put(pair, 1, MPI_INT64_T, 0, at + 8, 1, MPI_INT64_T, w->win));
        }
        if (i % 4 == 1) {
            OK(MPI_Win_unlock_all(w->win));
        } else {
            OK(MPI_Win_unlock(0, w->win));
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w->win));
        CHECK_EQ(*(int64_t *)w->base, size * ROUNDS / 2);
        OK(MPI_Win_unlock(0, w->win));
    }
}

/* Epochs that don't go together. */
static void refused(MPI_Win win, int rank, int size)
{
    int other = (rank + 1) % size;
    char byte = 1;
    MPI_Group all;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_lock_all(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_start(all, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_flush_all(win));
    OK(MPI_Win_unlock(other, win));
    FAILS(MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_flush_all(win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Put(&byte, 1, MPI_BYTE, other, 0, 1, MPI_BYTE, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, other, MPI_MODE_NOCHECK, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock(other, win));
    OK(MPI_Win_lock_all(0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock_all(win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, -7, 0, win), MPI_ERR_RANK);
    FAILS(MPI_Win_unlock(size, win), MPI_ERR_RANK);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED + MPI_LOCK_EXCLUSIVE, 0, 0, win), MPI_ERR_LOCKTYPE);
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, 0, 1 << 30, win), MPI_ERR_ASSERT);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* All locked at the same time. */
    for (int to = 0; to < size; to++) {
        OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win));
    }
    for (int to = 0; to < size; to++) {
        OK(MPI_Win_unlock(to, win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* An epoch of MPI_Win_start. */
    OK(MPI_Win_post(all, 0, win));
    OK(MPI_Win_start(all, 0, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC);
    FAILS(MPI_Win_unlock(other, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_complete(win));
    OK(MPI_Win_wait(win));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, other, 0, win));
    OK(MPI_Win_unlock(other, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* An epoch of MPI_Win_fence: in the way once something was done in it. */
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win));
    OK(MPI_Win_unlock(other, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&byte, 0, MPI_BYTE, other, 0, 0, MPI_BYTE, win));
    OK(MPI_Get(&byte, 1, MPI_BYTE, other, 0, 1, MPI_BYTE, win));
    FAILS(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win), MPI_ERR_RMA_SYNC);
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, other, 0, win));
    OK(MPI_Win_unlock(other, win));
    OK(MPI_Group_free(&all));
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    for (enum kind kind = CREATED; kind < KINDS; kind++) {
        struct window w = window_make(kind, 64, 1);
        count(&w, rank, size);
        if (kind != DYNAMIC) {
            refused(w.win, rank, size);
        }
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
