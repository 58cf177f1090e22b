/* Opening, closing, deleting, sizes, group, mode and hints of files (MPI-3.1 section 13.2).
 * ranks: 1 4
 * local: opening of files
 */
#include "io.h"

static void modes(const char *path) {
    MPI_File file = MPI_FILE_NULL;
    /* Nothing there, and no mode that makes it. */
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file),
          MPI_ERR_NO_SUCH_FILE);
    CHECK(file == MPI_FILE_NULL);
    int wrong[] = {0,
                   MPI_MODE_RDONLY | MPI_MODE_WRONLY,
                   MPI_MODE_CREATE,
                   MPI_MODE_RDONLY | MPI_MODE_CREATE,
                   MPI_MODE_RDONLY | MPI_MODE_EXCL,
                   MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL,
                   MPI_MODE_RDWR | 1 << 20};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(&file, 7, sizeof file);
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, wrong[i], MPI_INFO_NULL, &file), MPI_ERR_AMODE);
        CHECK(file == MPI_FILE_NULL);
    }
    FAILS(MPI_File_open(MPI_COMM_WORLD, "", MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, NULL, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_ARG);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_open(MPI_COMM_NULL, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_COMM);
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, 12345, &file), MPI_ERR_INFO);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDWR, MPI_INFO_NULL, &file),
          MPI_ERR_BAD_FILE);
    FAILS(MPI_File_open(MPI_COMM_WORLD, "/nowhere/at/all", MPI_MODE_RDWR | MPI_MODE_CREATE,
                        MPI_INFO_NULL, &file),
          MPI_ERR_NO_SUCH_FILE);
    int size = world_size(), rank = world_rank();
    if (size > 1) {
        /* Ranks that differ, or of which one alone is wrong, all find out. */
        int mode = rank == 1 ? MPI_MODE_RDWR : MPI_MODE_RDWR | MPI_MODE_CREATE;
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), MPI_ERR_NOT_SAME);
        CHECK(!io_exists(path));
        mode = rank == size - 1 ? 0 : MPI_MODE_RDWR | MPI_MODE_CREATE;
        FAILS(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
    }
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL,
                     MPI_INFO_NULL, &file));
    MPI_File second;
    FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL,
                        MPI_INFO_NULL, &second),
          MPI_ERR_FILE_EXISTS);
    int mode;
    OK(MPI_File_get_amode(file, &mode));
    CHECK_EQ(mode, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL);
    FAILS(MPI_File_get_amode(file, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_get_amode(MPI_FILE_NULL, &mode), MPI_ERR_FILE);
    MPI_Group group, world;
    int result;
    OK(MPI_File_get_group(file, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &result));
    CHECK_EQ(result, MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
    FAILS(MPI_File_get_group(file, NULL), MPI_ERR_ARG);

    MPI_File copy = file;
    OK(MPI_File_close(&file));
    CHECK(file == MPI_FILE_NULL);
    FAILS(MPI_File_close(&file), MPI_ERR_FILE);
    FAILS(MPI_File_close(&copy), MPI_ERR_FILE);
    FAILS(MPI_File_close(NULL), MPI_ERR_ARG);
    CHECK(io_exists(path));
}

static void sizes(const char *path) {
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    MPI_Offset size = -1;
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 0);
    OK(MPI_File_set_size(file, 5000000000));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 5000000000);
    OK(MPI_File_set_size(file, 100));
    OK(MPI_File_preallocate(file, 50));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 100);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_preallocate(file, 100000));
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 100000);
    FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
    FAILS(MPI_File_preallocate(file, -1), MPI_ERR_ARG);
    FAILS(MPI_File_get_size(file, NULL), MPI_ERR_ARG);
    if (world_size() > 1) {
        FAILS(MPI_File_set_size(file, world_rank()), MPI_ERR_NOT_SAME);
        FAILS(MPI_File_set_size(file, world_rank() ? 0 : -1), MPI_ERR_ARG);
    }
    OK(MPI_File_get_size(file, &size));
    CHECK_EQ(size, 100000);
    OK(MPI_File_sync(file));
    FAILS(MPI_File_sync(MPI_FILE_NULL), MPI_ERR_FILE);
    OK(MPI_File_close(&file));

    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_File_set_size(file, 0), MPI_ERR_READ_ONLY);
    FAILS(MPI_File_preallocate(file, 0), MPI_ERR_READ_ONLY);
    char byte = 0;
    FAILS(MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
    OK(MPI_File_close(&file));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_APPEND, MPI_INFO_NULL, &file));
    FAILS(MPI_File_read_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
    MPI_Offset at;
    OK(MPI_File_get_position(file, &at));
    CHECK_EQ(at, 100000);
    OK(MPI_File_get_position_shared(file, &at));
    CHECK_EQ(at, 100000);
    OK(MPI_File_close(&file));
}

