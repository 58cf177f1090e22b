/* A target that waits in any MPI call performs the accesses to its created window: CMA copies, with a system call each,
 * are only for targets that compute. Long puts and gets arrive complete in both cases.
 * ranks: 2
 * variants: shm
 * alone: yes
 */
#include "check.h"
#include <unistd.h>

enum { TIMES = 1000, TRIES = 5, BYTES = 100000 };

static int rank, index_ = -1;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle copies;
static unsigned char *memory, *local;
static MPI_Win win;

static unsigned long counted(void) {
    unsigned long value;
    OK(MPI_T_pvar_read(session, copies, &value));
    return value;
}

/* Number of CMA copies for `times` puts and gets of a word, each flushed, while the target waits in a call. */
static unsigned long words(int times) {
    unsigned long before = counted();
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
    for (long i = 0; i < times; i++) {
        long found = -1;
        OK(MPI_Put(&i, 1, MPI_LONG, 1, i % 100 * 8, 1, MPI_LONG, win));
        OK(MPI_Win_flush(1, win));
        OK(MPI_Get(&found, 1, MPI_LONG, 1, i % 100 * 8, 1, MPI_LONG, win));
        OK(MPI_Win_flush(1, win));
        CHECK_EQ(found, i);
    }
    OK(MPI_Win_unlock(1, win));
    return counted() - before;
}

/* Puts, gets and accumulates of all lengths around those at which they go another way, or in one more piece. */
static void lengths(int salt) {
    static const int some[] = {1, 991, 992, 993, 4063, 4064, 4065, 4096, 4097, 8192, 16383, 16384, 20000, 32767, 32768, 32769};
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
    for (size_t k = 0; k < sizeof some / sizeof some[0]; k++) {
        int len = some[k], at = (int)k * 7;
        for (int i = 0; i < len; i++)
            local[i] = (unsigned char)(i * 31 + i / 251 + salt + len);
        OK(MPI_Put(local, len, MPI_BYTE, 1, at, len, MPI_BYTE, win));
        OK(MPI_Win_flush(1, win));
        memset(local + BYTES, 0, (size_t)len + 1);
        OK(MPI_Get(local + BYTES, len, MPI_BYTE, 1, at, len, MPI_BYTE, win));
        OK(MPI_Win_flush(1, win));
        CHECK(memcmp(local, local + BYTES, (size_t)len) == 0);
        CHECK_EQ(local[BYTES + len], 0);
        int count = len / 8;
        if (count > 0) {
            OK(MPI_Accumulate(local, count, MPI_LONG, 1, 8, count, MPI_LONG, MPI_REPLACE, win));
            OK(MPI_Get_accumulate(local, count, MPI_LONG, local + BYTES, count, MPI_LONG, 1, 8, count, MPI_LONG, MPI_BXOR,
                                  win));
            OK(MPI_Win_flush(1, win));
            CHECK(memcmp(local, local + BYTES, (size_t)count * 8) == 0);
            OK(MPI_Get_accumulate(NULL, 0, MPI_LONG, local + BYTES, count, MPI_LONG, 1, 8, count, MPI_LONG, MPI_NO_OP, win));
            OK(MPI_Win_flush(1, win));
            for (int i = 0; i < count * 8; i++)
                CHECK_EQ(local[BYTES + i], 0);
        }
    }
    OK(MPI_Win_unlock(1, win));
}

int main(int argc, char **argv) {
    int provided, count;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    check_rank = rank = world_rank();
    OK(MPI_T_pvar_get_index("rma_kernel_copies", MPI_T_PVAR_CLASS_COUNTER, &index_));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_handle_alloc(session, index_, NULL, &copies, &count));
    OK(MPI_T_pvar_start(session, copies));
    memory = allocate(BYTES);
    local = allocate(2 * BYTES + 1);
    OK(MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    /* Calls that come again and again take a short way, in which one waits as well. */
    for (int i = 0; i < 100; i++)
        OK(MPI_Barrier(MPI_COMM_WORLD));
    int token = 0;
    for (int what = 0; what < 4; what++) {
        /* Others on the machine may take the target's core for a while: the least of some tries. */
        unsigned long least = ~0UL;
        for (int try = 0; try < TRIES; try++) {
            if (rank == 0) {
                unsigned long by_kernel = words(TIMES);
                least = by_kernel < least ? by_kernel : least;
            }
            double sum = 0, one = 1;
            switch (what) {
            case 0: OK(MPI_Barrier(MPI_COMM_WORLD)); break;
            case 1: OK(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD)); break;
            case 2: OK(MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD)); break;
            default:
                if (rank == 0)
                    OK(MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
                else
                    OK(MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
        }
        if (rank == 0)
            CHECK(least < TIMES / 2);
    }
    for (int round = 0; round < 20; round++) {
        if (rank == 0)
            lengths(round);
        else if (round % 2)
            usleep(20000);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* Nobody waits for one that computes. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1)
        usleep(300000);
    else
        CHECK(words(100) > 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_free(&win));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    free(memory);
    free(local);
    OK(MPI_Finalize());
    return 0;
}
