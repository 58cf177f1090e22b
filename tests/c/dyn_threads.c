/* Threads that spawn at the same time, each on its own communicator (MPI-3.1 sections 10.3 and 12.4); a part of the
 * job that spawns while the others compute; merges with the same order on both sides.
 * ranks: 2
 * variants: shm tcp
 * timeout: 60
 * stdout: all spawned
 */
#include "fails.h"

#include <pthread.h>

#define THREADS 4

static char self[4096];

/* All have a place of their own, and hear of each other. */
static void merge(MPI_Comm inter, int high, int sides) {
    MPI_Comm all;
    OK(MPI_Intercomm_merge(inter, high, &all));
    int rank, size, local, remote, sum = 0;
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    OK(MPI_Comm_size(inter, &local));
    OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_EQ(size, local + remote);
    CHECK_EQ(size, sides);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all));
    CHECK_EQ(sum, size * (size - 1) / 2);
    OK(MPI_Comm_disconnect(&all));
}

static void *one(void *comm) {
    MPI_Comm inter;
    char *args[] = {"same", NULL};
    OK(MPI_Comm_spawn(self, args, 1, MPI_INFO_NULL, 0, *(MPI_Comm *)comm, &inter, MPI_ERRCODES_IGNORE));
    merge(inter, 0, 2);
    merge(inter, 1, 2);
    OK(MPI_Comm_disconnect(&inter));
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    MPI_Comm parent, part, inter, comms[THREADS];
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        /* The same order as the parents, first low, then high. */
        int sides = strcmp(argv[1], "same") == 0 ? 2 : 3;
        merge(parent, 0, sides);
        merge(parent, 1, sides);
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Finalize());
        return 0;
    }
    int rank = world_rank();
    /* Rank 1 alone spawns, by a part of the job that rank 0 is not in, which computes meanwhile. */
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &part));
    if (rank == 1) {
        char *args[] = {"part", NULL};
        OK(MPI_Comm_spawn(self, args, 2, MPI_INFO_NULL, 0, part, &inter, MPI_ERRCODES_IGNORE));
        merge(inter, 0, 3);
        merge(inter, 1, 3);
        OK(MPI_Comm_disconnect(&inter));
    }
    OK(MPI_Comm_free(&part));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        OK(MPI_Comm_dup(MPI_COMM_SELF, &comms[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, one, &comms[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        OK(MPI_Comm_free(&comms[i]));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        printf("all spawned\n");
    }
    OK(MPI_Finalize());
    return 0;
}
