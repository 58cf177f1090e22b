/* Partitioned communication: any numbers of partitions on both sides, marked ready in any order and by all
 * functions, short and long, with gaps, again and again, around a ring.
 * ranks: 1 2 3
 * timeout: 60
 */
#include "check.h"

static int rank, size, left, right;
static uint64_t random_state = 42;

/* Completes both in one of the ways. */
static void complete(MPI_Request *both, MPI_Status *received, int way) {
    int flag = 0, index, done, indices[2];
    MPI_Status statuses[2];
    switch (way % 6) {
    case 0: OK(MPI_Waitall(2, both, statuses)); break;
    case 1:
        OK(MPI_Wait(&both[1], &statuses[1]));
        OK(MPI_Wait(&both[0], &statuses[0]));
        break;
    case 2:
        while (!flag) {
            OK(MPI_Testall(2, both, &flag, statuses));
        }
        break;
    case 3:
        for (int i = 0; i < 2; i++) {
            MPI_Status status;
            OK(MPI_Waitany(2, both, &index, &status));
            CHECK(index == 0 || index == 1);
            statuses[index] = status;
        }
        break;
    case 4:
        for (int i = 0; i < 2; i += done) {
            MPI_Status some[2];
            OK(MPI_Waitsome(2, both, &done, indices, some));
            for (int j = 0; j < done; j++) {
                statuses[indices[j]] = some[j];
            }
        }
        break;
    default:
        for (int i = 0; i < 2; i++) {
            for (flag = 0; !flag;) {
                OK(MPI_Request_get_status(both[i], &flag, &statuses[i]));
            }
            OK(MPI_Wait(&both[i], MPI_STATUS_IGNORE));
        }
    }
    *received = statuses[1];
}

/* Marks all partitions ready in one of the ways. */
static void mark(MPI_Request request, int partitions, int way) {
    int *order = allocate(sizeof(int) * (size_t)partitions);
    for (int i = 0; i < partitions; i++) {
        order[i] = i;
    }
    for (int i = partitions - 1; i > 0; i--) {
        int j = (int)random_below(&random_state, (uint64_t)i + 1), one = order[i];
        order[i] = order[j];
        order[j] = one;
    }
    int half = partitions / 2;
    switch (way % 4) {
    case 0:
        for (int i = 0; i < partitions; i++) {
            OK(MPI_Pready(order[i], request));
        }
        break;
    case 1:
        if (half > 0) {
            OK(MPI_Pready_range(0, half - 1, request));
        }
        OK(MPI_Pready_range(half, partitions - 1, request));
        break;
    case 2:
        OK(MPI_Pready_list(half, order, request));
        OK(MPI_Pready_list(0, NULL, request));
        OK(MPI_Pready_list(partitions - half, order + half, request));
        break;
    default:
        for (int i = partitions - 1; i >= 0; i--) {
            OK(MPI_Pready(i, request));
        }
    }
    free(order);
}

/* Rounds of `here` partitions of `each` bytes that come in `there` partitions. */
static void exchange(int here, int there, int total, int rounds, int late) {
    char *out = allocate((size_t)total), *in = allocate((size_t)total + 8);
    MPI_Request both[2];
    MPI_Status status;
    int count, tag = total % 1000, flag;
    CHECK(total % here == 0 && total % there == 0);
    MPI_Comm world = MPI_COMM_WORLD;
    if (!late) {
        OK(MPI_Psend_init(out, here, total / here, MPI_CHAR, right, tag, world, MPI_INFO_NULL, &both[0]));
    }
    OK(MPI_Precv_init(in, there, total / there, MPI_CHAR, left, tag, world, MPI_INFO_NULL, &both[1]));
    for (int round = 0; round < rounds; round++) {
        fill(out, (size_t)total, (uint64_t)(round * 100 + rank));
        memset(in, 0xee, (size_t)total + 8);
        OK(MPI_Start(&both[1]));
        if (round == 0 && late) {
            /* The receive is active before its send exists. */
            OK(MPI_Parrived(both[1], 0, &flag));
            CHECK(!flag || size > 1);
            OK(MPI_Psend_init(out, here, total / here, MPI_CHAR, right, tag, world, MPI_INFO_NULL, &both[0]));
        }
        OK(MPI_Start(&both[0]));
        OK(MPI_Parrived(both[1], there - 1, &flag));
        mark(both[0], here, round);
        if (round % 2) {
            /* From the last to the first; what has arrived stays. */
            for (int i = there - 1; i >= 0; i--) {
                for (flag = 0; !flag;) {
                    OK(MPI_Parrived(both[1], i, &flag));
                }
                size_t each = (size_t)(total / there), at = each * (size_t)i;
                char *expected = allocate((size_t)total);
                if (i % 7 == 0) {
                    fill(expected, (size_t)total, (uint64_t)(round * 100 + left));
                    CHECK(memcmp(expected + at, in + at, each) == 0);
                }
                free(expected);
                OK(MPI_Parrived(both[1], there - 1, &flag));
                CHECK(flag);
            }
        }
        complete(both, &status, round);
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, total);
        CHECK(status.MPI_SOURCE == left && status.MPI_TAG == tag);
        CHECK(is_filled(in, (size_t)total, (uint64_t)(round * 100 + left)));
        CHECK(all_bytes(in + total, 8, 0xee));
        OK(MPI_Parrived(both[1], 0, &flag));
        CHECK(flag); /* inactive */
    }
    OK(MPI_Request_free(&both[0]));
    OK(MPI_Request_free(&both[1]));
    CHECK(both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL);
    free(out);
    free(in);
}

