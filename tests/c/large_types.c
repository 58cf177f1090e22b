/* Datatypes made with large counts (MPI-4.0 section 5.1): every constructor, what the types say of themselves,
 * their contents, and packing.
 *
 * ranks: 1
 * variants: shm
 */
#include "fails.h"

#define MANY ((MPI_Count)5000000000)
#define HUGE_COUNT ((MPI_Count)1 << 62)

static void check_type(MPI_Datatype type, MPI_Count size, MPI_Count lb, MPI_Count extent) {
    MPI_Count one, two;
    int small;
    OK(MPI_Type_size_c(type, &one));
    CHECK_EQ(one, size);
    OK(MPI_Type_size_x(type, &one));
    CHECK_EQ(one, size);
    OK(MPI_Type_size(type, &small));
    CHECK_EQ(small, size > INT32_MAX ? MPI_UNDEFINED : size);
    OK(MPI_Type_get_extent_c(type, &one, &two));
    CHECK_EQ(one, lb);
    CHECK_EQ(two, extent);
}

/* The envelope, and the contents of large counts. Frees the type. */
static void check_contents(MPI_Datatype *type, int combiner, MPI_Count integers, MPI_Count types,
                           MPI_Count counts, const MPI_Count *expected) {
    MPI_Count ni, na, nc, nd, large[16];
    MPI_Datatype members[4];
    MPI_Aint addresses[1];
    int ints[16], small[4];
    OK(MPI_Type_get_envelope_c(*type, &ni, &na, &nc, &nd, &small[0]));
    CHECK_EQ(ni, integers);
    CHECK_EQ(na, 0);
    CHECK_EQ(nc, counts);
    CHECK_EQ(nd, types);
    CHECK_EQ(small[0], combiner);
    OK(MPI_Type_get_contents_c(*type, 16, 1, 16, 4, ints, addresses, large, members));
    for (MPI_Count i = 0; i < counts; i++) {
        CHECK_EQ(large[i], expected[i]);
    }
    /* C's ints can't tell that. */
    FAILS(MPI_Type_get_envelope(*type, &small[0], &small[1], &small[2], &small[3]), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_contents(*type, 16, 1, 4, ints, addresses, members), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_contents_c(*type, 16, 1, counts - 1, 4, ints, addresses, large, members),
          MPI_ERR_ARG);
    /* A duplicate has no counts of its own. */
    MPI_Datatype copy;
    OK(MPI_Type_dup(*type, &copy));
    OK(MPI_Type_get_envelope(copy, &small[0], &small[1], &small[2], &small[3]));
    CHECK_EQ(small[3], MPI_COMBINER_DUP);
    OK(MPI_Type_get_contents(copy, 0, 0, 1, ints, addresses, members));
    OK(MPI_Type_get_envelope_c(members[0], &ni, &na, &nc, &nd, &small[0]));
    CHECK_EQ(nc, counts);
    OK(MPI_Type_free(&members[0]));
    OK(MPI_Type_free(&copy));
    OK(MPI_Type_free(type));
}

