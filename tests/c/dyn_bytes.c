/* Programs that are spawned with names, arguments, folders and files of keys that are no UTF-8: a program's words are
 * any bytes but zero (MPI-4.1 section 11.8).
 * ranks: 1 2
 * variants: shm tcp single
 * timeout: 60
 * stdout: spawned
 */
#include "check.h"

#include <fcntl.h>
#include <sys/stat.h>

#define NAME "pr\xf6g\xff"
#define FOLDER "f\xff\xfe\xc3"

/* What the child is to find, in its order; none is NULL. */
static char *args[] = {"child", "\xff\xfe", "", "two words\xe4", "a\nb\xff\n", "\xfe\r", ":", "::", "=\\;'\"", NULL};

static void copy(const char *from, const char *to) {
    static char bytes[1 << 16];
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    CHECK(in >= 0 && out >= 0);
    ssize_t length;
    while ((length = read(in, bytes, sizeof bytes)) > 0) {
        CHECK_EQ(write(out, bytes, (size_t)length), length);
    }
    CHECK_EQ(length, 0);
    CHECK(close(in) == 0 && close(out) == 0);
}

static int ends(const char *text, const char *with) {
    size_t length = strlen(text), tail = strlen(with);
    return length >= tail && strcmp(text + length - tail, with) == 0;
}

/* Says how many words came as they should, and the others that something is wrong. */
static void child(int argc, char **argv, MPI_Comm parent) {
    char here[4096];
    int good = argc == (int)(sizeof args / sizeof *args);
    for (int i = 0; good && i < argc - 1; i++) {
        good = strcmp(argv[i + 1], args[i]) == 0;
    }
    CHECK(good);
    CHECK(ends(argv[0], "/" NAME));
    CHECK(getcwd(here, sizeof here) != NULL && ends(here, "/" FOLDER));
    OK(MPI_Barrier(parent));
    OK(MPI_Comm_disconnect(&parent));
}

static void meet(MPI_Comm inter, int expected) {
    int remote;
    OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_EQ(remote, expected);
    OK(MPI_Barrier(inter));
    OK(MPI_Comm_disconnect(&inter));
}

int main(int argc, char **argv) {
    MPI_Comm parent, inter;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        child(argc, argv, parent);
        OK(MPI_Finalize());
        return 0;
    }
    int rank, size;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));

    /* What is said at the root counts, which is the last rank. */
    int root = size - 1;
    char self[4096] = "", dir[] = "/tmp/weft-dyn-\xffXXXXXX", folder[256], program[256], keys[256];
    MPI_Info by_name, by_path, by_file;
    OK(MPI_Info_create(&by_name));
    OK(MPI_Info_create(&by_path));
    OK(MPI_Info_create(&by_file));
    if (rank == root) {
        CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
        CHECK(mkdtemp(dir) != NULL);
        snprintf(folder, sizeof folder, "%s/%s", dir, FOLDER);
        snprintf(program, sizeof program, "%s/%s", dir, NAME);
        snprintf(keys, sizeof keys, "%s/k\xff", dir);
        CHECK(mkdir(folder, 0700) == 0);
        copy(self, program);
        FILE *file = fopen(keys, "w");
        CHECK(file != NULL);
        CHECK(fprintf(file, "# \xe9\nwdir = %s\n", folder) > 0 && fclose(file) == 0);
        OK(MPI_Info_set(by_name, "wdir", folder));
        OK(MPI_Info_set(by_path, "path", dir));
        OK(MPI_Info_set(by_path, "wdir", folder));
        OK(MPI_Info_set(by_file, "file", keys));
    }

    OK(MPI_Comm_spawn(program, args, 2, by_name, root, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    meet(inter, 2);

    char *programs[] = {NAME, program}, **both[] = {args, args};
    int counts[] = {1, 2};
    MPI_Info infos[] = {by_path, by_file};
    OK(MPI_Comm_spawn_multiple(2, programs, both, counts, infos, root, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    meet(inter, 3);

    /* What is not there is shown as far as it can be. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    char text[MPI_MAX_ERROR_STRING];
    int length, code;
    code = MPI_Comm_spawn("/proc/\xff", args, 1, by_name, root, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    CHECK_EQ(class_of(code), MPI_ERR_SPAWN);
    OK(MPI_Error_string(code, text, &length));
    CHECK(rank != root || strstr(text, "/proc/") != NULL);
    /* A host's name is text. */
    OK(MPI_Info_set(by_name, "host", "h\xff"));
    code = MPI_Comm_spawn("/bin/true", args, 1, by_name, root, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    CHECK_EQ(class_of(code), MPI_ERR_SPAWN);

    OK(MPI_Info_free(&by_name));
    OK(MPI_Info_free(&by_path));
    OK(MPI_Info_free(&by_file));
    if (rank == root) {
        printf("spawned\n");
        CHECK(unlink(program) == 0 && unlink(keys) == 0 && rmdir(folder) == 0 && rmdir(dir) == 0);
    }
    OK(MPI_Finalize());
    return 0;
}
