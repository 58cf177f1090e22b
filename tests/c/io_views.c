/* Random views and accesses against a map of bytes: all ranks know what all others do, each has its own
 * model of the whole file, and compares with what it reads and with the file itself.
 * ranks: 1 2 3 8
 * timeout: 90
 */
#include "io_map.h"

enum { PART = 100000, TILE = 600, ROUNDS = 12, STEPS = 6, RANKS = 8 };

static unsigned char model[8 * PART + 20000];
static long model_size;

/* A view of its own part of the file, or of one tile that all ranks share etype by etype. */
static Map filetype(int etype, int rank, int ranks, int shared, const signed char *owners) {
    if (!shared) {
        Map map = basic(etype);
        for (int depth = pick(0, 4); depth > 0 && map.bytes < 100; depth--)
            map = wrap(map);
        (void)ranks;
        return map;
    }
    Map map = {MPI_DATATYPE_NULL, 0, allocate(sizeof(long) * TILE), TILE / etype * etype};
    int places[TILE], n = 0;
    for (int i = 0; i < TILE / etype; i++)
        if (owners[i] == rank) {
            places[n++] = i;
            for (int k = 0; k < etype; k++)
                map.at[map.bytes++] = (long)i * etype + k;
        }
    MPI_Datatype unit, made;
    OK(MPI_Type_contiguous(etype, MPI_BYTE, &unit));
    OK(MPI_Type_create_indexed_block(n, 1, places, unit, &made));
    OK(MPI_Type_create_resized(made, 0, map.extent, &map.type));
    OK(MPI_Type_free(&unit));
    OK(MPI_Type_free(&made));
    return map;
}

/* Data with gaps in memory: each element a byte, `stride` apart. */
static MPI_Datatype strided(int etype, int stride) {
    MPI_Datatype type;
    OK(MPI_Type_create_hvector(etype, 1, stride, MPI_BYTE, &type));
    MPI_Datatype made = type;
    OK(MPI_Type_create_resized(made, 0, (MPI_Aint)etype * stride, &type));
    OK(MPI_Type_free(&made));
    OK(MPI_Type_commit(&type));
    return type;
}

typedef struct {
    int kind, count, stride;
    long offset;
    uint64_t seed;
} Step;

