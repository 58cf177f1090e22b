/* Persistent collectives: all of them, restarted with other data, in orders that differ between ranks, mixed with
 * messages and other collectives, and completed by all kinds of calls.
 * ranks: 1 2 3 5
 * timeout: 60
 */
#include "check.h"

enum { MOST = 8, ROUNDS = 12, KINDS = 17, LONG = 40000 };
static int rank, size;

/* The buffers of each kind, with room for any. */
static int in[KINDS][LONG * MOST], out[KINDS][LONG * MOST];
static int counts[MOST], displs[MOST], bytes[MOST];
static MPI_Datatype types[MOST];

static int value(int round, int kind, int from, int to, int i) {
    return round * 100003 + kind * 1009 + from * 101 + to * 7 + i;
}

static void make(int kind, int n, MPI_Comm comm, MPI_Request *request) {
    int *a = in[kind], *b = out[kind], root = kind % size;
    const MPI_Info none = MPI_INFO_NULL;
    switch (kind) {
    case 0: OK(MPI_Barrier_init(comm, none, request)); break;
    case 1: OK(MPI_Bcast_init(b, n, MPI_INT, root, comm, none, request)); break;
    case 2: OK(MPI_Gather_init(a, n, MPI_INT, b, n, MPI_INT, root, comm, none, request)); break;
    case 3: OK(MPI_Gatherv_init(a, n, MPI_INT, b, counts, displs, MPI_INT, root, comm, none, request)); break;
    case 4: OK(MPI_Scatter_init(a, n, MPI_INT, b, n, MPI_INT, root, comm, none, request)); break;
    case 5: OK(MPI_Scatterv_init(a, counts, displs, MPI_INT, b, n, MPI_INT, root, comm, none, request)); break;
    case 6: OK(MPI_Allgather_init(a, n, MPI_INT, b, n, MPI_INT, comm, none, request)); break;
    case 7: OK(MPI_Allgatherv_init(a, n, MPI_INT, b, counts, displs, MPI_INT, comm, none, request)); break;
    case 8: OK(MPI_Alltoall_init(a, n, MPI_INT, b, n, MPI_INT, comm, none, request)); break;
    case 9: OK(MPI_Alltoallv_init(a, counts, displs, MPI_INT, b, counts, displs, MPI_INT, comm, none, request)); break;
    case 10: OK(MPI_Alltoallw_init(a, counts, bytes, types, b, counts, bytes, types, comm, none, request)); break;
    case 11: OK(MPI_Reduce_init(a, b, n, MPI_INT, MPI_SUM, root, comm, none, request)); break;
    case 12: OK(MPI_Allreduce_init(a, b, n, MPI_INT, MPI_SUM, comm, none, request)); break;
    case 13: OK(MPI_Reduce_scatter_block_init(a, b, n, MPI_INT, MPI_SUM, comm, none, request)); break;
    case 14: OK(MPI_Reduce_scatter_init(a, b, counts, MPI_INT, MPI_SUM, comm, none, request)); break;
    case 15: OK(MPI_Scan_init(a, b, n, MPI_INT, MPI_SUM, comm, none, request)); break;
    default: OK(MPI_Exscan_init(a, b, n, MPI_INT, MPI_SUM, comm, none, request)); break;
    }
}

static void prepare(int kind, int n, int round) {
    for (int to = 0; to < size; to++) {
        for (int i = 0; i < n; i++) {
            in[kind][to * n + i] = value(round, kind, rank, to, i);
            out[kind][to * n + i] = -1;
        }
    }
    if (kind == 1 && rank == kind % size) {
        for (int i = 0; i < n; i++) {
            out[kind][i] = value(round, kind, rank, 0, i);
        }
    }
}

/* The sum over ranks from 0 to `last`, of what they give for rank `to`. */
static int sum(int round, int kind, int last, int to, int i) {
    int total = 0;
    for (int from = 0; from <= last; from++) {
        total += value(round, kind, from, to, i);
    }
    return total;
}

