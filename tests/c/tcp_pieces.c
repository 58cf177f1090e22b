/* Long data with gaps: blocks that are worth it leave by gather lists from where they lie; others are packed. What
 * comes is the same.
 *
 * ranks: 2
 * variants: tcp tcp-hosts
 */
#include "fails.h"

static MPI_T_pvar_session session;
static MPI_T_pvar_handle gathered;

static unsigned long count(MPI_T_pvar_handle handle)
{
    unsigned long value = 0;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static void open_count(const char *name, MPI_T_pvar_handle *handle)
{
    int index, unused;
    OK(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_AGGREGATE, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, handle, &unused));
    OK(MPI_T_pvar_start(session, *handle));
}

/* Exchanges some 3 MB in blocks of `block` bytes with gaps of 64, and an odd block at the end. */
static void exchange(int block, int listed)
{
    int blocks = 3000000 / block, lengths[2] = {1, block / 2 + 1}, rank = world_rank();
    MPI_Aint places[2] = {0, (MPI_Aint)blocks * (block + 64)};
    size_t extent = (size_t)places[1] + (size_t)block, bytes = (size_t)blocks * (size_t)block + (size_t)lengths[1];
    MPI_Datatype vector, type, parts[2];
    OK(MPI_Type_create_hvector(blocks, block, block + 64, MPI_BYTE, &vector));
    parts[0] = vector;
    parts[1] = MPI_BYTE;
    OK(MPI_Type_create_struct(2, lengths, places, parts, &type));
    OK(MPI_Type_commit(&type));
    unsigned char *data = allocate(extent);
    for (int gaps = 0; gaps < 2; gaps++) {
        for (size_t i = 0; i < extent; i++)
            data[i] = rank == 0 ? (unsigned char)(i * 131 >> 7) : 7;
        if (rank == 0) {
            unsigned long before = count(gathered);
            OK(MPI_Send(data, 1, type, 1, gaps, MPI_COMM_WORLD));
            CHECK_EQ(count(gathered) - before, listed ? bytes : 0);
        } else if (gaps) {
            OK(MPI_Recv(data, 1, type, 0, gaps, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (size_t i = 0; i < (size_t)places[1]; i++) {
                int is_data = i % (size_t)(block + 64) < (size_t)block;
                CHECK_EQ(data[i], is_data ? (unsigned char)(i * 131 >> 7) : 7);
            }
            for (size_t i = (size_t)places[1]; i < extent; i++) {
                int is_data = i < (size_t)places[1] + (size_t)lengths[1];
                CHECK_EQ(data[i], is_data ? (unsigned char)(i * 131 >> 7) : 7);
            }
        } else {
            MPI_Status status;
            int got;
            unsigned char *packed = allocate(bytes);
            OK(MPI_Recv(packed, (int)bytes, MPI_BYTE, 0, gaps, MPI_COMM_WORLD, &status));
            OK(MPI_Get_count(&status, MPI_BYTE, &got));
            CHECK_EQ((size_t)got, bytes);
            for (size_t i = 0; i < bytes; i++) {
                size_t at = i / (size_t)block * (size_t)(block + 64) + i % (size_t)block;
                CHECK_EQ(packed[i], (unsigned char)(at * 131 >> 7));
            }
            free(packed);
        }
    }
    free(data);
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    int provided;
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    OK(MPI_Init(&argc, &argv));
    OK(MPI_T_pvar_session_create(&session));
    open_count("gathered_bytes_sent", &gathered);
    exchange(65536, 1);
    exchange(20000, 1);
    exchange(5000, 1);
    exchange(1024, 1);
    exchange(100, 0);
    OK(MPI_T_pvar_session_free(&session));
    OK(MPI_Finalize());
    OK(MPI_T_finalize());
    return 0;
}
