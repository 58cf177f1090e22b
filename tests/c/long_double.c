/* long double and IEEE binary128: reductions, also of complex numbers and with places, compared with what the compiler
 * computes; external32, which has binary128 in big endian (MPI-5.0 section 14.5.2), for all kinds of numbers.
 * ranks: 2
 * variants: shm
 */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if LDBL_MANT_DIG != 64 && LDBL_MANT_DIG != 113
#error "a long double that Weft doesn't take"
#endif

static int rank;

static void check(int good, const char *what)
{
    if (!good) {
        printf("wrong on rank %d: %s\n", rank, what);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static uint64_t state = 88172645463325252u;

static uint64_t bits(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Of any exponent; or near 1, so that sums are of several digits. */
static _Float128 number(int near)
{
    unsigned char bytes[16];
    uint64_t low = bits(), high = bits();
    if (near)
        high = (high & 0x8000ffffffffffff) | (UINT64_C(0x3fff) + (high >> 48) % 40 - 20) << 48;
    memcpy(bytes, &low, 8);
    memcpy(bytes + 8, &high, 8);
    _Float128 made;
    memcpy(&made, bytes, 16);
    return made;
}

/* The same number; of those that are none, any. */
static int same(long double a, long double b)
{
    return a == b ? !signbit(a) == !signbit(b) : isnan(a) && isnan(b);
}

static int same_wide(_Float128 a, _Float128 b)
{
    return a == b ? !__builtin_signbit(a) == !__builtin_signbit(b) : a != a && b != b;
}

static void external(_Float128 q)
{
    long double x = (long double)q, back = 7;
    _Float128 exact = x, found, wide = 7;
    unsigned char packed[16], turned[16];
    MPI_Aint at = 0;
    MPI_Pack_external("external32", &x, 1, MPI_LONG_DOUBLE, packed, 16, &at);
    check(at == 16, "the length");
    for (int i = 0; i < 16; i++)
        turned[i] = packed[15 - i];
    memcpy(&found, turned, 16);
    check(same_wide(found, exact), "packed");
    at = 0;
    MPI_Unpack_external("external32", packed, 16, &at, &back, 1, MPI_LONG_DOUBLE);
    check(same(back, x), "packed and unpacked");
    at = 0;
    MPI_Pack_external("external32", &q, 1, MPI_REAL16, packed, 16, &at);
    at = 0;
    MPI_Unpack_external("external32", packed, 16, &at, &back, 1, MPI_LONG_DOUBLE);
    check(same(back, x), "binary128 unpacked, which rounds");
    at = 0;
    MPI_Unpack_external("external32", packed, 16, &at, &wide, 1, MPI_REAL16);
    check(memcmp(&wide, &q, 16) == 0, "binary128 packed and unpacked");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    _Float128 special[] = {0, -0.0f, 1.25f, -1, INFINITY, -INFINITY, NAN, LDBL_MAX, LDBL_MIN, LDBL_MIN / 2, LDBL_TRUE_MIN,
                           -LDBL_TRUE_MIN, (_Float128)LDBL_TRUE_MIN * 3 / 2, (_Float128)LDBL_TRUE_MIN / 2, LDBL_MIN - LDBL_TRUE_MIN,
                           (_Float128)LDBL_MIN - (_Float128)LDBL_TRUE_MIN / 2, 1.18973149535723176508575932662800702e4932F128};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        external(special[i]);
    for (int i = 0; i < 20000; i++)
        external(number(i & 1));
    for (int i = 0; i < 2000; i++) {
        /* Below the least normal number. */
        _Float128 q = number(0);
        unsigned char bytes[16];
        memcpy(bytes, &q, 16);
        bytes[15] &= 0x80;
        bytes[14] = 0;
        memcpy(&q, bytes, 16);
        external(q);
    }
    unsigned char packed[16];
    MPI_Aint at = 0;
    long double x = 1.25L;
    MPI_Pack_external("external32", &x, 1, MPI_LONG_DOUBLE, packed, 16, &at);
    check(packed[0] == 0x3f && packed[1] == 0xff && packed[2] == 0x40 && packed[3] == 0, "1.25 by its bytes");

    for (int round = 0; round < 500; round++) {
        /* Both ranks make the numbers of both. */
        _Float128 wide[2][2];
        long double own[2][2];
        for (int i = 0; i < 4; i++)
            own[i / 2][i % 2] = (long double)(wide[i / 2][i % 2] = number(round & 7));
        long double *mine = own[rank], got[2];
        MPI_Allreduce(mine, got, 2, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        check(same(got[0], own[0][0] + own[1][0]) && same(got[1], own[0][1] + own[1][1]), "a sum");
        MPI_Allreduce(mine, got, 2, MPI_LONG_DOUBLE, MPI_PROD, MPI_COMM_WORLD);
        check(same(got[0], own[0][0] * own[1][0]) && same(got[1], own[0][1] * own[1][1]), "a product");
        if (!isnan(own[0][0]) && !isnan(own[1][0])) {
            MPI_Allreduce(mine, got, 1, MPI_LONG_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            check(got[0] == fmaxl(own[0][0], own[1][0]), "the greatest");
            struct {
                long double value;
                int place;
            } pair = {mine[0], 10 + rank}, least;
            MPI_Allreduce(&pair, &least, 1, MPI_LONG_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
            check(least.value == fminl(own[0][0], own[1][0]), "the least");
            check(least.place == (own[0][0] <= own[1][0] ? 10 : 11), "its place");
        }
        MPI_Allreduce(mine, got, 1, MPI_C_LONG_DOUBLE_COMPLEX, MPI_SUM, MPI_COMM_WORLD);
        check(same(got[0], own[0][0] + own[1][0]) && same(got[1], own[0][1] + own[1][1]), "a complex sum");
        _Float128 found[2];
        MPI_Allreduce(wide[rank], found, 2, MPI_REAL16, MPI_SUM, MPI_COMM_WORLD);
        check(same_wide(found[0], wide[0][0] + wide[1][0]) && same_wide(found[1], wide[0][1] + wide[1][1]), "a sum of binary128");
        MPI_Allreduce(wide[rank], found, 2, MPI_REAL16, MPI_PROD, MPI_COMM_WORLD);
        check(same_wide(found[0], wide[0][0] * wide[1][0]) && same_wide(found[1], wide[0][1] * wide[1][1]), "a product of binary128");
    }
    MPI_Finalize();
    return 0;
}
