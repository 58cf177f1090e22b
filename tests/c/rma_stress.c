/* Random puts, gets and accumulates of all kinds and types in all ways of synchronisation, against a
 * model that does them one after the other.
 *
 * All ranks make the same plan of a round: what is done to each slot of each rank's memory, and by
 * whom. A slot is written by one, or read by many, or accumulated to by many with one operation
 * whose result does not depend on the order. Then everybody's memory must be the model's.
 *
 * ranks: 3 8
 * variants: shm shm-2copy ofi hosts
 * timeout: 40
 */
#include <stdlib.h>

#include "rma.h"

#define SLOTS 24
#define SLOT 256
#define LONGEST 10
#define ROUNDS 6

static uint64_t seed;

static unsigned pick(unsigned below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed * 0x2545F4914F6CDD1Dull >> 33) % below);
}

enum type { CHAR8, U8, I16, U16, I32, U32, I64, U64, F32, F64, LDOUBLE, TYPES };

static MPI_Datatype mpi_type(enum type type)
{
    static const MPI_Datatype types[TYPES] = {
        MPI_SIGNED_CHAR, MPI_UINT8_T, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_INT, MPI_UINT32_T,
        MPI_LONG, MPI_UINT64_T, MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE,
    };
    return types[type];
}

static int type_size(enum type type)
{
    static const int sizes[TYPES] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 16};
    return sizes[type];
}

static void set(void *at, enum type type, int value)
{
    long double wide = value;
    int64_t number = value;
    switch (type) {
    case F32: *(float *)at = (float)value; break;
    case F64: *(double *)at = value; break;
    case LDOUBLE: memset(at, 0, 16); memcpy(at, &wide, 10); break;
    default: memcpy(at, &number, (size_t)type_size(type)); break;
    }
}

static int get(const void *at, enum type type)
{
    switch (type) {
    case CHAR8: return *(const signed char *)at;
    case U8: return *(const uint8_t *)at;
    case I16: return *(const int16_t *)at;
    case U16: return *(const uint16_t *)at;
    case I32: case U32: return *(const int32_t *)at;
    case I64: case U64: return (int)*(const int64_t *)at;
    case F32: return (int)*(const float *)at;
    case F64: return (int)*(const double *)at;
    default: return (int)*(const long double *)at;
    }
}

enum op { SUM, MAX, MIN, BAND, BOR, BXOR, LAND, LOR, PROD, REPLACE, NO_OP, OPS };

static MPI_Op mpi_op(enum op op)
{
    static const MPI_Op ops[OPS] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_BAND, MPI_BOR, MPI_BXOR,
                                    MPI_LAND, MPI_LOR, MPI_PROD, MPI_REPLACE, MPI_NO_OP};
    return ops[op];
}

static int apply(enum op op, int a, int b)
{
    switch (op) {
    case SUM: return a + b;
    case MAX: return a > b ? a : b;
    case MIN: return a < b ? a : b;
    case BAND: return a & b;
    case BOR: return a | b;
    case BXOR: return a ^ b;
    case LAND: return a && b;
    case LOR: return a || b;
    case PROD: return a * b;
    case REPLACE: return a;
    default: return b;
    }
}

enum act { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, ACTS };

/* What is done to a slot. */
struct plan {
    enum act act;
    enum type type;
    enum op op;
    int count;
    /* Every second element. */
    int strided;
    /* With requests, where the synchronisation allows them. */
    int request;
    /* Which ranks do it. */
    unsigned who;
    int initial, value;
};

/* Ranks and their slots: plans, and the model's memory. */
static struct plan plans[8][SLOTS];
static _Alignas(16) char model[8][SLOTS][SLOT];

static int step(const struct plan *plan)
{
    return type_size(plan->type) * (1 + plan->strided);
}

static void make_plan(int size)
{
    for (int rank = 0; rank < size; rank++) {
        for (int slot = 0; slot < SLOTS; slot++) {
            struct plan *p = &plans[rank][slot];
            p->act = (enum act)pick(ACTS);
            p->type = (enum type)pick(TYPES);
            p->op = (enum op)pick(OPS);
            int integer = p->type < F32;
            if (p->act == COMPARE_AND_SWAP) {
                p->type = pick(2) ? I32 : U64;
                p->op = SUM;
            } else if (!integer && p->op >= BAND && p->op <= LOR) {
                p->op = SUM;
            }
            if (p->act == ACCUMULATE && p->op == NO_OP) {
                p->op = REPLACE;
            }
            p->strided = p->act <= GET_ACCUMULATE && pick(3) == 0;
            p->request = pick(3) == 0;
            int most = SLOT / step(p);
            int few = p->act >= FETCH_AND_OP || (p->act > GET && pick(2));
            p->count = p->act >= FETCH_AND_OP ? 1 : 1 + (int)pick((unsigned)(few ? most / 4 : most));
            /* Puts and replacements by one only. */
            int one = p->act == PUT || p->op == REPLACE;
            if (p->act == GET) {
                one = 0;
            }
            p->who = one ? 1u << pick((unsigned)size) : 1 + pick((1u << size) - 1);
            /* Small, so that all types can have them. */
            p->initial = (int)pick(8);
            p->value = p->op == PROD ? 1 : (int)pick(8);
        }
    }
}

