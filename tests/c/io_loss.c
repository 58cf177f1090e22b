/* A process is killed during a collective write: the others get an error, none hangs, and data of writes that had
 * succeeded are in the file.
 * ranks: 4
 * variants: shm tcp
 * waits: yes
 * launcher: -disable-auto-cleanup
 * timeout: 30
 * exit: 137
 * stderr: was killed by signal 9, SIGKILL
 * stderr: the others go on
 * case: member
 * case: aggregator
 * case: ordered
 * case: started
 * case: split
 */
#include "io.h"
#include <signal.h>

enum { BLOCK = 4096, BLOCKS = 300, LEN = BLOCK * BLOCKS, ROUNDS = 3 };

static unsigned char data[LEN], back[LEN];

/* A write of all ranks, at an offset or at the shared pointer. */
static int write_together(MPI_File file, const char *how, MPI_Offset at) {
    MPI_Request request;
    if (strcmp(how, "ordered") == 0)
        return MPI_File_write_ordered(file, data, LEN, MPI_BYTE, MPI_STATUS_IGNORE);
    if (strcmp(how, "started") == 0) {
        int code = MPI_File_iwrite_at_all(file, at, data, LEN, MPI_BYTE, &request);
        return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
    }
    if (strcmp(how, "split") == 0) {
        int code = MPI_File_write_at_all_begin(file, at, data, LEN, MPI_BYTE);
        return code == MPI_SUCCESS ? MPI_File_write_at_all_end(file, data, MPI_STATUS_IGNORE) : code;
    }
    return MPI_File_write_at_all(file, at, data, LEN, MPI_BYTE, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK_EQ(argc, 2);
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("loss");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_Info info;
    MPI_File file;
    MPI_Datatype every;
    MPI_Comm others;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &others));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_Info_set(info, "cb_buffer_size", "100000"));
    OK(MPI_Info_set(info, "cb_nodes", strcmp(argv[1], "member") == 0 ? "1" : "4"));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_Info_free(&info));
    if (strcmp(argv[1], "ordered") != 0) {
        OK(MPI_Type_vector(1, BLOCK, BLOCK, MPI_BYTE, &every));
        MPI_Datatype made = every;
        OK(MPI_Type_create_resized(made, 0, BLOCK * ranks, &every));
        OK(MPI_Type_free(&made));
        OK(MPI_Type_commit(&every));
        OK(MPI_File_set_view(file, BLOCK * rank, MPI_BYTE, every, "native", MPI_INFO_NULL));
        OK(MPI_Type_free(&every));
    }
    int good = 0, code = MPI_SUCCESS;
    double began = 0;
    for (int round = 0; code == MPI_SUCCESS; round++) {
        fill(data, LEN, (uint64_t)(round * 10 + rank));
        if (rank == 2 && round == ROUNDS) {
            /* In the middle of it: the signal comes from a child. */
            pid_t parent = getpid();
            if (fork() == 0) {
                nap(0.002);
                kill(parent, SIGKILL);
                _exit(0);
            }
            for (int more = 0; more < 100000; more++)
                write_together(file, argv[1], 0);
        }
        began = MPI_Wtime();
        code = write_together(file, argv[1], (MPI_Offset)(round < ROUNDS ? round : ROUNDS) * LEN);
        if (code == MPI_SUCCESS && round < ROUNDS)
            good++;
    }
    CHECK_EQ(good, ROUNDS);
    CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
    CHECK(MPI_Wtime() - began < 10);
    for (int round = 0; round < good; round++) {
        if (strcmp(argv[1], "ordered") == 0)
            CHECK_EQ(io_slurp(path, back, LEN, ((off_t)round * ranks + rank) * LEN), LEN);
        else
            OK(MPI_File_read_at(file, (MPI_Offset)round * LEN, back, LEN, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(is_filled(back, LEN, (uint64_t)(round * 10 + rank)));
    }
    code = MPI_File_close(&file);
    CHECK_EQ(class_of(code), MPIX_ERR_PROC_FAILED);
    CHECK(file == MPI_FILE_NULL);
    barrier(others);
    if (rank == 0)
        CHECK(unlink(path) == 0);
    MPI_Finalize();
    return 0;
}
