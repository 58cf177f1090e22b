/* Blocks that are sent and blocks that are received in one buffer, apart from each other, as in the halo of an array: only
 * memory may not be shared (section 2.3), the address of the buffer may. Where a block is sent from where one is
 * received, the call is an error of class MPI_ERR_BUFFER.
 *
 * ranks: 1 2 3 4
 * variants: shm tcp
 */
#include "fails.h"

enum { ROWS = 5, COLUMNS = 4 };

static int rank, size;
static MPI_Comm world, ring;

/* A row of cells around those of the own part, whose neighbours are above and below. */
static void halo(int persistent) {
    int cells[ROWS][COLUMNS], counts[2] = {1, 1}, above = (rank + size - 1) % size, below = (rank + 1) % size;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            cells[i][j] = i == 0 || i == ROWS - 1 ? -1 : 100 * rank + 10 * i + j;
    MPI_Datatype row[4];
    int whole[2] = {ROWS, COLUMNS}, part[2] = {1, COLUMNS - 2}, starts[4] = {1, ROWS - 2, 0, ROWS - 1};
    for (int k = 0; k < 4; k++) {
        int start[2] = {starts[k], 1};
        OK(MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT, &row[k]));
        OK(MPI_Type_commit(&row[k]));
    }
    MPI_Aint none[2] = {0, 0};
    if (persistent) {
        MPI_Request request;
        OK(MPI_Neighbor_alltoallw_init(cells, counts, none, row, cells, counts, none, row + 2, ring, MPI_INFO_NULL,
                                       &request));
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&request));
    } else {
        OK(MPI_Neighbor_alltoallw(cells, counts, none, row, cells, counts, none, row + 2, ring));
    }
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            int from = i == 0 ? above : i == ROWS - 1 ? below : rank;
            int line = i == 0 ? ROWS - 2 : i == ROWS - 1 ? 1 : i;
            int border = from != rank || line != i;
            CHECK_EQ(cells[i][j], border && (j == 0 || j == COLUMNS - 1) ? -1 : 100 * from + 10 * line + j);
        }
    FAILS(MPI_Neighbor_alltoallw(cells, counts, none, row, cells, counts, none, row, ring), MPI_ERR_BUFFER);
    for (int k = 0; k < 4; k++)
        OK(MPI_Type_free(&row[k]));
}

/* The first half of a buffer is sent, the second half received. */
static void halves(void) {
    int numbers[16] = {0}, counts[8] = {0}, from[8] = {0}, to[8] = {0};
    MPI_Datatype types[8] = {MPI_INT}, second;
    int here = size;
    for (int i = 0; i < 2 * here; i++)
        numbers[i] = i < here ? 10 * rank + i : -1;
    for (int i = 0; i < here; i++) {
        counts[i] = 1;
        from[i] = i;
        to[i] = here + i;
    }
    OK(MPI_Alltoallv(numbers, counts, from, MPI_INT, numbers, counts, to, MPI_INT, world));
    for (int i = 0; i < here; i++) {
        CHECK_EQ(numbers[i], 10 * rank + i);
        CHECK_EQ(numbers[here + i], 10 * i + rank);
        numbers[here + i] = -1;
        types[i] = MPI_INT;
        from[i] *= (int)sizeof(int);
        to[i] *= (int)sizeof(int);
    }
    OK(MPI_Alltoallw(numbers, counts, from, types, numbers, counts, to, types, world));
    for (int i = 0; i < here; i++) {
        CHECK_EQ(numbers[here + i], 10 * i + rank);
        numbers[here + i] = -1;
    }
    FAILS(MPI_Alltoallw(numbers, counts, from, types, numbers, counts, from, types, world), MPI_ERR_BUFFER);

    /* Datatypes may begin elsewhere than their buffers. */
    int at = here;
    OK(MPI_Type_create_indexed_block(1, 1, &at, MPI_INT, &types[0]));
    OK(MPI_Type_create_resized(types[0], 0, sizeof(int), &second));
    OK(MPI_Type_commit(&second));
    OK(MPI_Alltoall(numbers, 1, MPI_INT, numbers, 1, second, world));
    for (int i = 0; i < here; i++) {
        CHECK_EQ(numbers[i], 10 * rank + i);
        CHECK_EQ(numbers[here + i], 10 * i + rank);
    }
    FAILS(MPI_Alltoall(numbers, 1, MPI_INT, numbers, 1, MPI_INT, world), MPI_ERR_BUFFER);
    FAILS(MPI_Alltoall(numbers, 1, MPI_INT, numbers, 1, MPI_FLOAT, world), MPI_ERR_BUFFER);

    /* The first number goes to both neighbours, theirs come behind the first `here`. */
    numbers[here] = numbers[here + 1] = -1;
    OK(MPI_Neighbor_allgather(numbers, 1, MPI_INT, numbers, 1, second, ring));
    CHECK_EQ(numbers[here], 10 * ((rank + size - 1) % size));
    CHECK_EQ(numbers[here + 1], 10 * ((rank + 1) % size));
    CHECK_EQ(numbers[0], 10 * rank);
    FAILS(MPI_Neighbor_allgather(numbers, 1, MPI_INT, numbers, 1, MPI_INT, ring), MPI_ERR_BUFFER);
    OK(MPI_Type_free(&types[0]));
    OK(MPI_Type_free(&second));
}

/* Blocks of neighbours that there are none of are not looked at. */
static void borders(void) {
    int one = 1, no = 0, counts[2] = {1, 1}, numbers[2] = {rank, -1};
    MPI_Aint from[2] = {0, 0}, to[2] = {rank > 0 ? 4 : 0, rank + 1 < size ? 4 : 0};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Comm line;
    OK(MPI_Cart_create(world, 1, &size, &no, no, &line));
    if (size <= 2) {
        OK(MPI_Neighbor_alltoallw(numbers, counts, from, types, numbers, counts, to, types, line));
        CHECK_EQ(numbers[0], rank);
        CHECK_EQ(numbers[1], size == one ? -1 : 1 - rank);
    }
    OK(MPI_Comm_free(&line));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &world));
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    int periodic = 1;
    OK(MPI_Cart_create(world, 1, &size, &periodic, 0, &ring));
    halo(0);
    halo(1);
    halves();
    borders();
    OK(MPI_Comm_free(&ring));
    OK(MPI_Comm_free(&world));
    OK(MPI_Finalize());
    return 0;
}
