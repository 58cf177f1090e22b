/* Starts and ends; the first rank says how many there are. */
#include "../check.h"

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    OK(MPI_Finalize());
    if (rank == 0) {
        printf("%d ranks\n", size);
    }
    return 0;
}
