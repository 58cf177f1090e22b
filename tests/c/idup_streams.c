/* MPI_Comm_idup of communicators with streams and endpoints does not wait; several are in progress together, and
 * messages on the original and its copies never match each other.
 * ranks: 1 2 3
 * variants: shm tcp
 * cflags: -pthread
 * timeout: 60
 */
#include "points.h"
#include <pthread.h>

enum { COPIES = 3, STREAMS = 3, MOST = 3 };

static int rank, size, next, last;

/* Receives are posted in the opposite order of the sends, all of which have the same tag. */
static void keep_apart(MPI_Comm *comms, int count) {
    int out[8], in[8];
    MPI_Request requests[16];
    for (int i = count - 1; i >= 0; i--)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : last, 5, comms[i],
                     &requests[i]));
    for (int i = 0; i < count; i++) {
        out[i] = 100 * rank + i;
        OK(MPI_Isend(&out[i], 1, MPI_INT, next, 5, comms[i], &requests[count + i]));
    }
    OK(MPI_Waitall(2 * count, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < count; i++) CHECK_EQ(in[i], 100 * last + i);
}

/* Starts to copy before rank 1, which gets a message first, and goes on with the original meanwhile. */
static void copy(MPI_Comm comm, MPI_Comm *copies, MPI_Request *requests) {
    int word = 0, sum;
    MPI_Info info;
    if (rank == 1) OK(MPI_Recv(&word, 1, MPI_INT, 0, 9, comm, MPI_STATUS_IGNORE));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_allow_overtaking", "true"));
    for (int i = 0; i < COPIES; i++) {
        OK(i ? MPI_Comm_idup(comm, &copies[i], &requests[i])
             : MPI_Comm_idup_with_info(comm, info, &copies[i], &requests[i]));
        CHECK(copies[i] != MPI_COMM_NULL);
    }
    OK(MPI_Info_free(&info));
    if (rank == 0 && size > 1) OK(MPI_Send(&word, 1, MPI_INT, 1, 9, comm));
    keep_apart(&comm, 1);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
}

static void single(void) {
    MPIX_Stream stream, got;
    MPI_Comm comms[COPIES + 2];
    MPI_Request requests[COPIES];
    MPI_Win win;
    int sum, result, memory = -1;
    OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    /* Rank 0 has none. */
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, rank ? stream : MPIX_STREAM_NULL, &comms[0]));
    copy(comms[0], comms + 1, requests);
    OK(MPI_Waitall(COPIES, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Comm_dup(comms[1], &comms[COPIES + 1]));
    for (int i = 0; i < COPIES + 2; i++) {
        OK(MPIX_Comm_get_stream(comms[i], 0, &got));
        CHECK_EQ(got, rank ? stream : MPIX_STREAM_NULL);
        OK(MPI_Comm_compare(comms[0], comms[i], &result));
        CHECK_EQ(result, i ? MPI_CONGRUENT : MPI_IDENT);
    }
    keep_apart(comms, COPIES + 2);
    OK(MPI_Comm_free(&comms[0]));
    talk(comms[1], rank, size);
    OK(MPI_Win_create(&memory, sizeof memory, sizeof memory, MPI_INFO_NULL, comms[2], &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(memory, last);
    OK(MPI_Win_free(&win));
    /* The copy of a copy, which is gone before its own is there. */
    OK(MPI_Comm_idup(comms[1], &comms[0], &requests[0]));
    for (int i = 1; i < COPIES + 2; i++) OK(MPI_Comm_free(&comms[i]));
    if (rank) FAILS(MPIX_Stream_free(&stream), MPIX_ERR_STREAM);
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, comms[0]));
    CHECK_EQ(sum, size - 1);
    OK(MPI_Comm_free(&comms[0]));
    OK(MPIX_Stream_free(&stream));
}

/* How many streams a rank has. */
static int streams_of(int of) { return of == 2 ? 0 : STREAMS - of; }

/* To each stream of the next rank one message by each communicator, from its streams in turn. Calls whose messages leave
 * from other streams have other tags, since there is no order between streams. */
static void keep_planes_apart(MPI_Comm *comms, int count, int tag) {
    int out[8][STREAMS], in[8][STREAMS], used = 0;
    MPI_Request requests[16 * STREAMS];
    MPI_Status statuses[16 * STREAMS];
    for (int i = count - 1; i >= 0; i--)
        for (int to = 0; streams_of(last) && to < streams_of(rank); to++)
            OK(MPIX_Stream_irecv(&in[i][to], 1, MPI_INT, to % 2 ? last : MPI_ANY_SOURCE, tag, comms[i], -1, to,
                                 &requests[used++]));
    int received = used;
    for (int i = 0; i < count; i++)
        for (int to = 0; streams_of(rank) && to < streams_of(next); to++) {
            out[i][to] = 100 * rank + 10 * i + to;
            OK(MPIX_Stream_isend(&out[i][to], 1, MPI_INT, next, tag, comms[i], (i + to) % streams_of(rank), to,
                                 &requests[used++]));
        }
    OK(MPI_Waitall(used, requests, statuses));
    for (int i = 0; i < received; i++) CHECK_EQ(statuses[i].MPI_SOURCE, last);
    for (int i = 0; i < count; i++)
        for (int to = 0; streams_of(last) && to < streams_of(rank); to++) CHECK_EQ(in[i][to], 100 * last + 10 * i + to);
}

