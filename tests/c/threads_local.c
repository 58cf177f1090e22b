/* Local calls take no lock of a VCI, and end while other threads communicate without a pause.
 * ranks: 1
 * cflags: -pthread
 * timeout: 30
 * case: per-vci
 * case: global
 */
#include "vcis.h"
#include <pthread.h>

enum { CALLS = 20000 };
static _Atomic int over;

static void *poll_(void *unused) {
    int flag;
    while (!over) {
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    }
    return unused;
}

static void *block(void *unused) {
    OK(MPI_Recv(NULL, 0, MPI_CHAR, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return unused;
}

static void local(int calls) {
    MPI_Group group;
    MPI_Datatype type;
    MPI_Info info;
    MPI_Status status;
    memset(&status, 0, sizeof status);
    for (int i = 0; i < calls; i++) {
        int number, flag, provided;
        MPI_Aint lb, extent;
        void *value;
        OK(MPI_Comm_rank(MPI_COMM_WORLD, &number));
        OK(MPI_Comm_size(MPI_COMM_WORLD, &number));
        OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
        OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
        OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
        OK(MPI_Group_rank(group, &number));
        OK(MPI_Group_free(&group));
        OK(MPI_Type_contiguous(3, MPI_INT, &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Type_get_extent(type, &lb, &extent));
        OK(MPI_Type_free(&type));
        OK(MPI_Get_count(&status, MPI_INT, &number));
        OK(MPI_Query_thread(&provided));
        OK(MPI_Initialized(&flag));
        OK(MPI_Info_create(&info));
        OK(MPI_Info_free(&info));
        CHECK(MPI_Wtime() > 0);
    }
}

int main(int argc, char **argv) {
    int provided;
    pthread_t threads[2];
    CHECK_EQ(argc, 2);
    setenv("WEFT_CRITICAL_SECTION", argv[1], 1);
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    /* To count takes locks, always as many. */
    unsigned long before = counted("locks_taken"), after = counted("locks_taken");
    local(CALLS);
    CHECK_EQ(counted("locks_taken") - after, after - before);

    CHECK_EQ(pthread_create(&threads[0], NULL, poll_, NULL), 0);
    CHECK_EQ(pthread_create(&threads[1], NULL, block, NULL), 0);
    local(CALLS);
    over = 1;
    OK(MPI_Send(NULL, 0, MPI_CHAR, 0, 8, MPI_COMM_WORLD));
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    OK(MPI_Finalize());
    return 0;
}
