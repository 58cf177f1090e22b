/* MPI_Comm_spawn and MPI_Comm_spawn_multiple (MPI-3.1 section 10.3): children that merge with their parents, use
 * collectives, windows and wildcards, and spawn children in turn; arguments, Info keys and error codes; wrong
 * arguments.
 * ranks: 1 2
 * timeout: 60
 * stdout: spawned
 */
#include "fails.h"

static char *self;

/* What parents and children do together: the parents come first. */
static void work(MPI_Comm inter, int high) {
    MPI_Comm all, twin, half;
    OK(MPI_Intercomm_merge(inter, high, &all));
    int rank, size, sum = 0;
    OK(MPI_Comm_rank(all, &rank));
    OK(MPI_Comm_size(all, &size));
    for (int i = 0; i < 20; i++) {
        int one = rank + i;
        OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all));
        CHECK_EQ(sum, size * (size - 1) / 2 + size * i);
        OK(MPI_Barrier(all));
    }
    /* Both jobs share memory. */
    MPI_Comm node;
    OK(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    int near, *own, *next;
    OK(MPI_Comm_size(node, &near));
    CHECK_EQ(near, size);
    MPI_Win window;
    OK(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, &own, &window));
    MPI_Aint bytes;
    OK(MPI_Win_shared_query(window, (rank + 1) % size, &bytes, &near, &next));
    *own = rank;
    OK(MPI_Win_fence(0, window));
    CHECK_EQ(*next, (rank + 1) % size);
    OK(MPI_Win_free(&window));
    OK(MPI_Comm_free(&node));

    char *long_one = allocate(300000);
    fill(long_one, 300000, rank == size - 1 ? 5 : 6);
    OK(MPI_Bcast(long_one, 300000, MPI_CHAR, size - 1, all));
    CHECK(is_filled(long_one, 300000, 5));

    /* A ring with wildcards, and a long message by rendezvous. */
    MPI_Request request;
    MPI_Status status;
    char *there = allocate(300000);
    OK(MPI_Irecv(there, 300000, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, all, &request));
    OK(MPI_Ssend(long_one, 300000, MPI_CHAR, (rank + 1) % size, 3, all));
    OK(MPI_Wait(&request, &status));
    CHECK_EQ(status.MPI_SOURCE, (rank + size - 1) % size);
    CHECK(is_filled(there, 300000, 5));
    OK(MPI_Irecv(there, 1, MPI_CHAR, (rank + 1) % size, 99, all, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    int cancelled;
    OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled);
    free(long_one);
    free(there);

    /* A window; a duplicate, a part. */
    int *memory;
    MPI_Win win;
    OK(MPI_Win_allocate((MPI_Aint)sizeof(int) * size, sizeof(int), MPI_INFO_NULL, all, &memory, &win));
    for (int i = 0; i < size; i++) {
        memory[i] = -1;
    }
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < size; i++) {
        OK(MPI_Put(&rank, 1, MPI_INT, i, rank, 1, MPI_INT, win));
    }
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < size; i++) {
        CHECK_EQ(memory[i], i);
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_dup(all, &twin));
    OK(MPI_Comm_split(twin, rank % 2, -rank, &half));
    int in_half;
    OK(MPI_Comm_size(half, &in_half));
    OK(MPI_Allreduce(MPI_IN_PLACE, &in_half, 1, MPI_INT, MPI_MAX, half));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&twin));

    /* VCIs of its own, and an intercommunicator of its halves. */
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_num_vcis", "2"));
    OK(MPI_Comm_dup_with_info(all, info, &twin));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, twin));
    CHECK_EQ(sum, size * (size - 1) / 2);
    OK(MPI_Info_free(&info));
    MPI_Comm part, between;
    OK(MPI_Comm_split(twin, rank == 0, 0, &part));
    OK(MPI_Intercomm_create(part, 0, twin, rank == 0 ? 1 : 0, 7, &between));
    int other = -1;
    if (rank == 0) {
        OK(MPI_Send(&size, 1, MPI_INT, size - 2, 1, between));
    } else if (rank == size - 1) {
        OK(MPI_Recv(&other, 1, MPI_INT, 0, 1, between, MPI_STATUS_IGNORE));
        CHECK_EQ(other, size);
    }
    OK(MPI_Comm_free(&between));
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_free(&twin));
    OK(MPI_Comm_disconnect(&all));
}

