/* MPI_Publish_name, MPI_Lookup_name, MPI_Unpublish_name (MPI-3.1 section 10.4.4): a server publishes its port, children
 * of another rank find it by its name and connect; a job of another mpiexec finds it by a name server.
 * ranks: 2
 * timeout: 40
 * stdout: published
 */
#include "fails.h"

#include <signal.h>
#include <sys/wait.h>

static char self[4096];

/* A client: looks the name up, connects, and sends a number. */
static void client(const char *service, int number) {
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm server;
    OK(MPI_Lookup_name(service, MPI_INFO_NULL, port));
    OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &server));
    OK(MPI_Send(&number, 1, MPI_INT, 0, 4, server));
    OK(MPI_Comm_disconnect(&server));
}

static void serve(const char *port, int number) {
    MPI_Comm one;
    int got = -1;
    OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &one));
    OK(MPI_Recv(&got, 1, MPI_INT, 0, 4, one, MPI_STATUS_IGNORE));
    CHECK_EQ(got, number);
    OK(MPI_Comm_disconnect(&one));
}

/* Two jobs of launchers of their own, and a name server between them. */
static void apart(void) {
    char launcher[4096], place[64], mine[64];
    /* The launcher of this job. */
    snprintf(mine, sizeof mine, "/proc/%d/exe", (int)getppid());
    ssize_t length = readlink(mine, launcher, sizeof launcher - 1);
    CHECK(length > 0);
    launcher[length] = 0;
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t names = fork();
    if (names == 0) {
        dup2(ready[1], 1);
        /* Any port that is free: it says which. */
        execlp(launcher, launcher, "-name-server", "0", (char *)NULL);
        _exit(1);
    }
    close(ready[1]);
    FILE *said = fdopen(ready[0], "r");
    int number = 0;
    CHECK(said != NULL && fscanf(said, "mpiexec: the name server listens on port %d", &number) == 1);
    CHECK(number > 0);
    snprintf(place, sizeof place, "localhost:%d", number);
    pid_t jobs[2];
    for (int i = 0; i < 2; i++) {
        jobs[i] = fork();
        if (jobs[i] == 0) {
            execlp(launcher, launcher, "-nameserver", place, "-n", "1", self, i ? "far-client" : "far-server",
                   (char *)NULL);
            _exit(1);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = -1;
        CHECK_EQ(waitpid(jobs[i], &status, 0), jobs[i]);
        CHECK_EQ(status, 0);
    }
    kill(names, SIGTERM);
    CHECK_EQ(waitpid(names, NULL, 0), names);
}

int main(int argc, char **argv) {
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    MPI_Comm parent, children;
    OK(MPI_Comm_get_parent(&parent));
    char port[MPI_MAX_PORT_NAME] = "";
    if (parent != MPI_COMM_NULL) {
        client("a service, \"with\" blanks; = and \\", 11);
        OK(MPI_Comm_disconnect(&parent));
        OK(MPI_Finalize());
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "far-server") == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Publish_name("far", MPI_INFO_NULL, port));
        serve(port, 12);
        OK(MPI_Unpublish_name("far", MPI_INFO_NULL, port));
        OK(MPI_Finalize());
        return 0;
    }
    if (argc > 1) {
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        while (MPI_Lookup_name("far", MPI_INFO_NULL, port) != MPI_SUCCESS) {
            nap(0.01);
        }
        client("far", 12);
        OK(MPI_Finalize());
        return 0;
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    const char *service = "a service, \"with\" blanks; = and \\";
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        FAILS(MPI_Lookup_name(service, MPI_INFO_NULL, port), MPI_ERR_NAME);
        OK(MPI_Publish_name(service, MPI_INFO_NULL, port));
        FAILS(MPI_Publish_name(service, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
    }
    barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        client(service, 10);
        OK(MPI_Comm_spawn(self, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_disconnect(&children));
    } else {
        serve(port, 10);
        serve(port, 11);
        OK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
        FAILS(MPI_Unpublish_name(service, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        FAILS(MPI_Lookup_name(service, MPI_INFO_NULL, port), MPI_ERR_NAME);
        FAILS(MPI_Lookup_name(service, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
        FAILS(MPI_Lookup_name(NULL, MPI_INFO_NULL, port), MPI_ERR_ARG);
        FAILS(MPI_Publish_name("", MPI_INFO_NULL, port), MPI_ERR_ARG);
        FAILS(MPI_Publish_name("x", MPI_INFO_NULL, ""), MPI_ERR_PORT);
        FAILS(MPI_Publish_name("x", (MPI_Info)12345, port), MPI_ERR_INFO);
        FAILS(MPI_Unpublish_name(service, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
        OK(MPI_Close_port(port));
        apart();
        printf("published\n");
    }
    OK(MPI_Finalize());
    return 0;
}
