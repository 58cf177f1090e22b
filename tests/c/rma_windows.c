/* Windows themselves: memory, attributes, names, error handlers, hints, groups.
 *
 * ranks: 1 2 3
 */
#include "rma.h"

static int deleted, handled;

static int on_delete(MPI_Win win, int keyval, void *value, void *extra)
{
    (void)win, (void)keyval;
    deleted += *(int *)value + *(int *)extra;
    return MPI_SUCCESS;
}

static void on_error(MPI_Win *win, int *code, ...)
{
    (void)win;
    CHECK_EQ(class_of(*code), MPI_ERR_RMA_SYNC);
    handled++;
}

static void attributes(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, 640, kind == DYNAMIC ? 1 : 8);
        static const int flavors[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE,
                                      MPI_WIN_FLAVOR_SHARED, MPI_WIN_FLAVOR_DYNAMIC};
        void *base = NULL;
        MPI_Aint *bytes;
        int *unit, *flavor, *model, flag = 0;
        OK(MPI_Win_get_attr(w.win, MPI_WIN_BASE, &base, &flag));
        CHECK(flag && base == (kind == DYNAMIC ? MPI_BOTTOM : w.base));
        OK(MPI_Win_get_attr(w.win, MPI_WIN_SIZE, &bytes, &flag));
        CHECK(flag && *bytes == (kind == DYNAMIC ? 0 : 640));
        OK(MPI_Win_get_attr(w.win, MPI_WIN_DISP_UNIT, &unit, &flag));
        CHECK(flag && *unit == (kind == DYNAMIC ? 1 : 8));
        OK(MPI_Win_get_attr(w.win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
        CHECK(flag && *flavor == flavors[kind]);
        OK(MPI_Win_get_attr(w.win, MPI_WIN_MODEL, &model, &flag));
        CHECK(flag && *model == MPI_WIN_UNIFIED);

        int keyval, value = 3, extra = 4, *got = NULL;
        OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, on_delete, &keyval, &extra));
        OK(MPI_Win_get_attr(w.win, keyval, &got, &flag));
        CHECK(!flag);
        OK(MPI_Win_set_attr(w.win, keyval, &value));
        OK(MPI_Win_get_attr(w.win, keyval, &got, &flag));
        CHECK(flag && got == &value);
        deleted = 0;
        OK(MPI_Win_delete_attr(w.win, keyval));
        CHECK_EQ(deleted, 7);
        OK(MPI_Win_set_attr(w.win, keyval, &value));
        OK(MPI_Win_free_keyval(&keyval));

        char name[MPI_MAX_OBJECT_NAME];
        int length = -1;
        OK(MPI_Win_get_name(w.win, name, &length));
        CHECK(length == 0 && name[0] == 0);
        OK(MPI_Win_set_name(w.win, "a window"));
        OK(MPI_Win_get_name(w.win, name, &length));
        CHECK(length == 8 && strcmp(name, "a window") == 0);

        MPI_Errhandler handler, found;
        OK(MPI_Win_get_errhandler(w.win, &found));
        CHECK(found == MPI_ERRORS_ARE_FATAL);
        OK(MPI_Win_create_errhandler(on_error, &handler));
        OK(MPI_Win_set_errhandler(w.win, handler));
        OK(MPI_Errhandler_free(&handler));
        handled = 0;
        CHECK_EQ(class_of(MPI_Win_unlock_all(w.win)), MPI_ERR_RMA_SYNC);
        CHECK_EQ(handled, 1);
        OK(MPI_Win_call_errhandler(w.win, MPI_ERR_RMA_SYNC));
        CHECK_EQ(handled, 2);

        MPI_Group group, world;
        int same;
        OK(MPI_Win_get_group(w.win, &group));
        OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
        OK(MPI_Group_compare(group, world, &same));
        CHECK_EQ(same, MPI_IDENT);
        OK(MPI_Group_free(&group));
        OK(MPI_Group_free(&world));
        deleted = 0;
        window_free(&w);
        CHECK_EQ(deleted, 7);
    }
}

