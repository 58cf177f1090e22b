/* MPI_IN_PLACE where the standard doesn't allow it is an error of class MPI_ERR_BUFFER that says so, of every function that
 * takes a buffer. Where nothing is moved it is not looked at: no elements, MPI_PROC_NULL, an origin without use.
 *
 * ranks: 1 2
 * local: arguments
 * cflags: -Wno-nonnull -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds
 */
#include "fails.h"

static MPI_Comm world;
static int rank, size, next, last, in[4], out[4], counts[2] = {1, 1}, displs[2] = {0, 1};
static MPI_Datatype types[2], pair, empty;
static MPI_Request request;
static MPI_Status status;
static void *const place = MPI_IN_PLACE;

/* Checks the error's class, and that its text names the constant. */
static void refused(int code, int class_, int line) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code != MPI_SUCCESS)
        OK(MPI_Error_string(code, text, &length));
    if (code == MPI_SUCCESS || class_of(code) != class_ || !strstr(text, "MPI_IN_PLACE, which"))
        fprintf(stderr, "line %d: %s\n", line, text);
    CHECK(code != MPI_SUCCESS);
    CHECK_EQ(class_of(code), class_);
    CHECK(strstr(text, "MPI_IN_PLACE, which") != NULL);
}

#define REFUSED(call) refused(call, MPI_ERR_BUFFER, __LINE__)

