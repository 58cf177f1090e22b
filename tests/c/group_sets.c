/* ranks: 1 2 4
 * local: groups
 */
/* Groups: inquiry, set operations, lists and ranges, comparison (MPI-3.1 section 6.3). */
#include "fails.h"

static int size, rank;

/* The group's members are these ranks of MPI_COMM_WORLD. */
static void members(MPI_Group world, MPI_Group group, int n, const int *want) {
    int count, all[64], got[64], i;
    MPI_Group_size(group, &count);
    CHECK_EQ(count, n);
    for (i = 0; i < n; i++) all[i] = i;
    MPI_Group_translate_ranks(group, n, all, world, got);
    for (i = 0; i < n; i++) CHECK_EQ(got[i], want[i]);
    int mine = MPI_UNDEFINED, told;
    for (i = 0; i < n; i++)
        if (want[i] == rank) mine = i;
    MPI_Group_rank(group, &told);
    CHECK_EQ(told, mine);
}

static int compared(MPI_Group one, MPI_Group two) {
    int result;
    MPI_Group_compare(one, two, &result);
    return result;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    MPI_Group world, self, empty, a, b, c, d;
    int all[64], back[64], i, n;
    for (i = 0; i < size; i++) all[i] = i, back[i] = size - 1 - i;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    members(world, world, size, all);
    MPI_Comm_group(MPI_COMM_SELF, &self);
    members(world, self, 1, &rank);

    MPI_Group_incl(world, size, back, &a);
    members(world, a, size, back);
    CHECK_EQ(compared(world, a), size == 1 ? MPI_IDENT : MPI_SIMILAR);
    CHECK_EQ(compared(world, world), MPI_IDENT);
    CHECK_EQ(compared(world, self), size == 1 ? MPI_IDENT : MPI_UNEQUAL);

    MPI_Group_incl(world, 0, NULL, &empty);
    CHECK_EQ(empty, MPI_GROUP_EMPTY);
    MPI_Group_free(&empty);
    CHECK_EQ(empty, MPI_GROUP_NULL);
    MPI_Group_size(MPI_GROUP_EMPTY, &n);
    CHECK_EQ(n, 0);
    MPI_Group_difference(world, a, &empty);
    CHECK_EQ(empty, MPI_GROUP_EMPTY);

    int range[1][3] = {{size - 1, 0, -1}}, odd[1][3] = {{0, size - 1, 2}};
    MPI_Group_range_incl(world, 1, range, &b);
    CHECK_EQ(compared(a, b), MPI_IDENT);
    MPI_Group_free(&b);

    /* Even ranks, odd ranks, and both put together again in another order. */
    MPI_Group_range_incl(world, 1, odd, &b);
    MPI_Group_range_excl(world, 1, odd, &c);
    int even[64], rest[64], both[64], evens = 0, odds = 0;
    for (i = 0; i < size; i++)
        if (i % 2 == 0) even[evens++] = i; else rest[odds++] = i;
    members(world, b, evens, even);
    members(world, c, odds, rest);
    memcpy(both, rest, sizeof both);
    memcpy(both + odds, even, evens * sizeof(int));
    MPI_Group_union(c, b, &d);
    members(world, d, size, both);
    MPI_Group_free(&d);
    MPI_Group_intersection(a, b, &d);
    for (i = 0; i < evens; i++) both[i] = even[evens - 1 - i];
    members(world, d, evens, both);
    MPI_Group_free(&d);
    MPI_Group_difference(world, c, &d);
    CHECK_EQ(compared(d, b), MPI_IDENT);
    MPI_Group_free(&d);
    MPI_Group_excl(world, odds, rest, &d);
    CHECK_EQ(compared(d, b), MPI_IDENT);
    MPI_Group_free(&d);

    /* Translation of who isn't there, and of nobody; the arrays may be the same. */
    int some[2] = {MPI_PROC_NULL, size - 1};
    MPI_Group_translate_ranks(world, 2, some, MPI_GROUP_EMPTY, some);
    CHECK_EQ(some[0], MPI_PROC_NULL);
    CHECK_EQ(some[1], MPI_UNDEFINED);

    /* Wrong uses. */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int twice[2] = {0, 0}, wrong[2] = {0, size}, ranges[1][3] = {{0, 0, 0}}, made;
    FAILS(MPI_Group_incl(world, 2, twice, &d), MPI_ERR_RANK);
    FAILS(MPI_Group_excl(world, 2, wrong, &d), MPI_ERR_RANK);
    FAILS(MPI_Group_incl(world, -1, twice, &d), MPI_ERR_ARG);
    FAILS(MPI_Group_incl(world, 1, NULL, &d), MPI_ERR_ARG);
    FAILS(MPI_Group_incl(world, 1, twice, NULL), MPI_ERR_ARG);
    FAILS(MPI_Group_range_incl(world, 1, ranges, &d), MPI_ERR_ARG);
    FAILS(MPI_Group_translate_ranks(world, 2, wrong, world, some), MPI_ERR_RANK);
    FAILS(MPI_Group_size(MPI_GROUP_NULL, &n), MPI_ERR_GROUP);
    FAILS(MPI_Group_rank(a + 1000, &n), MPI_ERR_GROUP);
    FAILS(MPI_Group_union(a, MPI_GROUP_NULL, &d), MPI_ERR_GROUP);
    FAILS(MPI_Group_size(a, NULL), MPI_ERR_ARG);
    FAILS(MPI_Comm_group(MPI_COMM_NULL, &d), MPI_ERR_COMM);
    FAILS(MPI_Comm_remote_group(MPI_COMM_WORLD, &d), MPI_ERR_COMM);
    made = a;
    MPI_Group_free(&a);
    FAILS(MPI_Group_free(&made), MPI_ERR_GROUP);
    FAILS(MPI_Group_free(&a), MPI_ERR_GROUP);

    MPI_Group_free(&b);
    MPI_Group_free(&c);
    MPI_Group_free(&self);
    MPI_Group_free(&world);
    MPI_Finalize();
    return 0;
}
