/* Going on after losses: processes die before, in and after agreements, and the others agree all the same, make
 * communicators of those who are left, and work with them (User-Level Failure Mitigation).
 * Not over UCX: version 1.13 ends the process by an assertion of its own where it is just connecting to one that dies.
 * ranks: 5
 * variants: shm ofi hosts
 * launcher: -disable-auto-cleanup
 * timeout: 40
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: agree
 * case: coordinator
 * case: two
 * case: shrink
 * case: one-left
 * case: any
 * case: revoke
 * case: inter
 * case: finalize
 * case: random
 */
#include "check.h"
#include <signal.h>

static int rank, size;

static void die(void) {
    raise(SIGKILL);
}

static int group_size(MPI_Group group) {
    int number;
    OK(MPI_Group_size(group, &number));
    OK(MPI_Group_free(&group));
    return number;
}

static int failed_in(MPI_Comm comm) {
    MPI_Group group;
    OK(MPIX_Comm_get_failed(comm, &group));
    return group_size(group);
}

/* Waits until so many are known to have failed: that must come by asking alone. */
static void await_failed(MPI_Comm comm, int number) {
    double began = MPI_Wtime();
    while (failed_in(comm) < number) {
        CHECK(MPI_Wtime() - began < 15);
        nap(0.001);
    }
}

/* All are so far, also those who are still in this when one that is through dies: none gets an error for that. */
static void all_together(MPI_Comm comm) {
    int flag = 1;
    OK(MPIX_Comm_agree(comm, &flag));
    CHECK_EQ(flag, 1);
}

/* All who are left work together. */
static void work(MPI_Comm comm) {
    int me, number, sum = 0, right = -1;
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &number));
    for (int turn = 0; turn < 20; turn++) {
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, number * (number - 1) / 2);
        OK(MPI_Barrier(comm));
    }
    OK(MPI_Sendrecv(&me, 1, MPI_INT, (me + 1) % number, 1, &right, 1, MPI_INT, MPI_ANY_SOURCE, 1,
                    comm, MPI_STATUS_IGNORE));
    CHECK_EQ(right, (me + number - 1) % number);
    MPI_Comm dup, half;
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPI_Comm_split(dup, me % 2, me, &half));
    OK(MPI_Barrier(half));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&dup));
    all_together(comm);
}

/* The dead ones are `dead`, of whom all hear; acknowledged, they don't matter any more. */
static void agree_with(MPI_Comm comm, int dead) {
    int flag = 0xff & ~(1 << rank), number = -1;
    CHECK_EQ(class_of(MPIX_Comm_agree(comm, &flag)), MPIX_ERR_PROC_FAILED);
    CHECK_EQ(flag & (1 << rank), 0);
    CHECK_EQ(failed_in(comm), dead);
    OK(MPIX_Comm_ack_failed(comm, dead, &number));
    CHECK_EQ(number, dead);
    flag = 3;
    OK(MPIX_Comm_agree(comm, &flag));
    CHECK_EQ(flag, 3);
    MPI_Group group;
    OK(MPIX_Comm_failure_get_acked(comm, &group));
    CHECK_EQ(group_size(group), dead);
}

static void go_on(MPI_Comm comm, int left) {
    MPI_Comm made;
    int number;
    OK(MPIX_Comm_shrink(comm, &made));
    OK(MPI_Comm_size(made, &number));
    CHECK_EQ(number, left);
    work(made);
    CHECK_EQ(failed_in(made), 0);
    OK(MPI_Comm_free(&made));
}

/* One dies before or while the others agree. */
static void agree(int dead, int other) {
    if (rank == dead || rank == other) {
        nap(rank == other ? 0.1 : 0.02);
        die();
    }
    int flag = -1, number;
    if (rank == (dead + 1) % size) {
        nap(0.15);
    }
    /* Who is in it while one dies may be through without having heard of that. */
    number = other < 0 ? 1 : 2;
    while (MPIX_Comm_agree(MPI_COMM_WORLD, &flag) == MPI_SUCCESS) {
    }
    await_failed(MPI_COMM_WORLD, number);
    MPI_Comm left;
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &left));
    OK(MPI_Comm_size(left, &flag));
    CHECK_EQ(flag, size - number);
    OK(MPI_Comm_free(&left));
    agree_with(MPI_COMM_WORLD, number);
    go_on(MPI_COMM_WORLD, size - number);
}

/* One dies while the others shrink, so that the new communicator may have it. */
static void shrink(void) {
    MPI_Comm comm = MPI_COMM_WORLD, made;
    if (rank == 0) {
        nap(0.03);
        die();
    }
    int flag = 1, code = MPI_SUCCESS;
    double began = MPI_Wtime();
    while (code == MPI_SUCCESS && MPI_Wtime() - began < 10) {
        OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &made));
        OK(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN));
        MPI_Request request;
        OK(MPIX_Comm_ishrink(made, &comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        code = MPI_Barrier(comm) == MPI_SUCCESS ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED;
        int now;
        OK(MPI_Comm_size(comm, &now));
        OK(MPI_Comm_free(&made));
        OK(MPI_Comm_free(&comm));
        /* All do the same as the one that was in no barrier any more. */
        flag = code == MPI_SUCCESS && now == size;
        MPIX_Comm_agree(MPI_COMM_WORLD, &flag);
        code = flag ? MPI_SUCCESS : MPIX_ERR_PROC_FAILED;
    }
    go_on(MPI_COMM_WORLD, size - 1);
}