static void child(int argc, char **argv, MPI_Comm parent) {
    char name[MPI_MAX_OBJECT_NAME], *flag;
    int length, *appnum, found, rank;
    OK(MPI_Comm_get_name(parent, name, &length));
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found));
    CHECK(found);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(argc >= 2);
    flag = argv[1];
    if (strcmp(flag, "plain") == 0) {
        CHECK_EQ(argc, 4);
        CHECK(strcmp(argv[2], "two words") == 0 && strcmp(argv[3], "") == 0);
    } else if (strcmp(flag, "again") == 0) {
        /* Grandchildren. */
        char *args[] = {"plain", "two words", "", NULL};
        MPI_Comm inter;
        OK(MPI_Comm_spawn(self, args, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
        work(inter, 0);
        OK(MPI_Comm_disconnect(&inter));
    } else if (strcmp(flag, "number") == 0) {
        CHECK_EQ(*appnum, atoi(argv[2]));
        CHECK_EQ(*appnum, rank < 2 ? 0 : 1);
        char where[200];
        CHECK(getcwd(where, sizeof where) != NULL);
        CHECK(strcmp(where, *appnum == 1 ? "/" : where) == 0);
    }
    work(parent, 1);
    MPI_Comm same;
    OK(MPI_Comm_get_parent(&same));
    CHECK_EQ(same, parent);
    OK(MPI_Comm_disconnect(&parent));
    OK(MPI_Comm_get_parent(&same));
    CHECK_EQ(same, MPI_COMM_NULL);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    static char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0);
    self = path;
    MPI_Comm parent, inter;
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) {
        child(argc, argv, parent);
        OK(MPI_Finalize());
        return 0;
    }

    char *plain[] = {"plain", "two words", "", NULL}, *again[] = {"again", NULL};
    int codes[5] = {-1, -1, -1, -1, -1};
    OK(MPI_Comm_spawn(self, plain, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes));
    int remote;
    OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_EQ(remote, 2);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS && codes[2] == -1);
    work(inter, 0);
    OK(MPI_Comm_disconnect(&inter));

    /* Over MPI_COMM_SELF of the last rank alone; grandchildren. */
    if (rank == world_size() - 1) {
        OK(MPI_Comm_spawn(self, again, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter, MPI_ERRCODES_IGNORE));
        work(inter, 0);
        OK(MPI_Comm_disconnect(&inter));
    }

    /* Two commands, with keys. The second is found by the key path. */
    char directory[4096], *base;
    strcpy(directory, self);
    base = strrchr(directory, '/');
    *base++ = 0;
    MPI_Info infos[2];
    OK(MPI_Info_create(&infos[0]));
    OK(MPI_Info_set(infos[0], "soft", "2:5:2,7"));
    OK(MPI_Info_set(infos[0], "host", "localhost"));
    OK(MPI_Info_create(&infos[1]));
    OK(MPI_Info_set(infos[1], "wdir", "/"));
    OK(MPI_Info_set(infos[1], "path", directory));
    OK(MPI_Info_set(infos[1], "arch", "x86_64"));
    OK(MPI_Info_set(infos[1], "nonsense", "is ignored"));
    char *programs[] = {self, base}, *zero[] = {"number", "0", NULL}, *one[] = {"number", "1", NULL};
    char **both[] = {zero, one};
    int counts[] = {2, 1};
    OK(MPI_Comm_spawn_multiple(2, programs, both, counts, infos, 0, MPI_COMM_WORLD, &inter, codes));
    OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_EQ(remote, 3);
    CHECK(codes[2] == MPI_SUCCESS && codes[3] == -1);
    work(inter, 0);
    OK(MPI_Comm_disconnect(&inter));

    /* What is wrong. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    FAILS(MPI_Comm_spawn("/proc/nowhere", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes),
          MPI_ERR_SPAWN);
    CHECK_EQ(inter, MPI_COMM_NULL);
    CHECK(codes[0] == MPI_ERR_SPAWN && codes[1] == MPI_ERR_SPAWN && codes[2] == MPI_SUCCESS);
    /* Not an MPI program: it ends without a word. */
    FAILS(MPI_Comm_spawn("/bin/true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes),
          MPI_ERR_SPAWN);
    FAILS(MPI_Comm_spawn(self, plain, 0, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn("", plain, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn(NULL, plain, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn(self, plain, 1, MPI_INFO_NULL, 99, MPI_COMM_WORLD, &inter, codes), MPI_ERR_ROOT);
    FAILS(MPI_Comm_spawn(self, plain, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, NULL, codes), MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn_multiple(0, programs, both, counts, infos, 0, MPI_COMM_WORLD, &inter, codes),
          MPI_ERR_ARG);
    FAILS(MPI_Comm_spawn_multiple(2, programs, MPI_ARGVS_NULL, NULL, infos, 0, MPI_COMM_WORLD, &inter, codes),
          MPI_ERR_ARG);
    OK(MPI_Info_set(infos[0], "soft", "a few"));
    FAILS(MPI_Comm_spawn(self, plain, 1, infos[0], 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_INFO_VALUE);
    const char *bad[][2] = {{"arch", "vax"}, {"host", "far.example"}, {"wdir", "/proc/nowhere"}, {"file", "/proc/nowhere"},
                            {"hostfile", "/proc/nowhere"}};
    for (int i = 0; i < 5; i++) {
        MPI_Info info;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, bad[i][0], bad[i][1]));
        FAILS(MPI_Comm_spawn(self, plain, 1, info, 0, MPI_COMM_WORLD, &inter, codes), MPI_ERR_SPAWN);
        OK(MPI_Info_free(&info));
    }
    OK(MPI_Info_free(&infos[0]));
    OK(MPI_Info_free(&infos[1]));
    if (rank == 0) {
        printf("spawned\n");
    }
    OK(MPI_Finalize());
    return 0;
}
