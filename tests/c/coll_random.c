/* Random collectives that move data, compared with a model: each rank describes the same data by another random
 * datatype, several calls are in progress, and memory between the data must stay unchanged. All ranks make the same
 * plan from one seed (the program's argument, if given); the layout of data is private to a rank.
 *
 * ranks: 2 3 5
 * variants: shm shm-2copy tcp
 * timeout: 60
 */
#include "check.h"

enum { ROUNDS = 150, CALLS = 4, MOST = 16, ELEMENTS = 64, EDGE = 64, GAP = 0x5a };

static int rank, size;
/* What all ranks draw alike, and what each draws for itself. */
static uint64_t common, own;

static int below(uint64_t *state, int limit) { return (int)random_below(state, (uint64_t)limit); }

/* --- Datatypes with their type maps. All elements are of one predefined type. --- */

struct layout {
    MPI_Datatype type;
    int elements, made;
    long at[ELEMENTS], extent;
};

static const MPI_Datatype predefined[] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX};
static const int sizes[] = {1, 2, 4, 8, 16};

static struct layout element(int kind) {
    struct layout one = {.type = predefined[kind], .elements = 1, .extent = sizes[kind]};
    return one;
}

static void append(struct layout *all, const struct layout *more, long at) {
    for (int i = 0; i < more->elements; i++)
        all->at[all->elements++] = at + more->at[i];
}

/* The extent is that of the library, which has tests of its own. */
static void finish(struct layout *layout) {
    MPI_Aint lb, extent;
    OK(MPI_Type_get_extent(layout->type, &lb, &extent));
    layout->extent = extent;
    layout->made = 1;
}

static void discard(struct layout *layout) {
    if (layout->made)
        OK(MPI_Type_free(&layout->type));
}

/* One constructor more, which takes `old`. */
static struct layout wrap(uint64_t *state, struct layout *old) {
    struct layout made = {.elements = 0};
    int most = ELEMENTS / old->elements, blocks = 1 + below(state, most > 4 ? 4 : most), places[4], lengths[4];
    MPI_Aint bytes[4];
    int next = below(state, 3) - 1;
    for (int i = 0; i < blocks; i++) {
        lengths[i] = 1 + (blocks * 2 <= most ? below(state, 2) : 0);
        places[i] = next;
        bytes[i] = next * old->extent + 3;
        next += lengths[i] + below(state, 3);
    }
    if (below(state, 2) && blocks > 1) { /* the last one first */
        int place = places[0], length = lengths[0], last = blocks - 1;
        MPI_Aint byte = bytes[0];
        places[0] = places[last], lengths[0] = lengths[last], bytes[0] = bytes[last];
        places[last] = place, lengths[last] = length, bytes[last] = byte;
    }
    switch (below(state, 5)) {
    case 0: {
        int stride = lengths[0] + below(state, 3);
        stride = below(state, 3) ? stride : -stride;
        OK(MPI_Type_vector(blocks, lengths[0], stride, old->type, &made.type));
        for (int i = 0; i < blocks; i++)
            for (int j = 0; j < lengths[0]; j++)
                append(&made, old, (i * stride + j) * old->extent);
        break;
    }
    case 1:
        OK(MPI_Type_indexed(blocks, lengths, places, old->type, &made.type));
        for (int i = 0; i < blocks; i++)
            for (int j = 0; j < lengths[i]; j++)
                append(&made, old, (places[i] + j) * old->extent);
        break;
    case 2:
        OK(MPI_Type_create_hindexed(blocks, lengths, bytes, old->type, &made.type));
        for (int i = 0; i < blocks; i++)
            for (int j = 0; j < lengths[i]; j++)
                append(&made, old, bytes[i] + j * old->extent);
        break;
    case 3: {
        int whole[2] = {blocks + below(state, 2), 3}, part[2] = {blocks, 1};
        int start[2] = {whole[0] - blocks, below(state, 3)};
        int fortran = below(state, 2);
        OK(MPI_Type_create_subarray(2, whole, part, start, fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, old->type,
                                    &made.type));
        for (int i = start[0]; i < whole[0]; i++)
            append(&made, old, (fortran ? start[1] * whole[0] + i : i * whole[1] + start[1]) * old->extent);
        break;
    }
    default: {
        MPI_Aint lb, extent;
        OK(MPI_Type_get_true_extent(old->type, &lb, &extent));
        OK(MPI_Type_create_resized(old->type, lb - below(state, 9), extent + below(state, 20), &made.type));
        append(&made, old, 0);
    }
    }
    finish(&made);
    discard(old);
    return made;
}

