/* Communicators with VCIs of their own: what hints are in force, messages on all kinds of maps,
 * wildcards that were promised not to come, and more communicators than VCIs.
 * ranks: 1 2 3
 * variants: shm ofi
 * env: WEFT_NUM_VCIS=9
 * timeout: 60
 */
#include "fails.h"

static int rank, size;

/* The value of a hint in force, or "". */
static const char *hint(MPI_Comm comm, const char *key) {
    static char value[MPI_MAX_INFO_VAL + 1];
    MPI_Info info;
    int flag;
    OK(MPI_Comm_get_info(comm, &info));
    OK(MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &flag));
    OK(MPI_Info_free(&info));
    return flag ? value : "";
}

#define HINT(comm, key, value) CHECK_EQ(strcmp(hint(comm, key), value), 0)

/* From "key=value key=value". */
static MPI_Info hints(const char *text) {
    char copy[200];
    MPI_Info info;
    OK(MPI_Info_create(&info));
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = 0;
        OK(MPI_Info_set(info, word, value + 1));
    }
    return info;
}

static MPI_Comm dup_with(MPI_Comm comm, const char *text) {
    MPI_Info info = hints(text);
    MPI_Comm made;
    OK(MPI_Comm_dup_with_info(comm, info, &made));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN));
    return made;
}

enum { TAGS = 40, MAX = 30000 };

static int bytes_of(int tag) { return tag % 7 == 3 ? MAX - tag : tag * 5; }

