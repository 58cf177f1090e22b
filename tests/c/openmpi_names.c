/* What headers of Open MPI name beyond the standard is there, so that programs that use it start; and
 * what comes out of the library is what those headers have: error classes, the version.
 * ranks: 2
 * variants: shm
 * build: openmpi compiler=mpicc.openmpi -Wno-deprecated-declarations
 */
#include "fails.h"
#include <mpi-ext.h>

/* Of Open MPI 5.0. */
extern int MPIX_Query_rocm_support(void) __attribute__((weak));

static void names(void) {
    char bound[OMPI_AFFINITY_STRING_MAX], now[OMPI_AFFINITY_STRING_MAX], exists[OMPI_AFFINITY_STRING_MAX];
    OK(OMPI_Affinity_str(OMPI_AFFINITY_LAYOUT_FMT, bound, now, exists));
    CHECK(strlen(bound) > 0 && strlen(now) > 0 && strstr(exists, "CPU"));
    CHECK(MPIX_Query_rocm_support != NULL && MPIX_Query_rocm_support() == 0);
    CHECK_EQ(MPIX_Query_cuda_support(), 0);
    MPI_Datatype none[2] = {MPI_2COMPLEX, MPI_2DOUBLE_COMPLEX};
    for (int i = 0; i < 2; i++) {
        int size;
        FAILS(MPI_Type_size(none[i], &size), MPI_ERR_TYPE);
    }
}

/* Persistent collectives by the names that they had before MPI-4.0. */
static void persistent(int rank, int size) {
    int one = rank + 1, sum = 0, root = rank == 0 ? 42 : 0;
    MPI_Request requests[3];
    MPI_Info info = MPI_INFO_NULL;
    OK(MPIX_Barrier_init(MPI_COMM_WORLD, info, &requests[0]));
    OK(MPIX_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, info, &requests[1]));
    OK(PMPIX_Bcast_init(&root, 1, MPI_INT, 0, MPI_COMM_WORLD, info, &requests[2]));
    for (int round = 0; round < 3; round++) {
        OK(MPI_Startall(3, requests));
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        CHECK_EQ(sum, size * (size + 1) / 2);
        CHECK_EQ(root, 42);
    }
    for (int i = 0; i < 3; i++) {
        OK(MPI_Request_free(&requests[i]));
    }
}

static void classes(void) {
    int class_;
    FAILS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ARG);
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    FAILS(MPI_Errhandler_free(&handler), MPI_ERR_ARG);
    /* 79 is the last class of Open MPI 5.0. */
    for (int code = 80; code <= MPI_ERR_LASTCODE; code++) {
        FAILS(MPI_Error_class(code, &class_), MPI_ERR_ARG);
    }
    OK(MPI_Add_error_class(&class_));
    CHECK(class_ > MPI_ERR_LASTCODE);
}

int main(int argc, char **argv) {
    int version, subversion;
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    names();
    persistent(rank, size);
    classes();
    OK(MPI_Finalize());
    return 0;
}