/* Whether no byte of `count` of them is twice there. */
static int apart(const struct layout *layout, int count, int bytes) {
    for (int i = 0; i < layout->elements; i++)
        for (int j = 0; j < layout->elements * count; j++) {
            long distance = layout->at[j % layout->elements] + j / layout->elements * layout->extent - layout->at[i];
            if (j != i && distance < bytes && distance > -bytes)
                return 0;
        }
    return 1;
}

static struct layout random_layout(uint64_t *state, int kind) {
    for (;;) {
        struct layout layout = element(kind);
        for (int depth = below(state, 4); depth > 0; depth--)
            layout = wrap(state, &layout);
        /* Whatever there is many of comes after the others. */
        if (layout.extent >= 0 && layout.extent < 3000 && apart(&layout, 300, sizes[kind])) {
            if (layout.made)
                OK(MPI_Type_commit(&layout.type));
            return layout;
        }
        discard(&layout);
    }
}

/* --- A side of a call: blocks in one buffer. --- */

enum { EQUAL, VARYING, TYPED };

struct side {
    int blocks, bytes; /* of an element */
    struct layout layouts[MOST];
    int counts[MOST], displs[MOST], own_types;
    MPI_Aint far[MOST];
    MPI_Datatype types[MOST];
    long at[MOST], length;
    char *memory, *expected, *buffer;
};

/* Blocks of so many times `shared`, each described by it, by single elements, or by elements at
 * places of its own. */
static void arrange(struct side *side, int how, int blocks, const int *amounts,
                    const struct layout *shared, int kind) {
    side->blocks = blocks;
    side->bytes = sizes[kind];
    long low = 0, high = 0, next = 0;
    int single = below(&own, 3) == 0;
    for (int b = 0; b < blocks; b++) {
        struct layout *layout = &side->layouts[b];
        int elements = amounts[b] * shared->elements;
        if (how == TYPED)
            single = below(&own, 3);
        *layout = *shared;
        side->counts[b] = amounts[b];
        if (how == TYPED && single == 1 && elements > 0 && elements <= ELEMENTS) {
            int places[ELEMENTS], place = 0;
            for (int i = 0; i < elements; i++, place++) {
                place += below(&own, 2);
                places[i] = elements % 2 ? place : -place;
            }
            layout->elements = 0;
            OK(MPI_Type_create_indexed_block(elements, 1, places, predefined[kind], &layout->type));
            OK(MPI_Type_commit(&layout->type));
            for (int i = 0; i < elements; i++)
                layout->at[layout->elements++] = places[i] * side->bytes;
            finish(layout);
            side->counts[b] = 1;
            side->own_types |= 1 << b;
        } else if (single) {
            *layout = element(kind);
            side->counts[b] = elements;
        }
        int all = side->counts[b] * layout->elements;
        long from = 0, to = 0;
        for (int i = 0; i < all; i++) {
            long at = layout->at[i % layout->elements] + i / layout->elements * layout->extent;
            from = i == 0 || at < from ? at : from;
            to = i == 0 || at + side->bytes > to ? at + side->bytes : to;
        }
        if (blocks == 1) { /* it may be all that there is: at the address itself */
            side->at[b] = 0;
        } else if (how == TYPED) {
            side->at[b] = next - from;
            next += to - from + below(&own, 9);
        } else {
            side->displs[b] = (int)next;
            side->at[b] = next * layout->extent;
            next += side->counts[b] + (how == VARYING ? below(&own, 3) : 0);
        }
        side->types[b] = layout->type;
        low = side->at[b] + from < low ? side->at[b] + from : low;
        high = side->at[b] + to > high ? side->at[b] + to : high;
        if (how == TYPED)
            side->displs[b] = (int)side->at[b];
        side->far[b] = side->at[b];
    }
    side->length = high - low + 2 * EDGE;
    side->memory = allocate((size_t)side->length);
    side->expected = allocate((size_t)side->length);
    memset(side->memory, GAP, (size_t)side->length);
    memset(side->expected, GAP, (size_t)side->length);
    side->buffer = side->memory + EDGE - low;
}