/* Two messages of each tag, short and long, to both sides; receives in another order. */
static void traffic(MPI_Comm comm, int wild_tag, int wild_source) {
    static char out[TAGS][MAX], in[2 * TAGS][MAX];
    MPI_Request requests[4 * TAGS];
    int n = 0, right = (rank + 1) % size, left = (rank + size - 1) % size, sum = 0;
    for (int tag = 0; tag < TAGS; tag++) {
        fill(out[tag], MAX, (uint64_t)(tag * 100 + rank));
        for (int i = 0; i < 2; i++) {
            OK((tag % 3 == 0 ? MPI_Issend : MPI_Isend)(out[tag], bytes_of(tag) + i, MPI_CHAR, right,
                                                       tag, comm, &requests[n++]));
        }
    }
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_EQ(sum, size * (size - 1) / 2);
    for (int tag = TAGS - 1; tag >= 0; tag--) {
        for (int i = 0; i < 2; i++) {
            MPI_Status status;
            int count, source = wild_source ? MPI_ANY_SOURCE : left;
            if (tag % 2) {
                OK(MPI_Probe(source, tag, comm, &status));
                OK(MPI_Get_count(&status, MPI_CHAR, &count));
                CHECK_EQ(count, bytes_of(tag) + i);
            }
            OK(MPI_Recv(in[2 * tag + i], MAX, MPI_CHAR, source, tag, comm, &status));
            OK(MPI_Get_count(&status, MPI_CHAR, &count));
            CHECK_EQ(count, bytes_of(tag) + i);
            CHECK_EQ(status.MPI_SOURCE, left);
        }
    }
    OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int tag = 0; tag < TAGS; tag++) {
        char *expected = allocate(MAX);
        fill(expected, MAX, (uint64_t)(tag * 100 + left));
        CHECK_EQ(memcmp(in[2 * tag + 1], expected, (size_t)bytes_of(tag) + 1), 0);
        free(expected);
    }
    if (wild_tag) {
        MPI_Request request;
        char byte = 5, got = 0;
        OK(MPI_Isend(&byte, 1, MPI_CHAR, right, 9, comm, &request));
        OK(MPI_Recv(&got, 1, MPI_CHAR, left, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_EQ(got, 5);
    }
    OK(MPI_Barrier(comm));
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    rank = world_rank(), size = world_size();
    int flag;
    char byte;

    MPI_Comm own = dup_with(MPI_COMM_WORLD, "weft_num_vcis=1 unknown=1");
    HINT(own, "weft_num_vcis", "1");
    HINT(own, "unknown", "");
    traffic(own, 1, 1);
    MPI_Comm copy;
    OK(MPI_Comm_dup(own, &copy));
    HINT(copy, "weft_num_vcis", "1");
    traffic(copy, 1, 1);
    OK(MPI_Comm_free(&copy));
    MPI_Request request;
    OK(MPI_Comm_idup(own, &copy, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    HINT(copy, "weft_num_vcis", "1");
    traffic(copy, 1, 1);
    OK(MPI_Comm_free(&copy));

    /* Several need a promise, or are one. */
    MPI_Comm one = dup_with(MPI_COMM_WORLD, "weft_num_vcis=4");
    HINT(one, "weft_num_vcis", "1");
    traffic(one, 1, 1);
    OK(MPI_Comm_free(&one));
    one = dup_with(MPI_COMM_WORLD, "weft_num_vcis=4 mpi_assert_allow_overtaking=true");
    HINT(one, "weft_num_vcis", "4");
    HINT(one, "mpi_assert_allow_overtaking", "true");
    traffic(one, 1, 1);
    OK(MPI_Comm_free(&one));
    MPI_Comm tags = dup_with(MPI_COMM_WORLD, "weft_num_vcis=4 mpi_assert_no_any_tag=true");
    HINT(tags, "weft_num_vcis", "4");
    HINT(tags, "mpi_assert_no_any_tag", "true");
    traffic(tags, 0, 1);
    FAILS(MPI_Recv(&byte, 1, MPI_CHAR, 0, MPI_ANY_TAG, tags, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    FAILS(MPI_Iprobe(0, MPI_ANY_TAG, tags, &flag, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    FAILS(MPI_Probe(0, MPI_ANY_TAG, tags, MPI_STATUS_IGNORE), MPI_ERR_TAG);
    /* The promise can't be taken back. */
    MPI_Info info = hints("mpi_assert_no_any_tag=false weft_num_vcis=2");
    OK(MPI_Comm_set_info(tags, info));
    OK(MPI_Info_free(&info));
    HINT(tags, "weft_num_vcis", "4");
    HINT(tags, "mpi_assert_no_any_tag", "true");
    traffic(tags, 0, 1);
    OK(MPI_Comm_free(&tags));

    MPI_Comm ranks = dup_with(MPI_COMM_WORLD, "weft_num_vcis=3 mpi_assert_no_any_source=true");
    HINT(ranks, "weft_num_vcis", "3");
    traffic(ranks, 1, 0);
    FAILS(MPI_Recv(&byte, 1, MPI_CHAR, MPI_ANY_SOURCE, 0, ranks, MPI_STATUS_IGNORE), MPI_ERR_RANK);
    OK(MPI_Comm_free(&ranks));

    MPI_Comm bits = dup_with(MPI_COMM_WORLD, "weft_tag_sender_bits=0:2 weft_tag_receiver_bits=2:2 "
                                             "mpi_assert_no_any_tag=true");
    HINT(bits, "weft_num_vcis", "4");
    HINT(bits, "weft_tag_sender_bits", "0:2");
    HINT(bits, "weft_tag_receiver_bits", "2:2");
    traffic(bits, 0, 1);
    OK(MPI_Comm_free(&bits));
    bits = dup_with(MPI_COMM_WORLD, "weft_tag_sender_bits=0:2 weft_tag_receiver_bits=2:2");
    HINT(bits, "weft_tag_sender_bits", "");
    HINT(bits, "weft_num_vcis", "");
    traffic(bits, 1, 1);
    OK(MPI_Comm_free(&bits));

    MPI_Comm pair = dup_with(MPI_COMM_WORLD, "sender_vci=2 receiver_vci=5");
    HINT(pair, "sender_vci", "2");
    HINT(pair, "receiver_vci", "5");
    traffic(pair, 1, 1);
    OK(MPI_Comm_free(&pair));
    MPI_Comm third = dup_with(MPI_COMM_WORLD, "vci=3");
    HINT(third, "vci", "3");
    traffic(third, 1, 1);
    OK(MPI_Comm_free(&third));
    third = dup_with(MPI_COMM_WORLD, "vci=9");
    HINT(third, "vci", "");
    traffic(third, 1, 1);
    OK(MPI_Comm_free(&third));

    /* Members that don't agree get nothing; what has been used stays as it is. */
    if (size > 1) {
        third = dup_with(MPI_COMM_WORLD, rank == 0 ? "vci=3" : "vci=4");
        HINT(third, "vci", "");
        traffic(third, 1, 1);
        OK(MPI_Comm_free(&third));
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &third));
    info = hints("weft_num_vcis=1 mpi_assert_no_any_source=true");
    OK(MPI_Comm_set_info(third, info));
    HINT(third, "weft_num_vcis", "1");
    traffic(third, 1, 0);
    OK(MPI_Comm_free(&third));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &third));
    traffic(third, 1, 1);
    OK(MPI_Comm_set_info(third, info));
    HINT(third, "weft_num_vcis", "");
    HINT(third, "mpi_assert_no_any_source", "true");
    traffic(third, 1, 0);
    OK(MPI_Comm_free(&third));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &third));
    HINT(third, "weft_num_vcis", "1");
    OK(MPI_Comm_free(&third));
    OK(MPI_Info_free(&info));

    /* More than there are: they share. */
    MPI_Comm many[20];
    for (int i = 0; i < 20; i++) {
        many[i] = dup_with(MPI_COMM_WORLD, "weft_num_vcis=1");
        HINT(many[i], "weft_num_vcis", "1");
    }
    for (int i = 0; i < 20; i++) {
        traffic(many[i], 1, 1);
        OK(MPI_Comm_free(&many[i]));
    }
    OK(MPI_Comm_free(&own));
    OK(MPI_Finalize());
    return 0;
}