static void verify(int kind, int n, int round) {
    int root = kind % size, *b = out[kind];
    for (int i = 0; i < n; i++) {
        switch (kind) {
        case 0: break;
        case 1: CHECK_EQ(b[i], value(round, kind, root, 0, i)); break;
        case 2:
        case 3:
            for (int from = 0; rank == root && from < size; from++) {
                CHECK_EQ(b[from * n + i], value(round, kind, from, 0, i));
            }
            break;
        case 4:
        case 5: CHECK_EQ(b[i], value(round, kind, root, rank, i)); break;
        case 6:
        case 7:
            for (int from = 0; from < size; from++) {
                CHECK_EQ(b[from * n + i], value(round, kind, from, 0, i));
            }
            break;
        case 8:
        case 9:
        case 10:
            for (int from = 0; from < size; from++) {
                CHECK_EQ(b[from * n + i], value(round, kind, from, rank, i));
            }
            break;
        case 11:
            if (rank == root) {
                CHECK_EQ(b[i], sum(round, kind, size - 1, 0, i));
            }
            break;
        case 12: CHECK_EQ(b[i], sum(round, kind, size - 1, 0, i)); break;
        case 13:
        case 14: CHECK_EQ(b[i], sum(round, kind, size - 1, rank, i)); break;
        case 15: CHECK_EQ(b[i], sum(round, kind, rank, 0, i)); break;
        default:
            if (rank > 0) {
                CHECK_EQ(b[i], sum(round, kind, rank - 1, 0, i));
            }
        }
    }
}

/* Completes all of them in one of the ways. */
static void complete(MPI_Request *requests, int n, int way) {
    int flag = 0, index, done, indices[KINDS];
    MPI_Status statuses[KINDS];
    switch (way % 7) {
    case 0: OK(MPI_Waitall(n, requests, statuses)); break;
    case 1:
        for (int i = n - 1; i >= 0; i--) {
            OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        }
        break;
    case 2:
        while (!flag) {
            OK(MPI_Testall(n, requests, &flag, statuses));
        }
        break;
    case 3:
        for (int i = 0; i < n; i++) {
            OK(MPI_Waitany(n, requests, &index, statuses));
            CHECK(index >= 0 && index < n);
        }
        OK(MPI_Waitany(n, requests, &index, statuses));
        CHECK_EQ(index, MPI_UNDEFINED);
        break;
    case 4:
        for (int i = 0; i < n; i += done) {
            OK(MPI_Waitsome(n, requests, &done, indices, statuses));
            CHECK(done > 0);
        }
        break;
    case 5:
        for (int i = 0; i < n; i++) {
            for (flag = 0; !flag;) {
                OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
            }
        }
        break;
    default:
        for (int i = 0; i < n; i++) {
            for (flag = 0; !flag;) {
                OK(MPI_Request_get_status(requests[i], &flag, statuses));
            }
            OK(MPI_Wait(&requests[i], statuses));
            CHECK(statuses[0].MPI_SOURCE == MPI_ANY_SOURCE);
        }
    }
}

static void run(MPI_Comm comm, int n, int rounds) {
    MPI_Request requests[KINDS], message;
    int before[KINDS], token = -1, all;
    for (int i = 0; i < size; i++) {
        counts[i] = n;
        displs[i] = i * n;
        bytes[i] = i * n * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    for (int kind = 0; kind < KINDS; kind++) {
        make(kind, n, comm, &requests[kind]);
        before[kind] = requests[kind];
    }
    /* The arguments of _init are needed no longer, but for the buffers. (The standard has programs keep the
     * arrays; that they needn't is ours.) */
    memset(counts, 0xff, sizeof counts);
    memset(types, 0xff, sizeof types);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < rounds; round++) {
        for (int kind = 0; kind < KINDS; kind++) {
            prepare(kind, n, round);
        }
        OK(MPI_Irecv(&token, 1, MPI_INT, left, 4, comm, &message));
        if (round % 3 == 0) {
            OK(MPI_Startall(KINDS, requests));
        } else {
            /* In an order of its own. */
            for (int i = 0; i < KINDS; i++) {
                OK(MPI_Start(&requests[(i * 5 + round + rank * 3) % KINDS]));
            }
        }
        int give = round;
        OK(MPI_Send(&give, 1, MPI_INT, right, 4, comm));
        OK(MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(all, size * (size - 1) / 2);
        complete(requests, KINDS, round);
        OK(MPI_Wait(&message, MPI_STATUS_IGNORE));
        CHECK_EQ(token, round);
        for (int kind = 0; kind < KINDS; kind++) {
            CHECK_EQ(requests[kind], before[kind]);
            verify(kind, n, round);
        }
        /* One after the other, each waited for at once. */
        if (round % 4 == 1) {
            for (int kind = 0; kind < KINDS; kind++) {
                for (int again = 0; again < 3; again++) {
                    prepare(kind, n, round + again);
                    OK(MPI_Start(&requests[kind]));
                    OK(MPI_Wait(&requests[kind], MPI_STATUS_IGNORE));
                    verify(kind, n, round + again);
                }
            }
        }
    }
    for (int kind = 0; kind < KINDS; kind++) {
        OK(MPI_Request_free(&requests[kind]));
        CHECK(requests[kind] == MPI_REQUEST_NULL);
    }
}

/* In place, where the receive buffer is read, too. */
static void in_place(MPI_Comm comm) {
    MPI_Request requests[3];
    int sums[4], all[MOST], scanned = 0;
    OK(MPI_Allreduce_init(MPI_IN_PLACE, sums, 4, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Allgather_init(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 1, MPI_INT, comm, MPI_INFO_NULL,
                          &requests[1]));
    OK(MPI_Scan_init(MPI_IN_PLACE, &scanned, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[2]));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++) {
            sums[i] = round + rank + i;
        }
        all[rank] = 10 * round + rank;
        scanned = round + rank;
        OK(MPI_Startall(3, requests));
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(sums[i], size * (round + i) + size * (size - 1) / 2);
        }
        for (int i = 0; i < size; i++) {
            CHECK_EQ(all[i], 10 * round + i);
        }
        CHECK_EQ(scanned, (rank + 1) * round + rank * (rank + 1) / 2);
    }
    for (int i = 0; i < 3; i++) {
        OK(MPI_Request_free(&requests[i]));
    }
}

