/* ranks: 1 3
 * local: infos and groups
 */
/* Hardware resources, and communicators divided by them (MPI-4.1 sections 7.4.2 and 9.1). */
#define _GNU_SOURCE
#include <sched.h>

#include "fails.h"

static MPI_Comm split(int type, const char *key, const char *value) {
    MPI_Info info;
    MPI_Comm part;
    OK(MPI_Info_create(&info));
    if (key) {
        OK(MPI_Info_set(info, key, value));
    }
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, 0, info, &part));
    OK(MPI_Info_free(&info));
    return part;
}

static int size_of(MPI_Comm part) {
    int size = 0;
    if (part != MPI_COMM_NULL) {
        OK(MPI_Comm_size(part, &size));
        OK(MPI_Comm_free(&part));
    }
    return size;
}

int main(int argc, char **argv) {
    MPI_Info info;
    int flag, length, size, count;
    char value[8], kind[MPI_MAX_INFO_KEY + 1];
    /* Confined to one processor, and so to one of everything. */
    cpu_set_t set;
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0);
    int first = 0, last = 0;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0; cpu--) {
        if (CPU_ISSET(cpu, &set)) {
            first = cpu;
            last = last ? last : cpu;
        }
    }
    CPU_ZERO(&set);
    CPU_SET(first, &set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
    /* Allowed before MPI_Init. */
    OK(MPI_Get_hw_resource_info(&info));
    OK(MPI_Info_get_nkeys(info, &count));
    CHECK(count >= 2);
    OK(MPI_Info_get_nthkey(info, 0, kind));
    CHECK(strstr(kind, "://"));
    length = sizeof value;
    OK(MPI_Info_get_string(info, "hwloc://PU", &length, value, &flag));
    CHECK(flag && !strcmp(value, "true"));
    OK(MPI_Info_free(&info));

    MPI_Init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    world_rank();
    size = world_size();
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "mpi_shared_memory")),
             size);
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "hwloc://Machine")),
             size);
    int on_one = size_of(split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "hwloc://PU"));
    CHECK(on_one >= 1 && on_one <= size);
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_HW_GUIDED, "mpi_hw_resource_type", "hwloc://Moon")), 0);
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_HW_GUIDED, NULL, NULL)), 0);
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://WORLD")), size);
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://SELF")), 1);
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_pset_name", "mpi://NONE")), 0);
    CHECK_EQ(size_of(split(MPI_COMM_TYPE_RESOURCE_GUIDED, "mpi_hw_resource_type",
                           "mpi_shared_memory")), size);
    MPI_Comm part;
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, MPI_INFO_NULL, &part));
    CHECK_EQ(part, MPI_COMM_NULL);
    /* Without guidance: smaller and smaller, until nothing divides any more. */
    MPI_Comm all = MPI_COMM_WORLD;
    for (int depth = 0;; depth++) {
        int before, after;
        CHECK(depth < 10);
        OK(MPI_Comm_size(all, &before));
        OK(MPI_Comm_split_type(all, MPI_COMM_TYPE_HW_UNGUIDED, 0, MPI_INFO_NULL, &part));
        if (all != MPI_COMM_WORLD) {
            OK(MPI_Comm_free(&all));
        }
        if (part == MPI_COMM_NULL) {
            break;
        }
        OK(MPI_Comm_size(part, &after));
        CHECK(after < before);
        all = part;
    }
    /* On different processors there is something to divide by, if there are two. */
    if (size > 1) {
        CPU_ZERO(&set);
        CPU_SET(world_rank() == 0 ? first : last, &set);
        CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
        /* It says by which kind (MPI-4.1 section 7.4.2), and that divides in the same way. */
        MPI_Info kind;
        MPI_Comm again;
        char value[MPI_MAX_INFO_VAL + 1];
        int flag, result;
        OK(MPI_Info_create(&kind));
        OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_UNGUIDED, 0, kind, &part));
        OK(MPI_Info_get(kind, "mpi_hw_resource_type", MPI_MAX_INFO_VAL, value, &flag));
        CHECK_EQ(flag, part != MPI_COMM_NULL);
        if (last > first) {
            OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, kind, &again));
            OK(MPI_Comm_compare(part, again, &result));
            CHECK_EQ(result, MPI_CONGRUENT);
            OK(MPI_Comm_free(&again));
        }
        OK(MPI_Info_free(&kind));
        if (last > first) {
            CHECK_EQ(size_of(part), world_rank() == 0 ? 1 : size - 1);
        } else {
            CHECK_EQ(part, MPI_COMM_NULL);
        }
    }
    FAILS(MPI_Comm_split_type(MPI_COMM_WORLD, 77, 0, MPI_INFO_NULL, &part), MPI_ERR_ARG);
    FAILS(MPI_Get_hw_resource_info(NULL), MPI_ERR_ARG);
    MPI_Finalize();
    return 0;
}