static void constructors(void) {
    MPI_Datatype type;
    OK(MPI_Type_contiguous_c(MANY, MPI_INT, &type));
    check_type(type, 4 * MANY, 0, 4 * MANY);
    check_contents(&type, MPI_COMBINER_CONTIGUOUS, 0, 1, 1, (MPI_Count[]){MANY});

    OK(MPI_Type_vector_c(2, MANY, 2 * MANY, MPI_INT, &type));
    check_type(type, 8 * MANY, 0, 12 * MANY);
    check_contents(&type, MPI_COMBINER_VECTOR, 0, 1, 3, (MPI_Count[]){2, MANY, 2 * MANY});

    OK(MPI_Type_create_hvector_c(2, MANY, 8 * MANY, MPI_INT, &type));
    check_type(type, 8 * MANY, 0, 12 * MANY);
    check_contents(&type, MPI_COMBINER_HVECTOR, 0, 1, 3, (MPI_Count[]){2, MANY, 8 * MANY});

    MPI_Count blocks[] = {MANY, 1}, places[] = {0, 3 * MANY};
    OK(MPI_Type_indexed_c(2, blocks, places, MPI_INT, &type));
    check_type(type, 4 * MANY + 4, 0, 12 * MANY + 4);
    check_contents(&type, MPI_COMBINER_INDEXED, 0, 1, 5, (MPI_Count[]){2, MANY, 1, 0, 3 * MANY});

    MPI_Count distances[] = {0, 12 * MANY};
    OK(MPI_Type_create_hindexed_c(2, blocks, distances, MPI_INT, &type));
    check_type(type, 4 * MANY + 4, 0, 12 * MANY + 4);
    check_contents(&type, MPI_COMBINER_HINDEXED, 0, 1, 5,
                   (MPI_Count[]){2, MANY, 1, 0, 12 * MANY});

    OK(MPI_Type_create_indexed_block_c(2, MANY, places, MPI_INT, &type));
    check_type(type, 8 * MANY, 0, 16 * MANY);
    check_contents(&type, MPI_COMBINER_INDEXED_BLOCK, 0, 1, 4,
                   (MPI_Count[]){2, MANY, 0, 3 * MANY});

    OK(MPI_Type_create_hindexed_block_c(2, MANY, distances, MPI_INT, &type));
    check_type(type, 8 * MANY, 0, 16 * MANY);
    check_contents(&type, MPI_COMBINER_HINDEXED_BLOCK, 0, 1, 4,
                   (MPI_Count[]){2, MANY, 0, 12 * MANY});

    MPI_Datatype members[] = {MPI_INT, MPI_CHAR};
    OK(MPI_Type_create_struct_c(2, blocks, distances, members, &type));
    check_type(type, 4 * MANY + 1, 0, 12 * MANY + 4);
    check_contents(&type, MPI_COMBINER_STRUCT, 0, 2, 5, (MPI_Count[]){2, MANY, 1, 0, 12 * MANY});

    MPI_Count sizes[] = {MANY, 4}, parts[] = {MANY - 1, 2}, starts[] = {1, 1};
    OK(MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_CHAR, &type));
    check_type(type, 2 * MANY - 2, 0, 4 * MANY);
    check_contents(&type, MPI_COMBINER_SUBARRAY, 2, 1, 6,
                   (MPI_Count[]){MANY, 4, MANY - 1, 2, 1, 1});

    int distributions[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_NONE};
    int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 1};
    OK(MPI_Type_create_darray_c(2, 1, 2, sizes, distributions, arguments, grid, MPI_ORDER_C,
                                MPI_CHAR, &type));
    check_type(type, 2 * MANY, 0, 4 * MANY);
    check_contents(&type, MPI_COMBINER_DARRAY, 10, 1, 2, (MPI_Count[]){MANY, 4});

    OK(MPI_Type_create_resized_c(MPI_INT, -MANY, 3 * MANY, &type));
    check_type(type, 4, -MANY, 3 * MANY);
    MPI_Count lb, extent;
    OK(MPI_Type_get_true_extent_c(type, &lb, &extent));
    CHECK_EQ(lb, 0);
    CHECK_EQ(extent, 4);
    FAILS(MPI_Type_get_true_extent_c(type, NULL, &extent), MPI_ERR_ARG);
    FAILS(MPI_Type_get_extent_c(type, &lb, NULL), MPI_ERR_ARG);
    FAILS(MPI_Type_size_c(MPI_DATATYPE_NULL, &lb), MPI_ERR_TYPE);
    check_contents(&type, MPI_COMBINER_RESIZED, 0, 1, 2, (MPI_Count[]){-MANY, 3 * MANY});
}

/* Integers that are no counts stay among the integers. */
static void integers(void) {
    MPI_Datatype type, members[1];
    MPI_Count sizes[] = {6, 4}, parts[] = {2, 2}, starts[] = {1, 1}, large[8];
    int ints[16], one[4];
    OK(MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_CHAR, &type));
    OK(MPI_Type_get_contents_c(type, 2, 0, 6, 1, ints, NULL, large, members));
    CHECK_EQ(ints[0], 2);
    CHECK_EQ(ints[1], MPI_ORDER_FORTRAN);
    OK(MPI_Type_free(&type));
    int distributions[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    int arguments[] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[] = {2, 3};
    OK(MPI_Type_create_darray_c(6, 5, 2, sizes, distributions, arguments, grid, MPI_ORDER_C,
                                MPI_CHAR, &type));
    OK(MPI_Type_get_contents_c(type, 10, 0, 2, 1, ints, NULL, large, members));
    int expected[] = {6, 5, 2, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, 2,
                      MPI_DISTRIBUTE_DFLT_DARG, 2, 3, MPI_ORDER_C};
    CHECK(memcmp(ints, expected, sizeof expected) == 0);
    CHECK_EQ(large[0], 6);
    CHECK_EQ(large[1], 4);
    OK(MPI_Type_free(&type));

    /* What was made with ints is told in ints and addresses. */
    MPI_Count ni, na, nc, nd;
    MPI_Aint address;
    OK(MPI_Type_create_hvector(2, 3, 40, MPI_INT, &type));
    OK(MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nd, one));
    CHECK_EQ(ni, 2);
    CHECK_EQ(na, 1);
    CHECK_EQ(nc, 0);
    CHECK_EQ(nd, 1);
    OK(MPI_Type_get_contents_c(type, 2, 1, 0, 1, ints, &address, NULL, members));
    CHECK_EQ(address, 40);
    OK(MPI_Type_free(&type));
    FAILS(MPI_Type_get_contents_c(MPI_INT, 2, 1, 0, 1, ints, &address, NULL, members), MPI_ERR_TYPE);
    FAILS(MPI_Type_get_envelope_c(MPI_INT, NULL, &na, &nc, &nd, one), MPI_ERR_ARG);
}