/* Pairs of ints with an int between them on one side or the other, in partitions that cut elements. */
static void gaps(int send_gaps, int receive_gaps, int here, int there, int pairs) {
    MPI_Datatype pair, spaced;
    MPI_Request both[2];
    MPI_Status status;
    size_t ints = (size_t)pairs * 3;
    int *out = allocate(ints * sizeof(int)), *in = allocate(ints * sizeof(int));
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_create_resized(pair, 0, 3 * sizeof(int), &spaced));
    OK(MPI_Type_commit(&spaced));
    if (send_gaps) {
        OK(MPI_Psend_init(out, here, pairs / here, spaced, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
    } else {
        OK(MPI_Psend_init(out, here, pairs * 2 / here, MPI_INT, right, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
    }
    if (receive_gaps) {
        OK(MPI_Precv_init(in, there, pairs / there, spaced, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]));
    } else {
        OK(MPI_Precv_init(in, there, pairs * 2 / there, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]));
    }
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&spaced));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < pairs * 2; i++) {
            out[send_gaps ? i / 2 * 3 + i % 2 : i] = round * 1000000 + rank * 1000 + i;
        }
        for (size_t i = 0; i < ints; i++) {
            in[i] = -1;
        }
        OK(MPI_Startall(2, both));
        mark(both[0], here, round);
        complete(both, &status, round);
        for (int i = 0; i < pairs * 2; i++) {
            CHECK_EQ(in[receive_gaps ? i / 2 * 3 + i % 2 : i], round * 1000000 + left * 1000 + i);
        }
        for (int i = 0; receive_gaps && i < pairs; i++) {
            CHECK_EQ(in[3 * i + 2], -1);
        }
    }
    OK(MPI_Request_free(&both[0]));
    OK(MPI_Request_free(&both[1]));
    free(out);
    free(in);
}

/* Several of the same tag match in the order in which they were made, whatever the order of starts; messages of
 * that tag are not theirs. */
static void several(void) {
    enum { MANY = 5 };
    MPI_Request sends[MANY], receives[MANY], message;
    int out[MANY][4], in[MANY][4], give = 77, take = -1;
    OK(MPI_Irecv(&take, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message));
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Psend_init(out[i], 4, 1, MPI_INT, right, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]));
        OK(MPI_Precv_init(in[i], 2, 2, MPI_INT, left, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &receives[i]));
    }
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < MANY; i++) {
            for (int j = 0; j < 4; j++) {
                out[i][j] = round * 100 + i * 10 + j;
            }
        }
        OK(MPI_Startall(MANY, receives));
        for (int i = 0; i < MANY; i++) {
            int which = (i * 2 + round) % MANY;
            OK(MPI_Start(&sends[which]));
            OK(MPI_Pready_range(0, 3, sends[which]));
        }
        OK(MPI_Waitall(MANY, receives, MPI_STATUSES_IGNORE));
        OK(MPI_Waitall(MANY, sends, MPI_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++) {
            for (int j = 0; j < 4; j++) {
                CHECK_EQ(in[i][j], round * 100 + i * 10 + j);
            }
        }
    }
    OK(MPI_Send(&give, 1, MPI_INT, right, 9, MPI_COMM_WORLD));
    OK(MPI_Wait(&message, MPI_STATUS_IGNORE));
    CHECK_EQ(take, 77);
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Request_free(&sends[i]));
        OK(MPI_Request_free(&receives[i]));
    }
}

/* Nobody and nothing. */
static void nothing(void) {
    MPI_Request both[2];
    MPI_Status status;
    int buffer[4], flag, count;
    OK(MPI_Psend_init(buffer, 2, 2, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(buffer, 2, 2, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Startall(2, both));
        OK(MPI_Pready(1, both[0]));
        OK(MPI_Pready(0, both[0]));
        OK(MPI_Parrived(both[1], 1, &flag));
        CHECK(flag);
        OK(MPI_Wait(&both[1], &status));
        CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
        OK(MPI_Wait(&both[0], MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&both[0]));
    OK(MPI_Request_free(&both[1]));
    OK(MPI_Psend_init(NULL, 3, 0, MPI_INT, right, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[0]));
    OK(MPI_Precv_init(NULL, 5, 0, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &both[1]));
    for (int round = 0; round < 2; round++) {
        OK(MPI_Startall(2, both));
        OK(MPI_Test(&both[0], &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        OK(MPI_Pready_range(0, 2, both[0]));
        complete(both, &status, round);
        OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK_EQ(count, 0);
    }
    OK(MPI_Request_free(&both[0]));
    OK(MPI_Request_free(&both[1]));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    exchange(1, 1, 8, 6, 0);
    exchange(4, 4, 64, 6, 0);
    exchange(12, 8, 24 * 1000, 6, 1);
    exchange(64, 64, 64 * 4096, 6, 0);
    exchange(64, 1, 64 * 4096, 4, 0);
    exchange(1, 64, 64 * 4096, 4, 1);
    exchange(7, 5, 35 * 40000, 4, 0);
    exchange(1000, 3, 3000 * 8, 4, 0);
    exchange(3, 1000, 3000 * 100, 4, 0);
    exchange(200, 100, 200 * 65536, 2, 0);
    for (int way = 0; way < 4; way++) {
        gaps(way & 1, way >> 1, 10, 4, 200);
        gaps(way & 1, way >> 1, 3, 2, 3 * 20000);
    }
    gaps(0, 1, 8, 1, 4 * 9001);
    several();
    nothing();
    OK(MPI_Finalize());
    return 0;
}
