/* Over Weft's TCP transport a write costs as much as a message, so communicators get no memory for remote writes,
 * which would have to be cleared for each of them.
 *
 * ranks: 2 4
 * variants: tcp
 * env: WEFT_SHM=0
 */
#define _GNU_SOURCE
#include "check.h"

static int large;

int posix_memalign(void **memory, size_t align, size_t len) {
    if (len >= 64 << 10)
        large++;
    *memory = aligned_alloc(align, (len + align - 1) / align * align);
    return *memory ? 0 : 12;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    world_rank();
    MPI_Comm comm;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    large = 0;
    for (int call = 0; call < 20; call++)
        OK(MPI_Barrier(comm));
    CHECK_EQ(large, 0);
    OK(MPI_Comm_free(&comm));
    /* Where it is asked for they have it. */
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_coll", "rdma=on"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    for (int call = 0; call < 20; call++)
        OK(MPI_Barrier(comm));
    CHECK(large > 0);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Info_free(&info));
    OK(MPI_Finalize());
    return 0;
}
