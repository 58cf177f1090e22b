/* Random accesses of all kinds compared with a model of bytes on every rank: several collective accesses in progress,
 * completed in any order; split, ordered and shared-pointer accesses; in the representations native and external32.
 * ranks: 1 2 3 4 8
 * timeout: 90
 */
#include "io_map.h"

enum { ROUNDS = 10, STEPS = 6, TILE = 240, RANKS = 8, MOST = 4, COUNT = 40 };

static unsigned char model[1000000];
static long model_size;
static uint64_t own_state; /* what this rank alone decides */
static int rank, ranks, size, swaps;
static Map maps[RANKS];
static long disp;
static MPI_Datatype basic_type;

static const MPI_Datatype kinds[] = {MPI_BYTE, MPI_SHORT, MPI_INT, MPI_DOUBLE};
static const int sizes[] = {1, 2, 4, 8};

/* An element as it is in the file. */
static void to_file(unsigned char *to, const unsigned char *from) {
    for (int i = 0; i < size; i++)
        to[i] = from[swaps ? size - 1 - i : i];
}

static long byte_at(int of, long element, int byte) {
    long at = place(&maps[of], disp, element * size + byte);
    CHECK(at < (long)sizeof model);
    return at;
}

static void model_write(int of, long offset, const unsigned char *data, int count) {
    unsigned char element[8];
    for (int i = 0; i < count; i++) {
        to_file(element, data + (size_t)i * (size_t)size);
        for (int k = 0; k < size; k++) {
            long at = byte_at(of, offset + i, k);
            model[at] = element[k];
            if (at >= model_size)
                model_size = at + 1;
        }
    }
}

/* Elements that are there, of so many; `data` gets them. */
static int model_read(int of, long offset, unsigned char *data, int count) {
    for (int i = 0; i < count; i++) {
        unsigned char element[8];
        for (int k = 0; k < size; k++) {
            long at = byte_at(of, offset + i, k);
            if (at >= model_size)
                return i;
            element[k] = model[at];
        }
        to_file(data + (size_t)i * (size_t)size, element);
    }
    return count;
}

/* One access of every rank. */
typedef struct {
    int writes, how, count[RANKS], stride;
    long offset[RANKS];
    uint64_t seed[RANKS];
    unsigned char *memory, *packed;
    MPI_Datatype type;
    MPI_Request request;
    MPI_Status status;
} Access;

static void spread(Access *access, const unsigned char *packed) {
    for (int i = 0; i < access->count[rank]; i++)
        memcpy(access->memory + (size_t)(i * access->stride * size), packed + (size_t)(i * size), (size_t)size);
}

static void prepare(Access *access, int writes, int whole) {
    access->writes = writes;
    access->stride = pick(0, 1) ? 1 : pick(2, 3);
    for (int of = 0; of < ranks; of++) {
        access->count[of] = whole ? COUNT : pick(0, 5) == 0 ? 0 : pick(1, COUNT);
        access->seed[of] = next_random(&state);
    }
    size_t packed = (size_t)(COUNT * size), room = packed * (size_t)access->stride;
    access->memory = allocate(room);
    access->packed = allocate(packed);
    memset(access->memory, 0xaa, room);
    if (writes) {
        fill(access->packed, packed, access->seed[rank]);
        spread(access, access->packed);
    }
    OK(MPI_Type_create_resized(basic_type, 0, (MPI_Aint)size * access->stride, &access->type));
    OK(MPI_Type_commit(&access->type));
    access->request = MPI_REQUEST_NULL;
}

/* Whole elements that were moved: of the last one the file may have a part. */
static int elements(MPI_Status *status) {
    return io_count(status, MPI_BYTE) / size;
}

