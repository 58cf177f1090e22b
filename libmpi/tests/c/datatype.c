/* Calls all functions of chapter 4 and the other functions on datatypes. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)
#define FAILS(class, call) CHECK(class_of(call) == (class))

static int class_of(int code)
{
    int error_class = -1;
    MPI_Error_class(code, &error_class);
    return error_class;
}

static void shape(MPI_Datatype t, int size, MPI_Aint lb, MPI_Aint extent, MPI_Aint true_lb,
                  MPI_Aint true_extent) {
    int s;
    MPI_Aint l, e;
    MPI_Count sx, lx, ex;
    OK(MPI_Type_size(t, &s));
    CHECK(s == size);
    OK(MPI_Type_size_x(t, &sx));
    CHECK(sx == size);
    OK(MPI_Type_get_extent(t, &l, &e));
    CHECK(l == lb && e == extent);
    OK(MPI_Type_get_extent_x(t, &lx, &ex));
    CHECK(lx == lb && ex == extent);
    OK(MPI_Type_get_true_extent(t, &l, &e));
    CHECK(l == true_lb && e == true_extent);
    OK(MPI_Type_get_true_extent_x(t, &lx, &ex));
    CHECK(lx == true_lb && ex == true_extent);
}

/* Checks the envelope, then the contents; frees the type. */
static void made(MPI_Datatype t, int combiner, int ni, const int *i, int na, const MPI_Aint *a,
                 int nd, const MPI_Datatype *d) {
    int in, an, dn, c, ints[32];
    MPI_Aint aints[32];
    MPI_Datatype types[32];
    OK(MPI_Type_get_envelope(t, &in, &an, &dn, &c));
    CHECK(c == combiner && in == ni && an == na && dn == nd);
    OK(MPI_Type_get_contents(t, in, an, dn, ints, aints, types));
    for (int k = 0; k < ni; k++) CHECK(ints[k] == i[k]);
    for (int k = 0; k < na; k++) CHECK(aints[k] == a[k]);
    for (int k = 0; k < nd; k++) CHECK(types[k] == d[k]);
    if (nd > 0) FAILS(MPI_ERR_ARG, MPI_Type_get_contents(t, in, an, nd - 1, ints, aints, types));
    OK(MPI_Type_free(&t));
    CHECK(t == MPI_DATATYPE_NULL);
}

static void constructors(void) {
    MPI_Datatype t, old[3] = {MPI_INT, MPI_DOUBLE, MPI_UB};
    int blocks[] = {2, 1}, places[] = {3, 0};
    MPI_Aint bytes[] = {16, 0};

    OK(MPI_Type_contiguous(5, MPI_INT, &t));
    shape(t, 20, 0, 20, 0, 20);
    made(t, MPI_COMBINER_CONTIGUOUS, 1, (int[]){5}, 0, NULL, 1, old);
    OK(MPI_Type_vector(3, 2, -5, MPI_INT, &t));
    shape(t, 24, -40, 48, -40, 48);
    made(t, MPI_COMBINER_VECTOR, 3, (int[]){3, 2, -5}, 0, NULL, 1, old);
    OK(MPI_Type_create_hvector(3, 1, 6, MPI_INT, &t));
    shape(t, 12, 0, 16, 0, 16);
    made(t, MPI_COMBINER_HVECTOR, 2, (int[]){3, 1}, 1, (MPI_Aint[]){6}, 1, old);
    OK(MPI_Type_indexed(2, blocks, places, MPI_INT, &t));
    shape(t, 12, 0, 20, 0, 20);
    made(t, MPI_COMBINER_INDEXED, 5, (int[]){2, 2, 1, 3, 0}, 0, NULL, 1, old);
    OK(MPI_Type_create_hindexed(2, blocks, bytes, MPI_INT, &t));
    shape(t, 12, 0, 24, 0, 24);
    made(t, MPI_COMBINER_HINDEXED, 3, (int[]){2, 2, 1}, 2, bytes, 1, old);
    OK(MPI_Type_create_indexed_block(2, 2, places, MPI_INT, &t));
    shape(t, 16, 0, 20, 0, 20);
    made(t, MPI_COMBINER_INDEXED_BLOCK, 4, (int[]){2, 2, 3, 0}, 0, NULL, 1, old);
    OK(MPI_Type_create_hindexed_block(2, 2, bytes, MPI_INT, &t));
    shape(t, 16, 0, 24, 0, 24);
    made(t, MPI_COMBINER_HINDEXED_BLOCK, 2, (int[]){2, 2}, 2, bytes, 1, old);
    OK(MPI_Type_create_struct(2, blocks, bytes, old, &t));
    shape(t, 16, 0, 24, 0, 24);
    made(t, MPI_COMBINER_STRUCT, 3, (int[]){2, 2, 1}, 2, bytes, 2, old);
    OK(MPI_Type_create_struct(3, (int[]){1, 1, 1}, (MPI_Aint[]){0, 8, 40}, old, &t));
    shape(t, 12, 0, 40, 0, 16);
    made(t, MPI_COMBINER_STRUCT, 4, (int[]){3, 1, 1, 1}, 3, (MPI_Aint[]){0, 8, 40}, 3, old);
    OK(MPI_Type_create_subarray(2, (int[]){10, 20}, (int[]){3, 4}, (int[]){2, 5}, MPI_ORDER_FORTRAN,
                                MPI_INT, &t));
    shape(t, 48, 0, 800, 208, 96 - 8 + 4 * 11);
    made(t, MPI_COMBINER_SUBARRAY, 8, (int[]){2, 10, 20, 3, 4, 2, 5, MPI_ORDER_FORTRAN}, 0, NULL, 1,
         old);
    OK(MPI_Type_create_darray(6, 1, 2, (int[]){10, 7},
                              (int[]){MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC},
                              (int[]){MPI_DISTRIBUTE_DFLT_DARG, 2}, (int[]){2, 3}, MPI_ORDER_C,
                              MPI_INT, &t));
    shape(t, 40, 0, 280, 8, 120);
    made(t, MPI_COMBINER_DARRAY, 12,
         (int[]){6, 1, 2, 10, 7, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC,
                 MPI_DISTRIBUTE_DFLT_DARG, 2, 2, 3, MPI_ORDER_C},
         0, NULL, 1, old);
    OK(MPI_Type_create_resized(MPI_INT, -2, 13, &t));
    shape(t, 4, -2, 13, 0, 4);
    made(t, MPI_COMBINER_RESIZED, 0, NULL, 2, (MPI_Aint[]){-2, 13}, 1, old);
    OK(MPI_Type_dup(MPI_INT, &t));
    made(t, MPI_COMBINER_DUP, 0, NULL, 0, NULL, 1, old);
}