/* Data that goes from one rank to another, in a block of memory and of what is expected there, or of
 * the latter alone. */
static void put(struct side *side, int b, uint64_t seed, int from, int to, int both) {
    const struct layout *layout = &side->layouts[b];
    uint64_t state = seed + (uint64_t)(from * 1009 + to);
    for (int i = 0; i < side->counts[b] * layout->elements; i++) {
        long at = side->at[b] + layout->at[i % layout->elements] + i / layout->elements * layout->extent;
        for (int j = 0; j < side->bytes; j++) {
            char byte = (char)next_random(&state);
            side->expected[side->buffer - side->memory + at + j] = byte;
            if (both)
                side->buffer[at + j] = byte;
        }
    }
}

static void verify(struct side *side) {
    if (side->memory)
        CHECK(memcmp(side->memory, side->expected, (size_t)side->length) == 0);
}

static void drop(struct side *side) {
    for (int b = 0; b < side->blocks; b++)
        if (side->own_types & 1 << b)
            discard(&side->layouts[b]);
    free(side->memory);
    free(side->expected);
}

/* --- Calls --- */

enum { BLOCKING, NONBLOCKING, PERSISTENT };
enum {
    BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW,
    NEIGHBORS, KINDS,
};

struct call {
    MPI_Request request;
    struct layout shared;
    struct side send, recv;
};

/* A communicator; `first` is what the numbers of this group's ranks begin with, `there` those of the
 * ranks that it talks to. */
struct group {
    MPI_Comm comm;
    int inter, me, peers, first, there;
    /* A graph: neighbours that send and that are sent to. */
    MPI_Comm graph;
    int in[MOST], out[MOST], ins, outs;
};

