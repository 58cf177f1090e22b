/* The port's name that a spawned job gets is secret. While the job runs no command line, which every user of the
 * host can read, and no environment has it.
 * ranks: 1
 * variants: shm tcp single
 * timeout: 40
 * stdout: nobody reads it
 */
#include "check.h"

#include <ctype.h>
#include <dirent.h>

/* Looks for the key of the port, and if wanted for numbers of 128 bits, in a file of a process. Returns its length. */
static size_t look(const char *pid, const char *file, int numbers) {
    static char text[1 << 20];
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
    FILE *from = fopen(path, "r");
    if (from == NULL) {
        return 0;
    }
    size_t length = fread(text, 1, sizeof text, from);
    fclose(from);
    size_t digits = 0;
    for (size_t at = 0; at < length; at++) {
        digits = isxdigit((unsigned char)text[at]) ? digits + 1 : 0;
        if ((numbers && digits == 32) || (length - at >= 11 && memcmp(text + at, "weft-parent", 11) == 0)) {
            fprintf(stderr, "%s of process %s has, at byte %zu: %.60s\n", file, pid, at, text + (at > 40 ? at - 40 : 0));
            exit(1);
        }
    }
    return length;
}

/* Looks at this process, the one that spawned it, and the launchers between: all ancestors. */
static void look_at_all(void) {
    char pid[32];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    int launchers = 0, looked = 0;
    while (strcmp(pid, "1") != 0 && strcmp(pid, "0") != 0) {
        char path[64], name[64] = "", line[1024];
        snprintf(path, sizeof path, "/proc/%s/stat", pid);
        FILE *stat = fopen(path, "r");
        CHECK(stat != NULL && fgets(line, sizeof line, stat) != NULL);
        fclose(stat);
        int parent = 0;
        char *end = strrchr(line, ')');
        CHECK(end != NULL && sscanf(end, ") %*c %d", &parent) == 1);
        *end = 0;
        snprintf(name, sizeof name, "%s", strchr(line, '(') + 1);
        int is_launcher = strcmp(name, "mpiexec") == 0;
        /* What has started the test is none of it. */
        if (is_launcher || strncmp(name, "dyn_secrets", 11) == 0) {
            looked++;
            CHECK(look(pid, "cmdline", 1) > 0);
            look(pid, "environ", 0);
        }
        launchers += is_launcher;
        snprintf(pid, sizeof pid, "%d", parent);
    }
    CHECK(launchers > 0 && looked > launchers);
}

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    if (argc > 1) {
        look_at_all();
    }
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_get_parent(&parent));
    if (parent == MPI_COMM_NULL) {
        char *args[] = {"child", NULL};
        OK(MPI_Comm_spawn(argv[0], args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_disconnect(&children));
        printf("nobody reads it\n");
    } else {
        look_at_all();
        OK(MPI_Comm_disconnect(&parent));
    }
    OK(MPI_Finalize());
    return 0;
}
