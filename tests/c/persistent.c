/* Persistent requests: every mode, every way of completion, again and again.
 * ranks: 2
 * timeout: 40
 */
#include "check.h"

enum { LARGE = 300000, ROUNDS = 20 };
static int rank;

static int (*const sends[4])(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *) = {
    MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init};

static int is_empty(const MPI_Status *status) {
    int count = -1, cancelled = -1;
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    OK(MPI_Test_cancelled(status, &cancelled));
    return status->MPI_SOURCE == MPI_ANY_SOURCE && status->MPI_TAG == MPI_ANY_TAG && count == 0 &&
           cancelled == 0;
}

/* All calls that complete take inactive requests for complete and leave them alone. */
static void inactive(MPI_Request request) {
    MPI_Request both[2] = {MPI_REQUEST_NULL, request};
    MPI_Status statuses[2];
    int flag, index, indices[2];
    memset(statuses, 1, sizeof statuses);
    OK(MPI_Request_get_status(request, &flag, statuses));
    CHECK_EQ(flag, 1);
    CHECK(is_empty(statuses));
    memset(statuses, 1, sizeof statuses);
    OK(MPI_Wait(&both[1], statuses));
    CHECK(is_empty(statuses));
    memset(statuses, 1, sizeof statuses);
    OK(MPI_Test(&both[1], &flag, statuses));
    CHECK(flag == 1 && is_empty(statuses));
    memset(statuses, 1, sizeof statuses);
    OK(MPI_Waitany(2, both, &index, statuses));
    CHECK(index == MPI_UNDEFINED && is_empty(statuses));
    memset(statuses, 1, sizeof statuses);
    OK(MPI_Testany(2, both, &index, &flag, statuses));
    CHECK(index == MPI_UNDEFINED && flag == 1 && is_empty(statuses));
    OK(MPI_Waitsome(2, both, &index, indices, statuses));
    CHECK_EQ(index, MPI_UNDEFINED);
    OK(MPI_Testsome(2, both, &index, indices, statuses));
    CHECK_EQ(index, MPI_UNDEFINED);
    memset(statuses, 1, sizeof statuses);
    OK(MPI_Waitall(2, both, statuses));
    CHECK(is_empty(&statuses[0]) && is_empty(&statuses[1]));
    memset(statuses, 1, sizeof statuses);
    OK(MPI_Testall(2, both, &flag, statuses));
    CHECK(flag == 1 && is_empty(&statuses[0]) && is_empty(&statuses[1]));
    CHECK_EQ(both[1], request);
}

/* Completes an active request in one of many ways. */
static void finish(MPI_Request *request, MPI_Status *status, int way) {
    MPI_Request before = *request, both[2] = {MPI_REQUEST_NULL, *request};
    MPI_Status statuses[2];
    int flag = 0, count = 0, indices[2];
    switch (way % 8) {
    case 0:
        OK(MPI_Wait(request, status));
        break;
    case 1:
        while (!flag) {
            OK(MPI_Test(request, &flag, status));
        }
        break;
    case 2:
        OK(MPI_Waitany(2, both, &count, status));
        CHECK_EQ(count, 1);
        break;
    case 3:
        while (!flag) {
            OK(MPI_Testany(2, both, &count, &flag, status));
        }
        CHECK_EQ(count, 1);
        break;
    case 4:
        OK(MPI_Waitsome(2, both, &count, indices, statuses));
        CHECK(count == 1 && indices[0] == 1);
        *status = statuses[0];
        break;
    case 5:
        while (!count) {
            OK(MPI_Testsome(2, both, &count, indices, statuses));
        }
        CHECK(count == 1 && indices[0] == 1);
        *status = statuses[0];
        break;
    case 6:
        OK(MPI_Waitall(2, both, statuses));
        *status = statuses[1];
        break;
    default:
        while (!flag) {
            OK(MPI_Testall(2, both, &flag, statuses));
        }
        *status = statuses[1];
    }
    CHECK(*request == before && both[1] == before && both[0] == MPI_REQUEST_NULL);
    inactive(*request);
}

static void modes(void) {
    char *buffer = allocate(LARGE), *attached = allocate(LARGE + MPI_BSEND_OVERHEAD);
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Buffer_attach(attached, LARGE + MPI_BSEND_OVERHEAD));
    for (int mode = 0; mode < 4; mode++) {
        for (int large = 0; large < 2; large++) {
            int bytes = large ? LARGE : 8;
            if (rank == 0) {
                OK(sends[mode](buffer, bytes, MPI_CHAR, 1, mode, MPI_COMM_WORLD, &request));
            } else {
                OK(MPI_Recv_init(buffer, LARGE, MPI_CHAR, mode % 2 ? MPI_ANY_SOURCE : 0,
                                 large ? MPI_ANY_TAG : mode, MPI_COMM_WORLD, &request));
            }
            inactive(request);
            for (int round = 0; round < ROUNDS; round++) {
                if (rank == 0) {
                    /* For ready mode: the receive has been started. */
                    OK(MPI_Recv(NULL, 0, MPI_CHAR, 1, 9, MPI_COMM_WORLD, &status));
                    fill(buffer, (size_t)bytes, (uint64_t)round);
                    OK(MPI_Start(&request));
                    finish(&request, &status, round);
                } else {
                    int count;
                    OK(MPI_Startall(1, &request));
                    OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 9, MPI_COMM_WORLD));
                    finish(&request, &status, round);
                    OK(MPI_Get_count(&status, MPI_CHAR, &count));
                    CHECK(count == bytes && status.MPI_SOURCE == 0 && status.MPI_TAG == mode);
                    CHECK(is_filled(buffer, (size_t)bytes, (uint64_t)round));
                }
            }
            OK(MPI_Request_free(&request));
            CHECK_EQ(request, MPI_REQUEST_NULL);
        }
    }
    OK(MPI_Buffer_detach(&attached, &(int){0}));
    free(attached);
    free(buffer);
}

