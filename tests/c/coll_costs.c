/* Cost files that differ between ranks: all ranks use rank 0's file, and MPI_T returns each rank's own. A malformed file
 * is ignored.
 *
 * ranks: 5
 * variants: tcp
 * env: WEFT_SHM=0
 * env: WEFT_COLL_PRINT=1
 * stderr: rdma (tree:7, down by 7)
 */
#define _DEFAULT_SOURCE
#include "coll.h"
#include <unistd.h>

static const char *const files[] = {
    "# a fast adapter\ntcp 0.00004,0.02,0.0001,0.42,0.01,0.01,0.005,0.0001 8192\n",
    "tcp 0.001,0.5,0.0002,0.3,0.1,0.1,0.02,0.0003 never\n",
    "tcp 1,2,3\n",
};

static void read_text(const char *name, char *value)
{
    int index, count;
    MPI_T_cvar_handle handle;
    OK(MPI_T_cvar_get_index(name, &index));
    OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    CHECK(count <= 2048, "%d characters", count);
    OK(MPI_T_cvar_read(handle, value));
    OK(MPI_T_cvar_handle_free(&handle));
}

int main(int argc, char **argv)
{
    const char *number = getenv("PMI_RANK");
    int which = number ? atoi(number) % 3 : 0, provided;
    char path[] = "/tmp/weft-costs-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0, "no file");
    CHECK(write(file, files[which], strlen(files[which])) == (ssize_t)strlen(files[which]), "not written");
    close(file);
    setenv("WEFT_COLL_COSTS_FILE", path, 1);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    start(&argc, &argv);
    unlink(path);
    char value[2048];
    read_text("WEFT_COLL_COSTS", value);
    static const char *const told[] = {"tcp 0.00004,0.02,", "tcp 0.001,0.5,", ""};
    CHECK(strncmp(value, told[which], strlen(told[which])) == 0 && !value[0] == !told[which][0], "\"%s\"", value);

    int index, count;
    unsigned long long writes = 0;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("collective_writes", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    for (int i = 0; i < 100; i++) {
        int sum = rank + i;
        OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK(sum == size * (size - 1) / 2 + i * size, "%d: %d", i, sum);
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_T_pvar_read(session, handle, &writes));
    CHECK(writes > 100, "%llu writes", writes);
    OK(MPI_T_pvar_session_free(&session));
    /* Of others than rank 0, too: their first rank has another file. */
    MPI_Comm comm;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank ? 0 : MPI_UNDEFINED, -rank, &comm));
    for (int i = 0; comm != MPI_COMM_NULL && i < 20; i++) {
        int sum = rank + i;
        OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK(sum == size * (size - 1) / 2 + i * (size - 1), "%d: %d", i, sum);
    }
    if (comm != MPI_COMM_NULL)
        OK(MPI_Comm_free(&comm));
    MPI_Finalize();
    MPI_T_finalize();
    return 0;
}