/* From five to one, the lowest or the highest each time. */
static void until_one_is_left(void) {
    MPI_Comm comm = MPI_COMM_WORLD, made;
    for (int left = size; left > 1; left--) {
        int me;
        OK(MPI_Comm_rank(comm, &me));
        if (me == (left % 2 ? 0 : left - 1)) {
            die();
        }
        int code;
        do {
            code = MPI_Barrier(comm);
        } while (code == MPI_SUCCESS);
        /* Another may have revoked it already. */
        CHECK(class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED);
        OK(MPIX_Comm_revoke(comm));
        OK(MPIX_Comm_shrink(comm, &made));
        comm = made;
        OK(MPI_Comm_size(comm, &me));
        CHECK_EQ(me, left - 1);
        work(comm);
    }
}

/* Receives from any source wait on, say so, and go on when the failure was acknowledged. */
static void any_source(void) {
    if (rank == 2) {
        nap(0.05);
        die();
    }
    int data[3] = {-1, -1, -1}, flag = 0, index = -1, number, left = (rank + 4) % 5;
    left = left == 2 ? 1 : left;
    int right = (rank + 1) % 5 == 2 ? 3 : (rank + 1) % 5;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm others;
    OK(MPI_Irecv(&data[0], 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Irecv(&data[1], 1, MPI_INT, left, 2, MPI_COMM_WORLD, &requests[1]));
    CHECK_EQ(class_of(MPI_Wait(&requests[0], MPI_STATUS_IGNORE)), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    CHECK_EQ(class_of(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE)),
             MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    CHECK_EQ(class_of(MPI_Waitany(1, requests, &index, MPI_STATUS_IGNORE)),
             MPIX_ERR_PROC_FAILED_PENDING);
    CHECK_EQ(index, 0);
    CHECK_EQ(class_of(MPI_Waitall(2, requests, statuses)), MPI_ERR_IN_STATUS);
    CHECK_EQ(class_of(statuses[0].MPI_ERROR), MPIX_ERR_PROC_FAILED_PENDING);
    CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
    CHECK_EQ(class_of(MPI_Recv(&data[2], 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD,
                               MPI_STATUS_IGNORE)),
             MPIX_ERR_PROC_FAILED);
    CHECK_EQ(class_of(MPI_Probe(MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)),
             MPIX_ERR_PROC_FAILED);
    /* A later one, of which nothing is said before it is waited for. */
    MPI_Request later;
    OK(MPI_Irecv(&data[2], 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &later));
    CHECK_EQ(class_of(MPI_Wait(&later, MPI_STATUS_IGNORE)), MPIX_ERR_PROC_FAILED_PENDING);
    OK(MPI_Cancel(&later));
    OK(MPI_Wait(&later, &statuses[0]));
    OK(MPI_Test_cancelled(&statuses[0], &flag));
    CHECK(flag && later == MPI_REQUEST_NULL);
    /* Where the dead one is no member it doesn't matter. */
    OK(MPIX_Comm_shrink(MPI_COMM_WORLD, &others));
    OK(MPI_Irecv(&data[2], 1, MPI_INT, MPI_ANY_SOURCE, 3, others, &later));
    OK(MPI_Test(&later, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Barrier(others));
    int me;
    OK(MPI_Comm_rank(others, &me));
    OK(MPI_Send(&rank, 1, MPI_INT, (me + 1) % 4, 3, others));
    OK(MPI_Wait(&later, MPI_STATUS_IGNORE));
    CHECK_EQ(data[2], left);
    /* Acknowledged, it doesn't either. */
    OK(MPIX_Comm_ack_failed(MPI_COMM_WORLD, 1, &number));
    CHECK_EQ(number, 1);
    OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Barrier(others));
    OK(MPI_Send(&rank, 1, MPI_INT, right, 1, MPI_COMM_WORLD));
    OK(MPI_Send(&rank, 1, MPI_INT, right, 2, MPI_COMM_WORLD));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(data[0], left);
    CHECK_EQ(data[1], left);
    OK(MPI_Comm_free(&others));
}

/* One dies right after it has revoked, and another while it passes that on. What the first has said may have died with it:
 * who finds it dead revokes, too. */
static void revoking(void) {
    MPI_Comm dup, made;
    int code, number, data;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    all_together(dup);
    if (rank == 4) {
        nap(0.05);
        OK(MPIX_Comm_revoke(dup));
        die();
    }
    if (rank == 1) {
        nap(0.05);
        die();
    }
    do {
        code = rank == 3 ? MPI_Recv(&data, 1, MPI_INT, 2, 1, dup, MPI_STATUS_IGNORE)
                         : MPI_Barrier(dup);
        if (class_of(code) == MPIX_ERR_PROC_FAILED) {
            OK(MPIX_Comm_revoke(dup));
        }
    } while (class_of(code) == MPIX_ERR_PROC_FAILED || code == MPI_SUCCESS);
    CHECK_EQ(class_of(code), MPIX_ERR_REVOKED);
    await_failed(dup, 2);
    OK(MPIX_Comm_shrink(dup, &made));
    OK(MPI_Comm_size(made, &number));
    CHECK_EQ(number, 3);
    work(made);
}

static void between_groups(void) {
    MPI_Comm half, inter, made;
    int second = rank >= 2, flag = 0xf0 | second, number;
    OK(MPI_Comm_split(MPI_COMM_WORLD, second, rank, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, second ? 0 : 2, 7, &inter));
    all_together(MPI_COMM_WORLD);
    if (rank == 0 || rank == 4) {
        die();
    }
    await_failed(inter, 2);
    CHECK_EQ(class_of(MPIX_Comm_agree(inter, &flag)), MPIX_ERR_PROC_FAILED);
    CHECK_EQ(flag, 0xf0 | !second);
    OK(MPIX_Comm_failure_ack(inter));
    OK(MPIX_Comm_agree(inter, &flag));
    OK(MPIX_Comm_shrink(inter, &made));
    OK(MPI_Comm_size(made, &number));
    CHECK_EQ(number, second ? 2 : 1);
    OK(MPI_Comm_remote_size(made, &number));
    CHECK_EQ(number, second ? 1 : 2);
    int me, sum = -1;
    OK(MPI_Comm_rank(made, &me));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, made));
    CHECK_EQ(sum, second ? 1 : 2 + 3);
}