/* Exchange with gaps in the data, all at once, among requests of other kinds. */
static void mixed(void) {
    enum { N = 6 };
    MPI_Datatype column;
    MPI_Request requests[2 * N + 2], kept[2 * N];
    int out[N][8], in[N][8], extra = -1, mine = rank + 40, peer = 1 - rank;
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &column));
    OK(MPI_Type_commit(&column));
    for (int i = 0; i < N; i++) {
        OK(MPI_Recv_init(in[i], 1, column, peer, i, MPI_COMM_WORLD, &requests[i]));
        OK(MPI_Send_init(out[i], 1, column, peer, i, MPI_COMM_WORLD, &requests[N + i]));
    }
    OK(MPI_Type_free(&column)); /* the requests still need it */
    memcpy(kept, requests, sizeof kept);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < 8; j++) {
                out[i][j] = 1000 * round + 100 * rank + 10 * i + j;
                in[i][j] = -1;
            }
        }
        OK(MPI_Startall(2 * N, requests));
        OK(MPI_Irecv(&extra, 1, MPI_INT, peer, 99, MPI_COMM_WORLD, &requests[2 * N]));
        OK(MPI_Isend(&mine, 1, MPI_INT, peer, 99, MPI_COMM_WORLD, &requests[2 * N + 1]));
        if (round % 2) {
            OK(MPI_Waitall(2 * N + 2, requests, MPI_STATUSES_IGNORE));
        } else {
            int index, seen = 0;
            for (;;) {
                OK(MPI_Waitany(2 * N + 2, requests, &index, MPI_STATUS_IGNORE));
                if (index == MPI_UNDEFINED) {
                    break;
                }
                seen++;
            }
            CHECK_EQ(seen, 2 * N + 2);
        }
        CHECK(memcmp(kept, requests, sizeof kept) == 0);
        CHECK(requests[2 * N] == MPI_REQUEST_NULL && requests[2 * N + 1] == MPI_REQUEST_NULL);
        CHECK_EQ(extra, peer + 40);
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < 8; j++) {
                CHECK_EQ(in[i][j], j % 2 ? -1 : 1000 * round + 100 * peer + 10 * i + j);
            }
        }
    }
    for (int i = 0; i < 2 * N; i++) {
        OK(MPI_Request_free(&requests[i]));
    }
}

/* Freed while active: the communication takes place. */
static void freed(void) {
    MPI_Request request;
    char *data = allocate(LARGE);
    for (int bytes = 8; bytes <= LARGE; bytes += LARGE - 8) {
        if (rank == 0) {
            fill(data, (size_t)bytes, 77);
            OK(MPI_Ssend_init(data, bytes, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &request));
            OK(MPI_Start(&request));
            OK(MPI_Request_free(&request));
            CHECK_EQ(request, MPI_REQUEST_NULL);
            OK(MPI_Recv(NULL, 0, MPI_CHAR, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Recv(data, bytes, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK(is_filled(data, (size_t)bytes, 77));
            OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 6, MPI_COMM_WORLD));
        }
    }
    free(data);
}

/* Cancelling ends the communication, not the request. */
static void cancelled(void) {
    MPI_Request request;
    MPI_Status status;
    int value = 0, flag;
    if (rank == 0) {
        OK(MPI_Recv_init(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &request));
        for (int round = 0; round < 3; round++) {
            OK(MPI_Start(&request));
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Test_cancelled(&status, &flag));
            CHECK(flag == 1 && request != MPI_REQUEST_NULL);
            inactive(request);
        }
        OK(MPI_Start(&request));
        barrier(MPI_COMM_WORLD);
        for (flag = 0; !flag;) {
            OK(MPI_Request_get_status(request, &flag, &status));
        }
        CHECK(value == 13 && status.MPI_SOURCE == 1 && status.MPI_TAG == 7);
        OK(MPI_Wait(&request, &status));
        CHECK(status.MPI_SOURCE == 1 && status.MPI_TAG == 7);
        OK(MPI_Request_free(&request));
    } else {
        value = 13;
        barrier(MPI_COMM_WORLD);
        OK(MPI_Send(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
    }
}

static void proc_null(void) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int value = 5;
    OK(MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[1]));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, statuses));
        CHECK(statuses[1].MPI_SOURCE == MPI_PROC_NULL && statuses[1].MPI_TAG == MPI_ANY_TAG);
        CHECK_EQ(value, 5);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

/* A communicator that is freed before its persistent requests are. */
static void comm_gone(void) {
    MPI_Comm comm;
    MPI_Request request;
    int value = rank == 0 ? 21 : 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (rank == 0) {
        OK(MPI_Send_init(&value, 1, MPI_INT, 1, 0, comm, &request));
    } else {
        OK(MPI_Recv_init(&value, 1, MPI_INT, 0, 0, comm, &request));
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(value, 21);
    OK(MPI_Request_free(&request));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    modes();
    mixed();
    freed();
    cancelled();
    proc_null();
    comm_gone();
    OK(MPI_Finalize());
    return 0;
}
