/* Views in which bytes of the file come several times, which is allowed where nothing is written (MPI-4.1 section 14.3): by
 * themselves and together, with windows for sieving of all lengths.
 * ranks: 1 2 3
 * variants: shm
 */
#include "io.h"

enum { INTS = 400, MOST = 120, MANY = 60 };

static uint64_t state = 12345;

static int below(int limit) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state >> 33) % (unsigned)limit);
}

/* A filetype whose displacements never fall, and where its elements are, in the order of the data. */
static MPI_Datatype filetype(int *places, int *count, int *extent) {
    int lengths[5], starts[5], pieces = 1 + below(5), at = 0, end = 0;
    *count = 0;
    for (int i = 0; i < pieces; i++) {
        at += i ? below(4) : 0;
        starts[i] = at;
        lengths[i] = 1 + below(4);
        for (int k = 0; k < lengths[i]; k++) {
            places[(*count)++] = at + k;
        }
        end = at + lengths[i] > end ? at + lengths[i] : end;
    }
    /* Its repetition begins where its last piece does, at the earliest. */
    *extent = at + 1 + below(end - at + 3);
    MPI_Datatype bare, type;
    OK(MPI_Type_indexed(pieces, lengths, starts, MPI_INT, &bare));
    OK(MPI_Type_create_resized(bare, 0, *extent * (int)sizeof(int), &type));
    OK(MPI_Type_free(&bare));
    OK(MPI_Type_commit(&type));
    return type;
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    int rank = world_rank(), all[INTS], found[MOST];
    const char *path = io_path("overlaps");
    MPI_File file;
    for (int i = 0; i < INTS; i++) {
        all[i] = 1000 + i;
    }
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    if (rank == 0) {
        OK(MPI_File_write_at(file, 0, all, INTS, MPI_INT, MPI_STATUS_IGNORE));
    }
    OK(MPI_File_close(&file));
    state += (uint64_t)rank;
    for (int round = 0; round < MANY; round++) {
        const char *sizes[] = {"4", "20", "64", "4194304"}, *choices[] = {"automatic", "enable", "disable"};
        MPI_Info info;
        OK(MPI_Info_create(&info));
        OK(MPI_Info_set(info, "ind_rd_buffer_size", sizes[round % 4]));
        OK(MPI_Info_set(info, "cb_buffer_size", sizes[(round / 4) % 4]));
        OK(MPI_Info_set(info, "romio_ds_read", choices[round % 3]));
        OK(MPI_Info_set(info, "romio_cb_read", choices[(round / 3) % 3]));
        int places[40], count, extent, displacement = below(10), length = 1 + below(MOST);
        MPI_Datatype type = filetype(places, &count, &extent);
        MPI_Status status;
        MPI_Request request;
        OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, info, &file));
        OK(MPI_File_set_view(file, displacement * (int)sizeof(int), MPI_INT, type, "native", MPI_INFO_NULL));
        for (int way = 0; way < 5; way++) {
            int offset = below(count + 1);
            memset(found, 0, sizeof found);
            OK(MPI_File_seek(file, offset, MPI_SEEK_SET));
            switch (way) {
            case 0:
                OK(MPI_File_read(file, found, length, MPI_INT, &status));
                break;
            case 1:
                OK(MPI_File_read_all(file, found, length, MPI_INT, &status));
                break;
            case 2:
                OK(MPI_File_iread_at_all(file, offset, found, length, MPI_INT, &request));
                OK(MPI_Wait(&request, &status));
                break;
            case 3:
                OK(MPI_File_read_all_begin(file, found, length, MPI_INT));
                OK(MPI_File_read_all_end(file, found, &status));
                break;
            default:
                OK(MPI_File_iread(file, found, length, MPI_INT, &request));
                OK(MPI_Wait(&request, &status));
            }
            int got;
            OK(MPI_Get_count(&status, MPI_INT, &got));
            /* What has begun an access moves the pointer by all of it (MPI-4.1 section 14.4.1). */
            MPI_Offset now;
            OK(MPI_File_get_position(file, &now));
            CHECK_EQ(now, way == 2 ? offset : offset + (way > 2 ? length : got));
            for (int i = 0; i < length; i++) {
                int at = displacement + (offset + i) / count * extent + places[(offset + i) % count];
                if (at >= INTS) {
                    break; /* beyond the end of the file */
                }
                CHECK(i < got);
                CHECK_EQ(found[i], all[at]);
            }
        }
        OK(MPI_File_close(&file));
        OK(MPI_Type_free(&type));
        OK(MPI_Info_free(&info));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_File_delete(path, MPI_INFO_NULL));
    }
    OK(MPI_Finalize());
    return 0;
}
