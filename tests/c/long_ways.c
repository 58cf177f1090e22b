/* Long messages within a node: both protocols are used and counted, data arrives by either, also where the sender
 * has something else to do, and the variable decides where it is set.
 * variants: shm
 * timeout: 60
 * case: auto
 * case: always
 * case: never
 */
#include "check.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 5 << 20, ROUNDS = 10 };
static int rank;
static MPI_T_pvar_session session;
static volatile sig_atomic_t told;

static void on_signal(int number) {
    (void)number;
    told = 1;
}

static MPI_T_pvar_handle counting(const char *name) {
    int index = -1, numbers = 0;
    MPI_T_pvar_handle handle = NULL;
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &numbers));
    OK(MPI_T_pvar_start(session, handle));
    return handle;
}

static unsigned long counted(MPI_T_pvar_handle handle) {
    unsigned long value = 0;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static void put_words(unsigned *data, int words, unsigned seed) {
    for (int i = 0; i < words; i++)
        data[i] = seed * 2654435761u + i;
}

static void check_words(const unsigned *data, int words, unsigned seed) {
    for (int i = 0; i < words; i++)
        if (data[i] != seed * 2654435761u + i)
            CHECK_EQ(data[i], seed * 2654435761u + i);
}

int main(int argc, char **argv) {
    int provided;
    const char *way = argc > 1 ? argv[1] : "auto";
    if (strcmp(way, "auto") != 0)
        CHECK_EQ(setenv("WEFT_SHM_SINGLE_COPY", strcmp(way, "always") == 0 ? "1" : "0", 1), 0);
    OK(MPI_Init(&argc, &argv));
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    MPI_T_pvar_handle once = counting("single_copy_received"), twice = counting("two_copies_received");
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    unsigned *out = malloc(LONGEST), *in = malloc(LONGEST);
    CHECK(out != NULL && in != NULL);
    int other = 1 - rank;

    /* One after the other, all lengths, and both ways at once. */
    const int lengths[] = {8192, 20000, 32768, 65536, 65540, 262144, 1 << 20, (1 << 20) + 4, 2 << 20, LONGEST};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (unsigned round = 0; round < ROUNDS / (lengths[i] > 1 << 20 ? 3 : 1); round++) {
            int words = lengths[i] / 4;
            put_words(out, words, i + round + rank);
            memset(in, 0, lengths[i]);
            if (round % 2) {
                OK(MPI_Sendrecv(out, words, MPI_UNSIGNED, other, 1, in, words, MPI_UNSIGNED, other, 1,
                                MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            } else if (rank == 0) {
                OK(MPI_Send(out, words, MPI_UNSIGNED, 1, 1, MPI_COMM_WORLD));
                OK(MPI_Recv(in, words, MPI_UNSIGNED, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            } else {
                OK(MPI_Recv(in, words, MPI_UNSIGNED, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                OK(MPI_Send(out, words, MPI_UNSIGNED, 0, 1, MPI_COMM_WORLD));
            }
            check_words(in, words, i + round + other);
        }

    /* Many at once, with less room at the receiver than is sent. */
    enum { MANY = 40, WORDS = 16384 };
    MPI_Request requests[2 * MANY];
    unsigned *all = malloc(2 * MANY * WORDS * 4), *from = all + MANY * WORDS;
    CHECK(all != NULL);
    for (int round = 0; round < 3; round++) {
        memset(from, 0, MANY * WORDS * 4);
        for (int i = 0; i < MANY; i++) {
            put_words(all + i * WORDS, WORDS, i + rank);
            OK(MPI_Irecv(from + i * WORDS, WORDS, MPI_UNSIGNED, other, i, MPI_COMM_WORLD, &requests[i]));
        }
        for (int i = 0; i < MANY; i++)
            OK(MPI_Isend(all + i * WORDS, WORDS, MPI_UNSIGNED, other, i, MPI_COMM_WORLD, &requests[MANY + i]));
        OK(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < MANY; i++)
            check_words(from + i * WORDS, WORDS, i + other);
    }
    /* Too long for its receive. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int round = 0; round < ROUNDS; round++) {
        if (rank == 0) {
            OK(MPI_Send(all, WORDS, MPI_UNSIGNED, 1, 2, MPI_COMM_WORLD));
        } else {
            from[WORDS / 2] = 77;
            int code = MPI_Recv(from, WORDS / 2, MPI_UNSIGNED, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK_EQ(class_of(code), MPI_ERR_TRUNCATE);
            check_words(from, WORDS / 2, 0);
            CHECK_EQ(from[WORDS / 2], 77);
        }
    }
    CHECK_EQ(counted(once) > 0, strcmp(way, "never") != 0);
    CHECK_EQ(counted(twice) > 0, strcmp(way, "always") != 0);

    /* The sender computes until the receiver has its data, whichever protocol it takes. */
    if (strcmp(way, "never") != 0) {
        int pid = getpid(), peer;
        CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
        OK(MPI_Sendrecv(&pid, 1, MPI_INT, other, 3, &peer, 1, MPI_INT, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int round = 0; round < ROUNDS; round++) {
            int words = lengths[3 + round % 5] / 4;
            if (rank == 0) {
                MPI_Request request;
                told = 0;
                put_words(out, words, round);
                OK(MPI_Barrier(MPI_COMM_WORLD));
                OK(MPI_Isend(out, words, MPI_UNSIGNED, 1, 4, MPI_COMM_WORLD, &request));
                for (int i = 0; i < 10000 && !told; i++)
                    nanosleep(&(struct timespec){0, 1000000}, NULL);
                CHECK(told);
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            } else {
                OK(MPI_Barrier(MPI_COMM_WORLD));
                OK(MPI_Recv(in, words, MPI_UNSIGNED, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                check_words(in, words, round);
                CHECK_EQ(kill(peer, SIGUSR1), 0);
            }
        }
    }
    free(all);
    free(out);
    free(in);
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    OK(MPI_Finalize());
    return 0;
}
