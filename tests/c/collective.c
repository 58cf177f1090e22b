/* The collectives that programs use most, checked against what each rank can compute itself.
 * ranks: 1 2 3 4 7
 * timeout: 40
 */
#include "check.h"

enum { MAX = 30000 };
static const int counts[] = {0, 1, 2, 63, 1000, MAX};

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    int *one = allocate(sizeof(int) * MAX), *all = allocate(sizeof(int) * MAX * (size_t)size);
    int *back = allocate(sizeof(int) * MAX * (size_t)size);
    MPI_Comm comm;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, (rank * 5) % 7, &comm));
    OK(MPI_Comm_rank(comm, &rank));
    for (int round = 0; round < 2; round++) {
        for (size_t which = 0; which < sizeof counts / sizeof *counts; which++) {
            int n = counts[which], root = (int)which % size;
            OK(MPI_Barrier(comm));
            for (int i = 0; i < n; i++) {
                one[i] = rank == root ? i + 17 : -1;
            }
            OK(MPI_Bcast(one, n, MPI_INT, root, comm));
            for (int i = 0; i < n; i++) {
                CHECK_EQ(one[i], i + 17);
                one[i] = rank * 3 + i;
            }
            OK(MPI_Allgather(one, n, MPI_INT, all, n, MPI_INT, comm));
            for (int r = 0; r < size; r++) {
                for (int i = 0; i < n; i++) {
                    CHECK_EQ(all[r * n + i], r * 3 + i);
                }
            }
            OK(MPI_Allreduce(one, back, n, MPI_INT, MPI_SUM, comm));
            for (int i = 0; i < n; i++) {
                CHECK_EQ(back[i], size * (size - 1) / 2 * 3 + size * i);
            }
            OK(MPI_Reduce(one, back, n, MPI_INT, MPI_MAX, root, comm));
            for (int i = 0; i < n && rank == root; i++) {
                CHECK_EQ(back[i], (size - 1) * 3 + i);
            }
            OK(MPI_Gather(one, n, MPI_INT, all, n, MPI_INT, root, comm));
            for (int i = 0; i < n * size && rank == root; i++) {
                CHECK_EQ(all[i], i / n * 3 + i % n);
            }
            for (int i = 0; i < n * size; i++) {
                all[i] = rank * 100000 + i;
            }
            OK(MPI_Scatter(all, n, MPI_INT, one, n, MPI_INT, root, comm));
            for (int i = 0; i < n; i++) {
                CHECK_EQ(one[i], root * 100000 + rank * n + i);
            }
            OK(MPI_Alltoall(all, n, MPI_INT, back, n, MPI_INT, comm));
            for (int i = 0; i < n * size; i++) {
                CHECK_EQ(back[i], i / n * 100000 + rank * n + i % n);
            }
            for (int i = 0; i < n; i++) {
                one[i] = rank + 1;
            }
            OK(MPI_Scan(one, back, n, MPI_INT, MPI_SUM, comm));
            for (int i = 0; i < n; i++) {
                CHECK_EQ(back[i], (rank + 1) * (rank + 2) / 2);
            }
        }
    }
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
