/* What a program can ask about MPI and its surroundings.
 * ranks: 1 2 3
 * variants: shm ofi hydra hosts single
 */
#include "check.h"

int main(int argc, char **argv) {
    int flag = -1, version, subversion, length = -1;
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 0);
    OK(MPI_Get_version(&version, &subversion));
    CHECK_EQ(version, MPI_VERSION);
    CHECK_EQ(subversion, MPI_SUBVERSION);
    CHECK(version > 3 || (version == 3 && subversion >= 1));
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    OK(MPI_Get_library_version(text, &length));
    CHECK_EQ(length, strlen(text));
    CHECK(strstr(text, "Weft") != NULL);
    /* Programs that find these names there look for those libraries' versions behind them. */
    CHECK(strstr(text, "MPICH") == NULL && strstr(text, "Open MPI") == NULL);

    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    CHECK(rank >= 0 && rank < size);
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 0);
    int provided = -1;
    OK(MPI_Query_thread(&provided));
    CHECK_EQ(provided, MPI_THREAD_SINGLE);
    OK(MPI_Is_thread_main(&flag));
    CHECK_EQ(flag, 1);

    char name[MPI_MAX_PROCESSOR_NAME], host[256] = "";
    OK(MPI_Get_processor_name(name, &length));
    CHECK_EQ(length, strlen(name));
    CHECK_EQ(gethostname(host, sizeof host - 1), 0);
    CHECK_EQ(strncmp(name, host, strlen(name)), 0);

    MPI_Comm parent = MPI_COMM_WORLD;
    OK(MPI_Comm_get_parent(&parent));
    CHECK_EQ(parent, MPI_COMM_NULL);

    int self_rank = -1, self_size = -1;
    OK(MPI_Comm_rank(MPI_COMM_SELF, &self_rank));
    OK(MPI_Comm_size(MPI_COMM_SELF, &self_size));
    CHECK_EQ(self_rank, 0);
    CHECK_EQ(self_size, 1);

    double tick = MPI_Wtick(), before = MPI_Wtime(), start = before;
    CHECK(tick > 0 && tick < 1e-3);
    for (int i = 0; i < 100000; i++) {
        double now = MPI_Wtime();
        CHECK(now >= before);
        before = now;
    }
    double from = MPI_Wtime();
    nap(0.02);
    double took = MPI_Wtime() - from;
    CHECK(took >= 0.0199 && took < 15);
    CHECK(MPI_Wtime() - start < 20);

    MPI_Aint here, there;
    char bytes[10];
    OK(MPI_Get_address(bytes, &here));
    OK(MPI_Get_address(bytes + 7, &there));
    CHECK_EQ(MPI_Aint_diff(there, here), 7);
    CHECK_EQ(MPI_Aint_add(here, 7), there);

    OK(MPI_Finalize());
    OK(MPI_Initialized(&flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Finalized(&flag));
    CHECK_EQ(flag, 1);
    OK(MPI_Get_version(&version, &subversion));
    return 0;
}
