/* WEFT_LOG: a rendezvous reports its steps in their order, on each side. The receiver's data has gaps, so that over TCP
 * it asks for the data.
 * ranks: 2
 * variants: shm tcp
 * env: WEFT_LOG=rendezvous,send=off,loss=info
 */
#include "check.h"

enum { COUNT = 1 << 20 };

static char text[1 << 16];

/* Returns the place of a line with these words after `from`, which must be there. */
static const char *find(const char *from, const char *subject, const char *words) {
    const char *found = strstr(from, words);
    if (!found)
        fprintf(stderr, "no '%s' in: %s\n", words, from);
    CHECK(found != NULL);
    const char *line = found;
    while (line > text && line[-1] != '\n')
        line--;
    const char *named = strstr(line, subject);
    CHECK(named && named < found);
    return found;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank();
    FILE *kept = tmpfile();
    int before = dup(2);
    CHECK(kept && dup2(fileno(kept), 2) == 2);

    MPI_Datatype gaps;
    OK(MPI_Type_vector(COUNT, 1, 2, MPI_INT, &gaps));
    OK(MPI_Type_commit(&gaps));
    int *data = calloc(2 * COUNT, sizeof *data);
    if (rank == 0) {
        data[COUNT - 1] = 7;
        OK(MPI_Ssend(data, COUNT, MPI_INT, 1, 5, MPI_COMM_WORLD));
    } else {
        OK(MPI_Recv(data, 1, gaps, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(data[2 * COUNT - 2] == 7);
    }
    free(data);
    OK(MPI_Type_free(&gaps));

    dup2(before, 2);
    size_t len = pread(fileno(kept), text, sizeof text - 1, 0);
    CHECK(len > 0 && len < sizeof text);
    if (rank == 0) {
        const char *offered = find(text, " rank 0 rendezvous: ", "RTS of 4194304 bytes with tag 5 to process 1");
        if (strstr(offered, "CTS from process 1"))
            find(find(offered, "rendezvous: ", "CTS from process 1"), "rendezvous: ", "bytes of data have left");
        else
            find(offered, "rendezvous: ", "FIN from process 1");
    } else {
        const char *matched = find(text, " rank 1 rendezvous: ", "RTS from process 0");
        if (strstr(matched, "CTS for 4194304 bytes"))
            CHECK(!strstr(matched, "FIN"));
        else
            find(matched, "rendezvous: ", "FIN to process 0");
    }
    OK(MPI_Finalize());
    return 0;
}