static void hints(void)
{
    MPI_Info info, used;
    MPI_Win win;
    char value[64], *base;
    int flag;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "accumulate_ordering", "none"));
    OK(MPI_Info_set(info, "no_locks", "perhaps"));
    OK(MPI_Info_set(info, "same_size", "true"));
    OK(MPI_Win_allocate(8, 8, info, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Info_set(info, "same_size", "false"));
    OK(MPI_Win_set_info(win, info));
    OK(MPI_Info_free(&info));
    OK(MPI_Win_get_info(win, &used));
    OK(MPI_Info_get(used, "accumulate_ordering", 63, value, &flag));
    CHECK(flag && strcmp(value, "none") == 0);
    OK(MPI_Info_get(used, "same_size", 63, value, &flag));
    CHECK(flag && strcmp(value, "false") == 0);
    /* Those that were not given, or not understood, are told as they are by default. */
    OK(MPI_Info_get(used, "no_locks", 63, value, &flag));
    CHECK(flag && strcmp(value, "false") == 0);
    OK(MPI_Info_get(used, "accumulate_ops", 63, value, &flag));
    CHECK(flag && strcmp(value, "same_op_no_op") == 0);
    OK(MPI_Info_get(used, "alloc_shared_noncontig", 63, value, &flag));
    CHECK(flag && strcmp(value, "false") == 0);
    OK(MPI_Info_free(&used));
    OK(MPI_Win_free(&win));
}

/* All ranks see all memory; without a hint it is one piece. */
static void shared(int rank, int size, int apart)
{
    MPI_Info info;
    MPI_Win win;
    int *own, *other, unit;
    MPI_Aint bytes;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "alloc_shared_noncontig", apart ? "true" : "false"));
    /* Rank 0 has nothing, the others more and more. */
    OK(MPI_Win_allocate_shared(40 * rank, 4, info, MPI_COMM_WORLD, &own, &win));
    OK(MPI_Info_free(&info));
    /* Contiguous memory of no bytes begins where the memory before it ends (MPI-5.0 12.2.3); apart it has no
     * address, nor where nobody has any. */
    CHECK((own == NULL) == (rank == 0 && (apart || size == 1)));
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &other));
    CHECK(bytes == 0 && unit == 4 && (other == NULL) == (apart || size == 1));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 10 * rank; i++) {
        CHECK_EQ(own[i], 0);
        own[i] = 100 * rank + i;
    }
    OK(MPI_Win_sync(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_sync(win));
    char *end = NULL;
    for (int r = 0; r < size; r++) {
        OK(MPI_Win_shared_query(win, r, &bytes, &unit, &other));
        CHECK(bytes == 40 * r && unit == 4);
        CHECK(r != rank || other == own);
        CHECK(apart || !end || (char *)other == end);
        end = (char *)other + bytes;
        for (int i = 0; i < 10 * r; i++) {
            CHECK_EQ(other[i], 100 * r + i);
        }
    }
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &other));
    CHECK_EQ(bytes, size > 1 ? 40 : 0);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    /* At the end, too. */
    OK(MPI_Win_allocate_shared(rank + 1 < size ? 8 : 0, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &own, &win));
    char *first;
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &first));
    OK(MPI_Win_shared_query(win, size - 1, &bytes, &unit, &other));
    CHECK_EQ(bytes, 0);
    CHECK(size == 1 ? !other : (char *)other == first + 8 * (size - 1));
    CHECK(rank + 1 < size || own == other);
    OK(MPI_Win_free(&win));
}

/* Since MPI-4.1 (section 12.2.3) windows of other kinds tell what of their memory can be used here: one's
 * own always. */
