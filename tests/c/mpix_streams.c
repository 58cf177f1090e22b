/* ranks: 1 2 3
 * variants: shm tcp
 * cflags: -pthread
 */
/* Streams: VCIs that a program takes for itself, and communicators between them. */
#include "fails.h"
#include <pthread.h>

#define STREAMS 3
#define ROUNDS 200

static int rank, size;
static MPI_Comm all;

/* Thread t sends from stream t to stream t + 1 of the next rank, and receives what comes to its own. */
static void *exchange(void *number) {
    int t = (int)(intptr_t)number, to = (t + 1) % STREAMS, from = (t + STREAMS - 1) % STREAMS;
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < ROUNDS; i++) {
        /* The tag is the same for all: only the streams tell messages apart. */
        int out = 1000 * t + i, in = -1;
        MPI_Request request;
        MPI_Status status;
        OK(MPIX_Stream_isend(&out, 1, MPI_INT, next, 7, all, t, to, &request));
        OK(MPIX_Stream_recv(&in, 1, MPI_INT, last, i % 2 ? MPI_ANY_TAG : 7, all,
                            i % 3 ? from : -1, t, &status));
        CHECK_EQ(in, 1000 * from + i);
        CHECK(status.MPI_SOURCE == last && status.MPI_TAG == 7);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    return NULL;
}

static void single(void) {
    MPIX_Stream stream = MPIX_STREAM_NULL, got;
    MPI_Comm comm, copy;
    MPI_Group group, world;
    int in = -1, sum, result;
    OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    CHECK(stream != MPIX_STREAM_NULL);
    /* Rank 0 has none. */
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, rank ? stream : MPIX_STREAM_NULL, &comm));
    OK(MPIX_Comm_get_stream(comm, 0, &got));
    CHECK_EQ(got, rank ? stream : MPIX_STREAM_NULL);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 3, &in, 1, MPI_INT, MPI_ANY_SOURCE, 3, comm,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(in, (rank + size - 1) % size);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &result));
    CHECK_EQ(result, MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    if (rank) FAILS(MPIX_Stream_free(&stream), MPIX_ERR_STREAM);
    OK(MPI_Comm_dup(comm, &copy));
    OK(MPI_Comm_free(&comm));
    OK(MPIX_Comm_get_stream(copy, 0, &got));
    CHECK_EQ(got, rank ? stream : MPIX_STREAM_NULL);
    if (rank) FAILS(MPIX_Stream_free(&stream), MPIX_ERR_STREAM);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_MAX, copy));
    CHECK_EQ(sum, size - 1);
    OK(MPI_Comm_free(&copy));
    OK(MPIX_Stream_progress(stream));
    OK(MPIX_Stream_progress(MPIX_STREAM_NULL));
    got = stream;
    OK(MPIX_Stream_free(&stream));
    CHECK_EQ(stream, MPIX_STREAM_NULL);
    FAILS(MPIX_Stream_progress(got), MPIX_ERR_STREAM);
    FAILS(MPIX_Stream_free(&got), MPIX_ERR_STREAM);
}

static void many(void) {
    MPIX_Stream streams[STREAMS], got;
    pthread_t threads[STREAMS];
    int data = 0;
    for (int i = 0; i < STREAMS; i++) OK(MPIX_Stream_create(MPI_INFO_NULL, &streams[i]));
    CHECK(streams[0] != streams[1]);
    OK(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, STREAMS, streams, &all));
    OK(MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN));
    OK(MPIX_Comm_get_stream(all, 2, &got));
    CHECK_EQ(got, streams[2]);
    for (intptr_t t = 0; t < STREAMS; t++) pthread_create(&threads[t], NULL, exchange, (void *)t);
    for (int t = 0; t < STREAMS; t++) pthread_join(threads[t], NULL);
    OK(MPI_Barrier(all));

    MPI_Request request;
    MPI_Status status;
    OK(MPIX_Stream_send(&data, 1, MPI_INT, MPI_PROC_NULL, 0, all, 0, 0));
    OK(MPIX_Stream_irecv(&data, 1, MPI_INT, MPI_PROC_NULL, 0, all, 0, 0, &request));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(status.MPI_SOURCE, MPI_PROC_NULL);
    OK(MPIX_Stream_irecv_c(&data, 1, MPI_INT, MPI_ANY_SOURCE, 0, all, -1, 1, &request));
    OK(MPIX_Stream_send_c(&rank, 1, MPI_INT, rank, 0, all, 2, 1));
    OK(MPI_Wait(&request, &status));
    CHECK(data == rank && status.MPI_SOURCE == rank);

    FAILS(MPIX_Comm_get_stream(all, STREAMS, &got), MPI_ERR_ARG);
    FAILS(MPIX_Comm_get_stream(all, 0, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Stream_send(&data, 1, MPI_INT, rank, 0, all, STREAMS, 0), MPI_ERR_ARG);
    FAILS(MPIX_Stream_send(&data, 1, MPI_INT, rank, 0, all, 0, -1), MPI_ERR_ARG);
    FAILS(MPIX_Stream_isend(&data, 1, MPI_INT, rank, 0, all, 0, 0, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Stream_recv(&data, 1, MPI_INT, rank, 0, all, 0, -1, &status), MPI_ERR_ARG);
    FAILS(MPIX_Stream_irecv(&data, 1, MPI_INT, rank, 0, all, STREAMS, 0, &request), MPI_ERR_ARG);
    FAILS(MPIX_Stream_send(&data, 1, MPI_INT, size, 0, all, 0, 0), MPI_ERR_RANK);
    FAILS(MPIX_Stream_send(&data, -1, MPI_INT, rank, 0, all, 0, 0), MPI_ERR_COUNT);
    FAILS(MPIX_Stream_send(&data, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, 0, 0), MPI_ERR_COMM);
    FAILS(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, -1, streams, &all), MPI_ERR_COUNT);
    FAILS(MPIX_Stream_comm_create_multiplex(MPI_COMM_WORLD, 1, NULL, &all), MPI_ERR_ARG);
    MPI_Comm other;
    FAILS(MPI_Comm_split(all, 0, 0, &other), MPI_ERR_COMM);
    OK(MPI_Comm_free(&all));
    for (int i = 0; i < STREAMS; i++) OK(MPIX_Stream_free(&streams[i]));
}