static void point_to_point(void) {
    REFUSED(MPI_Send(place, 1, MPI_INT, next, 0, world));
    REFUSED(MPI_Send(place, 2, pair, next, 0, world));
    REFUSED(MPI_Send(place, 1 << 20, MPI_INT, next, 0, world));
    REFUSED(MPI_Bsend(place, 1, MPI_INT, next, 0, world));
    REFUSED(MPI_Ssend(place, 1, MPI_INT, next, 0, world));
    REFUSED(MPI_Rsend(place, 1, MPI_INT, next, 0, world));
    REFUSED(MPI_Isend(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Ibsend(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Issend(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Irsend(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Send_init(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Bsend_init(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Ssend_init(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Rsend_init(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Recv(place, 1, MPI_INT, last, 0, world, &status));
    REFUSED(MPI_Recv(place, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status));
    REFUSED(MPI_Irecv(place, 1, MPI_INT, last, 0, world, &request));
    REFUSED(MPI_Recv_init(place, 1, MPI_INT, last, 0, world, &request));
    REFUSED(MPI_Sendrecv(place, 1, MPI_INT, next, 0, in, 1, MPI_INT, last, 0, world, &status));
    REFUSED(MPI_Sendrecv(out, 1, MPI_INT, next, 0, place, 1, MPI_INT, last, 0, world, &status));
    REFUSED(MPI_Sendrecv_replace(place, 1, MPI_INT, next, 0, last, 0, world, &status));
    /* A message that is there, and one that a probe took out. */
    OK(MPI_Isend(out, 1, MPI_INT, next, 7, world, &request));
    OK(MPI_Probe(last, 7, world, &status));
    REFUSED(MPI_Recv(place, 1, MPI_INT, last, 7, world, &status));
    MPI_Message message;
    OK(MPI_Mprobe(last, 7, world, &message, &status));
    REFUSED(MPI_Mrecv(place, 1, MPI_INT, &message, &status));
    MPI_Request other;
    REFUSED(MPI_Imrecv(place, 1, MPI_INT, &message, &other));
    OK(MPI_Mrecv(in, 1, MPI_INT, &message, &status));
    OK(MPI_Wait(&request, &status));
#if MPI_VERSION >= 4
    REFUSED(MPI_Send_c(place, 1, MPI_INT, next, 0, world));
    REFUSED(MPI_Recv_c(place, 1, MPI_INT, last, 0, world, &status));
    REFUSED(MPI_Isend_c(place, 1, MPI_INT, next, 0, world, &request));
    REFUSED(MPI_Isendrecv(place, 1, MPI_INT, next, 0, in, 1, MPI_INT, last, 0, world, &request));
    REFUSED(MPI_Isendrecv(out, 1, MPI_INT, next, 0, place, 1, MPI_INT, last, 0, world, &request));
    REFUSED(MPI_Isendrecv_replace(place, 1, MPI_INT, next, 0, last, 0, world, &request));
    REFUSED(MPI_Psend_init(place, 2, 1, MPI_INT, next, 0, world, MPI_INFO_NULL, &request));
    REFUSED(MPI_Precv_init(place, 2, 1, MPI_INT, last, 0, world, MPI_INFO_NULL, &request));
#endif
    REFUSED(MPI_Buffer_attach(place, 1000));
}

static void nothing_moved(void) {
    OK(MPI_Sendrecv(place, 0, MPI_INT, next, 0, place, 0, MPI_INT, last, 0, world, &status));
    OK(MPI_Sendrecv(place, 3, empty, next, 0, place, 3, empty, last, 0, world, &status));
    OK(MPI_Send(place, 1, MPI_INT, MPI_PROC_NULL, 0, world));
    OK(MPI_Bsend(place, 1, MPI_INT, MPI_PROC_NULL, 0, world));
    OK(MPI_Recv(place, 1, MPI_INT, MPI_PROC_NULL, 0, world, &status));
    OK(MPI_Isend(place, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Irecv(place, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Send_init(place, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Request_free(&request));
    OK(MPI_Recv_init(place, 1, MPI_INT, MPI_PROC_NULL, 0, world, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Sendrecv_replace(place, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, world, &status));
    /* Half an exchange: what is received has room of its own, what is sent comes from elsewhere. */
    int value = 5;
    OK(MPI_Sendrecv(&value, 1, MPI_INT, next, 0, in, 1, MPI_INT, last, 0, world, &status));
    OK(MPI_Sendrecv(place, 1, MPI_INT, MPI_PROC_NULL, 0, NULL, 1, MPI_INT, MPI_PROC_NULL, 0, world,
                    &status));
    FAILS(MPI_Send(place, -1, MPI_INT, MPI_PROC_NULL, 0, world), MPI_ERR_COUNT);
    FAILS(MPI_Send(place, 1, MPI_DATATYPE_NULL, MPI_PROC_NULL, 0, world), MPI_ERR_TYPE);
    FAILS(MPI_Recv(place, -1, MPI_INT, MPI_PROC_NULL, 0, world, &status), MPI_ERR_COUNT);
#if MPI_VERSION >= 4
    OK(MPI_Isendrecv_replace(place, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, world, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Psend_init(place, 2, 1, MPI_INT, MPI_PROC_NULL, 0, world, MPI_INFO_NULL, &request));
    OK(MPI_Request_free(&request));
#endif
}

static void packed(void) {
    char room[64];
    int at = 0;
    MPI_Aint far = 0;
    REFUSED(MPI_Pack(place, 1, MPI_INT, room, sizeof room, &at, world));
    REFUSED(MPI_Pack(out, 1, MPI_INT, place, sizeof room, &at, world));
    REFUSED(MPI_Unpack(place, sizeof room, &at, in, 1, MPI_INT, world));
    REFUSED(MPI_Unpack(room, sizeof room, &at, place, 1, MPI_INT, world));
    REFUSED(MPI_Pack_external("external32", place, 1, MPI_INT, room, sizeof room, &far));
    REFUSED(MPI_Pack_external("external32", out, 1, MPI_INT, place, sizeof room, &far));
    REFUSED(MPI_Unpack_external("external32", place, sizeof room, &far, in, 1, MPI_INT));
    REFUSED(MPI_Unpack_external("external32", room, sizeof room, &far, place, 1, MPI_INT));
    OK(MPI_Pack(place, 0, MPI_INT, place, 0, &at, world));
    OK(MPI_Unpack(place, 0, &at, place, 0, MPI_INT, world));
    CHECK_EQ(at, 0);
}

static void collectives(void) {
    REFUSED(MPI_Bcast(place, 1, MPI_INT, 0, world));
    REFUSED(MPI_Gather(rank == 0 ? out : place, 1, MPI_INT, rank == 0 ? place : in, 1, MPI_INT, 0, world));
    REFUSED(MPI_Gatherv(rank == 0 ? out : place, 1, MPI_INT, rank == 0 ? place : in, counts, displs,
                        MPI_INT, 0, world));
    REFUSED(MPI_Scatter(rank == 0 ? place : out, 1, MPI_INT, rank == 0 ? in : place, 1, MPI_INT, 0, world));
    REFUSED(MPI_Scatterv(rank == 0 ? place : out, counts, displs, MPI_INT, rank == 0 ? in : place, 1,
                         MPI_INT, 0, world));
    REFUSED(MPI_Allgather(out, 1, MPI_INT, place, 1, MPI_INT, world));
    REFUSED(MPI_Allgatherv(out, 1, MPI_INT, place, counts, displs, MPI_INT, world));
    REFUSED(MPI_Alltoall(out, 1, MPI_INT, place, 1, MPI_INT, world));
    REFUSED(MPI_Alltoallv(out, counts, displs, MPI_INT, place, counts, displs, MPI_INT, world));
    REFUSED(MPI_Alltoallw(out, counts, displs, types, place, counts, displs, types, world));
    REFUSED(MPI_Reduce(rank == 0 ? out : place, rank == 0 ? place : in, 1, MPI_INT, MPI_SUM, 0, world));
    REFUSED(MPI_Allreduce(out, place, 1, MPI_INT, MPI_SUM, world));
    REFUSED(MPI_Allreduce(place, place, 1, MPI_INT, MPI_SUM, world));
    REFUSED(MPI_Reduce_scatter(out, place, counts, MPI_INT, MPI_SUM, world));
    REFUSED(MPI_Reduce_scatter_block(out, place, 1, MPI_INT, MPI_SUM, world));
    REFUSED(MPI_Scan(out, place, 1, MPI_INT, MPI_SUM, world));
    REFUSED(MPI_Exscan(out, place, 1, MPI_INT, MPI_SUM, world));
    REFUSED(MPI_Reduce_local(place, in, 1, MPI_INT, MPI_SUM));
    REFUSED(MPI_Reduce_local(out, place, 1, MPI_INT, MPI_SUM));
    REFUSED(MPI_Ibcast(place, 1, MPI_INT, 0, world, &request));
    REFUSED(MPI_Iallgather(out, 1, MPI_INT, place, 1, MPI_INT, world, &request));
    REFUSED(MPI_Ialltoallw(out, counts, displs, types, place, counts, displs, types, world, &request));
    REFUSED(MPI_Iallreduce(out, place, 1, MPI_INT, MPI_SUM, world, &request));
    REFUSED(MPI_Iexscan(out, place, 1, MPI_INT, MPI_SUM, world, &request));
#if MPI_VERSION >= 4
    REFUSED(MPI_Bcast_init(place, 1, MPI_INT, 0, world, MPI_INFO_NULL, &request));
    REFUSED(MPI_Alltoall_init(out, 1, MPI_INT, place, 1, MPI_INT, world, MPI_INFO_NULL, &request));
    REFUSED(MPI_Scan_init(out, place, 1, MPI_INT, MPI_SUM, world, MPI_INFO_NULL, &request));
#endif
}

static void neighbors(void) {
    MPI_Comm ring;
    int ones[1] = {1};
    MPI_Aint far[2] = {0, 4};
    OK(MPI_Cart_create(world, 1, &size, ones, 0, &ring));
    OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    for (int side = 0; side < 2; side++) {
        void *from = side ? out : place, *to = side ? place : in;
        REFUSED(MPI_Neighbor_allgather(from, 1, MPI_INT, to, 1, MPI_INT, ring));
        REFUSED(MPI_Neighbor_allgatherv(from, 1, MPI_INT, to, counts, displs, MPI_INT, ring));
        REFUSED(MPI_Neighbor_alltoall(from, 1, MPI_INT, to, 1, MPI_INT, ring));
        REFUSED(MPI_Neighbor_alltoallv(from, counts, displs, MPI_INT, to, counts, displs, MPI_INT, ring));
        REFUSED(MPI_Neighbor_alltoallw(from, counts, far, types, to, counts, far, types, ring));
        REFUSED(MPI_Ineighbor_allgather(from, 1, MPI_INT, to, 1, MPI_INT, ring, &request));
        REFUSED(MPI_Ineighbor_alltoallw(from, counts, far, types, to, counts, far, types, ring, &request));
#if MPI_VERSION >= 4
        REFUSED(MPI_Neighbor_alltoall_init(from, 1, MPI_INT, to, 1, MPI_INT, ring, MPI_INFO_NULL,
                                           &request));
#endif
    }
    OK(MPI_Comm_free(&ring));
}

static void windows(void) {
    MPI_Win win;
    int *memory;
    refused(MPI_Win_create(place, 8, 1, MPI_INFO_NULL, world, &win), MPI_ERR_BASE, __LINE__);
    OK(MPI_Win_create(place, 0, 1, MPI_INFO_NULL, world, &win));
    OK(MPI_Win_free(&win));
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, world, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    refused(MPI_Win_attach(win, place, 8), MPI_ERR_BASE, __LINE__);
    OK(MPI_Win_free(&win));
    OK(MPI_Win_allocate(16, 1, MPI_INFO_NULL, world, &memory, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    memory[0] = 3;
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Barrier(world));
    REFUSED(MPI_Put(place, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    REFUSED(MPI_Put(place, 1, pair, next, 0, 1, pair, win));
    REFUSED(MPI_Get(place, 1, MPI_INT, next, 0, 1, MPI_INT, win));
    REFUSED(MPI_Accumulate(place, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_SUM, win));
    REFUSED(MPI_Accumulate(place, 1, MPI_CHAR, next, 0, 1, MPI_CHAR, MPI_SUM, win));
    REFUSED(MPI_Accumulate(place, 2, MPI_INT, next, 0, 2, MPI_INT, MPI_SUM, win));
    REFUSED(MPI_Get_accumulate(place, 1, MPI_INT, in, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_SUM, win));
    REFUSED(MPI_Get_accumulate(out, 1, MPI_INT, place, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_SUM, win));
    REFUSED(MPI_Get_accumulate(out, 2, MPI_INT, place, 2, MPI_INT, next, 0, 2, MPI_INT, MPI_SUM, win));
    REFUSED(MPI_Fetch_and_op(place, in, MPI_INT, next, 0, MPI_SUM, win));
    REFUSED(MPI_Fetch_and_op(out, place, MPI_INT, next, 0, MPI_SUM, win));
    REFUSED(MPI_Fetch_and_op(out, place, MPI_INT, next, 0, MPI_NO_OP, win));
    REFUSED(MPI_Fetch_and_op(out, place, MPI_CHAR, next, 0, MPI_SUM, win));
    REFUSED(MPI_Compare_and_swap(place, in, out, MPI_INT, next, 0, win));
    REFUSED(MPI_Compare_and_swap(in, place, out, MPI_INT, next, 0, win));
    REFUSED(MPI_Compare_and_swap(in, in, place, MPI_INT, next, 0, win));
    REFUSED(MPI_Compare_and_swap(in, in, place, MPI_CHAR, next, 0, win));
    REFUSED(MPI_Rput(place, 1, MPI_INT, next, 0, 1, MPI_INT, win, &request));
    REFUSED(MPI_Rget(place, 1, MPI_INT, next, 0, 1, MPI_INT, win, &request));
    REFUSED(MPI_Raccumulate(place, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_SUM, win, &request));
    REFUSED(MPI_Rget_accumulate(place, 1, MPI_INT, in, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_SUM, win,
                                &request));
    /* Nothing is moved, or read of the origin. */
    OK(MPI_Put(place, 0, MPI_INT, next, 0, 0, MPI_INT, win));
    OK(MPI_Put(place, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    OK(MPI_Get(place, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    OK(MPI_Compare_and_swap(place, place, place, MPI_INT, MPI_PROC_NULL, 0, win));
    in[0] = in[1] = 0;
    OK(MPI_Fetch_and_op(place, in, MPI_INT, next, 0, MPI_NO_OP, win));
    OK(MPI_Get_accumulate(place, 1, MPI_INT, in + 1, 1, MPI_INT, next, 0, 1, MPI_INT, MPI_NO_OP, win));
    OK(MPI_Win_unlock_all(win));
    CHECK_EQ(in[0], 3);
    CHECK_EQ(in[1], 3);
    OK(MPI_Barrier(world));
    CHECK_EQ(memory[0], 3);
    OK(MPI_Win_free(&win));
}

static void files(void) {
    char name[64];
    MPI_File file;
    snprintf(name, sizeof name, "in_place.%d", rank);
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    REFUSED(MPI_File_write(file, place, 1, MPI_INT, &status));
    OK(MPI_File_write_at(file, 0, out, 4, MPI_INT, &status));
    REFUSED(MPI_File_write_at(file, 0, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_write_all(file, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_write_at_all(file, 0, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_write_shared(file, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_write_ordered(file, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_write_all_begin(file, place, 1, MPI_INT));
    REFUSED(MPI_File_iwrite(file, place, 1, MPI_INT, &request));
    REFUSED(MPI_File_iwrite_at(file, 0, place, 1, MPI_INT, &request));
    REFUSED(MPI_File_iwrite_all(file, place, 1, MPI_INT, &request));
    REFUSED(MPI_File_iwrite_shared(file, place, 1, MPI_INT, &request));
    REFUSED(MPI_File_read(file, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_read_at(file, 0, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_read_at_all(file, 0, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_read_shared(file, place, 1, MPI_INT, &status));
    REFUSED(MPI_File_read_ordered_begin(file, place, 1, MPI_INT));
    REFUSED(MPI_File_iread_at_all(file, 0, place, 1, MPI_INT, &request));
    OK(MPI_File_write(file, place, 0, MPI_INT, &status));
    OK(MPI_File_read_all(file, place, 0, MPI_INT, &status));
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    world = MPI_COMM_WORLD;
    rank = world_rank();
    size = world_size();
    next = (rank + 1) % size;
    last = (rank + size - 1) % size;
    types[0] = types[1] = MPI_INT;
    OK(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN));
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &pair));
    OK(MPI_Type_commit(&pair));
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    OK(MPI_Type_commit(&empty));
    point_to_point();
    nothing_moved();
    packed();
    collectives();
    neighbors();
    windows();
    files();
    OK(MPI_Type_free(&pair));
    OK(MPI_Type_free(&empty));
    OK(MPI_Finalize());
    return 0;
}