static void queried(int rank, int size)
{
    MPI_Win wins[3];
    int *own[2], mine[10], *other, unit;
    MPI_Aint bytes;
    for (int i = 0; i < 10; i++) {
        mine[i] = 100 * rank + i;
    }
    OK(MPI_Win_allocate(sizeof mine, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &own[0], &wins[0]));
    OK(MPI_Win_create(own[1] = mine, sizeof mine, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[1]));
    for (int w = 0; w < 2; w++) {
        OK(MPI_Win_lock_all(0, wins[w]));
        for (int i = 0; i < 10; i++) {
            own[w][i] = 100 * rank + i;
        }
        OK(MPI_Win_sync(wins[w]));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Win_sync(wins[w]));
        int first = 0;
        const void *lowest = NULL;
        for (int r = 0; r < size; r++) {
            OK(MPI_Win_shared_query(wins[w], r, &bytes, &unit, &other));
            CHECK_EQ(unit, 4);
            CHECK(r == rank ? bytes == sizeof mine && other == own[w] : bytes == 0 || other != own[w]);
            CHECK((bytes == 0) == (other == NULL));
            for (int i = 0; i < (int)bytes / 4; i++) {
                CHECK_EQ(other[i], 100 * r + i);
            }
            if (r == 0) {
                lowest = other, first = (int)bytes;
            }
        }
        /* The lowest rank that has memory, wherever that is. */
        OK(MPI_Win_shared_query(wins[w], MPI_PROC_NULL, &bytes, &unit, &other));
        CHECK(bytes == first && other == lowest && unit == 4);
        CHECK(rank > 0 || (bytes == sizeof mine && other == own[w]));
        OK(MPI_Win_unlock_all(wins[w]));
        OK(MPI_Win_free(&wins[w]));
    }
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &wins[2]));
    OK(MPI_Win_set_errhandler(wins[2], MPI_ERRORS_RETURN));
    FAILS(MPI_Win_shared_query(wins[2], 0, &bytes, &unit, &other), MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_free(&wins[2]));
    /* Of ranks without memory the lowest that has some is taken. */
    OK(MPI_Win_allocate(rank == size - 1 ? 4 : 0, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &own[0], &wins[0]));
    OK(MPI_Win_shared_query(wins[0], size - 1, &bytes, &unit, &own[1]));
    OK(MPI_Win_shared_query(wins[0], MPI_PROC_NULL, &bytes, &unit, &other));
    CHECK(other == own[1] && (other ? bytes == 4 : bytes == 0));
    CHECK(rank < size - 1 || other == own[0]);
    OK(MPI_Win_free(&wins[0]));
    OK(MPI_Win_allocate(0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &own[0], &wins[0]));
    OK(MPI_Win_shared_query(wins[0], MPI_PROC_NULL, &bytes, &unit, &other));
    CHECK(bytes == 0 && other == NULL);
    OK(MPI_Win_free(&wins[0]));
}

/* Sizes and units that differ, and communicators that are not the world. */
static void various(int rank, int size)
{
    MPI_Comm reversed;
    MPI_Win win;
    short *base;
    OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed));
    OK(MPI_Win_allocate(rank == 0 ? 64 : 32, rank == 0 ? 2 : 4, MPI_INFO_NULL, reversed, &base, &win));
    memset(base, 0, 32);
    OK(MPI_Win_fence(0, win));
    short value = (short)(rank + 1);
    /* World rank 0 is the last here, and its unit is 2. */
    OK(MPI_Put(&value, 1, MPI_SHORT, size - 1, rank, 1, MPI_SHORT, win));
    OK(MPI_Win_fence(0, win));
    if (rank == 0) {
        for (int i = 0; i < size; i++) {
            CHECK_EQ(base[i], i + 1);
        }
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&reversed));

    /* Large ones, whole and in many pieces. */
    const int n = 1 << 18;
    int *data = allocate(sizeof(int) * (size_t)n), *back = allocate(sizeof(int) * (size_t)n);
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, (MPI_Aint)sizeof(int) * 2 * n, 1);
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        MPI_Datatype striped;
        OK(MPI_Type_vector(n / 128, 64, 128, MPI_INT, &striped));
        OK(MPI_Type_commit(&striped));
        fill(data, sizeof(int) * (size_t)n, (uint64_t)rank);
        OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w.win));
        OK(MPI_Put(data, n, MPI_INT, to, w.start[to], n, MPI_INT, w.win));
        OK(MPI_Put(data, n / 2, MPI_INT, to, w.start[to] + 4 * n, 1, striped, w.win));
        OK(MPI_Win_flush_all(w.win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK(is_filled(w.base, sizeof(int) * (size_t)n, (uint64_t)from));
        for (int i = 0; i < 64; i++) {
            CHECK_EQ(((int *)w.base)[n + 128 + i], ((int *)w.base)[64 + i]);
        }
        OK(MPI_Get(back, n, MPI_INT, to, w.start[to], n, MPI_INT, w.win));
        OK(MPI_Win_flush_local(to, w.win));
        CHECK(memcmp(back, data, sizeof(int) * (size_t)n) == 0);
        memset(back, 0, sizeof(int) * (size_t)n);
        OK(MPI_Get(back, 1, striped, to, w.start[to] + 4 * n, 1, striped, w.win));
        OK(MPI_Win_unlock_all(w.win));
        for (int i = 0; i < 64; i++) {
            CHECK_EQ(back[128 + i], data[64 + i]);
            CHECK_EQ(back[128 + 64 + i], 0);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Type_free(&striped));
        window_free(&w);
    }
    free(data);
    free(back);
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    attributes();
    hints();
    queried(rank, size);
    shared(rank, size, 0);
    shared(rank, size, 1);
    various(rank, size);
    OK(MPI_Finalize());
    return 0;
}
