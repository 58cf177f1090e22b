/* The keys soft and file of MPI_Comm_spawn in MPI_INFO_ENV and in what MPI_Info_create_env gives before MPI_Init (MPI-5.0
 * sections 10.1 and 11.2.1): of the process's own command, and not of the one that has spawned its parents. Also without a
 * launcher.
 * ranks: 1
 * variants: shm
 * timeout: 60
 * stdout: launched
 * stdout: alone
 */
#include "check.h"

#include <sys/wait.h>

static const char *const keys[] = {"soft", "file"};
static const char *const values[] = {"0:1", "/tmp/weft-info-env \xff"};

static void compare(MPI_Info info, int is_given) {
    for (int i = 0; i < 2; i++) {
        char value[1024];
        int length = sizeof value, flag;
        OK(MPI_Info_get_string(info, keys[i], &length, value, &flag));
        CHECK_EQ(flag, is_given);
        CHECK(!flag || strcmp(value, values[i]) == 0);
    }
}

static void spawn(char *program, char *depth, MPI_Info info) {
    char *args[] = {depth, NULL};
    int size;
    MPI_Comm children;
    OK(MPI_Comm_spawn(program, args, 2, info, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE));
    OK(MPI_Comm_remote_size(children, &size));
    CHECK_EQ(size, info == MPI_INFO_NULL ? 2 : 1);
    OK(MPI_Barrier(children));
    OK(MPI_Comm_disconnect(&children));
}

int main(int argc, char **argv) {
    int depth = argc > 1 ? argv[1][0] - '0' : 0;
    MPI_Info before;
    MPI_Comm parent;
    OK(MPI_Info_create_env(argc, argv, &before));
    compare(before, depth == 1);
    OK(MPI_Info_free(&before));
    OK(MPI_Init(&argc, &argv));
    compare(MPI_INFO_ENV, depth == 1);
    OK(MPI_Comm_get_parent(&parent));
    CHECK((parent == MPI_COMM_NULL) == (depth == 0));
    if (depth == 0) {
        MPI_Info info;
        FILE *file = fopen(values[1], "w");
        CHECK(file && fputs("wdir = /\n", file) >= 0 && fclose(file) == 0);
        OK(MPI_Info_create(&info));
        for (int i = 0; i < 2; i++) {
            OK(MPI_Info_set(info, keys[i], values[i]));
        }
        spawn(argv[0], "1", info);
        OK(MPI_Info_free(&info));
        unlink(values[1]);
        puts(getenv("PMI_FD") ? "launched" : "alone");
        fflush(stdout);
    } else if (depth == 1) {
        spawn(argv[0], "2", MPI_INFO_NULL);
    }
    if (parent != MPI_COMM_NULL) {
        OK(MPI_Barrier(parent));
        OK(MPI_Comm_disconnect(&parent));
    }
    OK(MPI_Finalize());
    if (depth == 0 && getenv("PMI_FD")) {
        unsetenv("PMI_FD");
        unsetenv("PMI_RANK");
        unsetenv("PMI_SIZE");
        execv(argv[0], argv);
        return 1;
    }
    /* The launcher that this process has started, which would be ended with it. */
    while (depth == 0 && wait(NULL) > 0) {
    }
    return 0;
}
