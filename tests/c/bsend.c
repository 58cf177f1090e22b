/* Buffered sends complete immediately up to the size of the attached buffer; detaching waits (MPI-5.0 section 3.6).
 * ranks: 2
 * timeout: 40
 * env: WEFT_EAGER_LIMIT=8184
 */
#include "check.h"

enum { BYTES = 20000, MANY = 8 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), room = MANY * (BYTES + MPI_BSEND_OVERHEAD), length;
    char *attached = allocate((size_t)room), *data = allocate((size_t)room), *back;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (rank == 0) {
        /* Without a buffer. */
        CHECK_EQ(class_of(MPI_Bsend(data, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD)), MPI_ERR_BUFFER);
        OK(MPI_Buffer_detach(&back, &length));
        CHECK(back == NULL && length == 0);
        OK(MPI_Buffer_attach(attached, room));
        CHECK_EQ(class_of(MPI_Buffer_attach(data, room)), MPI_ERR_BUFFER);
    }
    for (int round = 0; round < 10; round++) {
        if (rank == 0) {
            /* Nobody receives before the barrier: all must fit, and not one more. */
            for (int i = 0; i < MANY; i++) {
                fill(data, BYTES, (uint64_t)(round * 100 + i));
                if (i % 2) {
                    OK(MPI_Bsend(data, BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD));
                } else {
                    MPI_Request request;
                    int flag = -1;
                    OK(MPI_Ibsend(data, BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD, &request));
                    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                    CHECK_EQ(flag, 1);
                }
                memset(data, 0xdd, BYTES);
            }
            CHECK_EQ(class_of(MPI_Bsend(data, BYTES, MPI_CHAR, 1, 1, MPI_COMM_WORLD)),
                     MPI_ERR_BUFFER);
            barrier(MPI_COMM_WORLD);
            if (round % 2) {
                back = NULL, length = -1;
                OK(MPI_Buffer_detach(&back, &length));
                CHECK(back == attached);
                CHECK_EQ(length, room);
                memset(attached, 0xcc, (size_t)room); /* whose data has gone */
                OK(MPI_Buffer_attach(attached, room));
                barrier(MPI_COMM_WORLD);
            } else {
                barrier(MPI_COMM_WORLD);
            }
        } else {
            barrier(MPI_COMM_WORLD);
            nap(0.005);
            for (int i = 0; i < MANY; i++) {
                OK(MPI_Recv(data, BYTES, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK(is_filled(data, BYTES, (uint64_t)(round * 100 + i)));
            }
            barrier(MPI_COMM_WORLD);
        }
    }
    if (rank == 0) {
        /* Small ones leave the buffer soon: more go through it than it could hold. */
        for (int i = 0; i < 20000; i++) {
            int value = i, code;
            while ((code = MPI_Bsend(&value, 1, MPI_INT, 1, 2, MPI_COMM_WORLD)) != MPI_SUCCESS) {
                CHECK_EQ(class_of(code), MPI_ERR_BUFFER);
            }
        }
        OK(MPI_Buffer_detach(&back, &length));
        CHECK(back == attached);
    } else {
        for (int i = 0; i < 20000; i++) {
            int value = -1;
            OK(MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(value, i);
        }
    }
    OK(MPI_Finalize());
    return 0;
}
