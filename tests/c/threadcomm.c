/* Thread communicators (MPIX_Threadcomm_init): each thread of a region is a rank of the same handle. Messages between
 * all ranks, wildcards, collectives, duplicates, attributes, consecutive regions, and errors.
 * ranks: 1 2 3
 * variants: shm tcp
 * cflags: -pthread
 * timeout: 60
 */
#include "points.h"
#include <pthread.h>

enum { MOST = 3, REGIONS = 3 };

static int world, processes, total, first, threads_here, copied;
static MPI_Comm threadcomm;
static pthread_barrier_t together;

/* How many threads a process has. */
static int count_of(int process) { return process == 1 ? 1 : MOST - process % 2; }

static void collect(MPI_Comm comm, int me) {
    for (int round = 0; round < 8; round++) {
        int root = round % total, number = me == root ? 77 + round : -1, sum = -1;
        int all[8 * MOST], own[8 * MOST], got[8 * MOST], before = -1;
        OK(MPI_Bcast(&number, 1, MPI_INT, root, comm));
        CHECK_EQ(number, 77 + round);
        OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(sum, total * (total - 1) / 2);
        OK(MPI_Gather(&me, 1, MPI_INT, all, 1, MPI_INT, root, comm));
        for (int i = 0; i < total; i++) {
            CHECK(me != root || all[i] == i);
            own[i] = me * 100 + i;
        }
        MPI_Request request;
        OK(MPI_Ialltoall(own, 1, MPI_INT, got, 1, MPI_INT, comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < total; i++) {
            CHECK_EQ(got[i], i * 100 + me);
        }
        OK(MPI_Exscan(&me, &before, 1, MPI_INT, MPI_SUM, comm));
        CHECK_EQ(before, me == 0 ? -1 : me * (me - 1) / 2);
        OK(MPI_Barrier(comm));
    }
}

static void *region(void *argument) {
    int key = *(int *)argument, me, size, flag, of_one, *value;
    MPI_Comm comm, copy;
    OK(MPIX_Comm_test_threadcomm(threadcomm, &flag));
    CHECK(flag);
    FAILS(MPI_Comm_size(threadcomm, &size), MPI_ERR_COMM);
    FAILS(MPIX_Threadcomm_finish(threadcomm), MPI_ERR_OTHER);
    OK(MPIX_Threadcomm_start(threadcomm));
    FAILS(MPIX_Threadcomm_start(threadcomm), MPI_ERR_OTHER);
    OK(MPI_Comm_size(threadcomm, &size));
    CHECK_EQ(size, total);
    OK(MPI_Comm_rank(threadcomm, &me));
    CHECK(me >= first && me < first + threads_here);
    /* No two have one rank. */
    int *seen = allocate((size_t)total * sizeof(int));
    OK(MPI_Allgather(&me, 1, MPI_INT, seen, 1, MPI_INT, threadcomm));
    for (int i = 0; i < total; i++) {
        CHECK_EQ(seen[i], i);
    }
    free(seen);
    pthread_barrier_wait(&together);
    /* Not while threads are in it, and not as others are freed. */
    comm = threadcomm;
    FAILS(MPIX_Threadcomm_free(&comm), MPI_ERR_OTHER);
    FAILS(MPI_Comm_free(&comm), MPI_ERR_COMM);
    CHECK(comm == threadcomm);
    OK(MPI_Comm_get_attr(threadcomm, key, &value, &flag));
    CHECK(flag && *value == 4711);
    talk(threadcomm, me, total);
    collect(threadcomm, me);
    OK(MPI_Comm_dup(threadcomm, &copy));
    OK(MPIX_Comm_test_threadcomm(copy, &flag));
    CHECK(flag);
    OK(MPI_Comm_rank(copy, &of_one));
    CHECK_EQ(of_one, me);
    talk(copy, me, total);
    collect(copy, me);
    OK(MPI_Comm_free(&copy));
    MPI_Request requests[2];
    int sent = me, received = -1, next = (me + 1) % total, before = (me + total - 1) % total;
    OK(MPI_Send_init(&sent, 1, MPI_INT, next, 9, threadcomm, &requests[0]));
    OK(MPI_Recv_init(&received, 1, MPI_INT, before, 9, threadcomm, &requests[1]));
    for (int i = 0; i < 3; i++) {
        sent = me + i;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK_EQ(received, before + i);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    OK(MPI_Barrier(threadcomm));
    OK(MPIX_Threadcomm_finish(threadcomm));
    FAILS(MPI_Barrier(threadcomm), MPI_ERR_COMM);
    return NULL;
}

static void *one_too_many(void *unused) {
    (void)unused;
    FAILS(MPIX_Threadcomm_start(threadcomm), MPI_ERR_OTHER);
    return NULL;
}

static void *keep_busy(void *unused) {
    (void)unused;
    OK(MPIX_Threadcomm_start(threadcomm));
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    OK(MPIX_Threadcomm_finish(threadcomm));
    return NULL;
}

static int copy_value(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra;
    __atomic_add_fetch(&copied, 1, __ATOMIC_RELAXED); /* each thread copies */
    *(void **)out = in, *flag = 1;
    return MPI_SUCCESS;
}

static void refuse(void) {
    MPI_Comm none = MPI_COMM_WORLD;
    int flag = -1;
    FAILS(MPIX_Threadcomm_init(MPI_COMM_WORLD, -1, &none), MPI_ERR_ARG);
    CHECK(none == MPI_COMM_NULL);
    FAILS(MPIX_Threadcomm_init(MPI_COMM_NULL, 1, &none), MPI_ERR_COMM);
    FAILS(MPIX_Threadcomm_init(MPI_COMM_WORLD, 1, NULL), MPI_ERR_ARG);
    FAILS(MPIX_Threadcomm_start(MPI_COMM_WORLD), MPI_ERR_COMM);
    FAILS(MPIX_Threadcomm_finish(MPI_COMM_NULL), MPI_ERR_COMM);
    none = MPI_COMM_WORLD;
    FAILS(MPIX_Threadcomm_free(&none), MPI_ERR_COMM);
    FAILS(MPIX_Comm_test_threadcomm(MPI_COMM_NULL, &flag), MPI_ERR_COMM);
    OK(MPIX_Comm_test_threadcomm(MPI_COMM_WORLD, &flag));
    CHECK_EQ(flag, 0);
}

int main(int argc, char **argv) {
    int provided, key, value = 4711;
    pthread_t threads[MOST];
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    world = world_rank(), processes = world_size();
    for (int i = 0; i < processes; i++) {
        first += i < world ? count_of(i) : 0;
        total += count_of(i);
    }
    threads_here = count_of(world);
    refuse();
    OK(MPI_Comm_create_keyval(copy_value, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &value));
    for (int again = 0; again < 2; again++) {
        copied = 0;
        OK(MPIX_Threadcomm_init(MPI_COMM_WORLD, threads_here, &threadcomm));
        CHECK_EQ(copied, threads_here);
        CHECK_EQ(pthread_barrier_init(&together, NULL, (unsigned)threads_here), 0);
        for (int i = 0; i < REGIONS; i++) {
            for (int thread = 0; thread < threads_here; thread++) {
                CHECK_EQ(pthread_create(&threads[thread], NULL, region, &key), 0);
            }
            for (int thread = 0; thread < threads_here; thread++) {
                CHECK_EQ(pthread_join(threads[thread], NULL), 0);
            }
        }
        CHECK_EQ(pthread_barrier_destroy(&together), 0);
        CHECK_EQ(pthread_barrier_init(&together, NULL, (unsigned)threads_here + 1), 0);
        for (int thread = 0; thread < threads_here; thread++) {
            CHECK_EQ(pthread_create(&threads[thread], NULL, keep_busy, NULL), 0);
        }
        pthread_barrier_wait(&together);
        one_too_many(NULL);
        pthread_barrier_wait(&together);
        for (int thread = 0; thread < threads_here; thread++) {
            CHECK_EQ(pthread_join(threads[thread], NULL), 0);
        }
        CHECK_EQ(pthread_barrier_destroy(&together), 0);
        MPI_Comm was = threadcomm;
        OK(MPIX_Threadcomm_free(&threadcomm));
        CHECK(threadcomm == MPI_COMM_NULL);
        FAILS(MPIX_Threadcomm_free(&was), MPI_ERR_COMM);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Finalize());
    return 0;
}
