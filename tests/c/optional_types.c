/* Datatypes that a library need not have (MPI-5.0 section 3.2.2): MPI_INTEGER16, MPI_REAL2, MPI_COMPLEX4,
 * MPI_LOGICAL1 to MPI_LOGICAL16, and C's and other numbers of 16 bits: sizes, names, messages,
 * external32, reductions and accumulates.
 *
 * ranks: 2 3
 * local: datatypes
 */
#include "fails.h"

static int size, rank;

/* Numbers of 16 bits that stand for 0.5, 1, 2, 3 and 6. */
struct halves {
    uint16_t half, one, two, three, six;
};

static const struct halves BINARY16 = {0x3800, 0x3c00, 0x4000, 0x4200, 0x4600};
static const struct halves BRAIN = {0x3f00, 0x3f80, 0x4000, 0x4040, 0x40c0};

static void looks(MPI_Datatype type, const char *name, int bytes) {
    char found[MPI_MAX_OBJECT_NAME];
    int length, got;
    OK(MPI_Type_get_name(type, found, &length));
    CHECK(strcmp(found, name) == 0);
    OK(MPI_Type_size(type, &got));
    CHECK_EQ(got, bytes);
    MPI_Aint lb, extent;
    OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK(lb == 0 && extent == bytes);
    int integers, addresses, types, combiner;
    OK(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
    CHECK_EQ(combiner, MPI_COMBINER_NAMED);

    /* Around a ring, and there and back in external32, where only the order of bytes is another. */
    unsigned char out[32], in[32], packed[32];
    for (int i = 0; i < 2 * bytes; i++) {
        out[i] = (unsigned char)(i * 17 + rank);
    }
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Status status;
    OK(MPI_Sendrecv(out, 2, type, next, 0, in, 2, type, last, 0, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, type, &got));
    CHECK_EQ(got, 2);
    for (int i = 0; i < 2 * bytes; i++) {
        CHECK_EQ(in[i], (unsigned char)(i * 17 + last));
    }
    MPI_Aint position = 0;
    OK(MPI_Pack_external("external32", in, 2, type, packed, 32, &position));
    CHECK_EQ(position, 2 * bytes);
    position = 0;
    memset(out, 0, sizeof out);
    OK(MPI_Unpack_external("external32", packed, 32, &position, out, 2, type));
    CHECK(memcmp(in, out, 2 * (size_t)bytes) == 0);
}

/* Each rank gives `mine`, with 1 in the place of all but the first two. */
static uint16_t reduced(uint16_t first, uint16_t second, uint16_t others, MPI_Datatype type,
                        MPI_Op op) {
    uint16_t in[5], out[5] = {0};
    for (int i = 0; i < 5; i++) {
        in[i] = rank == 0 ? first : rank == 1 ? second : others;
    }
    OK(MPI_Allreduce(in, out, 5, type, op, MPI_COMM_WORLD));
    for (int i = 1; i < 5; i++) {
        CHECK_EQ(out[i], out[0]);
    }
    return out[0];
}

static void halves(MPI_Datatype type, struct halves n) {
    CHECK_EQ(reduced(n.one, n.two, 0, type, MPI_SUM), n.three);
    CHECK_EQ(reduced(n.two, n.three, n.one, type, MPI_PROD), n.six);
    CHECK_EQ(reduced(n.six, n.half, n.one, type, MPI_MAX), n.six);
    CHECK_EQ(reduced(n.six, n.half, n.one, type, MPI_MIN), n.half);
    CHECK_EQ(reduced(n.six | 0x8000, n.half, n.one, type, MPI_MIN), n.six | 0x8000);
    CHECK_EQ(reduced(n.six, 0x8000, n.one, type, MPI_LAND), 0);
    CHECK_EQ(reduced(n.six, 0x8000, 0, type, MPI_LOR), n.one);
    uint16_t in = n.one, out = n.one;
    FAILS(MPI_Allreduce(&in, &out, 1, type, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP);
    FAILS(MPI_Allreduce(&in, &out, 1, type, MPI_MAXLOC, MPI_COMM_WORLD), MPI_ERR_OP);

    static uint16_t memory[2];
    memory[0] = memory[1] = n.one;
    MPI_Win win;
    OK(MPI_Win_create(memory, sizeof memory, 2, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_fence(0, win));
    uint16_t add = n.two, before = 0;
    if (rank == 1) {
        OK(MPI_Accumulate(&add, 1, type, 0, 1, 1, type, MPI_SUM, win));
        OK(MPI_Fetch_and_op(&add, &before, type, 0, 0, MPI_SUM, win));
    }
    OK(MPI_Win_fence(0, win));
    CHECK_EQ(memory[0], rank == 0 ? n.three : n.one);
    CHECK_EQ(memory[1], rank == 0 ? n.three : n.one);
    CHECK_EQ(before, rank == 1 ? n.one : 0);
    OK(MPI_Win_free(&win));
}

static void complex_halves(void) {
    /* (1 + 2i)(3 + 0.5i) = 2 + 6.5i, whatever the others multiply by 1. */
    uint16_t in[2] = {0x3c00, 0}, out[2];
    if (rank == 0) {
        in[1] = 0x4000;
    } else if (rank == 1) {
        in[0] = 0x4200, in[1] = 0x3800;
    }
    OK(MPI_Allreduce(in, out, 1, MPI_COMPLEX4, MPI_PROD, MPI_COMM_WORLD));
    CHECK(out[0] == 0x4000 && out[1] == 0x4680);
    FAILS(MPI_Allreduce(in, out, 1, MPI_COMPLEX4, MPI_MAX, MPI_COMM_WORLD), MPI_ERR_OP);
}

static void long_integers(void) {
    __int128 mine = ((__int128)1 << 100) * (rank == 0 ? -3 : 2), all;
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INTEGER16, MPI_SUM, MPI_COMM_WORLD));
    CHECK(all == ((__int128)1 << 100) * (2 * (size - 1) - 3));
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INTEGER16, MPI_MIN, MPI_COMM_WORLD));
    CHECK(all == ((__int128)1 << 100) * -3);
    OK(MPI_Allreduce(&mine, &all, 1, MPI_INTEGER16, MPI_BOR, MPI_COMM_WORLD));
    CHECK(all == (((__int128)1 << 100) * -3 | (__int128)1 << 101));
    MPI_Datatype found;
    OK(MPI_Type_create_f90_integer(30, &found));
    int bytes;
    OK(MPI_Type_size(found, &bytes));
    CHECK_EQ(bytes, 16);
    FAILS(MPI_Type_create_f90_integer(39, &found), MPI_ERR_ARG);
    OK(MPI_Type_match_size(MPI_TYPECLASS_INTEGER, 16, &found));
    CHECK(found == MPI_INTEGER16);
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 2, &found));
    CHECK(found == MPI_REAL2);
    OK(MPI_Type_match_size(MPI_TYPECLASS_COMPLEX, 4, &found));
    CHECK(found == MPI_COMPLEX4);
}

