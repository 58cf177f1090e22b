/* Random traffic among all, checked by content. Every rank makes the same plan from the same seed.
 * ranks: 2 3 5
 * variants: shm shm-2copy ofi ucx ucx-hosts
 * timeout: 60
 * case: exact
 * case: wild
 */
#include "check.h"

enum { MESSAGES = 600, MAX = 300000, TAGS = 7 };

struct message {
    int from, to, tag, bytes, mode;
};

static struct message plan[MESSAGES];
static uint64_t seed;
static int rank, size;

static void make_plan(void) {
    uint64_t state = seed;
    for (int i = 0; i < MESSAGES; i++) {
        struct message *m = &plan[i];
        m->from = (int)random_below(&state, (uint64_t)size);
        m->to = (int)random_below(&state, (uint64_t)size);
        m->tag = (int)random_below(&state, TAGS);
        m->mode = (int)random_below(&state, 3);
        switch (random_below(&state, 6)) {
        case 0:
            m->bytes = (int)(4 + random_below(&state, MAX - 4));
            break;
        case 1:
            m->bytes = (int)(8100 + random_below(&state, 200));
            break;
        default:
            m->bytes = (int)(4 + random_below(&state, 200));
        }
    }
}

static void fill_message(char *data, int i) {
    memcpy(data, &i, 4);
    fill(data + 4, (size_t)plan[i].bytes - 4, seed + (uint64_t)i);
}

static void check_message(const char *data, const MPI_Status *status, int i) {
    int number, count;
    memcpy(&number, data, 4);
    OK(MPI_Get_count(status, MPI_CHAR, &count));
    CHECK_EQ(number, i);
    CHECK_EQ(count, plan[i].bytes);
    CHECK_EQ(status->MPI_SOURCE, plan[i].from);
    CHECK_EQ(status->MPI_TAG, plan[i].tag);
    CHECK_EQ(plan[i].to, rank);
    CHECK(is_filled(data + 4, (size_t)count - 4, seed + (uint64_t)i));
}

int main(int argc, char **argv) {
    CHECK_EQ(argc, 2);
    int wild = strcmp(argv[1], "wild") == 0;
    OK(MPI_Init(&argc, &argv));
    rank = world_rank(), size = world_size();
    seed = choose_seed();
    if (rank == 0) {
        for (int i = 1; i < size; i++) {
            OK(MPI_Send(&seed, 1, MPI_UINT64_T, i, 0, MPI_COMM_WORLD));
        }
    } else {
        OK(MPI_Recv(&seed, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    check_seed = seed;
    make_plan();

    static MPI_Request requests[2 * MESSAGES];
    static char *data[2 * MESSAGES];
    static int number[2 * MESSAGES], seen[MESSAGES];
    int count = 0;
    uint64_t state = seed + (uint64_t)rank + 1;
    /* Receives in the order of the plan for each sender and tag; sends in between at random. */
    int next_send = 0, next_receive = 0;
    while (next_send < MESSAGES || next_receive < MESSAGES) {
        if (random_below(&state, 2) && next_send < MESSAGES) {
            int i = next_send++;
            if (plan[i].from == rank) {
                struct message *m = &plan[i];
                char *out = data[count] = allocate((size_t)m->bytes);
                number[count] = -1;
                fill_message(out, i);
                if (m->mode == 0) {
                    OK(MPI_Issend(out, m->bytes, MPI_CHAR, m->to, m->tag, MPI_COMM_WORLD,
                                  &requests[count]));
                } else {
                    OK(MPI_Isend(out, m->bytes, MPI_CHAR, m->to, m->tag, MPI_COMM_WORLD,
                                 &requests[count]));
                }
                count++;
            }
        } else if (next_receive < MESSAGES) {
            int i = next_receive++;
            if (plan[i].to == rank) {
                data[count] = allocate(MAX);
                number[count] = i;
                OK(MPI_Irecv(data[count], MAX, MPI_CHAR, wild ? MPI_ANY_SOURCE : plan[i].from,
                             wild ? MPI_ANY_TAG : plan[i].tag, MPI_COMM_WORLD, &requests[count]));
                count++;
            }
        }
    }
    for (int left = count; left > 0; left--) {
        int index;
        MPI_Status status;
        OK(MPI_Waitany(count, requests, &index, &status));
        CHECK(index >= 0 && index < count);
        if (number[index] >= 0) {
            int i = number[index];
            if (wild) {
                memcpy(&i, data[index], 4);
                CHECK(i >= 0 && i < MESSAGES);
            }
            check_message(data[index], &status, i);
            CHECK_EQ(seen[i]++, 0);
        }
        free(data[index]);
    }
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_EQ(seen[i], plan[i].to == rank);
    }
    barrier(MPI_COMM_WORLD);
    int flag = -1;
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_EQ(flag, 0);
    OK(MPI_Finalize());
    return 0;
}
