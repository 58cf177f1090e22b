/* All modes of sending, blocking and not, to receives posted before and after, in sizes around all
 * limits between protocols; between neighbours in a ring, which alone is oneself.
 * ranks: 1 2 4
 * variants: shm shm-2copy ofi hydra hosts hosts4
 * timeout: 60
 */
#include "check.h"

enum mode { STANDARD, BUFFERED, SYNCHRONOUS, READY, MODES };
enum { GUARD = 16, TAG = 5, MAX = 9 << 20 };

static const int sizes[] = {0,    1,    7,    8,    87,   88,    89,    4096,    8175,   8176,    8177,
                            8183, 8184, 8185, 8191, 8192, 8193, 65535, 65536, 1 << 20, MAX};

static int rank, size, to, from;
static unsigned char *out, *in;

static void start(enum mode mode, int bytes, MPI_Request *request) {
    switch (mode) {
    case STANDARD:
        OK(MPI_Isend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, request));
        break;
    case BUFFERED:
        OK(MPI_Ibsend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, request));
        break;
    case SYNCHRONOUS:
        OK(MPI_Issend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, request));
        break;
    default:
        OK(MPI_Irsend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD, request));
    }
}

static void send(enum mode mode, int bytes) {
    switch (mode) {
    case STANDARD:
        OK(MPI_Send(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD));
        break;
    case BUFFERED:
        OK(MPI_Bsend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD));
        break;
    case SYNCHRONOUS:
        OK(MPI_Ssend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD));
        break;
    default:
        OK(MPI_Rsend(out, bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD));
    }
}

static void verify(int bytes, uint64_t seed, const MPI_Status *status) {
    int count = -1;
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    CHECK_EQ(count, bytes);
    CHECK_EQ(status->MPI_SOURCE, from);
    CHECK_EQ(status->MPI_TAG, TAG);
    CHECK(is_filled(in, (size_t)bytes, seed));
    CHECK(all_bytes(in + bytes, GUARD, 0xee));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank(), size = world_size();
    to = (rank + 1) % size, from = (rank + size - 1) % size;
    out = allocate(MAX), in = allocate(MAX + GUARD);
    int room = 2 * (MAX + MPI_BSEND_OVERHEAD);
    void *attached = allocate((size_t)room);
    OK(MPI_Buffer_attach(attached, room));

    for (size_t which = 0; which < sizeof sizes / sizeof *sizes; which++) {
        int bytes = sizes[which];
        uint64_t seed = (uint64_t)bytes * 64;
        fill(out, (size_t)bytes, seed + (uint64_t)rank);
        seed += (uint64_t)from;
        for (int mode = 0; mode < MODES; mode++) {
            MPI_Request receive, request;
            MPI_Status status;

            /* A blocking send to a receive that has been posted. */
            memset(in, 0xee, (size_t)bytes + GUARD);
            OK(MPI_Irecv(in, bytes + GUARD, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &receive));
            barrier(MPI_COMM_WORLD);
            send(mode, bytes);
            OK(MPI_Wait(&receive, &status));
            CHECK_EQ(receive, MPI_REQUEST_NULL);
            verify(bytes, seed, &status);

            /* A nonblocking one. */
            memset(in, 0xee, (size_t)bytes + GUARD);
            OK(MPI_Irecv(in, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &receive));
            barrier(MPI_COMM_WORLD);
            start(mode, bytes, &request);
            OK(MPI_Wait(&receive, &status));
            verify(bytes, seed, &status);
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_EQ(request, MPI_REQUEST_NULL);

            /* One that finds nobody, at first. */
            if (mode != READY) {
                memset(in, 0xee, (size_t)bytes + GUARD);
                start(mode, bytes, &request);
                barrier(MPI_COMM_WORLD);
                OK(MPI_Recv(in, bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, &status));
                verify(bytes, seed, &status);
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
        }
    }
    void *detached = NULL;
    int length = -1;
    OK(MPI_Buffer_detach(&detached, &length));
    CHECK(detached == attached);
    CHECK_EQ(length, room);
    OK(MPI_Finalize());
    return 0;
}
