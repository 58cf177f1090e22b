/* Accumulates by the network's atomics, in windows whose hints promise that these cover them all: every
 * operation, order, contention, locks made of compare and swap, every kind of epoch, targets on other
 * nodes, on the own one, and oneself. Who breaks the promise gets an error. Without the network's
 * atomics the same goes by messages, and the hints are dropped.
 *
 * ranks: 2 4
 * variants: ofi hosts ucx ucx-hosts verbs verbs-hosts ofi-verbs ucx-verbs
 * case: network
 * case: messages
 * case: auto
 */
#include "rma.h"

enum { WORDS = 64, LOCKS = 10, MANY = 200 };

static int rank, size;
/* How often each rank adds. */
static int adds;
/* The network's atomics are to be used wherever there are some, or nowhere. */
static int always, never;
static MPI_T_pvar_session session;
static MPI_T_pvar_handle atomics;

struct windows {
    MPI_Win win;
    int64_t *base;
    int native;
};

static unsigned long count(void) {
    unsigned long value;
    OK(MPI_T_pvar_read(session, atomics, &value));
    return value;
}

static MPI_Info promise(const char *ops, const char *bytes) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "weft_accumulate_type", "int64"));
    OK(MPI_Info_set(info, "which_accumulate_ops", ops));
    if (bytes) {
        OK(MPI_Info_set(info, "accumulate_max_bytes", bytes));
    }
    return info;
}

/* A hint that is in force; the empty string if it is not. */
static const char *hint(MPI_Win win, const char *key) {
    static char value[100];
    MPI_Info info;
    int flag;
    OK(MPI_Win_get_info(win, &info));
    OK(MPI_Info_get(info, key, 99, value, &flag));
    OK(MPI_Info_free(&info));
    return flag ? value : "";
}

static struct windows make(int created, MPI_Info info, int words) {
    struct windows w = {MPI_WIN_NULL, NULL, 0};
    MPI_Aint bytes = words * 8;
    if (created) {
        w.base = allocate((size_t)bytes + 8);
        OK(MPI_Win_create(w.base, bytes, 8, info, MPI_COMM_WORLD, &w.win));
    } else {
        OK(MPI_Win_allocate(bytes, 8, info, MPI_COMM_WORLD, &w.base, &w.win));
    }
    memset(w.base, 0, (size_t)bytes);
    w.native = *hint(w.win, "which_accumulate_ops") != 0;
    if (always) {
        CHECK(w.native);
    }
    if (never) {
        CHECK(!w.native);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return w;
}

static void unmake(struct windows *w, int created) {
    OK(MPI_Win_free(&w->win));
    if (created) {
        free(w->base);
    }
}

/* What is in force is told, and what isn't. */
static void hints(void) {
    const char *all = "sum,band,bor,bxor,replace,no_op,cswap";
    MPI_Info info = promise("sum, cswap", NULL);
    struct windows w = make(0, info, WORDS);
    CHECK_EQ(strcmp(hint(w.win, "which_accumulate_ops"), w.native ? "sum,cswap" : ""), 0);
    CHECK_EQ(strcmp(hint(w.win, "accumulate_max_bytes"), w.native ? "8" : ""), 0);
    CHECK_EQ(strcmp(hint(w.win, "weft_accumulate_type"), w.native ? "int64" : ""), 0);
    unmake(&w, 0);
    OK(MPI_Info_free(&info));

    /* What the network doesn't cover, what members don't agree on, what is not enough, and windows
     * without memory: by messages, all operations. */
    for (int i = 0; i < 6; i++) {
        info = promise(i == 0 ? "sum,max" : i == 1 && rank == 1 ? "sum" : all,
                       i == 2 ? "128" : i == 1 ? "16" : NULL);
        if (i == 3) {
            OK(MPI_Info_delete(info, "weft_accumulate_type"));
        }
        MPI_Win win;
        MPI_Aint at = 0;
        char *base = calloc(1, 32);
        if (i == 4) {
            OK(MPI_Win_create_dynamic(info, MPI_COMM_WORLD, &win));
            OK(MPI_Win_attach(win, base, 16));
            OK(MPI_Get_address(base, &at));
            OK(MPI_Bcast(&at, 1, MPI_AINT, 0, MPI_COMM_WORLD));
        } else {
            /* Memory that is not aligned, too. */
            OK(MPI_Win_create(base + (i == 5 ? 4 : 0), 16, 1, info, MPI_COMM_WORLD, &win));
        }
        OK(MPI_Info_free(&info));
        CHECK_EQ(strcmp(hint(win, "which_accumulate_ops"), ""), 0);
        int32_t value = rank + 1, found;
        unsigned long before = count();
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Fetch_and_op(&value, &found, MPI_INT32_T, 0, at, MPI_MAX, win));
        OK(MPI_Win_unlock_all(win));
        CHECK_EQ(count(), before);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) {
            memcpy(&found, base + (i == 5 ? 4 : 0), 4);
            CHECK_EQ(found, size);
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (i == 4) {
            OK(MPI_Win_detach(win, base));
        }
        OK(MPI_Win_free(&win));
        free(base);
    }
}

