/* All functions that wait and test, with null requests among the others.
 * ranks: 2
 */
#include "check.h"

enum { N = 12, LARGE = 200000 };

static int data[N];
static MPI_Request requests[N];
static MPI_Status statuses[N];
static int indices[N];

static void is_empty(const MPI_Status *status) {
    int count = -1, flag = -1;
    CHECK_EQ(status->MPI_SOURCE, MPI_ANY_SOURCE);
    CHECK_EQ(status->MPI_TAG, MPI_ANY_TAG);
    OK(MPI_Get_count(status, MPI_INT, &count));
    CHECK_EQ(count, 0);
    OK(MPI_Test_cancelled(status, &flag));
    CHECK_EQ(flag, 0);
}

static void is_from(const MPI_Status *status, int tag) {
    int count = -1;
    CHECK_EQ(status->MPI_SOURCE, 0);
    CHECK_EQ(status->MPI_TAG, tag);
    OK(MPI_Get_count(status, MPI_INT, &count));
    CHECK_EQ(count, 1);
    CHECK_EQ(data[tag], tag * 7 + 1);
}

/* Rank 0 sends messages with the tags 0 to N - 1, the odd ones only when asked. */
static void serve(void) {
    for (int round = 0; round < 7; round++) {
        for (int odd = 0; odd < 2; odd++) {
            OK(MPI_Recv(NULL, 0, MPI_INT, 1, 100, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int tag = odd; tag < N; tag += 2) {
                int value = tag * 7 + 1;
                OK(MPI_Send(&value, 1, MPI_INT, 1, tag, MPI_COMM_WORLD));
            }
        }
    }
}

static void ask(void) {
    OK(MPI_Send(NULL, 0, MPI_INT, 0, 100, MPI_COMM_WORLD));
}

/* Posts receives for all tags but 4, which is posted at the end. */
static void post(void) {
    memset(data, 0, sizeof data);
    for (int tag = 0; tag < N; tag++) {
        requests[tag] = MPI_REQUEST_NULL;
        if (tag != 4) {
            OK(MPI_Irecv(&data[tag], 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &requests[tag]));
        }
    }
}

static void receive_the_missing_one(void) {
    OK(MPI_Recv(&data[4], 1, MPI_INT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &statuses[4]));
    is_from(&statuses[4], 4);
}

static void with_wait_and_test(void) {
    int flag = -1;
    post();
    OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    OK(MPI_Request_get_status(requests[0], &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    ask();
    MPI_Status status;
    for (flag = 0; !flag;) {
        OK(MPI_Request_get_status(requests[0], &flag, &status));
    }
    is_from(&status, 0);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    OK(MPI_Request_get_status(requests[0], &flag, &status));
    CHECK_EQ(flag, 1);
    OK(MPI_Wait(&requests[0], &status));
    is_from(&status, 0);
    for (flag = 0; !flag;) {
        OK(MPI_Test(&requests[2], &flag, &status));
    }
    is_from(&status, 2);
    CHECK_EQ(requests[2], MPI_REQUEST_NULL);
    ask();
    for (int tag = 0; tag < N; tag++) {
        OK(MPI_Wait(&requests[tag], &status));
        CHECK_EQ(requests[tag], MPI_REQUEST_NULL);
        if (tag == 0 || tag == 2 || tag == 4) {
            is_empty(&status);
        } else {
            is_from(&status, tag);
        }
    }
    receive_the_missing_one();
    OK(MPI_Test(&requests[0], &flag, &status));
    CHECK_EQ(flag, 1);
    is_empty(&status);
    OK(MPI_Request_get_status(MPI_REQUEST_NULL, &flag, &status));
    CHECK_EQ(flag, 1);
    is_empty(&status);
}

static void with_any(int wait) {
    post();
    int index = -1, flag = -1;
    MPI_Status status;
    OK(MPI_Testany(N, requests, &index, &flag, &status));
    CHECK_EQ(flag, 0);
    CHECK_EQ(index, MPI_UNDEFINED);
    for (int odd = 0; odd < 2; odd++) {
        ask();
        for (int left = odd ? N / 2 : N / 2 - 1; left > 0; left--) {
            if (wait) {
                OK(MPI_Waitany(N, requests, &index, &status));
            } else {
                for (flag = 0; !flag;) {
                    OK(MPI_Testany(N, requests, &index, &flag, &status));
                }
            }
            CHECK(index >= 0 && index < N && index % 2 == odd && index != 4);
            CHECK_EQ(requests[index], MPI_REQUEST_NULL);
            is_from(&status, index);
        }
    }
    receive_the_missing_one();
    if (wait) {
        OK(MPI_Waitany(N, requests, &index, &status));
    } else {
        OK(MPI_Testany(N, requests, &index, &flag, &status));
        CHECK_EQ(flag, 1);
    }
    CHECK_EQ(index, MPI_UNDEFINED);
    is_empty(&status);
}

static void with_some(int wait) {
    post();
    int count = -1;
    OK(MPI_Testsome(N, requests, &count, indices, statuses));
    CHECK_EQ(count, 0);
    for (int odd = 0; odd < 2; odd++) {
        ask();
        for (int left = odd ? N / 2 : N / 2 - 1; left > 0; left -= count) {
            if (wait) {
                OK(MPI_Waitsome(N, requests, &count, indices, statuses));
                CHECK(count >= 1);
            } else {
                OK(MPI_Testsome(N, requests, &count, indices, statuses));
            }
            CHECK(count >= 0 && count <= left);
            for (int i = 0; i < count; i++) {
                int index = indices[i];
                CHECK(index >= 0 && index < N && index % 2 == odd && index != 4);
                CHECK_EQ(requests[index], MPI_REQUEST_NULL);
                is_from(&statuses[i], index);
            }
        }
    }
    receive_the_missing_one();
    if (wait) {
        OK(MPI_Waitsome(N, requests, &count, indices, statuses));
    } else {
        OK(MPI_Testsome(N, requests, &count, indices, statuses));
    }
    CHECK_EQ(count, MPI_UNDEFINED);
}

static void with_all(int wait) {
    post();
    int flag = -1;
    OK(MPI_Testall(N, requests, &flag, statuses));
    CHECK_EQ(flag, 0);
    ask();
    OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
    OK(MPI_Testall(N, requests, &flag, statuses));
    CHECK_EQ(flag, 0);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    ask();
    if (wait) {
        OK(MPI_Waitall(N, requests, statuses));
    } else {
        for (flag = 0; !flag;) {
            OK(MPI_Testall(N, requests, &flag, statuses));
        }
    }
    for (int tag = 0; tag < N; tag++) {
        CHECK_EQ(requests[tag], MPI_REQUEST_NULL);
        if (tag == 2 || tag == 4) {
            is_empty(&statuses[tag]);
        } else {
            is_from(&statuses[tag], tag);
        }
    }
    receive_the_missing_one();
    OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Testall(N, requests, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 1);
}

static void with_none(void) {
    int index = -1, flag = -1, count = -1;
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    OK(MPI_Testall(0, NULL, &flag, MPI_STATUSES_IGNORE));
    CHECK_EQ(flag, 1);
    OK(MPI_Waitany(0, NULL, &index, MPI_STATUS_IGNORE));
    CHECK_EQ(index, MPI_UNDEFINED);
    OK(MPI_Testany(0, NULL, &index, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 1);
    CHECK_EQ(index, MPI_UNDEFINED);
    OK(MPI_Waitsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE));
    CHECK_EQ(count, MPI_UNDEFINED);
    OK(MPI_Testsome(0, NULL, &count, NULL, MPI_STATUSES_IGNORE));
    CHECK_EQ(count, MPI_UNDEFINED);
}

/* Large and small sends and receives in one array, both ways at once. */
static void mixed(int rank) {
    enum { EACH = 40 };
    static char out[EACH][LARGE], in[EACH][LARGE];
    MPI_Request all[2 * EACH];
    MPI_Status told[2 * EACH];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < EACH; i++) {
            size_t bytes = i % 4 == 0 ? LARGE : (size_t)i;
            fill(out[i], bytes, (uint64_t)(100 * i + rank));
            OK(MPI_Irecv(in[i], LARGE, MPI_CHAR, 1 - rank, i, MPI_COMM_WORLD, &all[2 * i]));
            OK(MPI_Isend(out[i], (int)bytes, MPI_CHAR, 1 - rank, i, MPI_COMM_WORLD,
                         &all[2 * i + 1]));
        }
        OK(MPI_Waitall(2 * EACH, all, round ? told : MPI_STATUSES_IGNORE));
        for (int i = 0; i < EACH; i++) {
            int bytes = i % 4 == 0 ? LARGE : i, count = -1;
            CHECK(is_filled(in[i], (size_t)bytes, (uint64_t)(100 * i + 1 - rank)));
            if (round) {
                OK(MPI_Get_count(&told[2 * i], MPI_CHAR, &count));
                CHECK_EQ(count, bytes);
                CHECK_EQ(told[2 * i].MPI_TAG, i);
                CHECK_EQ(told[2 * i].MPI_SOURCE, 1 - rank);
            }
        }
    }
}

/* Programs look at the error fields of several statuses though all went well. A call with one status
 * leaves that field alone. */
static void errors_of_several(void) {
    enum { EACH = 3, NONE = 1 };
    for (int form = 0; form < 4; form++) {
        int in[EACH], out = 5, number = 0, where[EACH], told = 0;
        MPI_Request some[EACH];
        MPI_Status of[EACH];
        for (int i = 0; i < EACH; i++) {
            some[i] = MPI_REQUEST_NULL;
            of[i].MPI_ERROR = 77;
            if (i != NONE) {
                OK(MPI_Irecv(&in[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &some[i]));
                OK(MPI_Send(&out, 1, MPI_INT, 0, i, MPI_COMM_SELF));
            }
        }
        switch (form) {
        case 0:
            OK(MPI_Waitall(EACH, some, of));
            told = EACH;
            break;
        case 1:
            OK(MPI_Testall(EACH, some, &number, of));
            CHECK_EQ(number, 1);
            told = EACH;
            break;
        case 2:
            OK(MPI_Waitsome(EACH, some, &told, where, of));
            break;
        default:
            OK(MPI_Testsome(EACH, some, &told, where, of));
        }
        CHECK(told >= EACH - 1);
        for (int i = 0; i < EACH; i++) {
            CHECK_EQ(of[i].MPI_ERROR, i < told ? MPI_SUCCESS : 77);
        }
    }
    MPI_Request one;
    MPI_Status its;
    int in = 0, out = 5;
    its.MPI_ERROR = 77;
    OK(MPI_Irecv(&in, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &one));
    OK(MPI_Send(&out, 1, MPI_INT, 0, 9, MPI_COMM_SELF));
    OK(MPI_Wait(&one, &its));
    CHECK_EQ(its.MPI_ERROR, 77);
    /* But the empty status has it (MPI-5.0 3.7.3). */
    OK(MPI_Wait(&one, &its));
    CHECK_EQ(its.MPI_ERROR, MPI_SUCCESS);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    if (rank == 0) {
        serve();
    } else {
        with_wait_and_test();
        for (int wait = 0; wait < 2; wait++) {
            with_any(wait);
            with_some(wait);
            with_all(wait);
        }
    }
    with_none();
    errors_of_several();
    mixed(rank);
    OK(MPI_Finalize());
    return 0;
}
