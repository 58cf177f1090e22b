/* MPI_Isendrecv and MPI_Isendrecv_replace: around a ring, along a line, with oneself, freed, and wrongly.
 * ranks: 1 2 3
 */
#include "fails.h"

static const int sizes[] = {0, 1, 88, 8185, 65536, 1 << 20, 5 << 20};
enum { MAX = 5 << 20, GUARD = 16 };

static void complete(MPI_Request *request, MPI_Status *status, int way) {
    MPI_Request both[2] = {MPI_REQUEST_NULL, *request};
    int flag = 0, index = -1;
    switch (way % 4) {
    case 0:
        OK(MPI_Wait(request, status));
        CHECK(*request == MPI_REQUEST_NULL);
        return;
    case 1:
        while (!flag) {
            OK(MPI_Test(request, &flag, status));
        }
        CHECK(*request == MPI_REQUEST_NULL);
        return;
    case 2:
        OK(MPI_Waitany(2, both, &index, status));
        CHECK_EQ(index, 1);
        break;
    default:
        while (!flag) {
            OK(MPI_Request_get_status(*request, &flag, status));
        }
        OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    }
    CHECK(both[1] == MPI_REQUEST_NULL);
    *request = MPI_REQUEST_NULL;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), count;
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    char *out = allocate(MAX), *in = allocate(MAX + GUARD);
    MPI_Status status;
    MPI_Request request, many[2];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = (size_t)sizes[i];
        uint64_t mine = bytes * 10 + (uint64_t)rank, theirs = bytes * 10 + (uint64_t)left;
        fill(out, bytes, mine);
        memset(in, 0xee, bytes + GUARD);
        OK(MPI_Isendrecv(out, sizes[i], MPI_CHAR, right, 3, in, sizes[i] + GUARD, MPI_CHAR,
                         i % 2 ? MPI_ANY_SOURCE : left, i % 3 ? 3 : MPI_ANY_TAG, MPI_COMM_WORLD,
                         &request));
        complete(&request, &status, (int)i);
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, sizes[i]);
        CHECK(status.MPI_SOURCE == left && status.MPI_TAG == 3);
        CHECK(is_filled(in, bytes, theirs) && all_bytes(in + bytes, GUARD, 0xee));

        OK(MPI_Isendrecv_replace(out, sizes[i], MPI_CHAR, right, 5, left, 5, MPI_COMM_WORLD,
                                 &request));
        complete(&request, &status, (int)i + 1);
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK(count == sizes[i] && status.MPI_SOURCE == left);
        CHECK(is_filled(out, bytes, theirs));

        /* Along a line, two at a time in both directions. */
        int up = rank + 1 < size ? rank + 1 : MPI_PROC_NULL, down = rank ? rank - 1 : MPI_PROC_NULL;
        fill(out, bytes, mine);
        memset(in, 0xee, bytes);
        OK(MPI_Isendrecv(out, sizes[i], MPI_CHAR, up, 6, in, sizes[i], MPI_CHAR, down, 6,
                         MPI_COMM_WORLD, &many[0]));
        OK(MPI_Isendrecv(NULL, 0, MPI_CHAR, down, 7, NULL, 0, MPI_CHAR, up, 7, MPI_COMM_WORLD,
                         &many[1]));
        MPI_Status both[2];
        OK(MPI_Waitall(2, many, both));
        CHECK_EQ(both[0].MPI_SOURCE, down);
        CHECK_EQ(both[1].MPI_SOURCE, up);
        if (down == MPI_PROC_NULL) {
            CHECK_EQ(both[0].MPI_TAG, MPI_ANY_TAG);
            CHECK(all_bytes(in, bytes, 0xee));
        } else {
            CHECK(is_filled(in, bytes, theirs));
        }
        OK(MPI_Isendrecv_replace(out, sizes[i], MPI_CHAR, up, 7, down, 7, MPI_COMM_WORLD,
                                 &request));
        complete(&request, &status, (int)i);
        CHECK(is_filled(out, bytes, down == MPI_PROC_NULL ? mine : theirs));
    }
    /* With gaps. */
    MPI_Datatype every_other;
    int gaps[8] = {rank, -1, rank + 1, -1, rank + 2, -1, rank + 3, -1};
    OK(MPI_Type_vector(4, 1, 2, MPI_INT, &every_other));
    OK(MPI_Type_commit(&every_other));
    OK(MPI_Isendrecv_replace(gaps, 1, every_other, right, 8, left, 8, MPI_COMM_WORLD, &request));
    OK(MPI_Type_free(&every_other));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++) {
        CHECK(gaps[2 * i] == left + i && gaps[2 * i + 1] == -1);
    }
    /* Freed: what was begun is carried out. */
    fill(out, 1 << 20, 77 + (uint64_t)rank);
    OK(MPI_Isendrecv(out, 1 << 20, MPI_CHAR, right, 9, in, 1 << 20, MPI_CHAR, left, 9,
                     MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    OK(MPI_Sendrecv(NULL, 0, MPI_CHAR, left, 10, NULL, 0, MPI_CHAR, right, 10, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
    for (int i = 0; i < 100; i++) {
        barrier(MPI_COMM_WORLD);
    }

    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Comm world = MPI_COMM_WORLD;
    FAILS(MPI_Isendrecv(out, -1, MPI_CHAR, right, 1, in, 1, MPI_CHAR, left, 1, world, &request),
          MPI_ERR_COUNT);
    FAILS(MPI_Isendrecv(out, 1, MPI_CHAR, size, 1, in, 1, MPI_CHAR, left, 1, world, &request),
          MPI_ERR_RANK);
    FAILS(MPI_Isendrecv(out, 1, MPI_CHAR, right, 1, in, 1, MPI_CHAR, left, -7, world, &request),
          MPI_ERR_TAG);
    FAILS(MPI_Isendrecv(out, 1, MPI_CHAR, right, 1, NULL, 1, MPI_CHAR, left, 1, world, &request),
          MPI_ERR_BUFFER);
    FAILS(MPI_Isendrecv(out, 1, MPI_CHAR, right, 1, in, 1, MPI_CHAR, left, 1, world, NULL),
          MPI_ERR_ARG);
    FAILS(MPI_Isendrecv_replace(out, 1, MPI_DATATYPE_NULL, right, 1, left, 1, world, &request),
          MPI_ERR_TYPE);
    FAILS(MPI_Isendrecv_replace(out, 1, MPI_CHAR, right, 1, left, 1, MPI_COMM_NULL, &request),
          MPI_ERR_COMM);
    /* Too long a message: an error when it is completed, on all ranks. */
    OK(MPI_Isendrecv(out, 8, MPI_CHAR, right, 11, in, 4, MPI_CHAR, left, 11, world, &request));
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    OK(MPI_Isendrecv(out, 1 << 20, MPI_CHAR, right, 12, in, 4, MPI_CHAR, left, 12, world, &request));
    FAILS(MPI_Start(&request), MPI_ERR_REQUEST);
    FAILS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    free(out);
    free(in);
    OK(MPI_Finalize());
    return 0;
}