/* Every operation on every target; several words at once; results at odd places; requests. */
static void operations(struct windows *w) {
    static const struct {
        MPI_Op op;
        int64_t operand, result;
    } STEPS[] = {{MPI_REPLACE, 12, 12}, {MPI_SUM, -5, 7}, {MPI_BOR, 24, 31}, {MPI_BAND, 29, 29},
                 {MPI_BXOR, 15, 18}, {MPI_NO_OP, 1, 18}};
    int64_t data[8], found[8], expected[8];
    for (int target = 0; target < size; target++) {
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win));
        int64_t old = 0, one;
        OK(MPI_Fetch_and_op(&old, &one, MPI_INT64_T, target, 0, MPI_REPLACE, w->win));
        for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
            char *odd = (char *)found + 3;
            OK(MPI_Fetch_and_op(&STEPS[i].operand, odd, MPI_LONG, target, 0, STEPS[i].op, w->win));
            OK(MPI_Win_flush(target, w->win));
            memcpy(&one, odd, 8);
            CHECK_EQ(one, old);
            old = STEPS[i].result;
        }
        /* Compare and swap: in vain, and not. */
        for (int i = 0; i < 2; i++) {
            int64_t compare = old - 1 + i, new = 77;
            OK(MPI_Compare_and_swap(&new, &compare, &one, MPI_INT64_T, target, 0, w->win));
            OK(MPI_Win_flush(target, w->win));
            CHECK_EQ(one, old);
        }
        OK(MPI_Get_accumulate(NULL, 0, MPI_INT, &one, 1, MPI_UINT64_T, target, 0, 1, MPI_UINT64_T,
                              MPI_NO_OP, w->win));
        OK(MPI_Win_flush_local(target, w->win));
        CHECK_EQ(one, 77);

        /* Three words here, every other one there. */
        MPI_Datatype gaps;
        OK(MPI_Type_vector(3, 1, 2, MPI_INT64_T, &gaps));
        OK(MPI_Type_commit(&gaps));
        MPI_Request requests[2];
        for (int i = 0; i < 3; i++) {
            data[i] = 100 * rank + i;
        }
        OK(MPI_Raccumulate(data, 3, MPI_INT64_T, target, 8, 1, gaps, MPI_REPLACE, w->win, requests));
        OK(MPI_Wait(requests, MPI_STATUS_IGNORE));
        OK(MPI_Win_flush(target, w->win));
        memset(found, -1, sizeof found);
        OK(MPI_Rget_accumulate(data, 3, MPI_INT64_T, found, 1, gaps, target, 8, 1, gaps, MPI_SUM,
                               w->win, requests));
        OK(MPI_Rget_accumulate(NULL, 0, MPI_INT64_T, expected, 3, MPI_INT64_T, target, 8, 1, gaps,
                               MPI_NO_OP, w->win, requests + 1));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(found[2 * i], data[i]);
            CHECK_EQ(expected[i], 2 * data[i]);
            CHECK_EQ(found[2 * i + 1], -1);
        }
        OK(MPI_Type_free(&gaps));
        OK(MPI_Win_unlock(target, w->win));
    }
}