/* A message is taken in and answered while the thread that waits for it does not call MPI. */
static void threads(void) {
    MPIX_Stream stream;
    MPI_Comm comm;
    enum { LENGTH = 1 << 20 };
    static char buffer[LENGTH];
    OK(MPIX_Stream_create(MPI_INFO_NULL, &stream));
    OK(MPIX_Stream_comm_create(MPI_COMM_WORLD, stream, &comm));
    OK(MPIX_Start_progress_thread(stream));
    FAILS(MPIX_Start_progress_thread(stream), MPIX_ERR_STREAM);
    MPI_Request request;
    OK(MPI_Irecv(buffer, LENGTH, MPI_CHAR, (rank + size - 1) % size, 0, comm, &request));
    static char out[LENGTH];
    memset(out, 'x', LENGTH);
    OK(MPI_Send(out, LENGTH, MPI_CHAR, (rank + 1) % size, 0, comm));
    /* Only the progress thread makes progress here. */
    double until = MPI_Wtime() + 15;
    while (!MPIX_Request_is_complete(request) && MPI_Wtime() < until) {
        struct timespec nap = {0, 100000};
        nanosleep(&nap, NULL);
    }
    CHECK(MPIX_Request_is_complete(request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(buffer[0] == 'x' && buffer[LENGTH - 1] == 'x');
    FAILS(MPIX_Stream_free(&stream), MPIX_ERR_STREAM);
    OK(MPIX_Stop_progress_thread(stream));
    FAILS(MPIX_Stop_progress_thread(stream), MPIX_ERR_STREAM);
    FAILS(MPIX_Start_progress_thread(0x1234), MPIX_ERR_STREAM);
    OK(MPI_Comm_free(&comm));
    OK(MPIX_Stream_free(&stream));
    /* This one ends with MPI. */
    OK(MPIX_Start_progress_thread(MPIX_STREAM_NULL));
}

static void wrong(void) {
    MPIX_Stream stream = MPIX_STREAM_NULL, all_of_them[1000];
    MPI_Comm comm;
    MPI_Info info;
    int count = 0, code, class;
    FAILS(MPIX_Stream_create(MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Stream_free(NULL), MPI_ERR_ARG);
    FAILS(MPIX_Stream_free(&stream), MPIX_ERR_STREAM);
    FAILS(MPIX_Stream_comm_create(MPI_COMM_WORLD, 0x1234, &comm), MPIX_ERR_STREAM);
    FAILS(MPIX_Stream_comm_create(MPI_COMM_WORLD, MPIX_STREAM_NULL, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Stop_progress_thread(MPIX_STREAM_NULL), MPIX_ERR_STREAM);
    OK(MPIX_Comm_get_stream(MPI_COMM_WORLD, 0, &stream));
    CHECK_EQ(stream, MPIX_STREAM_NULL);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "type", "cudaStream_t"));
    FAILS(MPIX_Stream_create(info, &stream), MPI_ERR_INFO_VALUE);
    OK(MPI_Info_free(&info));
    /* They run out. */
    while ((code = MPIX_Stream_create(MPI_INFO_NULL, &stream)) == MPI_SUCCESS) {
        CHECK(count < 999);
        all_of_them[count++] = stream;
    }
    MPI_Error_class(code, &class);
    CHECK_EQ(class, MPI_ERR_OTHER);
    CHECK(count > 8);
    while (count) OK(MPIX_Stream_free(&all_of_them[--count]));
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    single();
    many();
    wrong();
    threads();
    MPI_Finalize();
    return 0;
}