static void hints(const char *path) {
    MPI_Info info, used;
    char value[MPI_MAX_INFO_VAL];
    int flag;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "cb_buffer_size", "1048576"));
    OK(MPI_Info_set(info, "romio_cb_write", "enable"));
    OK(MPI_Info_set(info, "cb_nodes", "1"));
    OK(MPI_Info_set(info, "romio_ds_read", "nonsense"));
    OK(MPI_Info_set(info, "access_style", "write_once,random"));
    OK(MPI_Info_set(info, "unknown_to_all", "1"));
    MPI_File file;
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR, info, &file));
    OK(MPI_File_get_info(file, &used));
    struct {
        const char *key, *value;
    } held[] = {{"cb_buffer_size", "1048576"},  {"romio_cb_write", "enable"},
                {"cb_nodes", "1"},              {"romio_ds_read", "automatic"},
                {"romio_no_indep_rw", "false"}, {"access_style", "write_once,random"},
                {"filename", path},             {"ind_wr_buffer_size", "524288"},
                {"romio_aggregator_list", "0 "}, {"striping_unit", "0"},
                {"romio_cb_pfr", "disable"},    {"start_iodevice", "0"},
                {"mpi_memory_alloc_kinds",
                 "system,mpi,mpi:alloc_mem,mpi:win_allocate,mpi:win_allocate_shared"}};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        OK(MPI_Info_get(used, held[i].key, MPI_MAX_INFO_VAL - 1, value, &flag));
        CHECK(flag);
        if (strcmp(value, held[i].value) != 0)
            fprintf(stderr, "%s is %s\n", held[i].key, value);
        CHECK(strcmp(value, held[i].value) == 0);
    }
    OK(MPI_Info_get(used, "unknown_to_all", MPI_MAX_INFO_VAL - 1, value, &flag));
    CHECK(!flag);
    OK(MPI_Info_free(&used));
    OK(MPI_Info_set(info, "ind_rd_buffer_size", "65536"));
    OK(MPI_File_set_info(file, info));
    OK(MPI_File_get_info(file, &used));
    OK(MPI_Info_get(used, "ind_rd_buffer_size", MPI_MAX_INFO_VAL - 1, value, &flag));
    CHECK(flag && strcmp(value, "65536") == 0);
    OK(MPI_Info_free(&used));
    OK(MPI_Info_free(&info));
    FAILS(MPI_File_set_info(file, 12345), MPI_ERR_INFO);
    FAILS(MPI_File_get_info(file, NULL), MPI_ERR_ARG);
    FAILS(MPI_File_get_info(MPI_FILE_NULL, &used), MPI_ERR_FILE);
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int rank = world_rank();
    const char *path = io_path("open");
    modes(path);
    sizes(path);
    hints(path);
    /* With a prefix that chooses the driver. */
    char name[300];
    MPI_File file;
    snprintf(name, sizeof name, "nfs:%s", path);
    char data[8] = "abcdefg", back[8];
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                     &file));
    OK(MPI_File_write_at(file, 8 * rank, data, 8, MPI_CHAR, MPI_STATUS_IGNORE));
    OK(MPI_File_set_atomicity(file, 1));
    OK(MPI_File_read_at(file, 8 * rank, back, 8, MPI_CHAR, MPI_STATUS_IGNORE));
    CHECK(memcmp(data, back, 8) == 0);
    CHECK(io_exists(path));
    OK(MPI_File_close(&file));
    CHECK(!io_exists(path));

    /* By one process alone, and deleted. */
    snprintf(name, sizeof name, "%s-%d", path, rank);
    FAILS(MPI_File_delete(name, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
    FAILS(MPI_File_delete(NULL, MPI_INFO_NULL), MPI_ERR_ARG);
    FAILS(MPI_File_delete(name, 12345), MPI_ERR_INFO);
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "file_perm", "0600"));
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_WRONLY | MPI_MODE_CREATE, info, &file));
    OK(MPI_Info_free(&info));
    struct stat told;
    CHECK(stat(name, &told) == 0);
    CHECK_EQ(told.st_mode & 0777, 0600);
    OK(MPI_File_close(&file));
    OK(MPI_File_delete(name, MPI_INFO_NULL));
    CHECK(!io_exists(name));
    OK(MPI_Finalize());
    return 0;
}