/* What an origin does to a place is done in order, without a flush between. */
static void order(struct windows *w) {
    static int64_t found[MANY];
    OK(MPI_Win_lock_all(0, w->win));
    for (int target = 0; target < size; target++) {
        for (int64_t i = 0; i < MANY; i++) {
            int64_t one = 1, mask = -1, nothing = 0;
            OK(MPI_Accumulate(&i, 1, MPI_INT64_T, target, 16 + rank, 1, MPI_INT64_T, MPI_REPLACE, w->win));
            OK(MPI_Accumulate(&one, 1, MPI_INT64_T, target, 16 + rank, 1, MPI_INT64_T, MPI_SUM, w->win));
            OK(MPI_Accumulate(&mask, 1, MPI_INT64_T, target, 16 + rank, 1, MPI_INT64_T, MPI_BAND, w->win));
            OK(MPI_Fetch_and_op(&nothing, &found[i], MPI_INT64_T, target, 16 + rank, MPI_NO_OP, w->win));
            if (i % 7 == 6) {
                OK(MPI_Win_flush_local(target, w->win));
            }
            if (i == 60 && target != 0) {
                break;
            }
        }
        OK(MPI_Win_flush(target, w->win));
        for (int i = 0; i < (target == 0 ? MANY : 61); i++) {
            CHECK_EQ(found[i], i + 1);
        }
    }
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* All ranks count in one word, whose values are each given out once; all by the same word, and by their
 * own node's. */
static void contention(struct windows *w) {
    int64_t one = 1, old, seen = -1, total = 0, mine = 0;
    OK(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < adds; i++) {
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, size - 1, 32, MPI_SUM, w->win));
        OK(MPI_Win_flush(size - 1, w->win));
        CHECK(old > seen);
        seen = old;
        mine += old;
    }
    /* Without results, many at a time. */
    for (int i = 0; i < adds; i++) {
        OK(MPI_Accumulate(&one, 1, MPI_INT64_T, i % size, 33, 1, MPI_INT64_T, MPI_SUM, w->win));
    }
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Allreduce(&mine, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
    int64_t n = (int64_t)size * adds;
    CHECK_EQ(total, n * (n - 1) / 2);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w->win));
    CHECK_EQ(w->base[33], adds / size * size);
    CHECK_EQ(w->base[32], rank == size - 1 ? size * adds : 0);
    OK(MPI_Win_unlock(rank, w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));

    /* A lock of compare and swap keeps a get and a put together. */
    OK(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < LOCKS; i++) {
        int64_t taken = rank + 1, nobody = 0, value;
        do {
            OK(MPI_Compare_and_swap(&taken, &nobody, &old, MPI_INT64_T, 0, 34, w->win));
            OK(MPI_Win_flush(0, w->win));
        } while (old != 0);
        OK(MPI_Get(&value, 1, MPI_INT64_T, 0, 35, 1, MPI_INT64_T, w->win));
        OK(MPI_Win_flush(0, w->win));
        value++;
        OK(MPI_Put(&value, 1, MPI_INT64_T, 0, 35, 1, MPI_INT64_T, w->win));
        OK(MPI_Win_flush(0, w->win));
        OK(MPI_Accumulate(&nobody, 1, MPI_INT64_T, 0, 34, 1, MPI_INT64_T, MPI_REPLACE, w->win));
        OK(MPI_Win_flush(0, w->win));
    }
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w->win));
    CHECK_EQ(w->base[35], rank == 0 ? LOCKS * size : 0);
    OK(MPI_Win_unlock(rank, w->win));
}

/* What fences, or complete and wait, end is in the memory. */
static void epochs(struct windows *w) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    int64_t add = 3 + rank, got = -1;
    MPI_Group world, one, other;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, &to, &one));
    OK(MPI_Group_incl(world, 1, &from, &other));
    OK(MPI_Win_fence(0, w->win));
    for (int round = 1; round <= 5; round++) {
        OK(MPI_Get_accumulate(&add, 1, MPI_INT64_T, &got, 1, MPI_INT64_T, to, 40, 1, MPI_INT64_T,
                              MPI_SUM, w->win));
        OK(MPI_Win_fence(0, w->win));
        CHECK_EQ(got, (round - 1) * add);
        CHECK_EQ(w->base[40], round * (3 + from));
        OK(MPI_Win_fence(0, w->win));
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    for (int round = 1; round <= 5; round++) {
        OK(MPI_Win_post(other, 0, w->win));
        OK(MPI_Win_start(one, 0, w->win));
        OK(MPI_Accumulate(&add, 1, MPI_INT64_T, to, 41, 1, MPI_INT64_T, MPI_SUM, w->win));
        OK(MPI_Win_complete(w->win));
        OK(MPI_Win_wait(w->win));
        CHECK_EQ(w->base[41], round * (3 + from));
    }
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&one));
    OK(MPI_Group_free(&other));
}

