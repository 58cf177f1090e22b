/* ranks: 2 3 4 5 */
/* Intercommunicators (MPI-3.1 section 6.6): the even and the odd ranks of MPI_COMM_WORLD. */
#include "fails.h"

static int size, rank, odd, evens, odds;

/* Each sends its rank in the world to each of the other group. */
static void talk(MPI_Comm inter, int tag) {
    int n, me, got, i;
    MPI_Comm_remote_size(inter, &n);
    MPI_Comm_rank(inter, &me);
    MPI_Request requests[16];
    int value = rank * 100 + me;
    for (i = 0; i < n; i++) MPI_Isend(&value, 1, MPI_INT, i, tag, inter, &requests[i]);
    for (i = 0; i < n; i++) {
        MPI_Status status;
        MPI_Recv(&got, 1, MPI_INT, i, tag, inter, &status);
        CHECK_EQ(status.MPI_SOURCE, i);
        CHECK_EQ(got % 100, i);
        CHECK_EQ(got / 100 % 2, !odd);
    }
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
}

static void sizes(MPI_Comm inter, int local, int remote) {
    int n, flag;
    MPI_Comm_test_inter(inter, &flag);
    CHECK_EQ(flag, 1);
    MPI_Comm_size(inter, &n);
    CHECK_EQ(n, local);
    MPI_Comm_remote_size(inter, &n);
    CHECK_EQ(n, remote);
}

/* Members of the merged communicator in their order. */
static void merged(MPI_Comm comm, int odd_first) {
    int n, me;
    MPI_Comm_size(comm, &n);
    CHECK_EQ(n, size);
    MPI_Comm_rank(comm, &me);
    CHECK_EQ(me, rank / 2 + (odd == odd_first ? 0 : odd_first ? odds : evens));
    int to = (me + 1) % n, from = (me + n - 1) % n, got = -1;
    MPI_Sendrecv(&me, 1, MPI_INT, to, 2, &got, 1, MPI_INT, from, 2, comm, MPI_STATUS_IGNORE);
    CHECK_EQ(got, from);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    odd = rank % 2;
    odds = size / 2, evens = size - odds;
    int local = odd ? odds : evens, remote = odd ? evens : odds, n, i;
    MPI_Comm half, inter, copy, intra;
    MPI_Group group, part;

    /* The leaders are the last of each group. */
    MPI_Comm_split(MPI_COMM_WORLD, odd, rank, &half);
    int last_even = (size - 1) / 2 * 2, last_odd = (size - 2) / 2 * 2 + 1;
    MPI_Intercomm_create(half, local - 1, MPI_COMM_WORLD, odd ? last_even : last_odd, 5, &inter);
    sizes(inter, local, remote);
    talk(inter, 1);
    MPI_Comm_remote_group(inter, &group);
    MPI_Group_size(group, &n);
    CHECK_EQ(n, remote);
    MPI_Group world;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (i = 0; i < n; i++) {
        int there;
        MPI_Group_translate_ranks(group, 1, &i, world, &there);
        CHECK_EQ(there, 2 * i + !odd);
    }
    MPI_Group_free(&group);
    MPI_Comm_group(inter, &group);
    MPI_Group_size(group, &n);
    CHECK_EQ(n, local);

    MPI_Comm_dup(inter, &copy);
    sizes(copy, local, remote);
    talk(copy, 2);
    MPI_Comm_compare(inter, copy, &n);
    CHECK_EQ(n, MPI_CONGRUENT);
    MPI_Comm_compare(inter, MPI_COMM_WORLD, &n);
    CHECK_EQ(n, MPI_UNEQUAL);
    MPI_Comm_free(&copy);
    for (i = 0; i < 3; i++) {
        MPI_Request request;
        MPI_Comm_idup(inter, &copy, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        talk(copy, 3);
        MPI_Comm_dup(copy, &intra);
        talk(intra, 3);
        MPI_Comm_disconnect(&intra);
        MPI_Comm_disconnect(&copy);
    }

    MPI_Intercomm_merge(inter, odd, &intra);
    merged(intra, 0);
    MPI_Comm_free(&intra);
    MPI_Intercomm_merge(inter, !odd, &intra);
    merged(intra, 1);
    MPI_Comm_free(&intra);
    MPI_Intercomm_merge(inter, 1, &intra);
    MPI_Comm_size(intra, &n);
    CHECK_EQ(n, size);
    MPI_Comm_free(&intra);

    /* A part of each group, reversed; nothing where one side is empty. */
    int range[1][3] = {{local - 1, local > 1, -1}};
    MPI_Group_range_incl(group, 1, range, &part);
    MPI_Comm_create(inter, part, &copy);
    int me, left = local > 1 ? local - 1 : 1, right = remote > 1 ? remote - 1 : 1;
    MPI_Comm_rank(inter, &me);
    if (local > 1 && me == 0) {
        CHECK_EQ(copy, MPI_COMM_NULL);
    } else {
        sizes(copy, left, right);
        MPI_Comm_rank(copy, &n);
        CHECK_EQ(n, local - 1 - me);
        talk(copy, 4);
        MPI_Comm_free(&copy);
    }
    MPI_Comm_create(inter, odd ? MPI_GROUP_EMPTY : part, &copy);
    CHECK_EQ(copy, MPI_COMM_NULL);

    /* Each group splits: rank 0 of both, the rest of both (if there is one), and one color that
       only one side has. */
    MPI_Comm_split(inter, me > 0, -me, &copy);
    if (me == 0) {
        sizes(copy, 1, 1);
        talk(copy, 6);
        MPI_Comm_free(&copy);
    } else if (remote > 1) {
        sizes(copy, local - 1, remote - 1);
        talk(copy, 6);
        MPI_Comm_free(&copy);
    }
    CHECK_EQ(copy, MPI_COMM_NULL);
    MPI_Comm_split(inter, odd, 0, &copy);
    CHECK_EQ(copy, MPI_COMM_NULL);
    MPI_Comm_split(inter, odd ? MPI_UNDEFINED : 0, 0, &copy);
    CHECK_EQ(copy, MPI_COMM_NULL);

    /* Two of them over an intercommunicator as the bridge. */
    MPI_Intercomm_create(half, 0, inter, 0, 9, &copy);
    sizes(copy, local, remote);
    talk(copy, 8);
    MPI_Comm_free(&copy);

    /* Wrong uses. */
    MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    FAILS(MPI_Comm_create_group(inter, group, 1, &copy), MPI_ERR_COMM);
    FAILS(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, 0, 1, &copy), MPI_ERR_COMM);
    int buffer = 0;
    FAILS(MPI_Send(&buffer, 1, MPI_INT, remote, 1, inter), MPI_ERR_RANK);

    MPI_Group_free(&part);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_Comm_free(&half);
    MPI_Comm_free(&inter);
    MPI_Finalize();
    return 0;
}
