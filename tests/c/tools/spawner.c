/* Spawns copies of itself, and says on which hosts they are; or meets another job by a published name. */
#include "../check.h"

#include <unistd.h>

static char self[4096];

/* The children's last argument: bytes that are not UTF-8, with "lines" also a newline, which not all launchers pass. */
static char *last(const char *what) {
    return strcmp(what, "lines") == 0 ? "two\nlines\xff" : "\xff\xfe";
}

/* Parents and children, parents first: all talk to all. */
static void meet(MPI_Comm inter, int high) {
    MPI_Comm all;
    OK(MPI_Intercomm_merge(inter, high, &all));
    int rank, size, sum = 0;
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all));
    CHECK_EQ(sum, size * (size - 1) / 2);
    for (int step = 0; step < size; step++) {
        int to = (rank + step) % size, from = (rank + size - step) % size, got = -1;
        OK(MPI_Sendrecv(&rank, 1, MPI_INT, to, 3, &got, 1, MPI_INT, from, 3, all, MPI_STATUS_IGNORE));
        CHECK_EQ(got, from);
    }
    OK(MPI_Comm_disconnect(&all));
}

/* Sends this process's host name to rank 0 of the other group. */
static void tell(MPI_Comm inter) {
    char name[256] = "";
    int rank;
    CHECK(gethostname(name, sizeof name - 1) == 0);
    OK(MPI_Comm_rank(inter, &rank));
    OK(MPI_Send(name, sizeof name, MPI_CHAR, 0, 5, inter));
}

static void hear(MPI_Comm inter) {
    int size;
    OK(MPI_Comm_remote_size(inter, &size));
    printf("children:");
    for (int i = 0; i < size; i++) {
        char name[256];
        OK(MPI_Recv(name, sizeof name, MPI_CHAR, i, 5, inter, MPI_STATUS_IGNORE));
        printf(" %s", name);
    }
    printf("\n");
    fflush(stdout);
}

static void child(const char *what, MPI_Comm parent) {
    int rank = world_rank();
    if (strcmp(what, "abort") == 0 && rank == 1) {
        MPI_Abort(MPI_COMM_WORLD, 5);
    }
    if (strcmp(what, "leave") == 0) {
        _exit(3);
    }
    if (strcmp(what, "sleep") == 0) {
        nap(101);
    }
    if (strcmp(what, "folder") == 0) {
        char here[4096];
        CHECK(getcwd(here, sizeof here) != NULL && strcmp(strrchr(here, '/'), "/\xff\xfe") == 0);
    }
    if (strcmp(what, "variables") == 0) {
        char here[4096];
        CHECK(getenv("WEFT_TEST_A") != NULL && strcmp(getenv("WEFT_TEST_A"), "1") == 0);
        CHECK(getcwd(here, sizeof here) != NULL && strcmp(here, "/usr/lib") == 0);
    }
    tell(parent);
    if (strcmp(what, "again") == 0) {
        MPI_Comm inter;
        char *args[] = {"child", "plain", last("plain"), NULL};
        OK(MPI_Comm_spawn(self, args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        if (rank == 0) {
            hear(inter);
        }
        meet(inter, 0);
        OK(MPI_Comm_disconnect(&inter));
    }
    meet(parent, 1);
    OK(MPI_Comm_disconnect(&parent));
}

static void by_name(const char *what, const char *service) {
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    int serves = strcmp(what, "accept") == 0;
    if (serves) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        if (world_rank() == 0) {
            OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        if (world_rank() == 0) {
            OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
        }
        OK(MPI_Close_port(port));
    } else {
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        for (int i = 0; MPI_Lookup_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS; i++) {
            /* The other job may start slowly, beside strangers on a busy machine; mpiexec -timeout ends this one. */
            CHECK(i < 3000);
            nap(0.02);
        }
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    }
    meet(inter, !serves);
    OK(MPI_Comm_disconnect(&inter));
    if (world_rank() == 0) {
        printf("%s done\n", what);
    }
}

int main(int argc, char **argv) {
    MPI_Comm parent, inter;
    OK(MPI_Init(&argc, &argv));
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    OK(MPI_Comm_get_parent(&parent));
    CHECK(argc > 2);
    if (parent != MPI_COMM_NULL) {
        CHECK(argc == 4 && strcmp(argv[3], last(argv[2])) == 0);
        child(argv[2], parent);
    } else if (strcmp(argv[1], "accept") == 0 || strcmp(argv[1], "connect") == 0) {
        by_name(argv[1], argv[2]);
    } else {
        /* spawner WHAT COUNT [KEY VALUE]... */
        MPI_Info info;
        int *told, found, count = atoi(argv[2]), codes[64], *universe;
        OK(MPI_Info_create(&info));
        for (int i = 3; i + 1 < argc; i += 2) {
            OK(MPI_Info_set(info, argv[i], argv[i + 1]));
        }
        OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &found));
        if (strcmp(argv[1], "universe") == 0) {
            if (world_rank() == 0) {
                printf("universe %d\n", found ? *universe : -1);
            }
            OK(MPI_Info_free(&info));
            OK(MPI_Finalize());
            return 0;
        }
        OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &told, &found));
        char *args[] = {"child", argv[1], last(argv[1]), NULL};
        int root = world_size() - 1;
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        const char *program = getenv("WEFT_TEST_PROGRAM") ? getenv("WEFT_TEST_PROGRAM") : self;
        int code = MPI_Comm_spawn(program, args, count, info, root, MPI_COMM_WORLD, &inter, codes), class = 0;
        OK(MPI_Info_free(&info));
        if (code != MPI_SUCCESS) {
            char text[MPI_MAX_ERROR_STRING];
            int length;
            OK(MPI_Error_class(code, &class));
            OK(MPI_Error_string(code, text, &length));
            CHECK_EQ(class, MPI_ERR_SPAWN);
            CHECK(inter == MPI_COMM_NULL);
            for (int i = 0; i < count; i++) {
                CHECK(codes[i] != MPI_SUCCESS);
            }
            if (world_rank() == root) {
                printf("refused: %s\n", text);
            }
            OK(MPI_Finalize());
            return 0;
        }
        OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        if (strcmp(argv[1], "abort") == 0 || strcmp(argv[1], "leave") == 0 || strcmp(argv[1], "sleep") == 0) {
            char name[256];
            if (strcmp(argv[1], "sleep") == 0 && world_rank() == 0) {
                printf("sleeping\n");
                fflush(stdout);
            }
            code = MPI_Recv(name, sizeof name, MPI_CHAR, count - 1, 5, inter, MPI_STATUS_IGNORE);
            CHECK(code != MPI_SUCCESS);
            if (world_rank() == 0) {
                printf("lost\n");
            }
            OK(MPI_Comm_free(&inter));
            OK(MPI_Finalize());
            return 0;
        }
        if (world_rank() == 0) {
            hear(inter);
        }
        meet(inter, 0);
        OK(MPI_Comm_disconnect(&inter));
    }
    OK(MPI_Finalize());
    return 0;
}
