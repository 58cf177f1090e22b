/* MPI_Intercomm_create with processes that were spawned by one member of the group: being connected is transitive
 * (MPI-5.0 section 11.10.4). All send to all, merge, and use the communicators after what joined them first is freed.
 * ranks: 2 3
 * variants: shm tcp
 * timeout: 60
 * stdout: all connected
 */
#include "fails.h"

/* All of both groups exchange numbers and merge. The group that gives 0 comes first. */
static MPI_Comm work(MPI_Comm inter, int high) {
    int me, ours, theirs, sum = 0, all;
    OK(MPI_Comm_rank(inter, &me));
    OK(MPI_Comm_size(inter, &ours));
    OK(MPI_Comm_remote_size(inter, &theirs));
    MPI_Request requests[64];
    int got[32], mine = 100 * high + me;
    for (int one = 0; one < theirs; one++) {
        OK(MPI_Irecv(&got[one], 1, MPI_INT, one, 5, inter, &requests[2 * one]));
        OK(MPI_Isend(&mine, 1, MPI_INT, one, 5, inter, &requests[2 * one + 1]));
    }
    OK(MPI_Waitall(2 * theirs, requests, MPI_STATUSES_IGNORE));
    for (int one = 0; one < theirs; one++) {
        CHECK_EQ(got[one], 100 * !high + one);
    }
    MPI_Comm merged, dup;
    OK(MPI_Intercomm_merge(inter, high, &merged));
    OK(MPI_Comm_size(merged, &all));
    CHECK_EQ(all, ours + theirs);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Comm_dup(merged, &dup));
    OK(MPI_Comm_rank(dup, &me));
    CHECK_EQ(me, mine % 100 + high * theirs);
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, dup));
    CHECK_EQ(sum, all * (all - 1) / 2);
    OK(MPI_Comm_free(&dup));
    return merged;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    MPI_Comm parent, spawned = MPI_COMM_NULL, inter, first, second;
    int rank = world_rank(), is_second = argc > 1 && strcmp(argv[1], "second") == 0;
    OK(MPI_Comm_get_parent(&parent));
    if (parent == MPI_COMM_NULL) {
        /* Ranks 0 and 1 have children of their own. */
        if (rank < 2) {
            char *args[] = {rank == 0 ? "first" : "second", NULL};
            OK(MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_SELF, &spawned, MPI_ERRCODES_IGNORE));
        }
        OK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, spawned, 0, 123, &inter));
        first = work(inter, 0);
        if (rank == 0) {
            OK(MPI_Comm_free(&spawned));
        }
        OK(MPI_Intercomm_create(first, 1, spawned, 0, 124, &inter));
        second = work(inter, 0);
        if (rank == 1) {
            OK(MPI_Comm_free(&spawned));
        }
        OK(MPI_Comm_free(&first));
    } else if (is_second) {
        OK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, parent, 0, 124, &inter));
        second = work(inter, 1);
        OK(MPI_Comm_free(&parent));
    } else {
        OK(MPI_Intercomm_create(MPI_COMM_WORLD, 0, parent, 0, 123, &inter));
        first = work(inter, 1);
        OK(MPI_Comm_free(&parent));
        OK(MPI_Intercomm_create(first, 1, MPI_COMM_NULL, 0, 124, &inter));
        second = work(inter, 0);
        OK(MPI_Comm_free(&first));
    }
    /* What joined them is gone. */
    barrier(second);
    int me, size;
    OK(MPI_Comm_rank(second, &me));
    OK(MPI_Comm_size(second, &size));
    for (int turn = 0; turn < size; turn++) {
        int root = turn, value = me == root ? 7 + turn : -1;
        OK(MPI_Bcast(&value, 1, MPI_INT, root, second));
        CHECK_EQ(value, 7 + turn);
    }
    if (me == 0) {
        printf("all connected\n");
    }
    OK(MPI_Comm_disconnect(&second));
    OK(MPI_Finalize());
    return 0;
}