/* A target that computes holds nobody up, where the network needs no help. */
static void busy(struct windows *w) {
    int64_t one = 1, old;
    OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win));
    if (rank != 0) {
        /* First contact needs the target. */
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 50, MPI_SUM, w->win));
        OK(MPI_Win_flush(0, w->win));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        volatile int64_t *word = w->base + 50;
        for (int i = 0; *word != (size - 1) * 51; i++) {
            CHECK(i < 1500);
            nap(0.01);
        }
    } else {
        for (int i = 0; i < 50; i++) {
            OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 50, MPI_SUM, w->win));
            OK(MPI_Win_flush(0, w->win));
        }
    }
    OK(MPI_Win_unlock_all(w->win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* An error that names the hint. */
static void refuses(int code, int class, const char *name) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    CHECK(code != MPI_SUCCESS);
    CHECK_EQ(class_of(code), class);
    OK(MPI_Error_string(code, text, &len));
    if (!strstr(text, name)) {
        fprintf(stderr, "%s\n", text);
        CHECK(!"the text names the hint");
    }
}

static void wrong(void) {
    MPI_Info info = promise("sum,no_op", "16");
    MPI_Win win;
    char *base;
    OK(MPI_Win_allocate(256, 1, info, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Info_free(&info));
    memset(base, 0, 256);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (*hint(win, "which_accumulate_ops")) {
        OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
        int64_t data[4] = {1, 2, 3, 4}, found[4];
        int32_t small = 1, old;
        OK(MPI_Win_lock_all(0, win));
        for (int target = 0; target < size; target++) {
            refuses(MPI_Fetch_and_op(data, found, MPI_INT64_T, target, 0, MPI_BXOR, win), MPI_ERR_OP,
                    "which_accumulate_ops");
            refuses(MPI_Accumulate(data, 1, MPI_INT64_T, target, 0, 1, MPI_INT64_T, MPI_MAX, win),
                    MPI_ERR_OP, "which_accumulate_ops");
            refuses(MPI_Compare_and_swap(data, data + 1, found, MPI_INT64_T, target, 0, win), MPI_ERR_OP,
                    "cswap");
            refuses(MPI_Fetch_and_op(&small, &old, MPI_INT32_T, target, 0, MPI_SUM, win),
                    MPI_ERR_RMA_CONFLICT, "weft_accumulate_type");
            refuses(MPI_Fetch_and_op(data, found, MPI_DOUBLE, target, 0, MPI_SUM, win),
                    MPI_ERR_RMA_CONFLICT, "weft_accumulate_type");
            refuses(MPI_Accumulate(data, 3, MPI_INT64_T, target, 0, 3, MPI_INT64_T, MPI_SUM, win),
                    MPI_ERR_ARG, "accumulate_max_bytes");
            refuses(MPI_Fetch_and_op(data, found, MPI_INT64_T, target, 4, MPI_SUM, win), MPI_ERR_ARG,
                    "weft_accumulate_type");
            FAILS(MPI_Fetch_and_op(data, found, MPI_INT64_T, target, 256, MPI_SUM, win),
                  MPI_ERR_RMA_RANGE);
            /* Nothing of this has done anything, and what was promised works. */
            OK(MPI_Get_accumulate(data, 2, MPI_INT64_T, found, 2, MPI_INT64_T, target, 8 + 16 * rank, 2,
                                  MPI_INT64_T, MPI_SUM, win));
            OK(MPI_Win_flush(target, win));
            CHECK_EQ(found[0] + found[1], 0);
        }
        OK(MPI_Win_unlock_all(win));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        int64_t *words = (int64_t *)base;
        CHECK_EQ(words[0], 0);
        CHECK_EQ(words[1], 1);
        CHECK_EQ(words[2], 2);
    }
    OK(MPI_Win_free(&win));
}

int main(int argc, char **argv) {
    int provided, index, unused;
    CHECK_EQ(argc, 2);
    always = strcmp(argv[1], "network") == 0;
    never = strcmp(argv[1], "messages") == 0;
    setenv("WEFT_RMA_ATOMICS", argv[1], 1);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_Init(&argc, &argv));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("rma_native_atomics", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &atomics, &unused));
    OK(MPI_T_pvar_start(session, atomics));
    rank = world_rank();
    size = world_size();
    hints();
    for (int created = 0; created < 2; created++) {
        MPI_Info info = promise("sum,band,bor,bxor,replace,no_op,cswap", "64");
        struct windows w = make(created, info, WORDS);
        OK(MPI_Info_free(&info));
        unsigned long before = count();
        adds = created || !w.native ? 100 : 1000;
        operations(&w);
        order(&w);
        contention(&w);
        epochs(&w);
        if (w.native && !always) {
            busy(&w);
        }
        if (w.native) {
            CHECK(count() > before);
        }
        /* A transport may do single words by itself without a promise, unless that is not wanted. */
        if (never) {
            CHECK_EQ(count(), before);
        }
        unmake(&w, created);
    }
    wrong();
    OK(MPI_Finalize());
    return 0;
}
