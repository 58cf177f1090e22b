/* Probing, with and without taking the message out of matching.
 * ranks: 2 3
 * variants: shm shm-2copy ofi ucx verbs ofi-verbs ucx-verbs
 */
#include "check.h"

static const int sizes[] = {0, 1, 88, 89, 8000, 8192, 70000, 2 << 20};
enum { SIZES = sizeof sizes / sizeof *sizes, MAX = 2 << 20 };

static char *data;

static void told(const MPI_Status *status, int source, int tag, int bytes) {
    int count = -1, flag = -1;
    CHECK_EQ(status->MPI_SOURCE, source);
    CHECK_EQ(status->MPI_TAG, tag);
    OK(MPI_Get_count(status, MPI_CHAR, &count));
    CHECK_EQ(count, bytes);
    OK(MPI_Test_cancelled(status, &flag));
    CHECK_EQ(flag, 0);
}

static void sender(int rank) {
    MPI_Request requests[6 * SIZES];
    char *all[SIZES];
    for (int i = 0; i < SIZES; i++) {
        all[i] = allocate((size_t)sizes[i]);
        fill(all[i], (size_t)sizes[i], (uint64_t)(rank * 100 + i));
    }
    for (int way = 0; way < 6; way++) {
        for (int i = 0; i < SIZES; i++) {
            OK(MPI_Isend(all[i], sizes[i], MPI_CHAR, 0, way * 100 + i, MPI_COMM_WORLD,
                         &requests[way * SIZES + i]));
        }
    }
    OK(MPI_Waitall(6 * SIZES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < SIZES; i++) {
        free(all[i]);
    }
    /* Two messages of one tag: a matched probe takes the first. */
    int first = 1, second = 2;
    OK(MPI_Send(&first, 1, MPI_INT, 0, 700, MPI_COMM_WORLD));
    OK(MPI_Send(&second, 1, MPI_INT, 0, 700, MPI_COMM_WORLD));
    /* A synchronous send completes when the message taken is received. */
    OK(MPI_Ssend(&first, 1, MPI_INT, 0, 701, MPI_COMM_WORLD));
    OK(MPI_Ssend(data, MAX, MPI_CHAR, 0, 702, MPI_COMM_WORLD));
}

static void receiver(int from) {
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag;
    /* Backwards, so that all lie there unexpected. */
    for (int way = 5; way >= 0; way--) {
        for (int i = SIZES - 1; i >= 0; i--) {
            int bytes = sizes[i], tag = way * 100 + i;
            memset(data, 0, (size_t)bytes);
            switch (way) {
            case 0:
                OK(MPI_Probe(from, tag, MPI_COMM_WORLD, &status));
                told(&status, from, tag, bytes);
                OK(MPI_Recv(data, bytes, MPI_CHAR, from, tag, MPI_COMM_WORLD, &status));
                break;
            case 1:
                do {
                    OK(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, &status));
                } while (!flag);
                told(&status, from, tag, bytes);
                OK(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                CHECK_EQ(flag, 1);
                OK(MPI_Irecv(data, bytes, MPI_CHAR, from, tag, MPI_COMM_WORLD, &request));
                OK(MPI_Wait(&request, &status));
                break;
            case 2:
                OK(MPI_Mprobe(from, tag, MPI_COMM_WORLD, &message, &status));
                told(&status, from, tag, bytes);
                OK(MPI_Iprobe(from, tag, MPI_COMM_WORLD, &flag, &status));
                CHECK_EQ(flag, 0);
                OK(MPI_Mrecv(data, bytes, MPI_CHAR, &message, &status));
                break;
            case 3:
                do {
                    OK(MPI_Improbe(from, tag, MPI_COMM_WORLD, &flag, &message, &status));
                } while (!flag);
                told(&status, from, tag, bytes);
                OK(MPI_Imrecv(data, bytes, MPI_CHAR, &message, &request));
                CHECK_EQ(message, MPI_MESSAGE_NULL);
                OK(MPI_Wait(&request, &status));
                break;
            case 4:
                OK(MPI_Mprobe(from, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
                OK(MPI_Imrecv(data, MAX, MPI_CHAR, &message, &request));
                for (flag = 0; !flag;) {
                    OK(MPI_Test(&request, &flag, &status));
                }
                break;
            default:
                OK(MPI_Probe(from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                OK(MPI_Recv(data, MAX, MPI_CHAR, from, tag, MPI_COMM_WORLD, &status));
            }
            told(&status, from, tag, bytes);
            CHECK(is_filled(data, (size_t)bytes, (uint64_t)(from * 100 + i)));
        }
    }
    int value = 0;
    OK(MPI_Mprobe(from, 700, MPI_COMM_WORLD, &message, &status));
    OK(MPI_Recv(&value, 1, MPI_INT, from, 700, MPI_COMM_WORLD, &status));
    CHECK_EQ(value, 2);
    OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    CHECK_EQ(value, 1);
    OK(MPI_Mprobe(from, 701, MPI_COMM_WORLD, &message, &status));
    OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    OK(MPI_Mprobe(from, 702, MPI_COMM_WORLD, &message, &status));
    told(&status, from, 702, MAX);
    OK(MPI_Mrecv(data, MAX, MPI_CHAR, &message, &status));
}

/* With wildcards, what is probed is what a receive with the same arguments gets. */
static void wildcards(int rank, int size) {
    enum { N = 300 };
    if (rank != 0) {
        for (int i = 0; i < N; i++) {
            OK(MPI_Send(data, (i * 37) % 10000, MPI_CHAR, 0, i % 5, MPI_COMM_WORLD));
        }
        return;
    }
    int next[16][5] = {{0}};
    for (int i = 0; i < N * (size - 1); i++) {
        MPI_Status seen, status;
        int count, expected;
        if (i % 2) {
            OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &seen));
            OK(MPI_Recv(data, MAX, MPI_CHAR, seen.MPI_SOURCE, seen.MPI_TAG, MPI_COMM_WORLD, &status));
        } else {
            MPI_Message message;
            OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &seen));
            OK(MPI_Mrecv(data, MAX, MPI_CHAR, &message, &status));
        }
        expected = next[seen.MPI_SOURCE][seen.MPI_TAG]++ * 5 + seen.MPI_TAG;
        OK(MPI_Get_count(&seen, MPI_CHAR, &count));
        CHECK_EQ(count, (expected * 37) % 10000);
        told(&status, seen.MPI_SOURCE, seen.MPI_TAG, count);
    }
}

static void nobody(void) {
    MPI_Status status;
    MPI_Message message = 12345;
    MPI_Request request;
    int flag = -1;
    OK(MPI_Probe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status));
    told(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Iprobe(MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
    CHECK_EQ(flag, 1);
    told(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status));
    CHECK_EQ(message, MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(data, 10, MPI_CHAR, &message, &status));
    CHECK_EQ(message, MPI_MESSAGE_NULL);
    told(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Improbe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &flag, &message, &status));
    CHECK_EQ(flag, 1);
    CHECK_EQ(message, MPI_MESSAGE_NO_PROC);
    OK(MPI_Imrecv(data, 10, MPI_CHAR, &message, &request));
    CHECK_EQ(message, MPI_MESSAGE_NULL);
    OK(MPI_Wait(&request, &status));
    told(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
    OK(MPI_Iprobe(MPI_ANY_SOURCE, 9999, MPI_COMM_WORLD, &flag, &status));
    CHECK_EQ(flag, 0);
    OK(MPI_Improbe(MPI_ANY_SOURCE, 9999, MPI_COMM_WORLD, &flag, &message, &status));
    CHECK_EQ(flag, 0);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    data = allocate(MAX);
    if (rank == 0) {
        for (int from = 1; from < size; from++) {
            receiver(from);
        }
    } else {
        sender(rank);
    }
    barrier(MPI_COMM_WORLD);
    wildcards(rank, size);
    nobody();
    OK(MPI_Finalize());
    return 0;
}