static void members_get_handles(void) {
    MPI_Datatype vector, outer, inner;
    int size;
    OK(MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &vector));
    OK(MPI_Type_contiguous(2, vector, &outer));
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_get_contents(outer, 1, 0, 1, &size, NULL, &inner));
    shape(inner, 16, 0, 24, 0, 24);
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_free(&outer));
}

static void fortran_types(void) {
    MPI_Datatype a, b;
    int size, ints[2], n[4];
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &a));
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &b));
    CHECK(a == b);
    OK(MPI_Type_size(a, &size));
    CHECK(size == 8);
    OK(MPI_Type_get_envelope(a, &n[0], &n[1], &n[2], &n[3]));
    CHECK(n[0] == 2 && n[1] == 0 && n[2] == 0 && n[3] == MPI_COMBINER_F90_REAL);
    OK(MPI_Type_get_contents(a, 2, 0, 0, ints, NULL, NULL));
    CHECK(ints[0] == 15 && ints[1] == MPI_UNDEFINED);
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&a));
    OK(MPI_Type_create_f90_complex(MPI_UNDEFINED, 30, &a));
    OK(MPI_Type_size(a, &size));
    CHECK(size == 8);
    OK(MPI_Type_create_f90_integer(9, &a));
    OK(MPI_Type_size(a, &size));
    CHECK(size == 4);
    FAILS(MPI_ERR_ARG, MPI_Type_create_f90_integer(40, &a));
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &a));
    CHECK(a == MPI_REAL8);
    FAILS(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &a));
}

static void packing(void) {
    MPI_Datatype column;
    int a[4][4], b[4][4], size, position = 0;
    char buffer[64];
    for (int i = 0; i < 16; i++) a[i / 4][i % 4] = i, b[i / 4][i % 4] = -1;
    OK(MPI_Type_vector(4, 1, 4, MPI_INT, &column));
    FAILS(MPI_ERR_TYPE, MPI_Pack(&a[0][1], 1, column, buffer, 64, &position, MPI_COMM_SELF));
    OK(MPI_Type_commit(&column));
    OK(MPI_Pack_size(1, column, MPI_COMM_SELF, &size));
    CHECK(size == 16);
    OK(MPI_Pack(&a[0][1], 1, column, buffer, 64, &position, MPI_COMM_SELF));
    OK(MPI_Pack(&a[3][3], 1, MPI_INT, buffer, 64, &position, MPI_COMM_SELF));
    CHECK(position == 20);
    position = 0;
    OK(MPI_Unpack(buffer, 20, &position, &b[0][2], 1, column, MPI_COMM_SELF));
    OK(MPI_Unpack(buffer, 20, &position, &b[0][0], 1, MPI_INT, MPI_COMM_SELF));
    CHECK(position == 20 && b[0][0] == 15 && b[1][1] == -1);
    for (int i = 0; i < 4; i++) CHECK(b[i][2] == a[i][1]);
    FAILS(MPI_ERR_TRUNCATE, MPI_Unpack(buffer, 20, &position, b, 1, MPI_INT, MPI_COMM_SELF));
    position = -1;
    FAILS(MPI_ERR_ARG, MPI_Pack(a, 1, MPI_INT, buffer, 64, &position, MPI_COMM_SELF));

    MPI_Aint bytes, at = 0;
    long in[2] = {1, -2}, out[2];
    const unsigned char expected[8] = {0, 0, 0, 1, 255, 255, 255, 254};
    OK(MPI_Pack_external_size("external32", 2, MPI_LONG, &bytes));
    CHECK(bytes == 8);
    OK(MPI_Pack_external("external32", in, 2, MPI_LONG, buffer, 64, &at));
    CHECK(at == 8 && memcmp(buffer, expected, 8) == 0);
    at = 0;
    OK(MPI_Unpack_external("external32", buffer, 8, &at, out, 2, MPI_LONG));
    CHECK(at == 8 && out[0] == 1 && out[1] == -2);
    FAILS(MPI_ERR_ARG, MPI_Pack_external_size("native", 2, MPI_LONG, &bytes));
    in[1] = 1l << 40;
    at = 0;
    FAILS(MPI_ERR_CONVERSION, MPI_Pack_external("external32", in, 2, MPI_LONG, buffer, 64, &at));

    /* Long doubles of this machine, through the 16-byte reals of external32. */
    long double x[3] = {1.0L / 3, -0.0L, 3.4e4000L}, y[3];
    at = 0;
    OK(MPI_Pack_external("external32", x, 3, MPI_LONG_DOUBLE, buffer, 64, &at));
    at = 0;
    OK(MPI_Unpack_external("external32", buffer, 48, &at, y, 3, MPI_LONG_DOUBLE));
    for (int i = 0; i < 3; i++) CHECK(x[i] == y[i]);
    OK(MPI_Type_free(&column));
}