static void start_memory(char (*slots)[SLOT], int rank)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        struct plan *p = &plans[rank][slot];
        memset(slots[slot], 0x5a, SLOT);
        for (int i = 0; i < SLOT / type_size(p->type); i++) {
            set(slots[slot] + i * type_size(p->type), p->type, p->initial);
        }
    }
}

/* What is there afterwards in an element that is accessed. */
static int result_of(const struct plan *p, int size)
{
    int value = p->initial;
    for (int rank = 0; rank < size; rank++) {
        if (!(p->who >> rank & 1)) {
            continue;
        }
        switch (p->act) {
        case PUT: value = p->value; break;
        case GET: break;
        case COMPARE_AND_SWAP: value = value == p->initial ? p->value : value; break;
        default: value = apply(p->op, p->value, value); break;
        }
    }
    return value;
}

static void run_model(int size)
{
    for (int rank = 0; rank < size; rank++) {
        start_memory(model[rank], rank);
        for (int slot = 0; slot < SLOTS; slot++) {
            struct plan *p = &plans[rank][slot];
            for (int i = 0; i < p->count; i++) {
                set(model[rank][slot] + i * step(p), p->type, result_of(p, size));
            }
        }
    }
}

/* Buffers of this rank's for each target's slots. */
static _Alignas(16) char from[8][SLOTS][SLOT], to[8][SLOTS][SLOT];