/* What the access has done is what it should have. */
static void finish(Access *access) {
    MPI_Status *status = &access->status;
    int count = access->count[rank];
    if (access->writes) {
        CHECK_EQ(elements(status), count);
        unsigned char *theirs = allocate((size_t)(COUNT * size));
        for (int of = 0; of < ranks; of++) {
            fill(theirs, (size_t)(COUNT * size), access->seed[of]);
            model_write(of, access->offset[of], theirs, access->count[of]);
        }
        free(theirs);
    } else {
        int there = model_read(rank, access->offset[rank], access->packed, count);
        CHECK_EQ(elements(status), there);
        for (int i = 0; i < count * access->stride; i++) {
            int whole = i % access->stride == 0 && i / access->stride < there;
            for (int k = 0; k < size; k++) {
                int got = access->memory[i * size + k];
                if (i != there * access->stride)
                    CHECK_EQ(got, whole ? access->packed[i / access->stride * size + k] : 0xaa);
            }
        }
    }
    OK(MPI_Type_free(&access->type));
    free(access->memory);
    free(access->packed);
}

static void compare(MPI_File file, const char *path) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_Offset told;
    OK(MPI_File_get_size(file, &told));
    CHECK_EQ(told, model_size);
    static unsigned char real[sizeof model];
    CHECK_EQ(io_slurp(path, real, sizeof real, 0), model_size);
    for (long i = 0; i < model_size; i++)
        if (real[i] != model[i]) {
            fprintf(stderr, "byte %ld of %ld\n", i, model_size);
            CHECK_EQ(real[i], model[i]);
        }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* What is done with an access in a burst. */
enum { STARTED, SPLIT, BLOCKING };

static void begin(MPI_File file, Access *access, int how, int individual) {
    MPI_Offset at = access->offset[rank];
    int n = access->count[rank], writes = access->writes;
    void *data = access->memory;
    MPI_Datatype type = access->type;
    MPI_Request *request = &access->request;
    MPI_Status *status = &access->status;
    access->how = how;
    if (how == STARTED && individual)
        OK(MPI_File_iwrite_all(file, data, n, type, request));
    else if (how == STARTED)
        OK(writes ? MPI_File_iwrite_at_all(file, at, data, n, type, request)
                  : MPI_File_iread_at_all(file, at, data, n, type, request));
    else if (how == SPLIT && individual)
        OK(MPI_File_write_all_begin(file, data, n, type));
    else if (how == SPLIT)
        OK(writes ? MPI_File_write_at_all_begin(file, at, data, n, type)
                  : MPI_File_read_at_all_begin(file, at, data, n, type));
    else if (individual)
        OK(MPI_File_write_all(file, data, n, type, status));
    else
        OK(writes ? MPI_File_write_at_all(file, at, data, n, type, status)
                  : MPI_File_read_at_all(file, at, data, n, type, status));
}

static void end(MPI_File file, Access *access, int individual) {
    void *data = access->memory;
    MPI_Status *status = &access->status;
    int ended = 0;
    if (access->how == STARTED) {
        if (random_below(&own_state, 2))
            OK(MPI_Wait(&access->request, status));
        else
            while (!ended)
                OK(MPI_Test(&access->request, &ended, status));
    } else if (access->how == SPLIT) {
        if (individual)
            OK(MPI_File_write_all_end(file, data, status));
        else
            OK(access->writes ? MPI_File_write_at_all_end(file, data, status)
                              : MPI_File_read_at_all_end(file, data, status));
    }
}

/* Several collective accesses to places that are apart, ended in any order. */
static void burst(MPI_File file, int tiled) {
    Access accesses[MOST];
    int order[MOST], n = pick(1, MOST), individual = pick(0, 2) == 0, split = 0;
    long base = pick(0, 100), last = base + (tiled ? 1 : ranks) * (long)n * COUNT;
    /* Where the file may end in the midst of them, only reads, or only writes. */
    int inside = 1, writes = pick(0, 1);
    for (int of = 0; of < ranks; of++)
        inside &= byte_at(of, last, 0) < model_size;
    if (individual)
        OK(MPI_File_seek(file, base + (tiled ? 0 : (long)rank * n * COUNT), MPI_SEEK_SET));
    for (int i = 0; i < n; i++) {
        Access *access = &accesses[i];
        prepare(access, individual || (inside ? pick(0, 1) : writes), individual);
        for (int of = 0; of < ranks; of++)
            access->offset[of] = base + (tiled ? i : of * n + i) * (long)COUNT;
        int how = pick(STARTED, BLOCKING);
        if (split)
            how = STARTED;
        split |= how == SPLIT;
        begin(file, access, how, individual);
        int place = (int)random_below(&own_state, (uint64_t)i + 1);
        order[i] = order[place];
        order[place] = i;
    }
    for (int i = 0; i < n; i++)
        end(file, &accesses[order[i]], individual);
    for (int i = 0; i < n; i++)
        finish(&accesses[i]);
    if (individual) {
        MPI_Offset at;
        OK(MPI_File_get_position(file, &at));
        CHECK_EQ(at, base + (tiled ? n : (long)(rank + 1) * n) * COUNT);
    }
}

