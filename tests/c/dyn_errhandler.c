/* The key mpi_initial_errhandler of MPI_Comm_spawn (MPI-4.1 sections 9.3 and 11.8.4) sets the children's handler, even
 * if mpiexec was given another one. Children without the key get mpiexec's.
 *
 * ranks: 1 2
 * variants: shm
 * launcher: -initial-errhandler mpi_errors_abort
 */
#include "check.h"

static void is(MPI_Comm comm, MPI_Errhandler expected) {
    MPI_Errhandler handler;
    OK(MPI_Comm_get_errhandler(comm, &handler));
    CHECK_EQ(handler, expected);
    OK(MPI_Errhandler_free(&handler));
}

static void spawn(char *program, const char *name) {
    char *programs[] = {program, program}, *args[] = {(char *)name, NULL}, **both[] = {args, args};
    int one[] = {1, 1};
    MPI_Comm children;
    MPI_Info info[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    if (name) {
        OK(MPI_Info_create(&info[0]));
        OK(MPI_Info_set(info[0], "mpi_initial_errhandler", name));
    }
    OK(MPI_Comm_spawn(program, args, 1, info[0], 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    is(children, MPI_ERRORS_ABORT);
    OK(MPI_Comm_disconnect(&children));
    /* It is for the whole job. */
    OK(MPI_Comm_spawn_multiple(2, programs, both, one, info, 0, MPI_COMM_WORLD, &children,
                               MPI_ERRCODES_IGNORE));
    OK(MPI_Comm_disconnect(&children));
    if (name) {
        OK(MPI_Info_free(&info[0]));
    }
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    world_rank();
    MPI_Comm parent;
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        MPI_Errhandler expected = MPI_ERRORS_ABORT;
        if (argc > 1 && strcmp(argv[1], "mpi_errors_return") == 0) {
            expected = MPI_ERRORS_RETURN;
        } else if (argc > 1) {
            CHECK(strcmp(argv[1], "mpi_errors_are_fatal") == 0);
            expected = MPI_ERRORS_ARE_FATAL;
        }
        is(MPI_COMM_WORLD, expected);
        is(MPI_COMM_SELF, expected);
        is(parent, expected);
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Finalize());
        return 0;
    }
    is(MPI_COMM_WORLD, MPI_ERRORS_ABORT);
    spawn(argv[0], NULL);
    spawn(argv[0], "mpi_errors_return");
    spawn(argv[0], "mpi_errors_are_fatal");
    OK(MPI_Finalize());
    return 0;
}