static void step_io(MPI_File file, const Step *step, int writes, unsigned char *data,
                    MPI_Datatype type, MPI_Status *status) {
    MPI_Request request;
    MPI_Offset offset = step->offset, at;
    int n = step->count;
    int kind = step->kind;
    if (kind == 1 || kind == 3 || kind == 5 || kind == 7 || kind == 9) {
        OK(MPI_File_seek(file, offset, MPI_SEEK_SET));
    }
    switch (kind) {
    case 0:
        OK(writes ? MPI_File_write_at(file, offset, data, n, type, status)
                  : MPI_File_read_at(file, offset, data, n, type, status));
        break;
    case 1:
        OK(writes ? MPI_File_write(file, data, n, type, status)
                  : MPI_File_read(file, data, n, type, status));
        break;
    case 2:
        OK(writes ? MPI_File_write_at_all(file, offset, data, n, type, status)
                  : MPI_File_read_at_all(file, offset, data, n, type, status));
        break;
    case 3:
        OK(writes ? MPI_File_write_all(file, data, n, type, status)
                  : MPI_File_read_all(file, data, n, type, status));
        break;
    case 4:
        OK(writes ? MPI_File_iwrite_at(file, offset, data, n, type, &request)
                  : MPI_File_iread_at(file, offset, data, n, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 5:
        OK(writes ? MPI_File_iwrite(file, data, n, type, &request)
                  : MPI_File_iread(file, data, n, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 6:
        OK(writes ? MPI_File_iwrite_at_all(file, offset, data, n, type, &request)
                  : MPI_File_iread_at_all(file, offset, data, n, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 7:
        OK(writes ? MPI_File_iwrite_all(file, data, n, type, &request)
                  : MPI_File_iread_all(file, data, n, type, &request));
        OK(MPI_Wait(&request, status));
        break;
    case 8:
        if (writes) {
            OK(MPI_File_write_at_all_begin(file, offset, data, n, type));
            OK(MPI_File_write_at_all_end(file, data, status));
        } else {
            OK(MPI_File_read_at_all_begin(file, offset, data, n, type));
            OK(MPI_File_read_at_all_end(file, data, status));
        }
        break;
    default:
        if (writes) {
            OK(MPI_File_write_all_begin(file, data, n, type));
            OK(MPI_File_write_all_end(file, data, status));
        } else {
            OK(MPI_File_read_all_begin(file, data, n, type));
            OK(MPI_File_read_all_end(file, data, status));
        }
    }
    if (writes && (kind == 1 || kind == 3)) {
        OK(MPI_File_get_position(file, &at));
        CHECK_EQ(at, offset + n);
    }
}

static void set(MPI_Info info, const char *key, const char *value) {
    OK(MPI_Info_set(info, key, value));
}

static void round_of(const char *path, int rank, int ranks) {
    static const char *choices[] = {"automatic", "enable", "disable"};
    static const char *buffers[] = {"64", "1000", "16777216"};
    MPI_Info info;
    OK(MPI_Info_create(&info));
    set(info, "romio_cb_write", choices[pick(0, 2)]);
    set(info, "romio_cb_read", choices[pick(0, 2)]);
    set(info, "romio_ds_write", choices[pick(0, 2)]);
    set(info, "romio_ds_read", choices[pick(0, 2)]);
    set(info, "cb_buffer_size", buffers[pick(0, 2)]);
    set(info, "ind_wr_buffer_size", buffers[pick(0, 2)]);
    set(info, "ind_rd_buffer_size", buffers[pick(0, 2)]);
    const char *nodes[] = {"0", "1", "2"};
    set(info, "cb_nodes", nodes[pick(0, 2)]);
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_Info_free(&info));
    int etype = pick(1, 9), shared = pick(0, 1), atomic = pick(0, 4) == 0;
    OK(MPI_File_set_atomicity(file, atomic));
    signed char owners[TILE];
    for (int i = 0; i < TILE; i++) {
        /* Sometimes in runs, sometimes each for itself; -1 is nobody's. */
        owners[i] = (signed char)(i > 0 && pick(0, 2) ? owners[i - 1] : pick(-1, ranks - 1));
    }
    for (int one = 0; one < ranks; one++)
        owners[one] = (signed char)one; /* everybody has something */
    Map maps[RANKS];
    long disps[RANKS];
    long common = pick(0, 50);
    for (int one = 0; one < ranks; one++) {
        maps[one] = filetype(etype, one, ranks, shared, owners);
        disps[one] = shared ? common : common + (long)one * PART;
    }
    MPI_Datatype unit;
    OK(MPI_Type_contiguous(etype, MPI_BYTE, &unit));
    OK(MPI_Type_commit(&unit));
    OK(MPI_Type_commit(&maps[rank].type));
    OK(MPI_File_set_view(file, disps[rank], unit, maps[rank].type, "native", MPI_INFO_NULL));
    for (int i = 0; i < 5; i++) {
        long byte = (long)pick(0, 200) * etype;
        MPI_Offset there;
        OK(MPI_File_get_byte_offset(file, byte / etype, &there));
        CHECK_EQ(there, place(&maps[rank], disps[rank], byte));
    }
    for (int n = 0; n < STEPS; n++) {
        Step steps[RANKS];
        int writes = pick(0, 1), kind = pick(0, 9), alike = kind >= 2 && kind != 4 && kind != 5;
        long limit = shared ? 60 : 100;
        for (int one = 0; one < ranks; one++) {
            steps[one].kind = alike ? kind : (int[]){0, 1, 4, 5}[pick(0, 3)];
            steps[one].offset = pick(0, (int)limit);
            steps[one].count = pick(0, 5) == 0 ? 0 : pick(1, 120);
            steps[one].stride = pick(0, 1) ? 1 : pick(2, 3);
            steps[one].seed = next_random(&state);
        }
        Step *mine = &steps[rank];
        int bytes = mine->count * etype, stride = mine->stride;
        size_t room = (size_t)bytes * (size_t)stride + 1;
        unsigned char *packed = allocate((size_t)bytes), *memory = allocate(room);
        memset(memory, 0xaa, room);
        fill(packed, (size_t)bytes, mine->seed);
        MPI_Datatype type = strided(etype, stride);
        MPI_Status status;
        if (writes) {
            for (int i = 0; i < bytes; i++)
                memory[(size_t)i * (size_t)stride] = packed[i];
            step_io(file, mine, 1, memory, type, &status);
            CHECK_EQ(io_count(&status, MPI_BYTE), bytes);
            for (int one = 0; one < ranks; one++) {
                int len = steps[one].count * etype;
                unsigned char *theirs = allocate((size_t)len);
                fill(theirs, (size_t)len, steps[one].seed);
                for (int i = 0; i < len; i++) {
                    long at = place(&maps[one], disps[one], steps[one].offset * etype + i);
                    CHECK(at < (long)sizeof model && (shared || at < disps[one] + PART));
                    model[at] = theirs[i];
                    if (at >= model_size)
                        model_size = at + 1;
                }
                free(theirs);
            }
        } else {
            step_io(file, mine, 0, memory, type, &status);
            int there = 0;
            while (there < bytes &&
                   place(&maps[rank], disps[rank], mine->offset * etype + there) < model_size)
                there++;
            CHECK_EQ(io_count(&status, MPI_BYTE), there);
            for (int i = 0; i < bytes; i++) {
                long at = place(&maps[rank], disps[rank], mine->offset * etype + i);
                int got = memory[(size_t)i * (size_t)stride];
                CHECK_EQ(got, i < there ? model[at] : 0xaa);
                for (int k = 1; k < stride; k++)
                    CHECK_EQ(memory[(size_t)i * (size_t)stride + (size_t)k], 0xaa);
            }
        }
        OK(MPI_Type_free(&type));
        free(packed);
        free(memory);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        MPI_Offset size;
        OK(MPI_File_get_size(file, &size));
        CHECK_EQ(size, model_size);
        static unsigned char real[sizeof model];
        CHECK_EQ(io_slurp(path, real, sizeof real, 0), model_size);
        for (long i = 0; i < model_size; i++)
            if (real[i] != model[i]) {
                fprintf(stderr, "byte %ld, writes %d kind %d shared %d etype %d\n", i, writes, kind, shared,
                        etype);
                CHECK_EQ(real[i], model[i]);
            }
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    OK(MPI_Type_free(&unit));
    for (int one = 0; one < ranks; one++)
        drop(&maps[one]);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), ranks = world_size();
    check_seed = choose_seed();
    OK(MPI_Bcast(&check_seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD));
    state = check_seed;
    const char *path = io_path("views");
    for (int i = 0; i < ROUNDS; i++)
        round_of(path, rank, ranks);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    OK(MPI_Finalize());
    return 0;
}
