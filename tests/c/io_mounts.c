/* A file system that is full, and one that can only be read: small ones, mounted in a namespace of the
 * program's own. What returned success is there, what did not fit is an error of all who must know.
 * ranks: 1 4
 * variants: shm
 * needs: mounts
 */
#define _GNU_SOURCE
#include "io.h"
#include <sched.h>
#include <sys/mount.h>

enum { ROOM = 1 << 20, PART = 200000 };

/* All ranks enter the namespace that the first has made. */
static void enter(int rank) {
    int pid = getpid();
    OK(MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (rank == 0) {
        CHECK(unshare(CLONE_NEWNS) == 0);
        CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        CHECK(mount("weft", "/mnt", "tmpfs", 0, "size=1m") == 0);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank != 0) {
        char name[64];
        snprintf(name, sizeof name, "/proc/%d/ns/mnt", pid);
        int space = open(name, O_RDONLY);
        CHECK(space >= 0);
        CHECK(setns(space, 0) == 0);
        close(space);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void fill_up(const char *path, int rank, int ranks, const char *choice) {
    static unsigned char data[PART], back[PART];
    MPI_Info info;
    MPI_File file;
    MPI_Status status;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "romio_cb_write", choice));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info,
                     &file));
    OK(MPI_Info_free(&info));
    int good = 0, failed = 0;
    for (int round = 0; round < 1 + 2 * ROOM / PART / ranks; round++) {
        fill(data, PART, (uint64_t)(round * 100 + rank));
        MPI_Offset at = ((MPI_Offset)round * ranks + rank) * PART;
        int code = MPI_File_write_at_all(file, at, data, PART, MPI_BYTE, &status);
        if (code == MPI_SUCCESS) {
            CHECK_EQ(io_count(&status, MPI_BYTE), PART);
            good++;
        } else {
            CHECK_EQ(class_of(code), MPI_ERR_NO_SPACE);
            failed++;
        }
        int least;
        OK(MPI_Allreduce(&failed, &least, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        if (strcmp(choice, "enable") == 0)
            CHECK_EQ(failed, least); /* in two phases all fail together */
        if (least)
            break;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(failed > 0);
    for (int round = 0; round < good; round++) {
        MPI_Offset at = ((MPI_Offset)round * ranks + rank) * PART;
        OK(MPI_File_read_at(file, at, back, PART, MPI_BYTE, &status));
        CHECK(is_filled(back, PART, (uint64_t)(round * 100 + rank)));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_File_preallocate(file, 4 * ROOM), MPI_ERR_NO_SPACE);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int rank = world_rank(), ranks = world_size();
    enter(rank);
    const char *path = "/mnt/file";
    fill_up(path, rank, ranks, "enable");
    fill_up(path, rank, ranks, "disable");
    MPI_File file;
    char byte = 'x';
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    OK(MPI_File_write_at(file, rank, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
    OK(MPI_File_close(&file));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody has it open */
    if (rank == 0)
        CHECK(mount("weft", "/mnt", NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/mnt/new", MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file),
          MPI_ERR_READ_ONLY);
    FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_READ_ONLY);
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    char back[8];
    OK(MPI_File_read_at_all(file, 0, back, ranks, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(all_bytes(back, (size_t)ranks, 'x'));
    OK(MPI_File_close(&file));
    OK(MPI_Finalize());
    return 0;
}