static void elements(void) {
    MPI_Datatype pair;
    MPI_Status status;
    MPI_Count many;
    int n;
    memset(&status, 0, sizeof status);
    OK(MPI_Type_contiguous(2, MPI_DOUBLE, &pair));
    OK(MPI_Status_set_elements(&status, pair, 3));
    OK(MPI_Get_elements(&status, pair, &n));
    CHECK(n == 3);
    OK(MPI_Get_count(&status, pair, &n));
    CHECK(n == MPI_UNDEFINED);
    OK(MPI_Get_count(&status, MPI_DOUBLE, &n));
    CHECK(n == 3);
    OK(MPI_Status_set_elements_x(&status, pair, 1ll << 33));
    OK(MPI_Get_elements_x(&status, pair, &many));
    CHECK(many == 1ll << 33);
    OK(MPI_Get_elements(&status, pair, &n));
    CHECK(n == MPI_UNDEFINED);
    OK(MPI_Type_free(&pair));
}

static void names(void) {
    MPI_Datatype t;
    char name[MPI_MAX_OBJECT_NAME], longer[300];
    int length;
    OK(MPI_Type_get_name(MPI_DOUBLE_INT, name, &length));
    CHECK(strcmp(name, "MPI_DOUBLE_INT") == 0 && length == 14);
    OK(MPI_Type_contiguous(2, MPI_INT, &t));
    OK(MPI_Type_get_name(t, name, &length));
    CHECK(name[0] == 0 && length == 0);
    memset(longer, 'x', 299);
    longer[299] = 0;
    OK(MPI_Type_set_name(t, longer));
    OK(MPI_Type_get_name(t, name, &length));
    CHECK(length == MPI_MAX_OBJECT_NAME - 1 && strlen(name) == (size_t)length);
    OK(MPI_Type_free(&t));
}

static void errors(void) {
    MPI_Datatype t = MPI_DATATYPE_NULL, freed;
    int n;
    FAILS(MPI_ERR_TYPE, MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &t));
    FAILS(MPI_ERR_COUNT, MPI_Type_contiguous(-1, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_contiguous(1, MPI_INT, NULL));
    FAILS(MPI_ERR_ARG, MPI_Type_indexed(2, NULL, NULL, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(1, &(int){4}, &(int){2}, &(int){0}, 3, MPI_INT, &t));
    FAILS(MPI_ERR_ARG, MPI_Type_create_subarray(0, NULL, NULL, NULL, MPI_ORDER_C, MPI_INT, &t));
    FAILS(MPI_ERR_TYPE, MPI_Type_get_contents(MPI_INT, 1, 1, 1, &n, NULL, NULL));
    CHECK(t == MPI_DATATYPE_NULL);
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&t));
    t = MPI_INT;
    FAILS(MPI_ERR_TYPE, MPI_Type_free(&t));
    OK(MPI_Type_contiguous(1, MPI_INT, &t));
    freed = t;
    OK(MPI_Type_free(&t));
    FAILS(MPI_ERR_TYPE, MPI_Type_size(freed, &n));
    MPI_Datatype huge;
    OK(MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &huge));
    OK(MPI_Type_size(huge, &n));
    CHECK(n == MPI_UNDEFINED);
    FAILS(MPI_ERR_ARG, MPI_Type_contiguous(1 << 30, huge, &t));
    OK(MPI_Type_free(&huge));
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    constructors();
    members_get_handles();
    fortran_types();
    packing();
    elements();
    names();
    errors();
    MPI_Finalize();
    puts("ok");
    return 0;
}
