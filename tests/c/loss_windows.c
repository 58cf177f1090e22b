/* A process dies, and another one that only stores to its memory, or asks it for something, gets an error from the access or
 * from the next synchronization: within a node, where nothing but memory is between them, and over a network.
 * ranks: 3
 * variants: shm ofi tcp hosts
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 30
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: put
 * case: put-strided
 * case: get
 * case: rput
 * case: fetch
 * case: accumulate
 * case: swap
 * case: lock
 * case: flush-all
 * case: unlock-all
 * case: unlock-all-late
 * case: flush-all-late
 * case: created
 * case: flush-idle
 * case: flush-all-idle
 * case: flush-local-idle
 * case: test
 */
#include "fails.h"
#include <signal.h>

enum { LOST = 2, WORDS = 64 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    const char *what = argv[1];
    int rank = world_rank(), code = MPI_SUCCESS;
    long *memory, own[WORDS] = {0}, one = 1, found = 0;
    MPI_Datatype strided;
    MPI_Win win;
    MPI_Request request;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Type_vector(4, 1, 3, MPI_LONG, &strided));
    OK(MPI_Type_commit(&strided));
    if (strcmp(what, "created") == 0) {
        OK(MPI_Win_create(own, sizeof own, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    } else {
        OK(MPI_Win_allocate(sizeof own, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    }
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    if (strcmp(what, "lock") != 0 && strcmp(what, "test") != 0) {
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Put(&one, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, win));
        OK(MPI_Win_flush(LOST, win));
    }
    barrier_left_last_by(LOST, MPI_COMM_WORLD);
    if (rank == LOST) {
        nap(0.05);
        raise(SIGKILL);
    }
    double began = MPI_Wtime();
    if (strstr(what, "-late") != NULL) {
        /* What is put now is lost, or may be. */
        code = MPI_Put(&one, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, win);
        int unlocks = code == MPI_SUCCESS && strcmp(what, "unlock-all-late") == 0;
        if (code == MPI_SUCCESS) {
            nap(1);
            code = unlocks ? MPI_Win_unlock_all(win) : MPI_Win_flush_all(win);
        }
        /* Networks report a loss with a delay. */
        while (code == MPI_SUCCESS && !unlocks && MPI_Wtime() - began < 8) {
            code = MPI_Win_flush_all(win);
        }
        CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
        if (unlocks) {
            OK(MPI_Win_lock_all(0, win));
        }
    }
    if (strcmp(what, "test") == 0) {
        /* The lost rank never starts its access epoch. */
        MPI_Group all, lost;
        int ranks[] = {LOST}, over = 0;
        OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
        OK(MPI_Group_incl(all, 1, ranks, &lost));
        OK(MPI_Win_post(lost, 0, win));
        while (code == MPI_SUCCESS && !over && MPI_Wtime() - began < 8) {
            code = MPI_Win_test(win, &over);
        }
        OK(MPI_Group_free(&lost));
        OK(MPI_Group_free(&all));
        CHECK_EQ(over, 0);
    }
    /* All operations are complete, so these calls wait for nothing. */
    while (strstr(what, "-idle") != NULL && code == MPI_SUCCESS && MPI_Wtime() - began < 8) {
        code = strcmp(what, "flush-idle") == 0         ? MPI_Win_flush(LOST, win)
               : strcmp(what, "flush-local-idle") == 0 ? MPI_Win_flush_local_all(win)
                                                       : MPI_Win_flush_all(win);
    }
    if (strcmp(what, "test") == 0 || strstr(what, "-idle") != NULL) {
        CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
    }
    while (code == MPI_SUCCESS && MPI_Wtime() - began < 10) {
        if (strcmp(what, "lock") == 0) {
            code = MPI_Win_lock(MPI_LOCK_SHARED, LOST, 0, win);
            if (code == MPI_SUCCESS) {
                code = MPI_Put(&one, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, win);
                int given = MPI_Win_unlock(LOST, win);
                code = code == MPI_SUCCESS ? given : code;
            }
            continue;
        }
        if (strcmp(what, "get") == 0) {
            code = MPI_Get(&found, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, win);
        } else if (strcmp(what, "put-strided") == 0) {
            code = MPI_Put(own, 1, strided, LOST, 1, 1, strided, win);
        } else if (strcmp(what, "rput") == 0) {
            code = MPI_Rput(&one, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, win, &request);
            code = code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
        } else if (strcmp(what, "fetch") == 0) {
            code = MPI_Fetch_and_op(&one, &found, MPI_LONG, LOST, 1, MPI_SUM, win);
        } else if (strcmp(what, "accumulate") == 0) {
            code = MPI_Accumulate(&one, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, MPI_SUM, win);
        } else if (strcmp(what, "swap") == 0) {
            code = MPI_Compare_and_swap(&one, &found, &found, MPI_LONG, LOST, 1, win);
        } else {
            code = MPI_Put(&one, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, win);
        }
        if (code != MPI_SUCCESS) {
            break;
        }
        if (strcmp(what, "flush-all") == 0) {
            code = MPI_Win_flush_all(win);
        } else if (strcmp(what, "unlock-all") == 0) {
            code = MPI_Win_unlock_all(win);
            if (code == MPI_SUCCESS) {
                OK(MPI_Win_lock_all(0, win));
            }
        } else {
            code = MPI_Win_flush(LOST, win);
        }
    }
    CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
    if (strcmp(what, "lock") != 0 && strcmp(what, "test") != 0 && strcmp(what, "unlock-all") != 0) {
        /* A rank that ignored the first error gets it again. */
        FAILS(MPI_Win_flush(LOST, win), MPIX_ERR_PROC_FAILED);
        FAILS(MPI_Put(&one, 1, MPI_LONG, LOST, 1, 1, MPI_LONG, win), MPIX_ERR_PROC_FAILED);
        /* Accesses to other ranks go on. */
        OK(MPI_Put(&one, 1, MPI_LONG, 1 - rank, 2, 1, MPI_LONG, win));
        OK(MPI_Win_flush(1 - rank, win));
        /* The loss has been raised; returning the lock of the lost rank may raise it again. */
        code = MPI_Win_unlock_all(win);
        CHECK(code == MPI_SUCCESS || class_of(code) == MPIX_ERR_PROC_FAILED);
    }
    OK(MPI_Type_free(&strided));
    OK(MPI_Finalize());
    return 0;
}