static void access_slot(struct window *w, int target, int slot, int passive)
{
    struct plan *p = &plans[target][slot];
    MPI_Datatype type = mpi_type(p->type), there = type;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Aint at = w->start[target] + slot * SLOT;
    char *out = from[target][slot], *in = to[target][slot];
    int count = p->count, asks = passive && p->request;
    for (int i = 0; i < count; i++) {
        set(out + i * type_size(p->type), p->type, p->value);
    }
    if (p->strided) {
        OK(MPI_Type_vector(count, 1, 2, type, &there));
        OK(MPI_Type_commit(&there));
        count = 1;
    }
    switch (p->act) {
    case PUT:
        if (asks) {
            OK(MPI_Rput(out, p->count, type, target, at, count, there, w->win, &request));
        } else {
            OK(MPI_Put(out, p->count, type, target, at, count, there, w->win));
        }
        break;
    case GET:
        if (asks) {
            OK(MPI_Rget(in, p->count, type, target, at, count, there, w->win, &request));
        } else {
            OK(MPI_Get(in, p->count, type, target, at, count, there, w->win));
        }
        break;
    case ACCUMULATE:
        if (asks) {
            OK(MPI_Raccumulate(out, p->count, type, target, at, count, there, mpi_op(p->op), w->win,
                               &request));
        } else {
            OK(MPI_Accumulate(out, p->count, type, target, at, count, there, mpi_op(p->op), w->win));
        }
        break;
    case GET_ACCUMULATE:
        if (asks) {
            OK(MPI_Rget_accumulate(out, p->count, type, in, p->count, type, target, at, count, there,
                                   mpi_op(p->op), w->win, &request));
        } else {
            OK(MPI_Get_accumulate(out, p->count, type, in, p->count, type, target, at, count, there,
                                  mpi_op(p->op), w->win));
        }
        break;
    case FETCH_AND_OP:
        OK(MPI_Fetch_and_op(out, in, type, target, at, mpi_op(p->op), w->win));
        break;
    default:
        set(out + 32, p->type, p->initial);
        OK(MPI_Compare_and_swap(out, out + 32, in, type, target, at, w->win));
        break;
    }
    if (p->strided) {
        OK(MPI_Type_free(&there));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void access_target(struct window *w, int target, int passive)
{
    unsigned me = 1u << world_rank();
    for (int slot = 0; slot < SLOTS; slot++) {
        if (plans[target][slot].who & me) {
            access_slot(w, target, slot, passive);
        }
    }
}

/* What this rank got. */
static void check_results(int target)
{
    int rank = world_rank();
    for (int slot = 0; slot < SLOTS; slot++) {
        struct plan *p = &plans[target][slot];
        int alone = p->who == 1u << rank;
        if (!(p->who >> rank & 1) || p->act == PUT || p->act == ACCUMULATE) {
            continue;
        }
        for (int i = 0; i < p->count; i++) {
            int found = get(to[target][slot] + i * type_size(p->type), p->type);
            if (alone || p->act == GET || p->op == NO_OP) {
                CHECK_EQ(found, p->initial);
            } else if (p->op == SUM || p->op == MAX || p->op == BOR) {
                CHECK(found >= p->initial || p->act == COMPARE_AND_SWAP);
            }
        }
    }
}

enum sync { FENCE, PSCW, LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_ALL, LOCK_ALL_FLUSH, SYNCS };

static void run(struct window *w, enum sync sync)
{
    int size = world_size();
    MPI_Group all;
    switch (sync) {
    case FENCE:
        OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win));
        for (int target = 0; target < size; target++) {
            access_target(w, target, 0);
        }
        OK(MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOSUCCEED, w->win));
        break;
    case PSCW:
        OK(MPI_Win_get_group(w->win, &all));
        OK(MPI_Win_post(all, 0, w->win));
        OK(MPI_Win_start(all, 0, w->win));
        for (int target = 0; target < size; target++) {
            access_target(w, target, 0);
        }
        OK(MPI_Win_complete(w->win));
        OK(MPI_Win_wait(w->win));
        OK(MPI_Group_free(&all));
        break;
    case LOCK_SHARED:
    case LOCK_EXCLUSIVE:
        for (int i = 0; i < size; i++) {
            int target = (world_rank() + i) % size;
            OK(MPI_Win_lock(sync == LOCK_SHARED ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, target, 0,
                            w->win));
            access_target(w, target, 1);
            OK(MPI_Win_unlock(target, w->win));
        }
        break;
    default:
        OK(MPI_Win_lock_all(0, w->win));
        for (int target = 0; target < size; target++) {
            access_target(w, target, 1);
            if (sync == LOCK_ALL_FLUSH) {
                OK(MPI_Win_flush_local(target, w->win));
                OK(MPI_Win_flush(target, w->win));
            }
        }
        if (sync == LOCK_ALL_FLUSH) {
            OK(MPI_Win_flush_local_all(w->win));
            OK(MPI_Win_flush_all(w->win));
        }
        OK(MPI_Win_unlock_all(w->win));
        break;
    }
}

int main(int argc, char **argv)
{
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), size = world_size();
    const char *given = getenv("WEFT_TEST_SEED");
    seed = given ? strtoull(given, NULL, 0) : (uint64_t)(MPI_Wtime() * 1e6);
    OK(MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    seed |= 1;
    for (int kind = 0; kind < KINDS; kind++) {
        struct window w = window_make((enum kind)kind, SLOTS * SLOT, 1);
        for (int round = 0; round < ROUNDS; round++) {
            uint64_t of_round = seed;
            enum sync sync = (enum sync)(round % SYNCS);
            make_plan(size);
            run_model(size);
            OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, w.win));
            start_memory((char(*)[SLOT])w.base, rank);
            OK(MPI_Win_unlock(rank, w.win));
            OK(MPI_Barrier(MPI_COMM_WORLD));
            run(&w, sync);
            OK(MPI_Barrier(MPI_COMM_WORLD));
            for (int target = 0; target < size; target++) {
                check_results(target);
            }
            OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, w.win));
            for (int slot = 0; slot < SLOTS; slot++) {
                struct plan *p = &plans[rank][slot];
                for (int i = 0; i < SLOT / type_size(p->type); i++) {
                    int at = slot * SLOT + i * type_size(p->type);
                    int found = get(w.base + at, p->type);
                    int wanted = get(model[rank][slot] + i * type_size(p->type), p->type);
                    if (found != wanted) {
                        fprintf(stderr,
                                "WEFT_TEST_SEED=%llu: window kind %d, synchronisation %d, slot %d: "
                                "act %d of type %d with operation %d on %d elements by %x\n",
                                (unsigned long long)of_round, kind, (int)sync, slot, (int)p->act,
                                (int)p->type, (int)p->op, p->count, p->who);
                        CHECK_EQ(found, wanted);
                    }
                }
            }
            OK(MPI_Win_unlock(rank, w.win));
            OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        window_free(&w);
    }
    OK(MPI_Finalize());
    return 0;
}