static long shared_pointer(MPI_File file) {
    MPI_Offset at;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_get_position_shared(file, &at));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    return at;
}

/* In the order of ranks. */
static void ordered(MPI_File file) {
    Access access;
    long before = shared_pointer(file), next = before;
    prepare(&access, pick(0, 1), 0);
    for (int of = 0; of < ranks; of++) {
        access.offset[of] = next;
        next += access.count[of];
    }
    int n = access.count[rank];
    void *data = access.memory;
    if (pick(0, 1)) {
        OK(access.writes ? MPI_File_write_ordered_begin(file, data, n, access.type)
                         : MPI_File_read_ordered_begin(file, data, n, access.type));
        OK(access.writes ? MPI_File_write_ordered_end(file, data, &access.status)
                         : MPI_File_read_ordered_end(file, data, &access.status));
    } else {
        OK(access.writes ? MPI_File_write_ordered(file, data, n, access.type, &access.status)
                         : MPI_File_read_ordered(file, data, n, access.type, &access.status));
    }
    finish(&access);
    CHECK_EQ(shared_pointer(file), next);
}

/* As ranks come: each has one of as many places, and no two the same one. */
static void unordered(MPI_File file) {
    Access access;
    long before = shared_pointer(file);
    int writes = pick(0, 1), started = pick(0, 1), n = pick(20, COUNT);
    if (!writes && before + (long)ranks * n > 400)
        writes = 1;
    prepare(&access, writes, 1);
    for (int of = 0; of < ranks; of++)
        access.count[of] = n;
    void *data = access.memory;
    if (started) {
        OK(writes ? MPI_File_iwrite_shared(file, data, n, access.type, &access.request)
                  : MPI_File_iread_shared(file, data, n, access.type, &access.request));
        OK(MPI_Wait(&access.request, &access.status));
    } else {
        OK(writes ? MPI_File_write_shared(file, data, n, access.type, &access.status)
                  : MPI_File_read_shared(file, data, n, access.type, &access.status));
    }
    CHECK_EQ(shared_pointer(file), before + (long)ranks * n);
    /* Who had which place is found out by what is there. */
    unsigned char *there = allocate((size_t)(n * size));
    int mine = -1, all[RANKS], got = 0;
    for (int slot = 0; slot < ranks && mine < 0; slot++) {
        if (writes) {
            MPI_Status status;
            OK(MPI_File_read_at(file, before + (long)slot * n, there, n, basic_type, &status));
            if (memcmp(there, access.packed, (size_t)(n * size)) == 0)
                mine = slot;
        } else {
            memset(there, 0, (size_t)(n * size));
            got = model_read(rank, before + (long)slot * n, there, n);
            int same = got == elements(&access.status);
            for (int i = 0; i < got && same; i++)
                same = memcmp((char *)data + i * access.stride * size, there + i * size, (size_t)size) == 0;
            if (same)
                mine = slot;
        }
    }
    CHECK(mine >= 0);
    free(there);
    if (writes) {
        OK(MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
        for (int of = 0; of < ranks; of++) {
            for (int other = 0; other < of; other++)
                CHECK(all[of] != all[other]);
            access.offset[of] = before + (long)all[of] * n;
        }
    } else {
        access.offset[rank] = before + (long)mine * n;
    }
    finish(&access);
}

/* All ranks see the same, or each its own elements of tiles. */
static void make_maps(int tiled) {
    Map one = basic(size);
    for (int depth = pick(0, 3); depth > 0 && one.bytes < 100 && !tiled; depth--)
        one = wrap(one);
    int owners[TILE];
    for (int i = 0; i < TILE; i++)
        owners[i] = i < ranks ? i : i > ranks && pick(0, 2) ? owners[i - 1] : pick(-1, ranks - 1);
    for (int of = 0; of < ranks; of++) {
        Map *map = &maps[of];
        int places[TILE], lens[TILE], n = 0;
        *map = (Map){MPI_DATATYPE_NULL, 0, allocate(sizeof(long) * TILE * 8), (long)TILE * size};
        if (!tiled) {
            /* Of the same bytes, in elements that are converted. */
            MPI_Aint *aints = allocate(sizeof(MPI_Aint) * (size_t)(one.bytes / size));
            map->bytes = one.bytes;
            map->extent = one.extent;
            memcpy(map->at, one.at, sizeof(long) * (size_t)one.bytes);
            for (int i = 0; i < one.bytes / size; i++)
                aints[i] = one.at[i * size];
            MPI_Datatype made;
            OK(MPI_Type_create_hindexed_block(one.bytes / size, 1, aints, basic_type, &made));
            OK(MPI_Type_create_resized(made, 0, one.extent, &map->type));
            OK(MPI_Type_free(&made));
            free(aints);
        } else {
            for (int i = 0; i < TILE; i++)
                if (owners[i] == of) {
                    places[n] = i;
                    lens[n++] = 1;
                    for (int k = 0; k < size; k++)
                        map->at[map->bytes++] = (long)i * size + k;
                }
            MPI_Datatype made;
            OK(MPI_Type_indexed(n, lens, places, basic_type, &made));
            OK(MPI_Type_create_resized(made, 0, map->extent, &map->type));
            OK(MPI_Type_free(&made));
        }
        OK(MPI_Type_commit(&map->type));
    }
    drop(&one);
}

static void round_of(const char *path) {
    static const char *choices[] = {"automatic", "enable", "disable"};
    static const char *keys[] = {"romio_cb_write", "romio_cb_read", "romio_ds_write", "romio_ds_read"};
    MPI_Info info;
    MPI_File file;
    OK(MPI_Info_create(&info));
    for (int i = 0; i < 4; i++)
        OK(MPI_Info_set(info, keys[i], choices[pick(0, 2)]));
    OK(MPI_Info_set(info, "cb_buffer_size", pick(0, 1) ? "300" : "16777216"));
    OK(MPI_Info_set(info, "cb_nodes", pick(0, 1) ? "1" : "0"));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_Info_free(&info));
    OK(MPI_File_set_atomicity(file, pick(0, 4) == 0));
    int kind = pick(0, 3), tiled = pick(0, 1);
    swaps = pick(0, 1);
    size = sizes[kind];
    basic_type = kinds[kind];
    make_maps(tiled);
    disp = pick(0, 50);
    OK(MPI_File_set_view(file, disp, basic_type, maps[rank].type, swaps ? "external32" : "native", MPI_INFO_NULL));
    for (int i = 0; i < STEPS; i++) {
        int what = tiled ? 0 : pick(0, 2);
        if (what == 0) {
            burst(file, tiled);
        } else {
            if (pick(0, 1))
                OK(MPI_File_seek_shared(file, pick(0, 200), MPI_SEEK_SET));
            if (what == 1)
                ordered(file);
            else
                unordered(file);
        }
        compare(file, path);
    }
    for (int of = 0; of < ranks; of++)
        drop(&maps[of]);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank();
    ranks = world_size();
    check_seed = choose_seed();
    OK(MPI_Bcast(&check_seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    state = check_seed;
    own_state = check_seed + (uint64_t)rank + 1;
    const char *path = io_path("model");
    for (int i = 0; i < ROUNDS; i++)
        round_of(path);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Finalize());
    return 0;
}
