/* Plans that a communicator keeps of its collectives: ranks that find a plan and ranks that make it anew in the same
 * call go together, handles that were freed and made again mean the new object, and many different calls need no more
 * memory than few.
 *
 * ranks: 1 2 3 5
 * variants: shm shm-2copy tcp
 * timeout: 90
 */
#include <malloc.h>
#include "coll.h"

enum { CALLS = 600, MOST = 20000, WARM = 8 };

static const int lengths[] = {1, 2, 7, 100, 600, 1500, 5000, MOST};
static unsigned seed = 1;

/* The same numbers on all ranks. */
static int pick(int below)
{
    seed = seed * 1103515245 + 12345;
    return (int)(seed >> 16) % below;
}

/* Names `count` ints by another datatype at each rank: a new one in each call, one of many, or always the same. */
static MPI_Datatype named(int call, int count, int *given)
{
    MPI_Datatype type = MPI_INT;
    *given = count;
    if (rank % 3 == 0)
        OK(MPI_Type_dup(MPI_INT, &type));
    else if (rank % 3 == 1 && call % 2) {
        OK(MPI_Type_contiguous(count, MPI_INT, &type));
        *given = 1;
    }
    if (type != MPI_INT)
        OK(MPI_Type_commit(&type));
    return type;
}

static void other_plans_at_each_rank(void)
{
    static int mine[8 * MOST], all[8 * MOST];
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int call = 0; call < CALLS; call++) {
        int kind = pick(6), count = lengths[pick(8)], root = pick(size), given;
        MPI_Datatype type = named(call, count, &given);
        for (int i = 0; i < count; i++)
            mine[i] = value(rank, i, call);
        switch (kind) {
        case 0:
            OK(MPI_Bcast(mine, given, type, root, comm));
            for (int i = 0; i < count; i++)
                CHECK(mine[i] == value(root, i, call), "call %d, %d ints, element %d: %d", call, count, i, mine[i]);
            break;
        case 1:
            OK(MPI_Gather(mine, given, type, all, given, type, root, comm));
            for (int i = 0; rank == root && i < size * count; i++)
                CHECK(all[i] == value(i / count, i % count, call), "call %d, element %d: %d", call, i, all[i]);
            break;
        case 2:
            OK(MPI_Allgather(mine, count, MPI_INT, all, given, type, comm));
            for (int i = 0; i < size * count; i++)
                CHECK(all[i] == value(i / count, i % count, call), "call %d, element %d: %d", call, i, all[i]);
            break;
        case 3:
            for (int i = 0; i < size * count; i++)
                all[i] = value(root, i, call);
            OK(MPI_Scatter(all, given, type, mine, count, MPI_INT, root, comm));
            for (int i = 0; i < count; i++)
                CHECK(mine[i] == value(root, rank * count + i, call), "call %d, element %d: %d", call, i, mine[i]);
            break;
        case 4: {
            int sum = -1, one = rank + call;
            OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK(sum == size * call + size * (size - 1) / 2, "call %d: %d", call, sum);
            break;
        }
        default:
            OK(MPI_Barrier(comm));
        }
        if (type != MPI_INT)
            OK(MPI_Type_free(&type));
    }
    OK(MPI_Comm_free(&comm));
}

/* A datatype that gets the handle of one that was freed has another layout. */
static void datatypes_made_again(void)
{
    for (int call = 0; call < WARM; call++) {
        int data[4] = {-1, -1, -1, -1};
        MPI_Datatype type;
        if (call % 2)
            OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
        else
            OK(MPI_Type_contiguous(2, MPI_INT, &type));
        OK(MPI_Type_commit(&type));
        for (int again = 0; again < WARM; again++) {
            int second = call % 2 ? 2 : 1;
            if (rank == 0)
                data[0] = call, data[second] = again;
            OK(MPI_Bcast(data, 1, type, 0, MPI_COMM_WORLD));
            CHECK(data[0] == call && data[second] == again, "%d %d %d", data[0], data[1], data[2]);
            CHECK(data[3 - second] == -1 && data[3] == -1, "%d %d", data[3 - second], data[3]);
        }
        OK(MPI_Type_free(&type));
    }
}

static void most(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int *from = in, *to = inout;
    (void)type;
    for (int i = 0; i < *len; i++)
        to[i] = from[i] > to[i] ? from[i] : to[i];
}

static void least(void *in, void *inout, int *len, MPI_Datatype *type)
{
    int *from = in, *to = inout;
    (void)type;
    for (int i = 0; i < *len; i++)
        to[i] = from[i] < to[i] ? from[i] : to[i];
}

/* So has an operation. */
static void operations_made_again(void)
{
    for (int call = 0; call < WARM; call++) {
        MPI_Op op;
        OK(MPI_Op_create(call % 2 ? most : least, 1, &op));
        for (int again = 0; again < WARM; again++) {
            int one = rank, result = -1;
            OK(MPI_Allreduce(&one, &result, 1, MPI_INT, op, MPI_COMM_WORLD));
            CHECK(result == (call % 2 ? size - 1 : 0), "%d", result);
        }
        OK(MPI_Op_free(&op));
    }
}

/* A call of each length, blocking and nonblocking. */
static void many_lengths(int lengths, MPI_Comm comm)
{
    int *data = ints(lengths), *sums = ints(lengths);
    for (int count = 1; count <= lengths; count++) {
        MPI_Request request;
        for (int i = 0; i < count; i++)
            data[i] = i + (rank == 0) * count;
        OK(MPI_Allreduce(data, sums, count, MPI_INT, MPI_SUM, comm));
        CHECK(sums[count - 1] == size * (count - 1) + count, "%d: %d", count, sums[count - 1]);
        OK(MPI_Ibcast(data, count, MPI_INT, 0, comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(data[count - 1] == count - 1 + count, "%d: %d", count, data[count - 1]);
    }
    free(data);
    free(sums);
}

static void memory_of_many_lengths(void)
{
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    many_lengths(200, comm);
    size_t before = mallinfo2().uordblks;
    many_lengths(1200, comm);
    size_t after = mallinfo2().uordblks;
    CHECK(after < before + (1 << 20), "%zu bytes, then %zu", before, after);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    start(&argc, &argv);
    other_plans_at_each_rank();
    datatypes_made_again();
    operations_made_again();
    memory_of_many_lengths();
    MPI_Finalize();
    return 0;
}
