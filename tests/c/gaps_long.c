/* Long messages with gaps on either side or both, moved by gather lists where runs are long and the
 * transport has such lists: every byte, none in the gaps, more runs than one list holds, truncation.
 * ranks: 2
 */
#include "check.h"

enum { MAX_BYTES = 4 << 20 };
static int rank;
static unsigned char *buffer;

static unsigned char value_at(size_t packed, int seed) {
    return (unsigned char)(packed * 131 + (packed >> 8) * 17 + (unsigned)seed) | 1;
}

/* A vector of `runs` runs of `run` bytes with `gap` bytes between them. */
static MPI_Datatype vector(int runs, int run, int gap) {
    MPI_Datatype type;
    OK(MPI_Type_vector(runs, run, run + gap, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    return type;
}

/* Sends runs * run bytes between layouts with the given gaps; a gap of 0 is gapless. */
static void exchange(int runs, int run, int send_gap, int receive_run, int receive_gap, int seed) {
    int total = runs * run, tag = seed % 1000;
    if (rank == 0) {
        memset(buffer, 0, MAX_BYTES);
        for (int i = 0; i < total; i++) {
            buffer[(size_t)(i / run) * (run + send_gap) + i % run] = value_at(i, seed);
        }
        MPI_Datatype type = vector(runs, run, send_gap);
        MPI_Request request;
        if (seed % 2) {
            OK(MPI_Isend(buffer, 1, type, 1, tag, MPI_COMM_WORLD, &request));
        } else {
            OK(MPI_Issend(buffer, 1, type, 1, tag, MPI_COMM_WORLD, &request));
        }
        OK(MPI_Type_free(&type));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        CHECK_EQ(total % receive_run, 0);
        MPI_Datatype type = vector(total / receive_run, receive_run, receive_gap);
        size_t stride = (size_t)receive_run + receive_gap, span = total / receive_run * stride;
        CHECK(span <= MAX_BYTES);
        memset(buffer, 0, MAX_BYTES);
        MPI_Status status;
        OK(MPI_Recv(buffer, 1, type, 0, tag, MPI_COMM_WORLD, &status));
        OK(MPI_Type_free(&type));
        int count;
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, total);
        for (size_t i = 0; i < span; i++) {
            int in = (int)(i % stride) < receive_run;
            CHECK_EQ(buffer[i], in ? value_at(i / stride * receive_run + i % stride, seed) : 0);
        }
    }
}

/* A receive with gaps that is too short gets what fits. */
static void truncated(void) {
    enum { RUN = 4096, SENT = 100, ROOM = 70 };
    if (rank == 0) {
        for (int i = 0; i < SENT * RUN; i++) {
            buffer[i] = value_at(i, 5);
        }
        OK(MPI_Send(buffer, SENT * RUN, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
    } else {
        memset(buffer, 0, MAX_BYTES);
        MPI_Datatype type = vector(ROOM, RUN, RUN);
        MPI_Status status;
        int code = MPI_Recv(buffer, 1, type, 0, 7, MPI_COMM_WORLD, &status), count;
        CHECK_EQ(class_of(code), MPI_ERR_TRUNCATE);
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        CHECK_EQ(count, ROOM * RUN);
        for (int i = 0; i < MAX_BYTES; i++) {
            int run = i / (2 * RUN), in = run < ROOM && i % (2 * RUN) < RUN;
            CHECK_EQ(buffer[i], in ? value_at((size_t)run * RUN + i % RUN, 5) : 0);
        }
        OK(MPI_Type_free(&type));
    }
}

/* Many at once, so that the word to the receiver finds queues full. */
static void crowd(void) {
    enum { MANY = 64, RUNS = 8, RUN = 2048 };
    MPI_Datatype type = vector(RUNS, RUN, 512);
    MPI_Request requests[MANY];
    if (rank == 0) {
        memset(buffer, 9, MAX_BYTES);
    } else {
        memset(buffer, 0, MAX_BYTES);
    }
    for (int i = 0; i < MANY; i++) {
        if (rank == 0) {
            OK(MPI_Isend(buffer + i, 1, type, 1, i, MPI_COMM_WORLD, &requests[i]));
        } else {
            OK(MPI_Irecv(buffer + (size_t)i * RUNS * RUN, RUNS * RUN, MPI_BYTE, 0, MANY - 1 - i,
                         MPI_COMM_WORLD, &requests[i]));
        }
    }
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    if (rank == 1) {
        for (int i = 0; i < MANY * RUNS * RUN; i++) {
            CHECK_EQ(buffer[i], 9);
        }
    }
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    rank = world_rank();
    buffer = malloc(MAX_BYTES);
    exchange(16, 4096, 0, 4096, 512, 1);       /* to a scatter list */
    exchange(16, 4096, 512, 65536, 0, 2);      /* from a gather list */
    exchange(16, 4096, 512, 4096, 512, 3);     /* gaps on both sides */
    exchange(700, 1500, 36, 1050000, 0, 4);    /* more runs than a list holds */
    exchange(700, 1500, 0, 1500, 36, 5);
    exchange(700, 1500, 0, 1750, 99, 6);
    exchange(20000, 24, 8, 480000, 0, 7);      /* runs that are better packed */
    exchange(20000, 24, 0, 24, 8, 8);
    exchange(300, 3000, 100, 36, 12, 9);
    truncated();
    crowd();
    free(buffer);
    OK(MPI_Finalize());
    return 0;
}
