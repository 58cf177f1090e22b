/* More elements than an int counts, with data, but in little memory: a datatype without a stride describes the same
 * block again and again. By far the most of it is copied within the processor's caches.
 *
 * ranks: 2
 * variants: shm
 * timeout: 60
 * alone: yes
 */
#include "fails.h"

#define BLOCK ((MPI_Count)1 << 20)
#define BLOCKS ((MPI_Count)2049)
#define BYTES (BLOCK * BLOCKS)

static int rank;
static char *data;
static MPI_Datatype block, blocks;

static void check_counts(MPI_Status *status) {
    MPI_Count count;
    int small;
    OK(MPI_Get_count_c(status, MPI_CHAR, &count));
    CHECK_EQ(count, BYTES);
    OK(MPI_Get_elements_c(status, blocks, &count));
    CHECK_EQ(count, BYTES);
    OK(MPI_Get_elements_x(status, blocks, &count));
    CHECK_EQ(count, BYTES);
    OK(MPI_Get_count(status, MPI_CHAR, &small));
    CHECK_EQ(small, MPI_UNDEFINED);
    OK(MPI_Get_elements(status, blocks, &small));
    CHECK_EQ(small, MPI_UNDEFINED);
    OK(MPI_Get_count_c(status, blocks, &count));
    CHECK_EQ(count, 1);
    OK(MPI_Get_count(status, block, &small));
    CHECK_EQ(small, BLOCKS);
}

static void messages(void) {
    MPI_Status status;
    MPI_Request request;
    if (rank == 0) {
        OK(MPI_Send_c(data, 1, blocks, 1, 5, MPI_COMM_WORLD));
    } else {
        OK(MPI_Probe(0, 5, MPI_COMM_WORLD, &status));
        check_counts(&status);
        OK(MPI_Irecv_c(data, BLOCKS, block, 0, 5, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, &status));
        check_counts(&status);
        CHECK(is_filled(data, BLOCK, 7));
    }
    /* Elements far beyond, and nobody there. */
    OK(MPI_Send_c(data, ((MPI_Count)1 << 40), block, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    OK(MPI_Recv_c(data, ((MPI_Count)1 << 40), block, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
}

/* The program's function gets all at once if it can count them, and otherwise a part at a time. */
static MPI_Count seen, most;

static void with_large(void *in, void *inout, MPI_Count *len, MPI_Datatype *type) {
    (void)in, (void)inout, (void)type;
    seen += *len;
    most = *len > most ? *len : most;
}

static void with_ints(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)in, (void)inout, (void)type;
    CHECK(*len > 0);
    seen += *len;
    most = *len > most ? *len : most;
}

static void operations(void) {
    MPI_Datatype dot;
    MPI_Op op;
    MPI_Count many = 5000000000;
    OK(MPI_Type_create_resized_c(MPI_INT, 0, 0, &dot));
    OK(MPI_Type_commit(&dot));
    OK(MPI_Op_create_c(with_large, 1, &op));
    OK(MPI_Reduce_local_c(data, data + 8, many, dot, op));
    CHECK_EQ(seen, many);
    CHECK_EQ(most, many);
    OK(MPI_Op_free(&op));
    seen = most = 0;
    OK(MPI_Op_create(with_ints, 1, &op));
    OK(MPI_Reduce_local_c(data, data + 8, many, dot, op));
    CHECK_EQ(seen, many);
    CHECK_EQ(most, INT32_MAX);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&dot));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    data = allocate(BLOCK);
    if (rank == 0) {
        fill(data, BLOCK, 7);
    }
    MPI_Datatype whole;
    OK(MPI_Type_contiguous_c(BLOCK, MPI_CHAR, &whole));
    OK(MPI_Type_create_resized_c(whole, 0, 0, &block));
    OK(MPI_Type_create_hvector_c(BLOCKS, BLOCK, 0, MPI_CHAR, &blocks));
    OK(MPI_Type_free(&whole));
    OK(MPI_Type_commit(&block));
    OK(MPI_Type_commit(&blocks));
    messages();
    operations();
    OK(MPI_Type_free(&block));
    OK(MPI_Type_free(&blocks));
    free(data);
    OK(MPI_Finalize());
    return 0;
}
