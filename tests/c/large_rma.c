/* Windows and accesses with large counts (MPI-4.0 sections 12.2 and 12.3): displacement units beyond 2^31, all
 * accesses as with ints, and errors.
 *
 * ranks: 2
 */
#include "fails.h"

#define HUGE_COUNT ((MPI_Count)1 << 62)
#define MANY ((MPI_Count)5000000000)
enum { N = 8 };

static int rank, peer;
static int *base;
static MPI_Win win;
static int data[N], got[N];

static void sync_all(void) {
    OK(MPI_Win_flush_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(win));
}

static void complete(MPI_Request *request) {
    OK(MPI_Wait(request, MPI_STATUS_IGNORE));
}

static void accesses(void) {
    MPI_Request request;
    OK(MPI_Win_lock_all(0, win));
    memset(base, 0, N * sizeof(int));
    sync_all();
    OK(MPI_Put_c(data, 2, MPI_INT, peer, 0, 2, MPI_INT, win));
    OK(MPI_Rput_c(data + 2, 2, MPI_INT, peer, 2, 2, MPI_INT, win, &request));
    complete(&request);
    sync_all();
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(base[i], data[i] - rank * 100 + peer * 100);
    }
    OK(MPI_Get_c(got, 2, MPI_INT, peer, 0, 2, MPI_INT, win));
    OK(MPI_Rget_c(got + 2, 2, MPI_INT, peer, 2, 2, MPI_INT, win, &request));
    complete(&request);
    sync_all();
    CHECK(memcmp(got, data, 4 * sizeof(int)) == 0);
    OK(MPI_Accumulate_c(data, 3, MPI_INT, peer, 4, 3, MPI_INT, MPI_SUM, win));
    sync_all();
    OK(MPI_Raccumulate_c(data, 3, MPI_INT, peer, 4, 3, MPI_INT, MPI_SUM, win, &request));
    complete(&request);
    sync_all();
    CHECK_EQ(base[5], 2 * (peer * 100 + 1));
    sync_all();
    OK(MPI_Get_accumulate_c(data, 2, MPI_INT, got, 2, MPI_INT, peer, 5, 2, MPI_INT, MPI_SUM, win));
    sync_all();
    CHECK_EQ(got[0], 2 * (rank * 100 + 1));
    OK(MPI_Rget_accumulate_c(NULL, 0, MPI_INT, got, 2, MPI_INT, peer, 5, 2, MPI_INT, MPI_NO_OP, win,
                             &request));
    complete(&request);
    CHECK_EQ(got[0], 3 * rank * 100 + 2);
    /* Nobody is there. */
    OK(MPI_Put_c(data, MANY, MPI_CHAR, MPI_PROC_NULL, 0, MANY, MPI_CHAR, win));
    OK(MPI_Rget_c(got, MANY, MPI_CHAR, MPI_PROC_NULL, 0, MANY, MPI_CHAR, win, &request));
    complete(&request);
    sync_all();
    OK(MPI_Win_unlock_all(win));
}

static void wrong(void) {
    MPI_Request request;
    MPI_Count counts[] = {-1, -MANY, HUGE_COUNT, INT64_MAX};
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 4; i++) {
        MPI_Count n = counts[i];
        int bad = MPI_ERR_COUNT;
        FAILS(MPI_Put_c(data, n, MPI_INT, peer, 0, 1, MPI_INT, win), bad);
        FAILS(MPI_Put_c(data, 1, MPI_INT, peer, 0, n, MPI_INT, win), bad);
        FAILS(MPI_Get_c(got, n, MPI_INT, peer, 0, 1, MPI_INT, win), bad);
        FAILS(MPI_Rput_c(data, n, MPI_INT, peer, 0, 1, MPI_INT, win, &request), bad);
        FAILS(MPI_Rget_c(got, 1, MPI_INT, peer, 0, n, MPI_INT, win, &request), bad);
        FAILS(MPI_Accumulate_c(data, n, MPI_INT, peer, 0, 1, MPI_INT, MPI_SUM, win), bad);
        FAILS(MPI_Raccumulate_c(data, 1, MPI_INT, peer, 0, n, MPI_INT, MPI_SUM, win, &request), bad);
        FAILS(MPI_Get_accumulate_c(data, 1, MPI_INT, got, n, MPI_INT, peer, 0, 1, MPI_INT, MPI_SUM,
                                   win),
              bad);
        FAILS(MPI_Rget_accumulate_c(data, n, MPI_INT, got, 1, MPI_INT, peer, 0, 1, MPI_INT, MPI_SUM,
                                    win, &request),
              bad);
    }
    /* More than the window has. */
    FAILS(MPI_Put_c(data, MANY, MPI_CHAR, peer, 0, MANY, MPI_CHAR, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Win_unlock_all(win));
}

static void windows(void) {
    void *start;
    MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Info none = MPI_INFO_NULL;
    FAILS(MPI_Win_create_c(got, sizeof got, -MANY, none, comm, &win), MPI_ERR_DISP);
    FAILS(MPI_Win_allocate_c(64, 0, none, comm, &start, &win), MPI_ERR_DISP);
    FAILS(MPI_Win_allocate_shared_c(-MANY, 1, none, comm, &start, &win), MPI_ERR_SIZE);

    OK(MPI_Win_create_c(base = allocate(64), 64, sizeof(int), none, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    accesses();
    wrong();
    OK(MPI_Win_free(&win));
    free(base);

    OK(MPI_Win_allocate_c(64, sizeof(int), none, comm, &base, &win));
    accesses();
    OK(MPI_Win_free(&win));

    /* A unit beyond 2^31: displacement 0 is the only one. */
    OK(MPI_Win_create_c(base = allocate(64), 64, 3 * MANY, none, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    memset(base, 0, 64);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put_c(data, N, MPI_INT, peer, 0, N, MPI_INT, win));
    FAILS(MPI_Put_c(data, 1, MPI_INT, peer, 1, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    FAILS(MPI_Put_c(data, 1, MPI_INT, peer, HUGE_COUNT, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(base[N - 1], peer * 100 + N - 1);
    OK(MPI_Win_free(&win));
    free(base);

}

/* Windows of memory in common. */
static void shared(void) {
    MPI_Aint size, unit;
    int small;
    void *start;
    MPI_Comm node;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    OK(MPI_Win_allocate_shared_c(64, 3 * MANY, MPI_INFO_NULL, node, &start, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_shared_query_c(win, 0, &size, &unit, &start));
    CHECK_EQ(size, 64);
    CHECK_EQ(unit, 3 * MANY);
    /* An int can't tell it. */
    FAILS(MPI_Win_shared_query(win, 0, &size, &small, &start), MPI_ERR_COUNT);
    FAILS(MPI_Win_shared_query_c(win, 0, &size, NULL, &start), MPI_ERR_ARG);
    FAILS(MPI_Win_shared_query_c(win, 7, &size, &unit, &start), MPI_ERR_RANK);
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&node));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    peer = 1 - rank;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < N; i++) {
        data[i] = rank * 100 + i;
    }
    windows();
    shared();
    OK(MPI_Finalize());
    return 0;
}