/* Who comes late to MPI_Finalize is waited for, and takes none of the others for failed. */
static void late_to_finalize(void) {
    if (rank == 3) {
        die();
    }
    await_failed(MPI_COMM_WORLD, 1);
    agree_with(MPI_COMM_WORLD, 1);
    if (rank == 1) {
        double began = MPI_Wtime();
        while (MPI_Wtime() - began < 0.7) {
            CHECK_EQ(failed_in(MPI_COMM_WORLD), 1);
            nap(0.01);
        }
    }
}

/* Each dies at a moment of its own, perhaps: the others go on until the work is done. */
static void at_random(void) {
    uint64_t seed = 0;
    MPI_Comm comm, made;
    if (rank == 0) {
        seed = check_seed = choose_seed();
        fprintf(stderr, "WEFT_TEST_SEED=%llu\n", (unsigned long long)seed);
    }
    OK(MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    check_seed = seed;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    all_together(comm);
    uint64_t state = seed + 77 * (uint64_t)rank;
    int dies = rank == (int)(seed % 5) || random_below(&state, 2);
    int at = (int)random_below(&state, 400), step = 0, turn = 0, most = 0;
    while (turn < 100) {
        int code = MPI_SUCCESS, sum = 0, mine = turn;
        for (int i = 0; i < 3 && code == MPI_SUCCESS; i++) {
            if (dies && step++ == at) {
                die();
            }
            code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, comm);
        }
        if (dies && step++ == at) {
            die();
        }
        int flag = code == MPI_SUCCESS;
        if (!flag) {
            CHECK(class_of(code) == MPIX_ERR_PROC_FAILED || class_of(code) == MPIX_ERR_REVOKED);
            OK(MPIX_Comm_revoke(comm));
        }
        int agreed = MPIX_Comm_agree(comm, &flag);
        CHECK(agreed == MPI_SUCCESS || class_of(agreed) == MPIX_ERR_PROC_FAILED);
        if (dies && step++ == at) {
            die();
        }
        if (flag && agreed == MPI_SUCCESS) {
            CHECK_EQ(sum, turn);
            turn++;
        } else {
            if (!flag) {
                OK(MPIX_Comm_revoke(comm));
            }
            OK(MPIX_Comm_shrink(comm, &made));
            OK(MPI_Comm_free(&comm));
            comm = made;
        }
        CHECK(most++ < 1000);
    }
    if (dies) {
        die();
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    all_together(MPI_COMM_WORLD);
    const char *what = argv[1];
    if (strcmp(what, "agree") == 0) {
        agree(3, -1);
    } else if (strcmp(what, "coordinator") == 0) {
        agree(0, -1);
    } else if (strcmp(what, "two") == 0) {
        agree(0, 1);
    } else if (strcmp(what, "shrink") == 0) {
        shrink();
    } else if (strcmp(what, "one-left") == 0) {
        until_one_is_left();
    } else if (strcmp(what, "any") == 0) {
        any_source();
    } else if (strcmp(what, "revoke") == 0) {
        revoking();
    } else if (strcmp(what, "inter") == 0) {
        between_groups();
    } else if (strcmp(what, "finalize") == 0) {
        late_to_finalize();
    } else {
        CHECK(strcmp(what, "random") == 0);
        at_random();
    }
    OK(MPI_Finalize());
    return 0;
}
