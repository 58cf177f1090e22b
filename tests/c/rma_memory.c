/* Pages of a window's memory are allocated at first touch, or at creation by a hint; too large a window is an
 * error on all ranks.
 * ranks: 1 2
 * variants: shm ofi hosts
 */
#define _DEFAULT_SOURCE
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096 };

/* Number of allocated pages of `bytes` at `base`. */
static int pages_of(char *base, size_t bytes)
{
    char *first = (char *)(((uintptr_t)base + PAGE - 1) / PAGE * PAGE);
    size_t count = (bytes - PAGE) / PAGE;
    unsigned char *there = malloc(count);
    CHECK_EQ(mincore(first, count * PAGE, there), 0);
    int sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += there[i] & 1;
    free(there);
    return sum;
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    MPI_Aint bytes = 64 << 20;
    for (int at_once = 0; at_once < 2; at_once++) {
        MPI_Info info;
        MPI_Win win;
        char *base, value[8];
        int flag;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "weft_memory_at_once", at_once ? "true" : "false"));
        OK(MPI_Win_allocate(bytes, 1, info, MPI_COMM_WORLD, &base, &win));
        OK(MPI_Info_free(&info));
        OK(MPI_Win_get_info(win, &info));
        OK(MPI_Info_get(info, "weft_memory_at_once", 7, value, &flag));
        CHECK(flag && strcmp(value, at_once ? "true" : "false") == 0);
        OK(MPI_Info_free(&info));
        int there = pages_of(base, (size_t)bytes);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK(at_once ? there > 16000 : there < 1000);
        /* It is zero, and all of it can be reached. */
        int to = (rank + 1) % size;
        long one = 1 + rank, sum = 0;
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Accumulate(&one, 1, MPI_LONG, to, bytes - 8, 1, MPI_LONG, MPI_SUM, win));
        OK(MPI_Win_flush(to, win));
        OK(MPI_Get(&sum, 1, MPI_LONG, to, bytes - 8, 1, MPI_LONG, win));
        OK(MPI_Win_flush(to, win));
        CHECK_EQ(sum, 1 + rank);
        OK(MPI_Win_unlock_all(win));
        OK(MPI_Win_free(&win));
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    char *base;
    MPI_Win win;
    int code = MPI_Win_allocate((MPI_Aint)1 << 45, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    CHECK_EQ(class_of(code), MPI_ERR_NO_MEM);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Finalize());
    return 0;
}
