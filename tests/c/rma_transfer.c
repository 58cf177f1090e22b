/* Every communication call in every synchronisation mode on every kind of window.
 *
 * ranks: 1 2 4
 * variants: shm shm-2copy ofi ucx ucx-hosts verbs verbs-hosts ofi-verbs ucx-verbs
 */
#include "rma.h"

#define N 32
enum mode { FENCE, PSCW, LOCK, LOCK_ALL, MODES };

static int rank, size, right, left;

static void begin(enum mode mode, struct window *w)
{
    MPI_Group world, to, from;
    switch (mode) {
    case FENCE:
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win));
        break;
    case PSCW:
        OK(MPI_Win_get_group(w->win, &world));
        OK(MPI_Group_incl(world, 1, &right, &to));
        OK(MPI_Group_incl(world, 1, &left, &from));
        OK(MPI_Win_post(from, 0, w->win));
        OK(MPI_Win_start(to, 0, w->win));
        OK(MPI_Group_free(&world));
        OK(MPI_Group_free(&to));
        OK(MPI_Group_free(&from));
        break;
    case LOCK:
        OK(MPI_Win_lock(MPI_LOCK_SHARED, right, 0, w->win));
        break;
    default:
        OK(MPI_Win_lock_all(0, w->win));
        break;
    }
}

static void end(enum mode mode, struct window *w)
{
    switch (mode) {
    case FENCE:
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
        break;
    case PSCW:
        OK(MPI_Win_complete(w->win));
        if (rank % 2) {
            OK(MPI_Win_wait(w->win));
        } else {
            int flag = 0;
            while (!flag) {
                OK(MPI_Win_test(w->win, &flag));
            }
        }
        break;
    case LOCK:
        OK(MPI_Win_unlock(right, w->win));
        break;
    default:
        OK(MPI_Win_unlock_all(w->win));
        break;
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void transfer(enum kind kind, enum mode mode)
{
    struct window w = window_make(kind, 3 * N * 8, 1);
    int64_t out[N], in[N], found[N], *mine = (int64_t *)w.base;
    MPI_Aint at = w.start[right];
    MPI_Datatype every_second;
    OK(MPI_Type_vector(N, 1, 2, MPI_INT64_T, &every_second));
    OK(MPI_Type_commit(&every_second));
    for (int i = 0; i < N; i++) {
        out[i] = 1000 * rank + i;
    }
    begin(mode, &w);
    OK(MPI_Put(out, N, MPI_INT64_T, right, at, N, MPI_INT64_T, w.win));
    OK(MPI_Put(out, N, MPI_INT64_T, right, at + N * 8, 1, every_second, w.win));
    OK(MPI_Put(out, N, MPI_INT64_T, MPI_PROC_NULL, 1 << 30, N, MPI_INT64_T, w.win));
    end(mode, &w);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(mine[i], 1000 * left + i);
        CHECK_EQ(mine[N + 2 * i], 1000 * left + i);
        if (i < N - 1) {
            CHECK_EQ(mine[N + 2 * i + 1], 0);
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    begin(mode, &w);
    memset(in, 0, sizeof in);
    memset(found, 0, sizeof found);
    OK(MPI_Get(in, N, MPI_INT64_T, right, at + N * 8, 1, every_second, w.win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, found, N, MPI_INT64_T, right, at, N,
                          MPI_INT64_T, MPI_NO_OP, w.win));
    end(mode, &w);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(in[i], 1000 * rank + i);
        CHECK_EQ(found[i], 1000 * rank + i);
    }
    begin(mode, &w);
    OK(MPI_Accumulate(out, N, MPI_INT64_T, right, at, N, MPI_INT64_T, MPI_SUM, w.win));
    OK(MPI_Accumulate(out, N, MPI_INT64_T, right, at + N * 8, 1, every_second, MPI_REPLACE, w.win));
    OK(MPI_Accumulate(out, 1, MPI_INT64_T, right, at + N * 8, 1, MPI_INT64_T, MPI_MAX, w.win));
    end(mode, &w);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(mine[i], 2 * (1000 * left + i));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    int64_t seven = 7, old = -1, swap = 99, compare = 2 * 1000 * (int64_t)rank + 2, seen = -1;
    begin(mode, &w);
    OK(MPI_Get_accumulate(out, N, MPI_INT64_T, found, N, MPI_INT64_T, right, at + N * 8, 1,
                          every_second, MPI_SUM, w.win));
    OK(MPI_Fetch_and_op(&seven, &old, MPI_INT64_T, right, at, MPI_SUM, w.win));
    OK(MPI_Compare_and_swap(&swap, &compare, &seen, MPI_INT64_T, right, at + 8, w.win));
    end(mode, &w);
    CHECK_EQ(old, 2000 * rank);
    CHECK_EQ(seen, compare);
    CHECK_EQ(mine[0], 2000 * left + 7);
    CHECK_EQ(mine[1], 99);
    for (int i = 0; i < N; i++) {
        CHECK_EQ(found[i], 1000 * rank + i);
        CHECK_EQ(mine[N + 2 * i], 2 * (1000 * left + i));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (mode == LOCK || mode == LOCK_ALL) {
        MPI_Request requests[4];
        begin(mode, &w);
        OK(MPI_Rput(out, N, MPI_INT64_T, right, at + N * 8, N, MPI_INT64_T, w.win, &requests[0]));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        OK(MPI_Win_flush(right, w.win));
        OK(MPI_Rget(in, N, MPI_INT64_T, right, at + N * 8, N, MPI_INT64_T, w.win, &requests[0]));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++) {
            CHECK_EQ(in[i], 1000 * rank + i);
        }
        OK(MPI_Raccumulate(out, N, MPI_INT64_T, right, at + N * 8, N, MPI_INT64_T, MPI_SUM, w.win,
                           &requests[0]));
        OK(MPI_Rget_accumulate(out, N, MPI_INT64_T, found, N, MPI_INT64_T, right, at + N * 8, N,
                               MPI_INT64_T, MPI_PROD, w.win, &requests[1]));
        OK(MPI_Rput(out, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, w.win, &requests[2]));
        OK(MPI_Rget(in, 0, MPI_INT64_T, right, at, 0, MPI_INT64_T, w.win, &requests[3]));
        OK(MPI_Win_flush_local(right, w.win));
        OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) {
            CHECK_EQ(found[i], 2 * (1000 * rank + i));
        }
        OK(mode == LOCK ? MPI_Win_flush(right, w.win) : MPI_Win_flush_all(w.win));
        OK(MPI_Win_flush_local_all(w.win));
        OK(MPI_Win_sync(w.win));
        end(mode, &w);
        for (int i = 0; i < N; i++) {
            int64_t value = 1000 * left + i;
            CHECK_EQ(mine[N + i], 2 * value * value);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Type_free(&every_second));
    window_free(&w);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    right = (rank + 1) % size;
    left = (rank + size - 1) % size;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int mode = 0; mode < MODES; mode++) {
            transfer((enum kind)kind, (enum mode)mode);
        }
    }
    OK(MPI_Finalize());
    return 0;
}
