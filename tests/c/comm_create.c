/* ranks: 1 2 4 */
/* Communicators made of parts of others (MPI-3.1 section 6.4.2). */
#include "fails.h"

static int size, rank;

/* Messages go round the communicator's ring, so that ranks and contexts fit. */
static void ring(MPI_Comm comm, int salt) {
    int n, me, got = -1;
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    int send = me + salt;
    MPI_Sendrecv(&send, 1, MPI_INT, (me + 1) % n, 7, &got, 1, MPI_INT, (me + n - 1) % n, 7, comm,
                 MPI_STATUS_IGNORE);
    CHECK_EQ(got, (me + n - 1) % n + salt);
}

static int compared(MPI_Comm one, MPI_Comm two) {
    int result;
    MPI_Comm_compare(one, two, &result);
    return result;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm dup, other, part;
    MPI_Group world, group;
    int n, i;

    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    CHECK_EQ(compared(dup, MPI_COMM_WORLD), MPI_CONGRUENT);
    CHECK_EQ(compared(dup, dup), MPI_IDENT);
    ring(dup, 100);

    /* Messages in different contexts don't meet. */
    int a = rank, b = rank + 1000, got;
    MPI_Request requests[2];
    MPI_Isend(&a, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&b, 1, MPI_INT, (rank + 1) % size, 1, dup, &requests[1]);
    int from = (rank + size - 1) % size;
    MPI_Recv(&got, 1, MPI_INT, from, 1, dup, MPI_STATUS_IGNORE);
    CHECK_EQ(got, from + 1000);
    MPI_Recv(&got, 1, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_EQ(got, from);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    /* Reversed by keys. */
    MPI_Comm_split(MPI_COMM_WORLD, 3, -rank, &other);
    MPI_Comm_rank(other, &n);
    CHECK_EQ(n, size - 1 - rank);
    CHECK_EQ(compared(other, MPI_COMM_WORLD), size == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    ring(other, 5);
    MPI_Comm_free(&other);
    CHECK_EQ(other, MPI_COMM_NULL);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : rank % 2, 0, &other);
    if (rank == 0) {
        CHECK_EQ(other, MPI_COMM_NULL);
    } else {
        MPI_Comm_size(other, &n);
        CHECK_EQ(n, rank % 2 ? size / 2 : (size - 1) / 2);
        ring(other, 9);
        MPI_Comm_free(&other);
    }

    /* MPI_Comm_create: for two disjoint groups at once, and for those in none. */
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    int range[1][3] = {{rank % 2, size - 1 - (size - 1 - rank % 2) % 2, 2}};
    MPI_Group_range_incl(world, 1, range, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &part);
    MPI_Comm_rank(part, &n);
    CHECK_EQ(n, rank / 2);
    ring(part, 77);

    /* Only the members of a group, in parallel with what others do, with different tags. */
    MPI_Comm_create_group(MPI_COMM_WORLD, group, rank % 2, &other);
    CHECK_EQ(compared(part, other), MPI_CONGRUENT);
    ring(other, 3);
    MPI_Comm_free(&other);
    MPI_Comm_free(&part);
    MPI_Group_free(&group);
    int zero = 0;
    MPI_Group_incl(world, 1, &zero, &group);
    MPI_Comm_create(MPI_COMM_WORLD, group, &part);
    if (rank == 0) {
        MPI_Comm_size(part, &n);
        CHECK_EQ(n, 1);
        MPI_Comm_free(&part);
        MPI_Comm_create_group(dup, group, 12, &part);
        MPI_Comm_free(&part);
    }
    CHECK_EQ(part, MPI_COMM_NULL);
    MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_EMPTY, &part);
    CHECK_EQ(part, MPI_COMM_NULL);
    MPI_Group_free(&group);

    /* Several nonblocking duplications under way. */
    MPI_Comm copies[8];
    MPI_Request pending[8];
    for (i = 0; i < 8; i++) MPI_Comm_idup(i ? copies[0] : dup, &copies[i], &pending[i]),
        i == 0 ? MPI_Wait(&pending[0], MPI_STATUS_IGNORE) : 0;
    MPI_Waitall(8, pending, MPI_STATUSES_IGNORE);
    for (i = 7; i >= 0; i--) {
        CHECK_EQ(compared(copies[i], MPI_COMM_WORLD), MPI_CONGRUENT);
        ring(copies[i], i);
    }
    for (i = 0; i < 8; i++) MPI_Comm_free(&copies[i]);

    /* Freed while a receive is pending: it goes on. */
    MPI_Comm_dup(dup, &other);
    MPI_Irecv(&got, 1, MPI_INT, from, 4, other, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 4, other, &requests[1]);
    MPI_Comm_free(&other);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK_EQ(got, from);

    /* Disconnection waits. */
    MPI_Comm_dup(dup, &other);
    got = -1;
    MPI_Irecv(&got, 1, MPI_INT, from, 4, other, &requests[0]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 4, other, &requests[1]);
    MPI_Comm_disconnect(&other);
    CHECK_EQ(other, MPI_COMM_NULL);
    CHECK_EQ(got, from);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);

    /* Wrong uses. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(dup, MPI_ERRORS_RETURN);
    FAILS(MPI_Comm_dup(MPI_COMM_NULL, &other), MPI_ERR_COMM);
    FAILS(MPI_Comm_dup(dup, NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_idup(dup, &other, NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_create(dup, MPI_GROUP_NULL, &other), MPI_ERR_GROUP);
    FAILS(MPI_Comm_create_group(dup, world, -1, &other), MPI_ERR_TAG);
    FAILS(MPI_Comm_split(dup, -5, 0, &other), MPI_ERR_ARG);
    FAILS(MPI_Comm_split_type(dup, 12345, 0, MPI_INFO_NULL, &other), MPI_ERR_ARG);
    FAILS(MPI_Comm_remote_size(dup, &n), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_merge(dup, 0, &other), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_create(dup, size, MPI_COMM_WORLD, 0, 1, &other), MPI_ERR_RANK);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (size > 1) FAILS(MPI_Comm_create(MPI_COMM_SELF, world, &other), MPI_ERR_GROUP);
    MPI_Comm world_copy = MPI_COMM_WORLD;
    FAILS(MPI_Comm_free(&world_copy), MPI_ERR_COMM);
    other = dup;
    MPI_Comm_free(&dup);
    FAILS(MPI_Comm_free(&other), MPI_ERR_COMM);
    FAILS(MPI_Comm_size(other, &n), MPI_ERR_COMM);

    MPI_Group_free(&world);
    MPI_Finalize();
    return 0;
}
