/* The key soft of MPI_Comm_spawn (MPI-4.1 section 11.8.4): the greatest number of its set up to maxprocs is started,
 * and the error codes of the other processes say so. MPI_INFO_ENV of a process describes its own command.
 *
 * ranks: 1 2
 */
#include "fails.h"

static int child(MPI_Comm parent, char **argv)
{
    /* Told: how many are of this command, and perhaps that errors are returned. */
    char value[20];
    int length = sizeof value, flag;
    OK(MPI_Info_get_string(MPI_INFO_ENV, "maxprocs", &length, value, &flag));
    CHECK(flag);
    CHECK_EQ(atoi(value), atoi(argv[2]));
    MPI_Errhandler handler;
    OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK((handler == MPI_ERRORS_RETURN) == (argv[3] != NULL));
    OK(MPI_Comm_disconnect(&parent));
    OK(MPI_Finalize());
    return 0;
}

static void spawns(char *program, const char *soft, int expected)
{
    MPI_Info info;
    char number[2] = {(char)('0' + expected), 0};
    char *args[] = {"child", number, NULL};
    int codes[3] = {-1, -1, -1}, started;
    MPI_Comm children;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "soft", soft));
    OK(MPI_Comm_spawn(program, args, 3, info, 0, MPI_COMM_WORLD, &children, codes));
    OK(MPI_Comm_remote_size(children, &started));
    CHECK_EQ(started, expected);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(codes[i] == MPI_SUCCESS ? MPI_SUCCESS : class_of(codes[i]),
                 i < expected ? MPI_SUCCESS : MPI_ERR_SPAWN);
    }
    OK(MPI_Comm_disconnect(&children));
    OK(MPI_Info_free(&info));
}

static void refused(char *program, const char *key, const char *value, int class)
{
    MPI_Info info;
    MPI_Comm children = MPI_COMM_SELF;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, key, value));
    FAILS(MPI_Comm_spawn(program, MPI_ARGV_NULL, 3, info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE),
          class);
    CHECK(children == MPI_COMM_NULL);
    OK(MPI_Info_free(&info));
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        return child(parent, argv);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    spawns(argv[0], "1", 1);
    spawns(argv[0], "2:10:2", 2);
    spawns(argv[0], "-1,1:3,77", 3);
    refused(argv[0], "soft", "5:9", MPI_ERR_SPAWN);
    refused(argv[0], "soft", "some", MPI_ERR_INFO_VALUE);
    refused(argv[0], "mpi_initial_errhandler", "mine", MPI_ERR_INFO_VALUE);

    /* Of two commands one is told to be fewer. */
    MPI_Info info[2];
    OK(MPI_Info_create(&info[0]));
    OK(MPI_Info_set(info[0], "soft", "0:1"));
    OK(MPI_Info_create(&info[1]));
    OK(MPI_Info_set(info[1], "unknown", "is\nignored=1;"));
    OK(MPI_Info_set(info[0], "mpi_initial_errhandler", "mpi_errors_return"));
    char *programs[] = {argv[0], argv[0]}, *one[] = {"child", "1", "returns", NULL}, *two[] = {"child", "2", "returns", NULL};
    char **args[] = {one, two};
    int most[] = {2, 2}, codes[4] = {-1, -1, -1, -1}, started;
    MPI_Comm children;
    OK(MPI_Comm_spawn_multiple(2, programs, args, most, info, 0, MPI_COMM_WORLD, &children, codes));
    OK(MPI_Comm_remote_size(children, &started));
    CHECK_EQ(started, 3);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] != MPI_SUCCESS);
    CHECK(codes[2] == MPI_SUCCESS && codes[3] == MPI_SUCCESS);
    OK(MPI_Comm_disconnect(&children));
    OK(MPI_Info_free(&info[0]));
    OK(MPI_Info_free(&info[1]));
    OK(MPI_Finalize());
    return 0;
}
