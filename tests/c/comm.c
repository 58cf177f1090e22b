/* Making, comparing, naming and freeing communicators.
 * ranks: 1 2 3 5
 * variants: shm ofi hosts hosts4 single
 */
#include "check.h"

static int compared(MPI_Comm one, MPI_Comm two) {
    int result = -1;
    OK(MPI_Comm_compare(one, two, &result));
    return result;
}

static void rank_and_size(MPI_Comm comm, int rank, int size) {
    int is_rank = -1, is_size = -1, inter = -1;
    OK(MPI_Comm_rank(comm, &is_rank));
    OK(MPI_Comm_size(comm, &is_size));
    OK(MPI_Comm_test_inter(comm, &inter));
    CHECK_EQ(is_rank, rank);
    CHECK_EQ(is_size, size);
    CHECK_EQ(inter, 0);
}

/* Every member learns which rank of the world every other has. */
static void members(MPI_Comm comm, int world, int *table) {
    int rank, size;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_size(comm, &size));
    for (int i = 0; i < size; i++) {
        OK(MPI_Sendrecv(&world, 1, MPI_INT, (rank + i) % size, 1, &table[(rank + size - i) % size], 1,
                        MPI_INT, (rank + size - i) % size, 1, comm, MPI_STATUS_IGNORE));
    }
}

static void names(MPI_Comm comm) {
    char name[MPI_MAX_OBJECT_NAME] = "x";
    int length = -1;
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    CHECK_EQ(strcmp(name, "MPI_COMM_WORLD"), 0);
    CHECK_EQ(length, strlen(name));
    OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &length));
    CHECK_EQ(strcmp(name, "MPI_COMM_SELF"), 0);
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK_EQ(length, 0);
    CHECK_EQ(strlen(name), 0);
    OK(MPI_Comm_set_name(comm, "a \xc3\xa4 b"));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK_EQ(strcmp(name, "a \xc3\xa4 b"), 0);
    CHECK_EQ(length, 6);
    char longer[1000];
    memset(longer, 'n', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    OK(MPI_Comm_set_name(comm, longer));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK_EQ(length, MPI_MAX_OBJECT_NAME - 1);
    CHECK_EQ(length, strlen(name));
    OK(MPI_Comm_set_name(comm, ""));
    OK(MPI_Comm_get_name(comm, name, &length));
    CHECK_EQ(length, 0);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size(), table[64];
    MPI_Comm world = MPI_COMM_WORLD, copy, part, again;

    OK(MPI_Comm_dup(world, &copy));
    CHECK(copy != world && copy != MPI_COMM_NULL);
    rank_and_size(copy, rank, size);
    CHECK_EQ(compared(world, world), MPI_IDENT);
    CHECK_EQ(compared(world, copy), MPI_CONGRUENT);
    CHECK_EQ(compared(world, MPI_COMM_SELF), size == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);
    names(copy);
    members(copy, rank, table);
    for (int i = 0; i < size; i++) {
        CHECK_EQ(table[i], i);
    }

    /* The same members in the reverse order. */
    OK(MPI_Comm_split(copy, 7, -rank, &part));
    rank_and_size(part, size - 1 - rank, size);
    CHECK_EQ(compared(world, part), size == 1 ? MPI_CONGRUENT : MPI_SIMILAR);
    members(part, rank, table);
    for (int i = 0; i < size; i++) {
        CHECK_EQ(table[i], size - 1 - i);
    }
    /* Of that, the odd and the even ones; same keys keep the order. */
    OK(MPI_Comm_split(part, rank % 2, 0, &again));
    rank_and_size(again, (size - 1 - rank) / 2, 0 + (size - 1 - rank) / 2 + rank / 2 + 1);
    members(again, rank, table);
    int group;
    OK(MPI_Comm_size(again, &group));
    for (int i = 0; i < group; i++) {
        CHECK_EQ(table[i] % 2, rank % 2);
        CHECK(i == 0 || table[i] < table[i - 1]);
    }
    OK(MPI_Comm_free(&again));
    CHECK_EQ(again, MPI_COMM_NULL);
    /* Communicators made of one that is gone stay, and so do those it was made of. */
    OK(MPI_Comm_free(&copy));
    members(part, rank, table);
    OK(MPI_Comm_free(&part));

    /* Who gives no color gets none. */
    OK(MPI_Comm_split(world, rank == 0 ? MPI_UNDEFINED : 2147483647, 0, &part));
    if (rank == 0) {
        CHECK_EQ(part, MPI_COMM_NULL);
    } else {
        rank_and_size(part, rank - 1, size - 1);
        OK(MPI_Comm_free(&part));
    }
    OK(MPI_Comm_split(world, MPI_UNDEFINED, 0, &part));
    CHECK_EQ(part, MPI_COMM_NULL);
    /* Colors and keys of all kinds: the extreme keys, too. */
    OK(MPI_Comm_split(world, rank, 0, &part));
    rank_and_size(part, 0, 1);
    CHECK_EQ(compared(part, MPI_COMM_SELF), MPI_CONGRUENT);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split(world, 0, rank == 0 ? 2147483647 : rank == 1 ? -2147483647 - 1 : 0, &part));
    members(part, rank, table);
    if (size > 1) {
        CHECK_EQ(table[0], 1);
        CHECK_EQ(table[size - 1], 0);
    }
    OK(MPI_Comm_free(&part));

    /* Those that share memory: with each other, as each has the same host name. */
    OK(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &part));
    CHECK(part != MPI_COMM_NULL);
    int mine, here;
    OK(MPI_Comm_size(part, &here));
    OK(MPI_Comm_rank(part, &mine));
    CHECK(here >= 1 && here <= size && mine < here);
    char name[2][MPI_MAX_PROCESSOR_NAME] = {"", ""};
    int length;
    OK(MPI_Get_processor_name(name[0], &length));
    OK(MPI_Sendrecv(name[0], MPI_MAX_PROCESSOR_NAME, MPI_CHAR, (mine + 1) % here, 1, name[1],
                    MPI_MAX_PROCESSOR_NAME, MPI_CHAR, (mine + here - 1) % here, 1, part,
                    MPI_STATUS_IGNORE));
    CHECK_EQ(strcmp(name[0], name[1]), 0);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split_type(world, rank == 0 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL,
                           &part));
    CHECK_EQ(part == MPI_COMM_NULL, rank == 0);
    if (rank != 0) {
        OK(MPI_Comm_free(&part));
    }

    OK(MPI_Comm_dup(MPI_COMM_SELF, &copy));
    rank_and_size(copy, 0, 1);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Finalize());
    return 0;
}
