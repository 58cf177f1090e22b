/* Random datatypes for views, with a map of where their bytes are. */
#ifndef IO_MAP_H
#define IO_MAP_H

#include "io.h"

/* A datatype, and where its bytes are. */
typedef struct {
    MPI_Datatype type;
    int bytes;
    long *at;
    long extent;
} Map;

static uint64_t state;

static int pick(int low, int high) {
    return low + (int)random_below(&state, (uint64_t)(high - low + 1));
}

static Map basic(int size) {
    Map map = {MPI_DATATYPE_NULL, size, allocate(sizeof(long) * (size_t)size), size};
    OK(MPI_Type_contiguous(size, MPI_BYTE, &map.type));
    for (int i = 0; i < size; i++)
        map.at[i] = i;
    return map;
}

static void drop(Map *map) {
    OK(MPI_Type_free(&map->type));
    free(map->at);
}

/* One more constructor on top; keeps to increasing displacements without overlaps. */
static Map wrap(Map old) {
    Map map = {MPI_DATATYPE_NULL, 0, NULL, 0};
    int kind = pick(0, 4), count = pick(1, 3), block = pick(1, 2), gap = pick(0, 3);
    int lens[3];
    long places[3], next = 0;
    MPI_Aint aints[3];
    int ints[3];
    for (int i = 0; i < count; i++) {
        lens[i] = kind == 3 ? pick(1, 2) : block;
        next += i == 0 || kind == 0 ? 0 : gap * (kind == 3 ? pick(0, 2) : 1);
        if (kind == 0)
            lens[i] = 1;
        places[i] = next;
        ints[i] = (int)next;
        aints[i] = next * old.extent;
        next += lens[i];
    }
    long extent = next * old.extent;
    switch (kind) {
    case 0:
        OK(MPI_Type_contiguous(count, old.type, &map.type));
        break;
    case 1:
        OK(MPI_Type_vector(count, block, block + gap, old.type, &map.type));
        break;
    case 2:
        OK(MPI_Type_create_hvector(count, block, (block + gap) * old.extent, old.type, &map.type));
        break;
    case 3:
        OK(MPI_Type_indexed(count, lens, ints, old.type, &map.type));
        break;
    default: {
        MPI_Datatype types[3] = {old.type, old.type, old.type};
        OK(MPI_Type_create_struct(count, lens, aints, types, &map.type));
    }
    }
    int elements = 0;
    for (int i = 0; i < count; i++)
        elements += lens[i];
    map.bytes = elements * old.bytes;
    map.at = allocate(sizeof(long) * (size_t)map.bytes);
    int n = 0;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < lens[i]; j++)
            for (int k = 0; k < old.bytes; k++)
                map.at[n++] = (places[i] + j) * old.extent + old.at[k];
    map.extent = extent;
    if (pick(0, 1)) {
        MPI_Datatype made = map.type;
        map.extent = extent + pick(0, 9);
        OK(MPI_Type_create_resized(made, 0, map.extent, &map.type));
        OK(MPI_Type_free(&made));
    }
    drop(&old);
    return map;
}

static long place(const Map *map, long disp, long byte) {
    return disp + byte / map->bytes * map->extent + map->at[byte % map->bytes];
}

#endif