#define CALL(name, iname, ...)                                                                                          \
    do {                                                                                                                \
        if (mode == BLOCKING)                                                                                           \
            OK(MPI_##name(__VA_ARGS__));                                                                                \
        else if (mode == NONBLOCKING)                                                                                   \
            OK(MPI_##iname(__VA_ARGS__, &call->request));                                                               \
        else                                                                                                            \
            OK(MPI_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &call->request));                                          \
    } while (0)

/* How much goes from one rank to another; ranks of both groups are numbered through. */
static int amount(uint64_t seed, int varying, int limit, int from, int to) {
    uint64_t state = seed + (uint64_t)(from * 64 + to) * 77;
    return varying ? below(&state, limit + 1) : limit;
}

static void begin(struct call *call, struct group *g, int mode) {
    int how = below(&common, KINDS), kind = below(&common, 5);
    int limit = below(&common, 4) ? below(&common, 5) : below(&common, 60);
    int root_place = below(&common, 1 << 20), root_group = below(&common, 2), in_place = below(&common, 3) == 0;
    uint64_t seed = next_random(&common);
    memset(call, 0, sizeof *call);
    call->request = MPI_REQUEST_NULL;
    call->shared = random_layout(&common, kind);
    struct side *s = &call->send, *r = &call->recv;
    int self = g->first + g->me, amounts[MOST] = {0};

    int mine = g->inter ? root_group == (g->first > 0) : 1;
    int members = g->inter && mine ? size - g->peers : g->peers, place = root_place % members;
    int is_root = mine && place == g->me, leaf = !g->inter || !mine;
    int root = !g->inter || !mine ? place : is_root ? MPI_ROOT : MPI_PROC_NULL;
    int root_name = (mine ? g->first : g->there) + place;
    int varying = how == GATHERV || how == SCATTERV || how == ALLGATHERV || how >= ALLTOALLV;
    int arrangement = how == ALLTOALLW || how == NEIGHBORS ? TYPED : varying ? VARYING : EQUAL;
    in_place = in_place && !g->inter;
    const void *from = NULL;

    switch (how) {
    case BCAST:
        arrange(r, TYPED, 1, &limit, &call->shared, kind);
        if (is_root || leaf)
            put(r, 0, seed, root_name, 0, is_root);
        CALL(Bcast, Ibcast, r->buffer, r->counts[0], r->types[0], root, g->comm);
        break;
    case GATHER:
    case GATHERV:
        if (leaf && !(is_root && in_place)) {
            amounts[0] = amount(seed, varying, limit, self, 0);
            arrange(s, TYPED, 1, amounts, &call->shared, kind);
            put(s, 0, seed, self, 0, 1);
        }
        from = is_root && in_place ? MPI_IN_PLACE : s->buffer;
        if (is_root) {
            for (int p = 0; p < g->peers; p++)
                amounts[p] = amount(seed, varying, limit, g->there + p, 0);
            arrange(r, arrangement, g->peers, amounts, &call->shared, kind);
            for (int p = 0; p < g->peers; p++)
                put(r, p, seed, g->there + p, 0, in_place && p == g->me);
        }
        if (how == GATHER)
            CALL(Gather, Igather, from, s->counts[0], s->types[0], r->buffer, r->counts[0], r->types[0], root, g->comm);
        else
            CALL(Gatherv, Igatherv, from, s->counts[0], s->types[0], r->buffer, r->counts, r->displs, r->types[0], root,
                 g->comm);
        break;
    case SCATTER:
    case SCATTERV:
        if (leaf && !(is_root && in_place)) {
            amounts[0] = amount(seed, varying, limit, 0, self);
            arrange(r, TYPED, 1, amounts, &call->shared, kind);
            put(r, 0, seed, 0, self, 0);
        }
        void *to = is_root && in_place ? MPI_IN_PLACE : r->buffer;
        if (is_root) {
            for (int p = 0; p < g->peers; p++)
                amounts[p] = amount(seed, varying, limit, 0, g->there + p);
            arrange(s, arrangement, g->peers, amounts, &call->shared, kind);
            for (int p = 0; p < g->peers; p++)
                put(s, p, seed, 0, g->there + p, 1);
        }
        if (how == SCATTER)
            CALL(Scatter, Iscatter, s->buffer, s->counts[0], s->types[0], to, r->counts[0], r->types[0], root, g->comm);
        else
            CALL(Scatterv, Iscatterv, s->buffer, s->counts, s->displs, s->types[0], to, r->counts[0], r->types[0], root,
                 g->comm);
        break;
    case ALLGATHER:
    case ALLGATHERV:
        if (!in_place) {
            amounts[0] = amount(seed, varying, limit, self, 0);
            arrange(s, TYPED, 1, amounts, &call->shared, kind);
            put(s, 0, seed, self, 0, 1);
        }
        from = in_place ? MPI_IN_PLACE : s->buffer;
        for (int p = 0; p < g->peers; p++)
            amounts[p] = amount(seed, varying, limit, g->there + p, 0);
        arrange(r, arrangement, g->peers, amounts, &call->shared, kind);
        for (int p = 0; p < g->peers; p++)
            put(r, p, seed, g->there + p, 0, in_place && p == g->me);
        if (how == ALLGATHER)
            CALL(Allgather, Iallgather, from, s->counts[0], s->types[0], r->buffer, r->counts[0], r->types[0], g->comm);
        else
            CALL(Allgatherv, Iallgatherv, from, s->counts[0], s->types[0], r->buffer, r->counts, r->displs, r->types[0],
                 g->comm);
        break;
    case ALLTOALL:
    case ALLTOALLV:
    case ALLTOALLW:
        for (int p = 0; p < g->peers; p++)
            amounts[p] = amount(seed, varying, limit, self, g->there + p);
        arrange(s, arrangement, g->peers, amounts, &call->shared, kind);
        for (int p = 0; p < g->peers; p++)
            put(s, p, seed, self, g->there + p, 1);
        for (int p = 0; p < g->peers; p++)
            amounts[p] = amount(seed, varying, limit, g->there + p, self);
        arrange(r, arrangement, g->peers, amounts, &call->shared, kind);
        for (int p = 0; p < g->peers; p++)
            put(r, p, seed, g->there + p, self, 0);
        if (how == ALLTOALL)
            CALL(Alltoall, Ialltoall, s->buffer, s->counts[0], s->types[0], r->buffer, r->counts[0], r->types[0], g->comm);
        else if (how == ALLTOALLV)
            CALL(Alltoallv, Ialltoallv, s->buffer, s->counts, s->displs, s->types[0], r->buffer, r->counts, r->displs,
                 r->types[0], g->comm);
        else
            CALL(Alltoallw, Ialltoallw, s->buffer, s->counts, s->displs, s->types, r->buffer, r->counts, r->displs,
                 r->types, g->comm);
        break;
    case NEIGHBORS:
        for (int i = 0; i < g->outs; i++)
            amounts[i] = amount(seed, 1, limit, rank, g->out[i]);
        arrange(s, TYPED, g->outs, amounts, &call->shared, kind);
        for (int i = 0; i < g->outs; i++)
            put(s, i, seed, rank, g->out[i], 1);
        for (int i = 0; i < g->ins; i++)
            amounts[i] = amount(seed, 1, limit, g->in[i], rank);
        arrange(r, TYPED, g->ins, amounts, &call->shared, kind);
        for (int i = 0; i < g->ins; i++)
            put(r, i, seed, g->in[i], rank, 0);
        CALL(Neighbor_alltoallw, Ineighbor_alltoallw, s->buffer, s->counts, s->far, s->types, r->buffer, r->counts, r->far,
             r->types, g->graph);
        break;
    }
}

/* Everybody, everybody the other way round, or two groups. */
static struct group make_group(void) {
    struct group g = {.peers = size};
    int way = below(&common, 4), cut = 1 + below(&common, size - 1), second = rank >= cut;
    if (way < 3) {
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, way ? rank : -rank, &g.comm));
    } else {
        MPI_Comm local;
        OK(MPI_Comm_split(MPI_COMM_WORLD, second, rank, &local));
        OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, second ? 0 : cut, 1, &g.comm));
        OK(MPI_Comm_free(&local));
        g.inter = 1;
        g.first = second ? cut : 0;
        g.there = second ? 0 : cut;
        g.peers = second ? cut : size - cut;
    }
    OK(MPI_Comm_rank(g.comm, &g.me));
    /* At most one edge from each rank to each, so that data has a name; in any order. */
    for (int from = 0; from < size; from++)
        for (int to = 0; to < size; to++) {
            if (below(&common, 2))
                continue;
            if (from == rank)
                g.out[g.outs++] = to;
            if (to == rank)
                g.in[g.ins++] = from;
        }
    for (int i = g.ins - 1; i > 0; i--) {
        int j = below(&own, i + 1), in = g.in[i];
        g.in[i] = g.in[j];
        g.in[j] = in;
    }
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, g.ins, g.in, MPI_UNWEIGHTED, g.outs, g.out, MPI_UNWEIGHTED,
                                      MPI_INFO_NULL, 0, &g.graph));
    return g;
}