static void neighbours(MPI_Comm comm) {
    MPI_Comm ring;
    int wraps = 1, two[2], from[5][2], ones[2] = {1, 1}, places[2] = {0, 1};
    MPI_Aint at[2] = {0, sizeof(int)};
    MPI_Datatype ints[2] = {MPI_INT, MPI_INT};
    MPI_Request requests[5];
    OK(MPI_Cart_create(comm, 1, &size, &wraps, 0, &ring));
    const MPI_Info none = MPI_INFO_NULL;
    OK(MPI_Neighbor_allgather_init(two, 1, MPI_INT, from[0], 1, MPI_INT, ring, none, &requests[0]));
    OK(MPI_Neighbor_allgatherv_init(two, 1, MPI_INT, from[1], ones, places, MPI_INT, ring, none,
                                    &requests[1]));
    OK(MPI_Neighbor_alltoall_init(two, 1, MPI_INT, from[2], 1, MPI_INT, ring, none, &requests[2]));
    OK(MPI_Neighbor_alltoallv_init(two, ones, places, MPI_INT, from[3], ones, places, MPI_INT, ring, none,
                                   &requests[3]));
    OK(MPI_Neighbor_alltoallw_init(two, ones, at, ints, from[4], ones, at, ints, ring, none,
                                   &requests[4]));
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    for (int round = 0; round < 6; round++) {
        two[0] = round * 1000 + rank * 10;     /* to the left */
        two[1] = round * 1000 + rank * 10 + 1; /* to the right */
        for (int i = 0; i < 5; i++) {
            OK(MPI_Start(&requests[(i + rank) % 5]));
        }
        complete(requests, 5, round);
        for (int i = 0; i < 5; i++) {
            int own = i < 2 ? 0 : 1;
            CHECK_EQ(from[i][0], round * 1000 + left * 10 + own);
            CHECK_EQ(from[i][1], round * 1000 + right * 10);
        }
    }
    for (int i = 0; i < 5; i++) {
        OK(MPI_Request_free(&requests[i]));
    }
    OK(MPI_Comm_free(&ring));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    CHECK(size <= MOST);
    run(MPI_COMM_WORLD, 2, ROUNDS);
    run(MPI_COMM_WORLD, 700, ROUNDS);
    run(MPI_COMM_WORLD, LONG, 3);
    in_place(MPI_COMM_WORLD);
    neighbours(MPI_COMM_WORLD);
    /* The communicator is freed, and datatype and operation are, while requests of theirs live on. */
    MPI_Comm copy;
    MPI_Datatype pair;
    MPI_Request request;
    int sums[2];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Bcast_init(sums, 1, pair, 0, copy, MPI_INFO_NULL, &request));
    OK(MPI_Type_free(&pair));
    OK(MPI_Comm_free(&copy));
    for (int round = 0; round < 3; round++) {
        sums[0] = rank == 0 ? round : -1;
        sums[1] = rank == 0 ? round + 1 : -1;
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(sums[0] == round && sums[1] == round + 1);
    }
    OK(MPI_Request_free(&request));
    OK(MPI_Finalize());
    return 0;
}