static void logicals(MPI_Datatype type, int bytes) {
    /* Any byte that is not 0 makes it true. */
    unsigned char in[48] = {0}, out[48], want[48] = {0};
    in[bytes - 1] = rank == 0 ? 0x80 : 1;
    in[bytes] = rank == 0;
    want[0] = 1;
    OK(MPI_Allreduce(in, out, 3, type, MPI_LAND, MPI_COMM_WORLD));
    CHECK(memcmp(out, want, 3 * (size_t)bytes) == 0);
    want[bytes] = 1;
    OK(MPI_Allreduce(in, out, 3, type, MPI_LOR, MPI_COMM_WORLD));
    CHECK(memcmp(out, want, 3 * (size_t)bytes) == 0);
    want[0] = size % 2;
    OK(MPI_Allreduce(in, out, 3, type, MPI_LXOR, MPI_COMM_WORLD));
    CHECK(memcmp(out, want, 3 * (size_t)bytes) == 0);
    FAILS(MPI_Allreduce(in, out, 1, type, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank(), size = world_size();
    looks(MPI_INTEGER16, "MPI_INTEGER16", 16);
    looks(MPI_REAL2, "MPI_REAL2", 2);
    looks(MPI_COMPLEX4, "MPI_COMPLEX4", 4);
    looks(MPI_LOGICAL1, "MPI_LOGICAL1", 1);
    looks(MPI_LOGICAL2, "MPI_LOGICAL2", 2);
    looks(MPI_LOGICAL4, "MPI_LOGICAL4", 4);
    looks(MPI_LOGICAL8, "MPI_LOGICAL8", 8);
    looks(MPI_LOGICAL16, "MPI_LOGICAL16", 16);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    halves(MPI_REAL2, BINARY16);
#ifdef MPIX_C_FLOAT16
    looks(MPIX_C_FLOAT16, "MPIX_C_FLOAT16", 2);
    looks(MPIX_BFLOAT16, "MPIX_BFLOAT16", 2);
    halves(MPIX_C_FLOAT16, BINARY16);
    halves(MPIX_BFLOAT16, BRAIN);
#endif
    complex_halves();
    long_integers();
    logicals(MPI_LOGICAL1, 1);
    logicals(MPI_LOGICAL2, 2);
    logicals(MPI_LOGICAL4, 4);
    logicals(MPI_LOGICAL8, 8);
    logicals(MPI_LOGICAL16, 16);
    OK(MPI_Finalize());
    return 0;
}
