/* MPI_BOTTOM with absolute displacements, in all collectives that take displacements (MPI-3.1 section
 * 4.1.5, 7.6), and NULL where a displacement is none.
 *
 * ranks: 1 3
 */
#include "fails.h"

static int rank, size;
static int out[8], in[8];
static MPI_Comm ring;

static void arm(void) {
    for (int i = 0; i < 8; i++) {
        out[i] = 100 * rank + i;
        in[i] = -1;
    }
}

/* From the left neighbour its second number, from the right one its first. */
static void check(void) {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    CHECK_EQ(in[0], size == 1 ? 0 : 100 * left + 1);
    CHECK_EQ(in[1], size == 1 ? 1 : 100 * right);
    CHECK_EQ(in[2], -1);
}

static void neighbors(void) {
    int counts[2] = {1, 1}, turned = size == 1;
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Aint from[2], to[2];
    MPI_Request request;
    for (int i = 0; i < 2; i++) {
        OK(MPI_Get_address(&out[i], &from[i]));
        /* A lone rank is both its neighbours; which edge is which is not the subject here. */
        OK(MPI_Get_address(&in[i], &to[i]));
    }
    arm();
    OK(MPI_Neighbor_alltoallw(MPI_BOTTOM, counts, from, types, MPI_BOTTOM, counts, to, types, ring));
    if (!turned) {
        check();
    } else {
        CHECK_EQ(in[0] + in[1], 1);
    }
    arm();
    OK(MPI_Ineighbor_alltoallw(MPI_BOTTOM, counts, from, types, MPI_BOTTOM, counts, to, types, ring,
                               &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (!turned) {
        check();
    } else {
        CHECK_EQ(in[0] + in[1], 1);
    }

    MPI_Aint none[2] = {0, 0}, small[2] = {8, 16};
    FAILS(MPI_Neighbor_alltoallw(NULL, counts, none, types, in, counts, to, types, ring),
          MPI_ERR_BUFFER);
    FAILS(MPI_Neighbor_alltoallw(NULL, counts, small, types, in, counts, to, types, ring),
          MPI_ERR_BUFFER);
    FAILS(MPI_Ineighbor_alltoallw(out, counts, none, types, NULL, counts, small, types, ring,
                                  &request),
          MPI_ERR_BUFFER);
}

/* A type that tells an absolute address itself, and displacements of 0: of one block only, since
 * extents follow one another. */
static void absolute_types(void) {
    MPI_Aint at[2];
    int one = 1, counts[3] = {0, 0, 0}, none[3] = {0, 0, 0};
    MPI_Datatype from, to;
    OK(MPI_Get_address(out, &at[0]));
    OK(MPI_Get_address(in, &at[1]));
    OK(MPI_Type_create_hindexed(1, &one, &at[0], MPI_INT, &from));
    OK(MPI_Type_create_hindexed(1, &one, &at[1], MPI_INT, &to));
    OK(MPI_Type_commit(&from));
    OK(MPI_Type_commit(&to));
    counts[rank] = 1;
    arm();
    MPI_Datatype froms[3] = {from, from, from}, tos[3] = {to, to, to};
    OK(MPI_Alltoallw(MPI_BOTTOM, counts, none, froms, MPI_BOTTOM, counts, none, tos,
                     MPI_COMM_WORLD));
    CHECK_EQ(in[0], 100 * rank);
    arm();
    OK(MPI_Alltoallv(MPI_BOTTOM, counts, none, from, MPI_BOTTOM, counts, none, to,
                     MPI_COMM_WORLD));
    CHECK_EQ(in[0], 100 * rank);
    arm();
    int only[3] = {1, 0, 0};
    OK(MPI_Gatherv(MPI_BOTTOM, rank == 0, from, MPI_BOTTOM, only, none, to, 0, MPI_COMM_WORLD));
    CHECK_EQ(in[0], rank == 0 ? 0 : -1);
    arm();
    OK(MPI_Scatterv(MPI_BOTTOM, only, none, from, MPI_BOTTOM, rank == 0, to, 0, MPI_COMM_WORLD));
    CHECK_EQ(in[0], rank == 0 ? 0 : -1);
    arm();
    OK(MPI_Allgatherv(MPI_BOTTOM, rank == 0, from, MPI_BOTTOM, only, none, to, MPI_COMM_WORLD));
    CHECK_EQ(in[0], 0);
    OK(MPI_Type_free(&from));
    OK(MPI_Type_free(&to));
}

/* Displacements in extents are absolute, too, where an extent is large: here a quarter of the
 * distance to the data. */
static void absolute_extents(void) {
    static long long raw[64];
    MPI_Aint at;
    char *data = (char *)raw;
    OK(MPI_Get_address(raw, &at));
    data += (4 - at % 4) % 4;
    OK(MPI_Get_address(data, &at));
    MPI_Datatype type;
    OK(MPI_Type_create_resized(MPI_INT, 0, at / 4, &type));
    OK(MPI_Type_commit(&type));
    int counts[3] = {0, 0, 0}, places[3] = {4, 4, 4}, zero[3] = {0, 0, 0};
    counts[rank] = 1;
    arm();
    *(int *)data = 7;
    OK(MPI_Alltoallv(out, counts, zero, MPI_INT, MPI_BOTTOM, counts, places, type,
                     MPI_COMM_WORLD));
    CHECK_EQ(*(int *)data, 100 * rank);
    OK(MPI_Alltoallv(MPI_BOTTOM, counts, places, type, in, counts, zero, MPI_INT, MPI_COMM_WORLD));
    CHECK_EQ(in[0], 100 * rank);
    OK(MPI_Type_free(&type));
}

static void nothing_there(void) {
    int counts[3] = {0, 0, 0}, places[3] = {0, 0, 0};
    counts[rank] = 1;
    MPI_Datatype types[3] = {MPI_INT, MPI_INT, MPI_INT};
    FAILS(MPI_Alltoallv(NULL, counts, places, MPI_INT, in, counts, places, MPI_INT, MPI_COMM_WORLD),
          MPI_ERR_BUFFER);
    FAILS(MPI_Alltoallw(out, counts, places, types, NULL, counts, places, types, MPI_COMM_WORLD),
          MPI_ERR_BUFFER);
    counts[0] = 1;
    FAILS(MPI_Allgatherv(out, counts[rank], MPI_INT, NULL, counts, places, MPI_INT,
                         MPI_COMM_WORLD),
          MPI_ERR_BUFFER);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int periodic = 1;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring));
    neighbors();
    absolute_types();
    absolute_extents();
    nothing_there();
    OK(MPI_Comm_free(&ring));
    OK(MPI_Finalize());
    return 0;
}
