/* Blocking collectives take no memory from the heap once they have been called. (On one rank: with
 * more, messages may come before they are expected, and are kept in memory then.)
 *
 * ranks: 1
 * variants: shm
 */
#define _GNU_SOURCE
#include "coll.h"

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

static long allocations;

void *malloc(size_t len)
{
    allocations++;
    return __libc_malloc(len);
}

void *calloc(size_t count, size_t len)
{
    allocations++;
    return __libc_calloc(count, len);
}

void *realloc(void *memory, size_t len)
{
    allocations++;
    return __libc_realloc(memory, len);
}

static void all_of_them(void)
{
    const MPI_Comm w = MPI_COMM_WORLD;
    const MPI_Datatype t = MPI_INT;
    int in[4] = {1, 2, 3, 4}, out[4], count[1] = {4}, none[1] = {0};
    MPI_Datatype type[1] = {MPI_INT};
    OK(MPI_Barrier(w));
    OK(MPI_Bcast(in, 4, t, 0, w));
    OK(MPI_Gather(in, 4, t, out, 4, t, 0, w));
    OK(MPI_Gatherv(in, 4, t, out, count, none, t, 0, w));
    OK(MPI_Scatter(in, 4, t, out, 4, t, 0, w));
    OK(MPI_Scatterv(in, count, none, t, out, 4, t, 0, w));
    OK(MPI_Allgather(in, 4, t, out, 4, t, w));
    OK(MPI_Allgatherv(in, 4, t, out, count, none, t, w));
    OK(MPI_Alltoall(in, 4, t, out, 4, t, w));
    OK(MPI_Alltoallv(in, count, none, t, out, count, none, t, w));
    OK(MPI_Alltoallw(in, count, none, type, out, count, none, type, w));
    OK(MPI_Reduce(in, out, 4, t, MPI_SUM, 0, w));
    OK(MPI_Allreduce(in, out, 4, t, MPI_SUM, w));
    OK(MPI_Reduce_scatter_block(in, out, 4, t, MPI_SUM, w));
    OK(MPI_Reduce_scatter(in, out, count, t, MPI_SUM, w));
    OK(MPI_Scan(in, out, 4, t, MPI_SUM, w));
    OK(MPI_Exscan(in, out, 4, t, MPI_SUM, w));
    OK(MPI_Allreduce(MPI_IN_PLACE, out, 4, t, MPI_MAX, w));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    CHECK(allocations > 0, "nothing is counted");
    all_of_them();
    all_of_them();
    long before = allocations;
    for (int i = 0; i < 10; i++)
        all_of_them();
    CHECK(allocations == before, "%ld allocations", allocations - before);
    MPI_Finalize();
    return 0;
}
