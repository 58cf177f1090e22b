/* Puts and gets that notify their target, over windows of each kind.
 *
 * ranks: 1 2 3
 * variants: ofi hosts
 */
#include "rma.h"

enum { BYTES = 1 << 17, COUNTERS = 4 };

static int rank, size;

/* Waits until a counter of this rank has a value. */
static void await(MPI_Win win, int index, MPI_Count value)
{
    MPI_Count now = -1;
    while (now < value) {
        OK(MPIX_Win_get_notify(win, index, &now));
    }
    CHECK_EQ(now, value);
}

static int one_node(void)
{
    MPI_Comm node;
    int here;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Comm_size(node, &here));
    OK(MPI_Comm_free(&node));
    return here == size;
}

/* Each rank writes to the next and reads what the one before has written, when it is notified of it. */
static void ring(struct window *w)
{
    static const int lengths[] = {0, 1, 8, 300, 5000, 65536, BYTES};
    const int next = (rank + 1) % size;
    unsigned char *data = allocate(BYTES);
    for (int round = 0; round < 70; round++) {
        int len = lengths[round % 7], index = round % COUNTERS;
        memset(data, round + rank, (size_t)len);
        OK(MPIX_Put_notify(data, len, MPI_BYTE, next, w->start[next], len, MPI_BYTE, index, w->win));
        await(w->win, index, round / COUNTERS + 1);
        int before = (rank + size - 1) % size;
        for (int i = 0; i < len; i += 1 + len / 100) {
            CHECK_EQ((unsigned char)w->base[i], (unsigned char)(round + before));
        }
        OK(MPI_Win_flush_all(w->win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int i = 0; i < COUNTERS; i++) {
        MPI_Count value;
        OK(MPIX_Win_set_notify(w->win, i, 0));
        OK(MPIX_Win_get_notify(w->win, i, &value));
        CHECK_EQ(value, 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    free(data);
}

/* Data with gaps on either side, and more blocks than a message has. */
static void gaps(struct window *w)
{
    const int next = (rank + 1) % size;
    MPI_Datatype vector;
    OK(MPI_Type_vector(8000, 1, 2, MPI_INT, &vector));
    OK(MPI_Type_commit(&vector));
    int *data = allocate(16000 * sizeof *data);
    for (int i = 0; i < 16000; i++) {
        data[i] = i;
    }
    OK(MPIX_Put_notify(data, 8000, MPI_INT, next, w->start[next], 1, vector, 0, w->win));
    await(w->win, 0, 1);
    for (int i = 0; i < 8000; i++) {
        int found;
        memcpy(&found, w->base + 8 * i, sizeof found);
        CHECK_EQ(found, i);
    }
    OK(MPI_Win_flush_all(w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPIX_Put_notify_c(data, 1, vector, next, w->start[next], 8000, MPI_INT, 0, w->win));
    await(w->win, 0, 2);
    for (int i = 0; i < 8000; i++) {
        int found;
        memcpy(&found, w->base + 4 * i, sizeof found);
        CHECK_EQ(found, 2 * i);
    }
    OK(MPI_Win_flush_all(w->win));
    OK(MPI_Type_free(&vector));
    free(data);
    OK(MPIX_Win_set_notify(w->win, 0, 0));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The owner changes its memory as soon as it is notified that it was read. */
static void reads(struct window *w)
{
    const int next = (rank + 1) % size;
    for (int round = 0; round < 50; round++) {
        int64_t found[512], *own = (int64_t *)w->base;
        for (int i = 0; i < 512; i++) {
            own[i] = round;
        }
        OK(MPI_Win_sync(w->win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPIX_Get_notify(found, 512, MPI_INT64_T, next, w->start[next], 512, MPI_INT64_T, 3, w->win));
        await(w->win, 3, round + 1);
        for (int i = 0; i < 512; i++) {
            own[i] = -1;
        }
        OK(MPI_Win_flush_all(w->win));
        for (int i = 0; i < 512; i++) {
            CHECK_EQ(found[i], round);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPIX_Win_set_notify(w->win, 3, 0));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Requests that complete when a counter has a value: before, when, and after it has. */
static void requests(struct window *w)
{
    MPI_Request all[3];
    int64_t one = 1;
    for (int i = 0; i < 2; i++) {
        OK(MPIX_Win_get_notify_request(w->win, 1, size + i, &all[i]));
    }
    OK(MPIX_Win_get_notify_request(w->win, 1, 0, &all[2]));
    OK(MPI_Wait(&all[2], MPI_STATUS_IGNORE));
    for (int target = 0; target < size; target++) {
        OK(MPIX_Put_notify(&one, 1, MPI_INT64_T, target, w->start[target] + 8 * rank, 1, MPI_INT64_T, 1,
                           w->win));
    }
    MPI_Status status;
    OK(MPI_Wait(&all[0], &status));
    CHECK(all[0] == MPI_REQUEST_NULL);
    for (int i = 0; i < size; i++) {
        CHECK_EQ(((int64_t *)w->base)[i], 1);
    }
    int flag;
    OK(MPI_Test(&all[1], &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        for (int target = 0; target < size; target++) {
            OK(MPIX_Put_notify(NULL, 0, MPI_BYTE, target, 0, 0, MPI_BYTE, 1, w->win));
        }
    }
    OK(MPI_Wait(&all[1], MPI_STATUS_IGNORE));
    OK(MPI_Win_flush_all(w->win));
    OK(MPIX_Win_set_notify(w->win, 1, 0));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* What is refused, and counters of which each rank has another number. */
static void errors(struct window *w)
{
    MPI_Count value;
    MPI_Request request;
    const int next = (rank + 1) % size;
    int64_t one = 1;
    OK(MPIX_Put_notify(&one, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, 99, w->win));
    OK(MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN));
    FAILS(MPIX_Win_create_notify(w->win, 1), MPI_ERR_RMA_FLAVOR);
    OK(MPIX_Win_free_notify(w->win));
    FAILS(MPIX_Win_free_notify(w->win), MPI_ERR_RMA_FLAVOR);
    FAILS(MPIX_Win_get_notify(w->win, 0, &value), MPI_ERR_RMA_FLAVOR);
    FAILS(MPIX_Put_notify(&one, 1, MPI_INT64_T, next, w->start[next], 1, MPI_INT64_T, 0, w->win),
          MPI_ERR_RMA_FLAVOR);
    FAILS(MPIX_Win_create_notify(w->win, -1), MPI_ERR_ARG);
    OK(MPIX_Win_create_notify(w->win, rank + 1));
    FAILS(MPIX_Win_get_notify(w->win, rank + 1, &value), MPI_ERR_ARG);
    FAILS(MPIX_Win_set_notify(w->win, -1, 1), MPI_ERR_ARG);
    FAILS(MPIX_Win_get_notify_request(w->win, rank + 1, 1, &request), MPI_ERR_ARG);
    FAILS(MPIX_Put_notify(&one, 1, MPI_INT64_T, next, w->start[next], 1, MPI_INT64_T, next + 1, w->win),
          MPI_ERR_ARG);
    FAILS(MPIX_Get_notify(&one, 1, MPI_INT64_T, next, w->start[next], 1, MPI_INT64_T, -1, w->win), MPI_ERR_ARG);
    OK(MPIX_Put_notify(&one, 1, MPI_INT64_T, next, w->start[next], 1, MPI_INT64_T, next, w->win));
    await(w->win, rank, 1);
    OK(MPI_Win_set_errhandler(w->win, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int kind = 0; kind < KINDS; kind++) {
        if (kind == SHARED && !one_node()) {
            continue;
        }
        struct window w = window_make((enum kind)kind, BYTES, 1);
        OK(MPIX_Win_create_notify(w.win, COUNTERS));
        OK(MPI_Win_lock_all(0, w.win));
        ring(&w);
        gaps(&w);
        reads(&w);
        requests(&w);
        errors(&w);
        OK(MPI_Win_unlock_all(w.win));
        window_free(&w); /* which frees the counters, too */
    }
    OK(MPI_Finalize());
    return 0;
}
