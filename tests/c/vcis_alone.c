/* Communicators get VCIs without hints if threads may call concurrently: communicators of all origins with a thread
 * each, wildcards, later hints, processes with fewer threads, and none if the variable says so.
 * ranks: 1 2 4
 * variants: shm ofi
 * cflags: -pthread
 * timeout: 60
 * case: many
 * case: mixed
 * case: one
 */
#define _GNU_SOURCE
#include "vcis.h"
#include <pthread.h>
#include <sched.h>

enum { COMMS = 9, ROUNDS = 120, MAX = 30000 };

static int rank, size;

static int cores(void) {
    cpu_set_t set;
    CHECK_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    return CPU_COUNT(&set);
}

/* How many VCIs are open. */
static int vcis_open(void) {
    int index, count, provided;
    unsigned value;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("vcis_open", MPI_T_PVAR_CLASS_LEVEL, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_read(session, handle, &value));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    return (int)value;
}

/* Messages around the ring, short and long, by all ways of receiving; a sum. */
static void *work(void *argument) {
    MPI_Comm comm = *(MPI_Comm *)argument;
    char *out = allocate(MAX), *in = allocate(MAX);
    int me, all;
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &all));
    int right = (me + 1) % all, left = (me + all - 1) % all;
    for (int round = 0; round < ROUNDS; round++) {
        int bytes = round % 11 == 5 ? MAX - round : round, count, source = round % 2 ? left : MPI_ANY_SOURCE;
        int tag = round % 3 ? round : MPI_ANY_TAG, sum = 0;
        MPI_Request request;
        MPI_Status status;
        fill(out, (size_t)bytes, (uint64_t)(round * 100 + me));
        OK((round % 5 == 2 ? MPI_Issend : MPI_Isend)(out, bytes, MPI_CHAR, right, round, comm, &request));
        if (round % 4 == 1) {
            OK(MPI_Probe(source, tag, comm, &status));
            CHECK_EQ(status.MPI_TAG, round);
        }
        OK(MPI_Recv(in, MAX, MPI_CHAR, source, tag, comm, &status));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK_EQ(count, bytes);
        CHECK_EQ(status.MPI_SOURCE, left);
        CHECK(is_filled(in, (size_t)bytes, (uint64_t)(round * 100 + left)));
        if (round % 10 == 9) {
            OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK_EQ(sum, all * (all - 1) / 2);
        }
    }
    free(out);
    free(in);
    return NULL;
}

/* A communicator of some or all processes, made in one of nine ways; MPI_COMM_NULL for who is in none. */
static MPI_Comm make(int way) {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Group world, group;
    MPI_Request request;
    int range[1][3] = {{size / 2, size - 1, 1}}, dims[1] = {size}, periods[1] = {1}, one = 1;
    switch (way) {
    case 0: OK(MPI_Comm_dup(MPI_COMM_WORLD, &made)); break;
    case 1: OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &made)); break;
    case 2: OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made)); break;
    case 3: OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, size > 2, &made)); break;
    case 4: OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made)); break;
    case 5:
    case 6:
        OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
        OK(MPI_Group_range_incl(world, 1, range, &group));
        if (way == 5) {
            OK(MPI_Comm_create(MPI_COMM_WORLD, group, &made));
        } else if (rank >= size / 2) {
            OK(MPI_Comm_create_group(MPI_COMM_WORLD, group, 7, &made));
        }
        OK(MPI_Group_free(&world));
        OK(MPI_Group_free(&group));
        break;
    case 7:
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &made, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    default:
        range[0][0] = (rank + 1) % size;
        OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &one, &range[0][0], MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &made));
    }
    return made;
}

static void all_at_once(void) {
    MPI_Comm comms[COMMS];
    pthread_t threads[COMMS];
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < COMMS; i++) {
            comms[i] = make(i);
        }
        for (int i = 0; i < COMMS; i++) {
            if (comms[i] != MPI_COMM_NULL) {
                CHECK_EQ(pthread_create(&threads[i], NULL, work, &comms[i]), 0);
            }
        }
        for (int i = 0; i < COMMS; i++) {
            if (comms[i] != MPI_COMM_NULL) {
                CHECK_EQ(pthread_join(threads[i], NULL), 0);
                OK(turn ? MPI_Comm_free(&comms[i]) : MPI_Comm_disconnect(&comms[i]));
            }
        }
    }
}

static void hints_later(void) {
    MPI_Comm comm, copy;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK(comm_has(comm, "weft_num_vcis", ""));
    MPI_Info info = hints("weft_num_vcis=2 mpi_assert_no_any_source=true mpi_assert_no_any_tag=true");
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Info_free(&info));
    CHECK(comm_has(comm, "weft_num_vcis", "2"));
    OK(MPI_Comm_dup(comm, &copy));
    CHECK(comm_has(copy, "weft_num_vcis", "1"));
    work(&copy);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&comm));
    copy = dup_with(MPI_COMM_WORLD, "vci=1");
    CHECK(comm_has(copy, "vci", "1"));
    work(&copy);
    OK(MPI_Comm_free(&copy));
}

int main(int argc, char **argv) {
    int provided, mixed = strcmp(argv[1], "mixed") == 0, one = strcmp(argv[1], "one") == 0;
    const char *own = getenv("PMI_RANK");
    int few = mixed && own && atoi(own) % 2;
    if (one) {
        CHECK_EQ(setenv("WEFT_DUP_VCIS", "0", 1), 0);
    }
    OK(MPI_Init_thread(&argc, &argv, few ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE, &provided));
    rank = world_rank(), size = world_size();
    CHECK_EQ(vcis_open(), 1);
    MPI_Comm first, second;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    if (one || cores() < 2) {
        CHECK_EQ(vcis_open(), 1);
    } else if (!mixed) {
        CHECK_EQ(vcis_open(), 3);
    } else if (few) {
        CHECK_EQ(vcis_open(), 1);
    }
    work(&first);
    work(&second);
    if (!mixed) {
        all_at_once();
        hints_later();
    }
    OK(MPI_Comm_free(&first));
    OK(MPI_Comm_free(&second));
    OK(MPI_Finalize());
    return 0;
}
