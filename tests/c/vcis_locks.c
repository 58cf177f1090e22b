/* The locks of calls with MPI_THREAD_MULTIPLE: one for a short send, also by the thread that the lock leans to, and none
 * for its wait, nor for a put within the node, but that one flush in 256 makes progress.
 * ranks: 2
 * variants: shm
 */
#include "vcis.h"

/* Their messages fit into the ring. */
enum { CALLS = 50 };

static MPI_T_pvar_session session;
static MPI_T_pvar_handle handle;

/* Returns the acquisitions since the first call. */
static unsigned long locks(void) {
    unsigned long value;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

/* Waits outside of other calls until the peer has put `value` behind the data. */
static void wait_for(volatile long *word, long value, MPI_Win window) {
    while (*word != value) OK(MPI_Win_sync(window));
}

int main(int argc, char **argv) {
    int provided, rank, index, count;
    long data[CALLS] = {0}, turn;
    long *memory;
    MPI_Request requests[CALLS];
    MPI_Win window;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    rank = world_rank();
    OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_get_index("locks_taken", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    OK(MPI_T_pvar_start(session, handle));
    OK(MPI_Win_allocate(sizeof data + sizeof turn, sizeof *data, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    memory[CALLS] = 0;
    OK(MPI_Win_lock_all(0, window));
    /* The first round opens what is opened late. */
    for (int round = 0; round < 3; round++) {
        OK(MPI_Barrier(MPI_COMM_WORLD));
        turn = round + 1;
        if (rank == 0) {
            /* To wake a peer that sleeps takes the lock once more, so it doesn't. */
            wait_for(&memory[CALLS], turn, window);
            /* To count takes locks, always as many. */
            unsigned long start = locks(), before = locks(), counting = before - start, sent, waited, put;
            for (int i = 0; i < CALLS; i++)
                OK(MPI_Isend(&data[i], 1, MPI_LONG, 1, i, MPI_COMM_WORLD, &requests[i]));
            sent = locks() - before - counting;
            OK(MPI_Put(&turn, 1, MPI_LONG, 1, CALLS, 1, MPI_LONG, window));
            for (int i = 0; i < CALLS; i++) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
            waited = locks() - before - 2 * counting - sent;
            for (int i = 0; i < CALLS; i++) {
                OK(MPI_Put(&data[i], 1, MPI_LONG, 1, i, 1, MPI_LONG, window));
                OK(MPI_Win_flush(1, window));
            }
            put = locks() - before - 3 * counting - sent - waited;
            if (round > 0) {
                CHECK_EQ(sent, CALLS);
                CHECK_EQ(waited, 0);
                CHECK(put <= 1);
            }
        } else {
            OK(MPI_Put(&turn, 1, MPI_LONG, 0, CALLS, 1, MPI_LONG, window));
            wait_for(&memory[CALLS], turn, window);
            for (int i = 0; i < CALLS; i++)
                OK(MPI_Recv(&data[i], 1, MPI_LONG, 0, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    OK(MPI_Win_unlock_all(window));
    OK(MPI_Win_free(&window));
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_T_finalize());
    OK(MPI_Finalize());
    return 0;
}
