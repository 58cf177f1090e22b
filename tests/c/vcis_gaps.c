/* VCIs that hints name by number leave others below them unopened; MPI_Finalize comes to all that are.
 * ranks: 2
 * variants: shm ofi
 * env: WEFT_NUM_VCIS=9
 * case: sender_vci=2 receiver_vci=3
 * case: vci=7
 */
#include "check.h"

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    OK(MPI_Init(NULL, NULL));
    int rank = world_rank(), size = world_size();
    MPI_Info info;
    OK(MPI_Info_create(&info));
    for (char *word = strtok(argv[1], " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = 0;
        OK(MPI_Info_set(info, word, value + 1));
    }
    MPI_Comm comm;
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    OK(MPI_Info_free(&info));
    int out = rank, in = -1, from = (rank + size - 1) % size;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % size, 3, &in, 1, MPI_INT, from, 3, comm,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(in, from);
    OK(MPI_Finalize());
    return 0;
}
