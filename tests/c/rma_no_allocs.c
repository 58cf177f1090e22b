/* Short one-sided operations by messages ask for no memory, neither at the origin nor at the target, once as many
 * have gone as there may be under way; and none stays behind with them.
 *
 * ranks: 2
 * variants: tcp
 */
#include "rma.h"

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

static volatile long allocations;

void *malloc(size_t bytes)
{
    allocations++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    allocations++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    allocations++;
    return __libc_realloc(old, bytes);
}

int posix_memalign(void **to, size_t align, size_t bytes)
{
    allocations++;
    *to = __libc_memalign(align, bytes);
    return *to == NULL;
}

enum { TIMES = 300, KINDS_OF_CALL = 9 };

static void call(int what, MPI_Win win)
{
    static int64_t value = 1, found, compare = 2;
    static int32_t small = 1, small_found;
    static double some[4] = {1, 2, 3, 4}, before[4];
    switch (what) {
    case 0:
        OK(MPI_Put(&value, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win));
        break;
    case 1:
        OK(MPI_Get(&found, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win));
        break;
    case 2:
        OK(MPI_Accumulate(&value, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, MPI_SUM, win));
        break;
    case 3:
        OK(MPI_Fetch_and_op(&value, &found, MPI_INT64_T, 1, 0, MPI_SUM, win));
        break;
    case 4:
        OK(MPI_Compare_and_swap(&value, &compare, &found, MPI_INT64_T, 1, 0, win));
        break;
    case 5:
        OK(MPI_Fetch_and_op(&small, &small_found, MPI_INT32_T, 1, 16, MPI_SUM, win));
        break;
    case 6:
        OK(MPI_Accumulate(some, 4, MPI_DOUBLE, 1, 64, 4, MPI_DOUBLE, MPI_SUM, win));
        break;
    case 7:
        OK(MPI_Get_accumulate(some, 4, MPI_DOUBLE, before, 4, MPI_DOUBLE, 1, 64, 4, MPI_DOUBLE, MPI_SUM, win));
        break;
    default:
        OK(MPI_Compare_and_swap(&small, &small, &small_found, MPI_INT32_T, 1, 16, win));
        break;
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    struct window w = window_make(ALLOCATED, 4096, 1);
    /* The first few barriers look for a quicker way. */
    for (int i = 0; i < 10; i++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Win_lock_all(0, w.win));
    for (int what = 0; what < KINDS_OF_CALL; what++) {
        long begin = 0;
        for (int i = 0; i < 2 * TIMES; i++) {
            if (i == TIMES) {
                OK(MPI_Barrier(MPI_COMM_WORLD));
                begin = allocations;
            }
            if (rank == 0) {
                call(what, w.win);
                /* Some at once, too. */
                if (i % 3 == 0) {
                    OK(MPI_Win_flush(1, w.win));
                }
            }
        }
        if (rank == 0) {
            OK(MPI_Win_flush(1, w.win));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        long asked = allocations - begin;
        if (asked > TIMES / 20) {
            fprintf(stderr, "rank %d asked for memory %ld times in %d calls of kind %d\n", rank, asked, TIMES, what);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    OK(MPI_Win_unlock_all(w.win));
    window_free(&w);
    OK(MPI_Finalize());
    return 0;
}