static void wrong(void) {
    MPI_Datatype type;
    MPI_Count negative[] = {1, -1}, good[] = {1, 1}, far[] = {0, HUGE_COUNT};
    FAILS(MPI_Type_contiguous_c(-1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_contiguous_c(HUGE_COUNT, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_contiguous_c(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE);
    FAILS(MPI_Type_vector_c(-MANY, 1, 1, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_vector_c(MANY, 1, MANY, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hvector_c(MANY, 1, HUGE_COUNT, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hvector_c(1, -MANY, 1, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_indexed_c(2, negative, good, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_indexed_c(-MANY, good, good, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_indexed_c(INT64_MAX, good, good, MPI_INT, &type), MPI_ERR_COUNT);
    FAILS(MPI_Type_indexed_c(2, NULL, good, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_indexed_c(2, good, far, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hindexed_c(2, negative, good, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_indexed_block_c(2, -1, good, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_hindexed_block_c(2, HUGE_COUNT, good, MPI_INT, &type), MPI_ERR_ARG);
    FAILS(MPI_Type_create_struct_c(2, negative, good, (MPI_Datatype[]){MPI_INT, MPI_INT}, &type),
          MPI_ERR_ARG);
    FAILS(MPI_Type_create_subarray_c(1, good, far + 1, good, MPI_ORDER_C, MPI_INT, &type),
          MPI_ERR_ARG);
    FAILS(MPI_Type_create_darray_c(2, 0, 1, negative + 1, (int[]){MPI_DISTRIBUTE_BLOCK},
                                   (int[]){MPI_DISTRIBUTE_DFLT_DARG}, (int[]){2}, MPI_ORDER_C,
                                   MPI_INT, &type),
          MPI_ERR_ARG);
    FAILS(MPI_Type_create_resized_c(MPI_INT, 0, 1, NULL), MPI_ERR_ARG);
}

static void packing(void) {
    long data[4] = {1, 2, 3, 4}, back[4] = {0};
    char buffer[64];
    MPI_Count size, position = 0;
    int small;
    MPI_Datatype big;
    OK(MPI_Pack_size_c(MANY, MPI_LONG, MPI_COMM_SELF, &size));
    CHECK(size >= 8 * MANY);
    OK(MPI_Type_contiguous_c(MANY, MPI_LONG, &big));
    OK(MPI_Type_commit(&big));
    OK(MPI_Pack_size(1, big, MPI_COMM_SELF, &small));
    CHECK_EQ(small, MPI_UNDEFINED);
    FAILS(MPI_Pack_size_c(HUGE_COUNT, MPI_LONG, MPI_COMM_SELF, &size), MPI_ERR_COUNT);
    FAILS(MPI_Pack_size_c(-1, MPI_LONG, MPI_COMM_SELF, &size), MPI_ERR_COUNT);
    OK(MPI_Type_free(&big));
    OK(MPI_Pack_c(data, 4, MPI_LONG, buffer, 64, &position, MPI_COMM_SELF));
    CHECK_EQ(position, 32);
    FAILS(MPI_Pack_c(data, MANY, MPI_LONG, buffer, 64, &position, MPI_COMM_SELF), MPI_ERR_TRUNCATE);
    FAILS(MPI_Pack_c(data, 1, MPI_LONG, buffer, -MANY, &position, MPI_COMM_SELF), MPI_ERR_ARG);
    position = 0;
    OK(MPI_Unpack_c(buffer, 64, &position, back, 4, MPI_LONG, MPI_COMM_SELF));
    CHECK_EQ(position, 32);
    CHECK_EQ(back[3], 4);
    FAILS(MPI_Unpack_c(buffer, 64, &position, back, -1, MPI_LONG, MPI_COMM_SELF), MPI_ERR_COUNT);
    FAILS(MPI_Unpack_c(buffer, 64, NULL, back, 1, MPI_LONG, MPI_COMM_SELF), MPI_ERR_ARG);

    OK(MPI_Pack_external_size_c("external32", MANY, MPI_INT, &size));
    CHECK_EQ(size, 4 * MANY);
    FAILS(MPI_Pack_external_size_c("internal", 1, MPI_INT, &size), MPI_ERR_ARG);
    int ints[2] = {1, 0x01020304}, again[2] = {0, 0};
    position = 0;
    OK(MPI_Pack_external_c("external32", ints, 2, MPI_INT, buffer, 64, &position));
    CHECK_EQ(position, 8);
    CHECK_EQ(buffer[4], 1);
    FAILS(MPI_Pack_external_c("external32", ints, -1, MPI_INT, buffer, 64, &position), MPI_ERR_COUNT);
    position = 0;
    OK(MPI_Unpack_external_c("external32", buffer, 64, &position, again, 2, MPI_INT));
    CHECK_EQ(again[1], ints[1]);
    FAILS(MPI_Unpack_external_c("external32", buffer, -MANY, &position, again, 2, MPI_INT),
          MPI_ERR_ARG);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    constructors();
    integers();
    wrong();
    packing();
    OK(MPI_Finalize());
    return 0;
}