static void round_of_calls(void) {
    struct group g = make_group();
    static struct call calls[CALLS];
    MPI_Request requests[CALLS];
    int mode = below(&common, 3), count = mode == BLOCKING ? 1 : 1 + below(&common, CALLS);
    for (int i = 0; i < count; i++) {
        begin(&calls[i], &g, mode);
        requests[i] = calls[i].request;
    }
    for (int i = 0, first = below(&own, count); i < count && mode == PERSISTENT; i++)
        OK(MPI_Start(&requests[(first + i) % count]));
    for (int i = 0, last = below(&own, count); i < count && mode != BLOCKING; i++)
        OK(MPI_Wait(&requests[(last + i) % count], MPI_STATUS_IGNORE));
    for (int i = 0; i < count; i++) {
        verify(&calls[i].send);
        verify(&calls[i].recv);
        if (mode == PERSISTENT)
            OK(MPI_Request_free(&requests[i]));
        drop(&calls[i].send);
        drop(&calls[i].recv);
        discard(&calls[i].shared);
    }
    OK(MPI_Comm_free(&g.graph));
    OK(MPI_Comm_free(&g.comm));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    size = world_size();
    check_seed = argc > 1 ? strtoull(argv[1], NULL, 0) : choose_seed();
    OK(MPI_Bcast(&check_seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    common = check_seed;
    own = check_seed * 31 + (uint64_t)rank;
    for (int i = 0; i < ROUNDS; i++)
        round_of_calls();
    OK(MPI_Finalize());
    return 0;
}