static void multiplex(void) {
    MPIX_Stream streams[STREAMS], got;
    MPI_Comm comms[COPIES + 2];
    MPI_Request requests[COPIES];
    int own = streams_of(rank), word = 0;
    for (int i = 0; i < own; i++) OK(MPIX_Stream_create(MPI_INFO_NULL, &streams[i]));
    OK(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, own, streams, &comms[0]));
    copy(comms[0], comms + 1, requests);
    keep_planes_apart(comms, 1, 6);
    OK(MPI_Waitall(COPIES, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Comm_dup(comms[1], &comms[COPIES + 1]));
    for (int round = 0; round < 10; round++) {
        keep_planes_apart(comms, COPIES + 2, 7);
        keep_apart(comms, COPIES + 2);
    }
    OK(MPI_Comm_set_errhandler(comms[1], MPI_ERRORS_RETURN));
    for (int i = 0; i < own; i++) {
        OK(MPIX_Comm_get_stream(comms[1], i, &got));
        CHECK_EQ(got, streams[i]);
    }
    FAILS(MPIX_Comm_get_stream(comms[1], own, &got), MPI_ERR_ARG);
    /* Errors belong to the copy. */
    if (own) FAILS(MPIX_Stream_send(&word, 1, MPI_INT, rank, 0, comms[1], own, 0), MPI_ERR_ARG);
    OK(MPI_Comm_free(&comms[0]));
    keep_planes_apart(comms + 1, COPIES + 1, 8);
    for (int i = 1; i < COPIES + 2; i++) OK(MPI_Comm_free(&comms[i]));
    for (int i = 0; i < own; i++) OK(MPIX_Stream_free(&streams[i]));
}

static MPI_Comm threadcomm;

/* A thread is a rank. It starts copies, and messages on the original go on. */
static void *thread(void *points) {
    MPI_Comm comm = points ? *(MPI_Comm *)points : threadcomm, copies[COPIES];
    MPI_Request requests[2 * COPIES + 2];
    int me, total, flag, sum, in[COPIES + 1];
    if (!points) OK(MPIX_Threadcomm_start(threadcomm));
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &total));
    for (int i = 0; i < COPIES; i++) OK(MPI_Comm_idup(comm, &copies[i], &requests[i]));
    talk(comm, me, total);
    OK(MPI_Waitall(COPIES, requests, MPI_STATUSES_IGNORE));
    for (int i = COPIES; i >= 0; i--)
        OK(MPI_Irecv(&in[i], 1, MPI_INT, MPI_ANY_SOURCE, TALK_ROUNDS, i == COPIES ? comm : copies[i], &requests[i]));
    for (int i = 0; i <= COPIES; i++) {
        int out = 100 * me + i;
        OK(MPI_Send(&out, 1, MPI_INT, (me + 1) % total, TALK_ROUNDS, i == COPIES ? comm : copies[i]));
    }
    OK(MPI_Waitall(COPIES + 1, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i <= COPIES; i++) CHECK_EQ(in[i], 100 * ((me + total - 1) % total) + i);
    for (int i = 0; i < COPIES; i++) {
        OK(MPIX_Comm_test_threadcomm(copies[i], &flag));
        CHECK(flag);
        talk(copies[i], me, total);
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, copies[i]));
        CHECK_EQ(sum, total * (total - 1) / 2);
        OK(MPI_Comm_free(&copies[i]));
    }
    if (!points) OK(MPIX_Threadcomm_finish(threadcomm));
    return NULL;
}

static void endpoints(int by_handles) {
    int mine = MOST - rank % 2;
    MPI_Comm points[MOST];
    pthread_t threads[MOST];
    if (by_handles)
        OK(MPIX_Comm_create_endpoints(MPI_COMM_WORLD, mine, MPI_INFO_NULL, points));
    else
        OK(MPIX_Threadcomm_init(MPI_COMM_WORLD, mine, &threadcomm));
    for (int i = 0; i < mine; i++) pthread_create(&threads[i], NULL, thread, by_handles ? &points[i] : NULL);
    for (int i = 0; i < mine; i++) pthread_join(threads[i], NULL);
    if (!by_handles) OK(MPIX_Threadcomm_free(&threadcomm));
    for (int i = 0; by_handles && i < mine; i++) OK(MPI_Comm_free(&points[i]));
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    rank = world_rank(), size = world_size();
    next = (rank + 1) % size, last = (rank + size - 1) % size;
    single();
    multiplex();
    endpoints(1);
    endpoints(0);
    MPI_Finalize();
    return 0;
}
