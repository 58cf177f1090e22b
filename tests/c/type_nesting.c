/* Datatypes nested in each other by the thousand (section 4.1): made, committed, described, packed,
 * sent and freed on a stack that would not do for one call for each level.
 *
 * ranks: 1
 * variants: shm
 */
#include "check.h"
#include <sys/resource.h>

enum { LEVELS = 20000 };

static MPI_Datatype contiguous(MPI_Datatype old, int level)
{
    MPI_Datatype made;
    (void)level;
    OK(MPI_Type_contiguous(1, old, &made));
    return made;
}

static MPI_Datatype vector(MPI_Datatype old, int level)
{
    MPI_Datatype made;
    OK(MPI_Type_vector(1, 1, level, old, &made));
    return made;
}

/* A byte more with each level, before or after what there is, and a gap between the two. */
static MPI_Datatype structure(MPI_Datatype old, int level)
{
    MPI_Datatype made;
    MPI_Aint lb, extent;
    OK(MPI_Type_get_extent(old, &lb, &extent));
    int blocks[2] = {1, 1};
    MPI_Aint after[2] = {0, extent + 1}, before[2] = {0, 2};
    MPI_Datatype types[2] = {level % 2 ? old : MPI_CHAR, level % 2 ? MPI_CHAR : old};
    OK(MPI_Type_create_struct(2, blocks, level % 2 ? after : before, types, &made));
    return made;
}

static MPI_Datatype nested(MPI_Datatype (*wrap)(MPI_Datatype, int))
{
    MPI_Datatype type;
    OK(MPI_Type_dup(MPI_INT, &type));
    for (int level = 1; level < LEVELS; level++) {
        MPI_Datatype old = type;
        type = wrap(old, level);
        OK(MPI_Type_free(&old));
    }
    return type;
}

/* Goes down through the contents to MPI_INT. */
static void describe(MPI_Datatype top)
{
    MPI_Datatype type = top;
    int levels = 0;
    for (;;) {
        int integers, addresses, datatypes, combiner;
        OK(MPI_Type_get_envelope(type, &integers, &addresses, &datatypes, &combiner));
        int numbers[3];
        MPI_Aint places[2];
        MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
        if (combiner != MPI_COMBINER_NAMED)
            OK(MPI_Type_get_contents(type, integers, addresses, datatypes, numbers, places, types));
        if (type != top && combiner != MPI_COMBINER_NAMED)
            OK(MPI_Type_free(&type));
        if (combiner == MPI_COMBINER_NAMED)
            break;
        levels++;
        type = types[types[0] == MPI_CHAR];
    }
    CHECK_EQ(type, MPI_INT);
    CHECK_EQ(levels, LEVELS);
}

static void moves(MPI_Datatype type, int ints, int chars)
{
    int size, packed, external = 0, position = 0, count;
    MPI_Aint lb, extent, room;
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(type, &size));
    OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK_EQ(size, 4 * ints + chars);
    char *from = malloc((size_t)extent), *to = calloc(1, (size_t)extent);
    for (MPI_Aint i = 0; i < extent; i++)
        from[i] = (char)(i % 100 + 1);
    OK(MPI_Pack_size(1, type, MPI_COMM_WORLD, &packed));
    char *line = malloc((size_t)packed), *other = malloc((size_t)packed);
    OK(MPI_Pack(from, 1, type, line, packed, &position, MPI_COMM_WORLD));
    CHECK_EQ(position, size);

    MPI_Status status;
    OK(MPI_Sendrecv(from, 1, type, 0, 1, to, 1, type, 0, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Get_elements(&status, type, &count));
    CHECK_EQ(count, ints + chars);
    position = 0;
    OK(MPI_Pack(to, 1, type, other, packed, &position, MPI_COMM_WORLD));
    CHECK(memcmp(line, other, (size_t)size) == 0);

    OK(MPI_Pack_external_size("external32", 1, type, &room));
    char *wide = malloc((size_t)room);
    MPI_Aint end = 0;
    OK(MPI_Pack_external("external32", from, 1, type, wide, room, &end));
    CHECK_EQ(end, room);
    memset(to, 0, (size_t)extent);
    end = 0;
    OK(MPI_Unpack_external("external32", wide, room, &end, to, 1, type));
    OK(MPI_Pack(to, 1, type, other, packed, &external, MPI_COMM_WORLD));
    CHECK(memcmp(line, other, (size_t)size) == 0);
    free(from);
    free(to);
    free(line);
    free(other);
    free(wide);
}

int main(int argc, char **argv)
{
    struct rlimit stack = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &stack);
    OK(MPI_Init(&argc, &argv));
    MPI_Datatype (*ways[])(MPI_Datatype, int) = {contiguous, vector, structure};
    for (int way = 0; way < 3; way++) {
        MPI_Datatype type = nested(ways[way]), never;
        describe(type);
        moves(type, 1, way == 2 ? LEVELS - 1 : 0);
        OK(MPI_Type_free(&type));
        /* One that is never compiled. */
        never = nested(ways[way]);
        OK(MPI_Type_free(&never));
    }
    OK(MPI_Finalize());
    return 0;
}
