/* The shared file pointer and ordered access (MPI-3.1 section 13.4.4).
 * ranks: 1 2 4 8
 */
#include "io.h"
#include <dirent.h>

enum { EACH = 40 };

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), ranks = world_size();
    const char *path = io_path("shared");
    MPI_File file;
    MPI_Status status;
    MPI_Request request;
    MPI_Offset at;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    /* Records of random lengths, each of which has to be there in one piece, once. */
    uint64_t state = 77 + (uint64_t)rank;
    int total = 0;
    for (int i = 0; i < EACH; i++) {
        int record[20], len = 3 + (int)random_below(&state, 16);
        record[0] = len;
        record[1] = rank;
        record[2] = i;
        for (int k = 3; k < len; k++)
            record[k] = rank * 1000 + i * 10 + k;
        if (i % 2) {
            OK(MPI_File_write_shared(file, record, len, MPI_INT, &status));
            CHECK_EQ(io_count(&status, MPI_INT), len);
        } else {
            OK(MPI_File_iwrite_shared(file, record, len, MPI_INT, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        total += len;
    }
    int all;
    OK(MPI_Allreduce(&total, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_File_get_position_shared(file, &at));
    CHECK_EQ(at, all);
    int *data = allocate(sizeof(int) * (size_t)all);
    CHECK_EQ(io_slurp(path, data, sizeof(int) * (size_t)all, 8), (ssize_t)sizeof(int) * all);
    int seen[8][EACH], records = 0, where = 0;
    memset(seen, 0, sizeof seen);
    while (where < all) {
        int len = data[where], who = data[where + 1], i = data[where + 2];
        CHECK(len >= 3 && len < 20 && who >= 0 && who < ranks && i >= 0 && i < EACH);
        for (int k = 3; k < len; k++)
            CHECK_EQ(data[where + k], who * 1000 + i * 10 + k);
        seen[who][i]++;
        where += len;
        records++;
    }
    CHECK_EQ(records, ranks * EACH);
    for (int who = 0; who < ranks; who++)
        for (int i = 0; i < EACH; i++)
            CHECK_EQ(seen[who][i], 1);
    free(data);

    /* Read back: every element once. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    int sum = 0, one, took = 0;
    for (;;) {
        if (took % 2) {
            OK(MPI_File_read_shared(file, &one, 1, MPI_INT, &status));
        } else {
            OK(MPI_File_iread_shared(file, &one, 1, MPI_INT, &request));
            OK(MPI_Wait(&request, &status));
        }
        if (io_count(&status, MPI_INT) == 0)
            break;
        took++;
        sum++;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_EQ(sum, all);

    /* In the order of ranks, with lengths that differ. */
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int round = 0; round < 4; round++) {
        int mine[8], len = (rank + round) % 4;
        for (int i = 0; i < len; i++)
            mine[i] = round * 100 + rank * 10 + i;
        if (round % 2) {
            OK(MPI_File_write_ordered(file, mine, len, MPI_INT, &status));
        } else {
            OK(MPI_File_write_ordered_begin(file, mine, len, MPI_INT));
            OK(MPI_File_write_ordered_end(file, mine, &status));
        }
        CHECK_EQ(io_count(&status, MPI_INT), len);
    }
    OK(MPI_File_get_position_shared(file, &at));
    MPI_Offset written = at;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    int place = 0;
    static int content[1000];
    CHECK_EQ(io_slurp(path, content, (size_t)written * 4, 8), written * 4);
    for (int round = 0; round < 4; round++) {
        for (int who = 0; who < ranks; who++)
            for (int i = 0; i < (who + round) % 4; i++)
                CHECK_EQ(content[place++], round * 100 + who * 10 + i);
        int mine[8], len = (rank + round) % 4;
        if (round % 2) {
            OK(MPI_File_read_ordered(file, mine, len, MPI_INT, &status));
        } else {
            OK(MPI_File_read_ordered_begin(file, mine, len, MPI_INT));
            OK(MPI_File_read_ordered_end(file, mine, &status));
        }
        CHECK_EQ(io_count(&status, MPI_INT), len);
        for (int i = 0; i < len; i++)
            CHECK_EQ(mine[i], round * 100 + rank * 10 + i);
    }
    CHECK_EQ(place, written);
    OK(MPI_File_seek_shared(file, -3, MPI_SEEK_CUR));
    OK(MPI_File_get_position_shared(file, &at));
    CHECK_EQ(at, written - 3);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(file, -1, MPI_SEEK_END));
    OK(MPI_File_get_position_shared(file, &at));
    CHECK_EQ(at, all - 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));

    /* The wrong uses. */
    FAILS(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
    FAILS(MPI_File_seek_shared(file, 0, 99), MPI_ERR_ARG);
    FAILS(MPI_File_seek_shared(MPI_FILE_NULL, 0, MPI_SEEK_SET), MPI_ERR_FILE);
    if (ranks > 1) {
        FAILS(MPI_File_seek_shared(file, rank, MPI_SEEK_SET), MPI_ERR_NOT_SAME);
        FAILS(MPI_File_seek_shared(file, 0, rank == 1 ? 99 : MPI_SEEK_SET), MPI_ERR_ARG);
    }
    int last = rank == ranks - 1;
    FAILS(MPI_File_get_position_shared(file, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_write_shared(file, NULL, 1, MPI_INT, &status), MPI_ERR_BUFFER);
    FAILS(MPI_File_read_shared(file, &one, -1, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_iwrite_shared(file, &one, 1, MPI_INT, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_iread_shared(file, &one, 1, MPI_DATATYPE_NULL, &request), MPI_ERR_TYPE);
    FAILS(MPI_File_write_ordered(file, &one, last ? -1 : 1, MPI_INT, &status), MPI_ERR_COUNT);
    FAILS(MPI_File_read_ordered(file, last ? NULL : &one, 1, MPI_INT, &status), MPI_ERR_BUFFER);
    /* Who has begun is told at the end. */
    if (rank == 0) {
        FAILS(MPI_File_write_ordered_begin(file, &one, -1, MPI_INT), MPI_ERR_COUNT);
    } else {
        OK(MPI_File_write_ordered_begin(file, &one, 1, MPI_INT));
        FAILS(MPI_File_write_ordered_end(file, &one, &status), MPI_ERR_COUNT);
    }
    if (last) {
        FAILS(MPI_File_read_ordered_begin(file, &one, 1, MPI_DATATYPE_NULL), MPI_ERR_TYPE);
    } else {
        OK(MPI_File_read_ordered_begin(file, &one, 1, MPI_INT));
        FAILS(MPI_File_read_ordered_end(file, &one, &status), MPI_ERR_TYPE);
    }
    OK(MPI_File_get_position_shared(file, &at));
    CHECK_EQ(at, all - 1);
    OK(MPI_File_close(&file));

    /* Nothing is left of it. */
    if (rank == 0) {
        const char *slash = strrchr(path, '/');
        char folder[256];
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
        DIR *dir = opendir(folder);
        CHECK(dir != NULL);
        for (struct dirent *entry; (entry = readdir(dir));)
            CHECK(strstr(entry->d_name, slash + 1) == NULL);
        closedir(dir);
    }
    OK(MPI_Finalize());
    return 0;
}
