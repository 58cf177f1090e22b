/* WEFT_COLL accepts every collective with a choice of algorithms, spelled as in MPI or with dashes, and the scans use
 * the chosen ones.
 * ranks: 2 3
 * variants: shm tcp
 * env: WEFT_COLL=scan=slots,exscan=recursive_doubling,reduce_scatter=halving,allgather=recursive_doubling
 * env: WEFT_LOG=coll
 */
#include "check.h"

/* Whether all reported plans of this collective have an algorithm. */
static int is_chosen(const char *text, const char *collective, const char *algorithm) {
    char start[64];
    int plans = 0;
    snprintf(start, sizeof start, ": %s of ", collective);
    for (const char *at = text; (at = strstr(at, start)) != NULL; at++, plans++) {
        const char *found = strstr(at, algorithm), *end = strchr(at, '\n');
        if (!found || !end || found > end) {
            return 0;
        }
    }
    return plans > 0;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    /* The events of plans. */
    static char text[1 << 16];
    FILE *kept = tmpfile();
    int error = dup(2);
    CHECK(kept && dup2(fileno(kept), 2) == 2);
    int rank = world_rank(), size = world_size(), one = rank + 1, sum = -1, before = -1, part = -1;
    int all[8] = {0}, each[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int round = 0; round < 3; round++) {
        OK(MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, (rank + 1) * (rank + 2) / 2);
        OK(MPI_Exscan(&one, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(before, rank ? rank * (rank + 1) / 2 : -1);
        OK(MPI_Reduce_scatter_block(each, &part, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(part, (rank + 1) * size);
        OK(MPI_Allgather(&one, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
        CHECK_EQ(all[size - 1], size);
    }
    /* What a communicator asks for by its hint. */
    MPI_Info info;
    MPI_Comm comm;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_coll", "exscan=slots,scan=recursive-doubling"));
    OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
    OK(MPI_Info_free(&info));
    char value[64];
    int length = sizeof value, flag;
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get_string(info, "weft_coll", &length, value, &flag));
    CHECK(flag && !strcmp(value, "exscan=slots,scan=recursive-doubling"));
    OK(MPI_Info_free(&info));
    OK(MPI_Scan(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, (rank + 1) * (rank + 2) / 2);
    OK(MPI_Exscan(&one, &before, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(before, rank ? rank * (rank + 1) / 2 : -1);
    OK(MPI_Comm_free(&comm));
    dup2(error, 2);
    ssize_t bytes = pread(fileno(kept), text, sizeof text - 1, 0);
    CHECK(bytes > 0);
    CHECK(is_chosen(text, "exscan", "RecursiveDoubling"));
    CHECK(is_chosen(text, "reduce_scatter", "Halving"));
    CHECK(is_chosen(text, "allgather", "RecursiveDoubling"));
    /* Those of MPI_Finalize. */
    CHECK(dup2(fileno(kept), 2) == 2);
    OK(MPI_Finalize());
    return 0;
}
