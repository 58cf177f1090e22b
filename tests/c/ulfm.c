/* Going on after a loss, where nothing is lost: each function alone (User-Level Failure Mitigation).
 * ranks: 1 2 5
 * variants: shm ofi ucx hosts
 * timeout: 30
 */
#include "check.h"

static int rank, size;

static int group_size(MPI_Group group) {
    int number;
    OK(MPI_Group_size(group, &number));
    OK(MPI_Group_free(&group));
    return number;
}

/* Nobody has failed, and nothing can be acknowledged. */
static void nobody_failed(MPI_Comm comm) {
    MPI_Group group;
    int number = -1;
    OK(MPIX_Comm_get_failed(comm, &group));
    CHECK_EQ(group_size(group), 0);
    OK(MPIX_Comm_ack_failed(comm, 7, &number));
    CHECK_EQ(number, 0);
    OK(MPIX_Comm_failure_ack(comm));
    OK(MPIX_Comm_failure_get_acked(comm, &group));
    CHECK_EQ(group_size(group), 0);
}

static void agreements(MPI_Comm comm) {
    for (int turn = 0; turn < 20; turn++) {
        int flag = ~(1 << (rank + turn) % 20);
        int expected = ~0;
        for (int one = 0; one < size; one++) {
            expected &= ~(1 << (one + turn) % 20);
        }
        if (turn % 2) {
            MPI_Request request;
            OK(MPIX_Comm_iagree(comm, &flag, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK(request == MPI_REQUEST_NULL);
        } else {
            OK(MPIX_Comm_agree(comm, &flag));
        }
        CHECK_EQ(flag, expected);
    }
    /* Several under way, tested, ended in another order. */
    int flags[3] = {rank == 0 ? 6 : 7, rank == size - 1 ? 5 : 7, 3}, done = 0;
    MPI_Request requests[3];
    for (int one = 0; one < 3; one++) {
        OK(MPIX_Comm_iagree(comm, &flags[one], &requests[one]));
    }
    while (!done) {
        OK(MPI_Test(&requests[2], &done, MPI_STATUS_IGNORE));
    }
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(flags[0], 6);
    CHECK_EQ(flags[1], 5);
    CHECK_EQ(flags[2], 3);
}

static void same_as(MPI_Comm old, MPI_Comm comm) {
    int result, sum = 0;
    OK(MPI_Comm_compare(old, comm, &result));
    CHECK_EQ(result, MPI_CONGRUENT);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
    MPI_Errhandler handler;
    OK(MPI_Comm_get_errhandler(comm, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
}

static void shrinking(MPI_Comm comm) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Request request;
    OK(MPIX_Comm_shrink(comm, &made));
    same_as(comm, made);
    OK(MPI_Comm_free(&made));
    OK(MPIX_Comm_ishrink(comm, &made, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    same_as(comm, made);
    OK(MPI_Comm_free(&made));
}

static void revoked(int code) {
    CHECK_EQ(class_of(code), MPIX_ERR_REVOKED);
}

enum { EARLY = 5 };

static void requests_to_nobody(MPI_Comm comm, MPI_Request *made) {
    static int data;
    MPI_Info info = MPI_INFO_NULL;
    OK(MPI_Send_init(&data, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &made[0]));
    OK(MPI_Bsend_init(&data, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &made[1]));
    OK(MPI_Recv_init(&data, 1, MPI_INT, MPI_PROC_NULL, 1, comm, &made[2]));
    OK(MPI_Psend_init(&data, 1, 1, MPI_INT, MPI_PROC_NULL, 1, comm, info, &made[3]));
    OK(MPI_Precv_init(&data, 1, 1, MPI_INT, MPI_PROC_NULL, 1, comm, info, &made[4]));
}

/* MPI_PROC_NULL is no way round it; `early` was made before the revocation. */
static void to_nobody(MPI_Comm comm, MPI_Request *early) {
    int data = 0, flag, none = MPI_PROC_NULL;
    MPI_Info info = MPI_INFO_NULL;
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    revoked(MPI_Send(&data, 1, MPI_INT, none, 1, comm));
    revoked(MPI_Ssend(&data, 1, MPI_INT, none, 1, comm));
    revoked(MPI_Bsend(&data, 1, MPI_INT, none, 1, comm));
    revoked(MPI_Isend(&data, 1, MPI_INT, none, 1, comm, &request));
    revoked(MPI_Irsend(&data, 1, MPI_INT, none, 1, comm, &request));
    revoked(MPI_Recv(&data, 1, MPI_INT, none, 1, comm, &status));
    revoked(MPI_Irecv(&data, 1, MPI_INT, none, 1, comm, &request));
    revoked(MPI_Sendrecv(&data, 1, MPI_INT, none, 1, &data, 1, MPI_INT, none, 1, comm, &status));
    revoked(MPI_Sendrecv_replace(&data, 1, MPI_INT, none, 1, none, 1, comm, &status));
    revoked(MPI_Isendrecv(&data, 1, MPI_INT, none, 1, &data, 1, MPI_INT, none, 1, comm, &request));
    revoked(MPI_Isendrecv_replace(&data, 1, MPI_INT, none, 1, none, 1, comm, &request));
    revoked(MPI_Probe(none, 1, comm, &status));
    revoked(MPI_Iprobe(none, 1, comm, &flag, &status));
    revoked(MPI_Mprobe(none, 1, comm, &message, &status));
    revoked(MPI_Improbe(none, 1, comm, &flag, &message, &status));
    revoked(MPI_Psend_init(&data, 1, 1, MPI_INT, none, 1, comm, info, &request));
    revoked(MPI_Precv_init(&data, 1, 1, MPI_INT, none, 1, comm, info, &request));
    for (int one = 0; one < EARLY; one++) {
        revoked(MPI_Start(&early[one]));
        OK(MPI_Request_free(&early[one]));
    }
}

/* On a revoked communicator nothing goes on but what is for that. */
static void revoking(MPI_Comm comm) {
    MPI_Comm dup, left;
    MPI_Request requests[4];
    int flag = -1, data[4] = {0}, other = (rank + 1) % size;
    static char large[1 << 22];
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPIX_Comm_is_revoked(dup, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Barrier(comm));
    int pending = 0;
    OK(MPI_Irecv(&data[0], 1, MPI_INT, other, 1, dup, &requests[pending++]));
    OK(MPI_Irecv(&data[1], 1, MPI_INT, MPI_ANY_SOURCE, 2, dup, &requests[pending++]));
    OK(MPI_Isend(large, sizeof large, MPI_BYTE, other, 3, dup, &requests[pending++]));
    MPI_Request early[EARLY];
    requests_to_nobody(dup, early);
    OK(MPI_Barrier(comm));
    if (rank == size - 1) {
        nap(0.02); /* the others wait, by then, or come later */
        OK(MPIX_Comm_revoke(dup));
        OK(MPIX_Comm_revoke(dup));
        OK(MPIX_Comm_is_revoked(dup, &flag));
        CHECK_EQ(flag, 1);
    } else if (rank == 0) {
        revoked(MPI_Recv(&data[2], 1, MPI_INT, other, 4, dup, MPI_STATUS_IGNORE));
    } else if (rank == 1) {
        revoked(MPI_Barrier(dup));
    } else {
        MPI_Status status;
        revoked(MPI_Probe(MPI_ANY_SOURCE, 5, dup, &status));
    }
    for (int one = 0; one < pending; one++) {
        revoked(MPI_Wait(&requests[one], MPI_STATUS_IGNORE));
        CHECK(requests[one] == MPI_REQUEST_NULL);
    }
    revoked(MPI_Send(data, 1, MPI_INT, other, 1, dup));
    revoked(MPI_Isend(data, 1, MPI_INT, other, 1, dup, &requests[0]));
    revoked(MPI_Recv(data, 1, MPI_INT, MPI_ANY_SOURCE, 1, dup, MPI_STATUS_IGNORE));
    revoked(MPI_Iprobe(other, 1, dup, &flag, MPI_STATUS_IGNORE));
    to_nobody(dup, early);
    if (size > 1) {
        MPI_Comm none;
        revoked(MPI_Allreduce(data, data + 1, 1, MPI_INT, MPI_SUM, dup));
        revoked(MPI_Bcast(data, 1, MPI_INT, 0, dup));
        revoked(MPI_Comm_dup(dup, &none));
        revoked(MPI_Comm_split(dup, 0, 0, &none));
        revoked(MPI_Ibarrier(dup, &requests[0]));
    }
    /* What is local, and what mends. */
    int same;
    OK(MPI_Comm_size(dup, &same));
    CHECK_EQ(same, size);
    nobody_failed(dup);
    agreements(dup);
    OK(MPIX_Comm_shrink(dup, &left));
    same_as(dup, left);
    OK(MPIX_Comm_is_revoked(left, &flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Comm_free(&dup));
    OK(MPI_Comm_free(&left));
    /* The one that it was made of is as before. */
    OK(MPI_Barrier(comm));
}

/* Rank 0 revokes a copy, made by MPI_Comm_idup, of which the last has not even heard; that makes progress for a while, and
 * waits for a message by it then. */
static void revoking_early(MPI_Comm comm) {
    MPI_Comm copy;
    MPI_Request request;
    int data, flag = 0;
    if (rank == size - 1 && size > 1) {
        for (int i = 0; i < 200; i++) {
            OK(MPI_Iprobe(0, 9, comm, &flag, MPI_STATUS_IGNORE));
            nap(0.001);
        }
    }
    OK(MPI_Comm_idup(comm, &copy, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (rank == 0) {
        OK(MPIX_Comm_revoke(copy));
    }
    revoked(MPI_Recv(&data, 1, MPI_INT, 0, 1, copy, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Barrier(comm));
}

/* Many, each revoked by another while all are at work. */
static void revoking_often(MPI_Comm comm) {
    for (int turn = 0; turn < 20; turn++) {
        MPI_Comm dup;
        OK(MPI_Comm_dup(comm, &dup));
        int code = MPI_SUCCESS;
        for (int call = 0; code == MPI_SUCCESS && call < 100000; call++) {
            if (rank == turn % size && call == 7 * turn) {
                OK(MPIX_Comm_revoke(dup));
            }
            int one = 1, sum = 0;
            switch (turn % 3) {
            case 0:
                code = MPI_Barrier(dup);
                break;
            case 1:
                code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup);
                break;
            default:
                code = MPI_Sendrecv(&one, 1, MPI_INT, (rank + 1) % size, 1, &sum, 1, MPI_INT,
                                    (rank + size - 1) % size, 1, dup, MPI_STATUS_IGNORE);
                break;
            }
        }
        if (size > 1 || turn % 3 == 2) {
            revoked(code);
        }
        int flag = 1;
        OK(MPIX_Comm_agree(dup, &flag));
        CHECK_EQ(flag, 1);
        OK(MPI_Comm_free(&dup));
    }
}

/* Both groups agree, and each gets the other's flags. */
static void between_groups(MPI_Comm comm) {
    MPI_Comm half, inter, made;
    int second = rank >= size / 2, flag, number;
    OK(MPI_Comm_split(comm, second, rank, &half));
    OK(MPI_Intercomm_create(half, 0, comm, second ? 0 : size / 2, 7, &inter));
    for (int turn = 0; turn < 5; turn++) {
        flag = second ? 0xf0 | (rank & 1) : 0x0f;
        int expected = second ? 0x0f : 0xf1;
        for (int one = size / 2; one < size && !second; one++) {
            expected &= 0xf0 | (one & 1);
        }
        OK(MPIX_Comm_agree(inter, &flag));
        CHECK_EQ(flag, expected);
    }
    if (rank == 0) {
        OK(MPIX_Comm_revoke(inter));
    }
    OK(MPIX_Comm_shrink(inter, &made));
    OK(MPI_Comm_remote_size(made, &number));
    CHECK_EQ(number, second ? size / 2 : size - size / 2);
    OK(MPI_Barrier(made));
    MPI_Group group;
    OK(MPIX_Comm_get_failed(made, &group));
    CHECK_EQ(group_size(group), 0);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_free(&half));
}

static void wrong_arguments(void) {
    int flag = 1, number;
    MPI_Group group;
    MPI_Comm made;
    MPI_Request request;
    CHECK_EQ(class_of(MPIX_Comm_revoke(MPI_COMM_NULL)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_is_revoked(MPI_COMM_NULL, &flag)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_is_revoked(MPI_COMM_SELF, NULL)), MPI_ERR_ARG);
    CHECK_EQ(class_of(MPIX_Comm_get_failed(MPI_COMM_NULL, &group)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_ack_failed(MPI_COMM_NULL, 0, &number)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_ack_failed(MPI_COMM_SELF, -1, &number)), MPI_ERR_ARG);
    CHECK_EQ(class_of(MPIX_Comm_failure_ack(MPI_COMM_NULL)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_failure_get_acked(MPI_COMM_NULL, &group)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_agree(MPI_COMM_NULL, &flag)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_agree(MPI_COMM_SELF, NULL)), MPI_ERR_ARG);
    CHECK_EQ(class_of(MPIX_Comm_iagree(MPI_COMM_SELF, NULL, &request)), MPI_ERR_ARG);
    CHECK_EQ(class_of(MPIX_Comm_shrink(MPI_COMM_NULL, &made)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_ishrink(MPI_COMM_NULL, &made, &request)), MPI_ERR_COMM);
    MPI_Comm freed, copy;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &freed));
    copy = freed;
    OK(MPI_Comm_free(&freed));
    CHECK_EQ(class_of(MPIX_Comm_revoke(copy)), MPI_ERR_COMM);
    CHECK_EQ(class_of(MPIX_Comm_agree(copy, &flag)), MPI_ERR_COMM);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    nobody_failed(MPI_COMM_WORLD);
    agreements(MPI_COMM_WORLD);
    shrinking(MPI_COMM_WORLD);
    if (size > 1) {
        revoking(MPI_COMM_WORLD);
        between_groups(MPI_COMM_WORLD);
    }
    revoking_early(MPI_COMM_WORLD);
    revoking_often(MPI_COMM_WORLD);
    wrong_arguments();
    OK(MPI_Finalize());
    return 0;
}
