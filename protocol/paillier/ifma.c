/* Montgomery multiplication with AVX-512 IFMA (Gueron and Krasnov 2016), of eight numbers at a time or of one: for kernel.py.

A number modulo n^D is D digits to the base n, the lowest first, each a row of L limbs of 52 bits in 64-bit words; L is a
multiple of 8. R = 2^(52 L). Vectors hold a digit in one of two ways:

    eight   vector j is limb j of the digits of eight numbers, one in each lane; the lanes never meet
    alone   vector j < L / 8 holds the limbs j, j + L / 8, j + 2 L / 8, ... of one number's digit

Digit k of a product is what Montgomery's reduction makes of z_k, the sum of the a_i b_(k-i): with m_k = -z_k / n modulo R

    z_k = R out_k - m_k n,    so that - m_k is carried to digit k + 1, and what digit D - 1 carries is 0 modulo n^D

To carry nothing negative, R - 1 - m_k is added in its place, and with it c_(k+1), which modulo n^D makes up for all the
R - 1 (kernel.py). That is D (D + 3) / 2 products of digits: 5, 9, 14 for D = 2, 3, 4, where one long digit takes as much as 2 D^2. A square
takes 4 for D = 2: z_1 = a_0 (2 a_1), and 2 a_1 < 4 n < R.

What comes in is below 2 n and so is what goes out, with n < R / 8 D (R / 4 for D = 1): z_k + m n < 4 D n^2 + R + n + R n,
which is divided by R. So nothing is ever compared with n, and the time depends on nothing but the sizes.

The multiplier gives the low or high 52 bits of a product of 52 bits by 52 and adds them to 64 bits. A limb of the sum
receives at most 2 (D + 1) such halves of every one of the L rows, and a carry below 2^12 of every limb below it: with
L (D + 1) <= 2 LIMIT below 2^64. So carries are only looked at where a limb leaves the sum. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LANES = 8, ROWS = 8, LIMIT = 1000, DIGITS = 8, WINDOW = 16, FEW = 4 };

#define IFMA __attribute__((target("avx512f,avx512ifma")))
#define INLINE static inline __attribute__((always_inline)) IFMA
#define UNROLL _Pragma("GCC unroll 16")

typedef __m512i vec;

typedef struct {
    size_t L, D;
    const uint64_t *n; /* and c_1 .. c_(D - 1) behind it */
    const vec *alone;  /* the same, in that way */
    uint64_t inverse;  /* -1 / n modulo 2^52 */
} modulus;

static int available(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma");
}

/* window[0 .. ROWS] += rows[0 .. ROWS) * limb */
INLINE void add_rows(vec *window, const vec *rows, vec limb)
{
    UNROLL for (int r = 0; r < ROWS; r++) {
        window[r] = _mm512_madd52lo_epu64(window[r], rows[r], limb);
        window[r + 1] = _mm512_madd52hi_epu64(window[r + 1], rows[r], limb);
    }
}

/* t += x b, and y c unless there is none */
INLINE void add_products(vec *t, const vec *x, const vec *b, const vec *y, const vec *c, size_t L)
{
    vec w[ROWS + 1];
    UNROLL for (int r = 0; r <= ROWS; r++)
        w[r] = t[r];
    for (size_t j = 0; j < L; j++) {
        add_rows(w, x, b[j]);
        if (y)
            add_rows(w, y, c[j]);
        t[j] = w[0];
        UNROLL for (int r = 0; r < ROWS; r++)
            w[r] = w[r + 1];
        w[ROWS] = t[j + ROWS + 1];
    }
    UNROLL for (int r = 0; r < ROWS; r++)
        t[L + r] = w[r];
}

/* t = (t + x b + m n) / 2^(52 ROWS), and m is told */
IFMA static void add_and_reduce(vec *t, const vec *from, const vec *b, vec *told, const modulus *by)
{
    const vec zero = _mm512_setzero_si512(), k = _mm512_set1_epi64((long long)by->inverse);
    const uint64_t *n = by->n;
    const size_t L = by->L;
    vec x[ROWS], m[ROWS], w[ROWS + 1], carry = zero;

    /* The ROWS lowest limbs of t + x b tell the multiple m of n that makes them vanish. */
    UNROLL for (int r = 0; r < ROWS; r++) {
        x[r] = from[r];
        w[r] = t[r];
    }
    UNROLL for (int j = 0; j < ROWS; j++) {
        UNROLL for (int r = 0; r + j < ROWS; r++) {
            w[j + r] = _mm512_madd52lo_epu64(w[j + r], x[r], b[j]);
            if (j + r + 1 < ROWS)
                w[j + r + 1] = _mm512_madd52hi_epu64(w[j + r + 1], x[r], b[j]);
        }
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
        told[r] = m[r] = _mm512_madd52lo_epu64(zero, w[r], k);
        UNROLL for (int j = 0; j + r < ROWS; j++) {
            const vec limb = _mm512_set1_epi64((long long)n[j]);
            w[j + r] = _mm512_madd52lo_epu64(w[j + r], m[r], limb);
            if (j + r + 1 < ROWS)
                w[j + r + 1] = _mm512_madd52hi_epu64(w[j + r + 1], m[r], limb);
        }
        if (r + 1 < ROWS)
            w[r + 1] = _mm512_add_epi64(w[r + 1], _mm512_srli_epi64(w[r], 52));
    }

    /* The window w slides over t, and its lowest limb is done at each step. */
    UNROLL for (int r = 0; r <= ROWS; r++)
        w[r] = t[r];
    for (size_t j = 0; j < L; j++) {
        add_rows(w, x, b[j]);
        add_rows(w, m, _mm512_set1_epi64((long long)n[j]));
        if (j >= ROWS)
            t[j - ROWS] = w[0];
        else { /* 0 modulo 2^52 but for what it hands on */
            carry = _mm512_srli_epi64(_mm512_add_epi64(w[0], carry), 52);
            if (j == ROWS - 1)
                w[1] = _mm512_add_epi64(w[1], carry);
        }
        UNROLL for (int r = 0; r < ROWS; r++)
            w[r] = w[r + 1];
        w[ROWS] = t[j + ROWS + 1];
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
        t[L - ROWS + r] = w[r];
        t[L + r] = zero;
    }
}

/* out = 2 a of eight */
IFMA static void double_eight(vec *out, const vec *a, size_t L)
{
    const vec mask = _mm512_set1_epi64((1LL << 52) - 1);
    vec carry = _mm512_setzero_si512();
    for (size_t j = 0; j < L; j++) {
        out[j] = _mm512_and_si512(_mm512_or_si512(_mm512_slli_epi64(a[j], 1), carry), mask);
        carry = _mm512_srli_epi64(a[j], 51);
    }
}

/* out = a b / R modulo n^D, of eight. room for (D + 3) L + ROWS + 1 vectors; out may be a or b. */
IFMA static void multiply_eight(vec *out, const vec *a, const vec *b, const modulus *by, vec *room)
{
    const vec zero = _mm512_setzero_si512(), mask = _mm512_set1_epi64((1LL << 52) - 1);
    const size_t L = by->L, D = by->D;
    vec *done = room, *m = done + D * L, *twice = m + L, *t = twice + L;
    const int square = a == b && D == 2;

    if (square)
        double_eight(twice, a + L, L);
    for (size_t j = 0; j < L + ROWS + 1; j++)
        t[j] = zero; /* t[L ..] are so after each block */
    for (size_t k = 0; k < D; k++) {
        for (size_t j = 0; k && j < L; j++)
            t[j] = _mm512_add_epi64(_mm512_xor_si512(m[j], mask), _mm512_set1_epi64((long long)by->n[k * L + j]));
        for (size_t block = 0; block < L; block += ROWS) {
            size_t i = square ? 0 : k;
            for (; i >= 2; i -= 2)
                add_products(t, a + i * L + block, b + (k - i) * L, a + (i - 1) * L + block, b + (k - i + 1) * L, L);
            if (i)
                add_products(t, a + L + block, b + (k - 1) * L, NULL, NULL, L);
            add_and_reduce(t, a + block, square && k ? twice : b + k * L, m + block, by);
        }
        vec carry = zero;
        for (size_t j = 0; j < L; j++) {
            carry = _mm512_add_epi64(carry, t[j]);
            done[k * L + j] = _mm512_and_si512(carry, mask);
            carry = _mm512_srli_epi64(carry, 52);
        }
    }
    memcpy(out, done, D * L * sizeof(vec));
}

/* Eight vectors of eight words as a matrix, mirrored at its diagonal. */
INLINE void transpose(vec *x)
{
    vec y[8];
    UNROLL for (int i = 0; i < 8; i += 2) {
        y[i] = _mm512_unpacklo_epi64(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi64(x[i], x[i + 1]);
    }
    UNROLL for (int half = 0; half < 2; half++) {
        vec *p = y + 4 * half, *q = x + 4 * half;
        q[0] = _mm512_shuffle_i64x2(p[0], p[2], 0x88);
        q[1] = _mm512_shuffle_i64x2(p[1], p[3], 0x88);
        q[2] = _mm512_shuffle_i64x2(p[0], p[2], 0xdd);
        q[3] = _mm512_shuffle_i64x2(p[1], p[3], 0xdd);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        y[i] = _mm512_shuffle_i64x2(x[i], x[i + 4], 0x88);
        y[i + 4] = _mm512_shuffle_i64x2(x[i], x[i + 4], 0xdd);
    }
    UNROLL for (int i = 0; i < 8; i++)
        x[i] = y[i];
}

/* The first `lanes` <= 8 rows, each `stride` words after the last; a lane without a row is 0. */
IFMA static void load_eight(vec *to, const uint64_t *rows, size_t stride, size_t L, size_t lanes)
{
    for (size_t j = 0; j < L; j += 8) {
        for (size_t i = 0; i < LANES; i++)
            to[j + i] = i < lanes ? _mm512_loadu_si512(rows + i * stride + j) : _mm512_setzero_si512();
        transpose(to + j);
    }
}

/* The inverse; `from` is spoilt. */
IFMA static void store_eight(uint64_t *rows, vec *from, size_t L, size_t lanes)
{
    for (size_t j = 0; j < L; j += 8) {
        transpose(from + j);
        for (size_t i = 0; i < lanes; i++)
            _mm512_storeu_si512(rows + i * L + j, from[j + i]);
    }
}

/* t = (t + x b + ... + m n) / 2^52 for one limb x of each digit of a after the other; limb 0 is lane 0 of vector 0.
   Vector 0 leaves on one side and comes back on the other, a lane lower: its limb L / 8 is then where the last vector's
   next limb would be. m is told. */
INLINE void reduce_alone(vec *t, const vec *a, const vec *b, vec *told, size_t k, const modulus *by)
{
    const vec zero = _mm512_setzero_si512(), inverse = _mm512_set1_epi64((long long)by->inverse), *n = by->alone;
    const size_t K = by->L / 8;
    vec x[DIGITS], w = t[0], next; /* t[0], and what comes after it */

    for (size_t i = 0, lane = 0, at = 0; i < by->L; i++) {
        next = t[1];
        for (size_t p = 0; p <= k; p++) {
            const vec *c = b + (k - p) * K;
            x[p] = _mm512_set1_epi64(((const long long *)(a + p * K + at))[lane]);
            w = _mm512_madd52lo_epu64(w, x[p], c[0]);
            next = _mm512_madd52hi_epu64(_mm512_madd52lo_epu64(next, x[p], c[1]), x[p], c[0]);
        }
        const vec m = _mm512_broadcastq_epi64(_mm512_castsi512_si128(_mm512_madd52lo_epu64(zero, w, inverse)));
        ((long long *)(told + at))[lane] = _mm_cvtsi128_si64(_mm512_castsi512_si128(m));
        w = _mm512_madd52lo_epu64(w, m, n[0]);
        next = _mm512_madd52lo_epu64(_mm512_madd52hi_epu64(next, m, n[0]), m, n[1]);
        next = _mm512_add_epi64(next, _mm512_maskz_srli_epi64(1, w, 52));
        for (size_t j = 2; j < K; j++) {
            vec s = _mm512_madd52hi_epu64(t[j], m, n[j - 1]);
            for (size_t p = 0; p <= k; p++) {
                const vec *c = b + (k - p) * K;
                s = _mm512_madd52lo_epu64(_mm512_madd52hi_epu64(s, x[p], c[j - 1]), x[p], c[j]);
            }
            t[j - 1] = _mm512_madd52lo_epu64(s, m, n[j]);
        }
        w = _mm512_alignr_epi64(zero, w, 1);
        for (size_t p = 0; p <= k; p++)
            w = _mm512_madd52hi_epu64(w, x[p], b[(k - p) * K + K - 1]);
        t[K - 1] = _mm512_madd52hi_epu64(w, m, n[K - 1]);
        w = next;
        if (++at == K)
            at = 0, lane++;
    }
    t[0] = w;
}

/* out = 2 a of one */
IFMA static void double_alone(vec *out, const vec *a, size_t K)
{
    const vec mask = _mm512_set1_epi64((1LL << 52) - 1);
    vec carry = _mm512_alignr_epi64(_mm512_srli_epi64(a[K - 1], 51), _mm512_setzero_si512(), 7);
    for (size_t j = 0; j < K; j++) {
        out[j] = _mm512_and_si512(_mm512_or_si512(_mm512_slli_epi64(a[j], 1), carry), mask);
        carry = _mm512_srli_epi64(a[j], 51);
    }
}

/* out = a b / R modulo n^D, of one; room and out as above. */
IFMA static void multiply_alone(vec *out, const vec *a, const vec *b, const modulus *by, vec *room)
{
    const vec zero = _mm512_setzero_si512(), mask = _mm512_set1_epi64((1LL << 52) - 1);
    const size_t K = by->L / 8, D = by->D;
    vec *done = room, *told = done + D * K, *twice = told + K;
    const int square = a == b && D == 2;

    if (square)
        double_alone(twice, a + K, K);
    for (size_t k = 0; k < D; k++) {
        vec *t = done + k * K;
        for (size_t j = 0; j < K; j++)
            t[j] = k ? _mm512_add_epi64(_mm512_xor_si512(told[j], mask), by->alone[k * K + j]) : zero;
        switch (square ? 0 : k) { /* so that the compiler knows how many */
        case 0: reduce_alone(t, a, square && k ? twice : b, told, 0, by); break;
        case 1: reduce_alone(t, a, b, told, 1, by); break;
        case 2: reduce_alone(t, a, b, told, 2, by); break;
        case 3: reduce_alone(t, a, b, told, 3, by); break;
        default: reduce_alone(t, a, b, told, k, by);
        }

        /* Carries run through the vectors, and from lane to lane. After the second time a lane hands on 0 or 1, and one
           that gets 1 hands it on when all its limbs are full: the sum of the two masks tells which lanes get one in the
           end. */
        vec carry = zero, full = mask;
        for (int time = 0; time < 3; time++) {
            for (size_t j = 0; j < K; j++) {
                carry = _mm512_add_epi64(carry, t[j]);
                t[j] = _mm512_and_si512(carry, mask);
                carry = _mm512_srli_epi64(carry, 52);
                full = time == 1 ? _mm512_and_si512(full, t[j]) : full;
            }
            if (time == 1) {
                const unsigned handed = _mm512_test_epi64_mask(carry, carry), runs = _mm512_cmpeq_epi64_mask(full, mask);
                carry = _mm512_maskz_set1_epi64((__mmask8)((runs + 2 * handed) ^ runs), 1);
            } else
                carry = _mm512_alignr_epi64(carry, zero, 7);
        }
    }
    memcpy(out, done, D * K * sizeof(vec));
}

IFMA static void load_alone(vec *to, const uint64_t *row, size_t L, size_t D)
{
    for (size_t i = 0; i < D * L; i++)
        ((uint64_t *)(to + i / L * (L / 8) + i % L % (L / 8)))[i % L / (L / 8)] = row[i];
}

IFMA static void store_alone(uint64_t *row, const vec *from, size_t L, size_t D)
{
    for (size_t i = 0; i < D * L; i++)
        row[i] = ((const uint64_t *)(from + i / L * (L / 8) + i % L % (L / 8)))[i % L / (L / 8)];
}

typedef void (*multiplication)(vec *, const vec *, const vec *, const modulus *, vec *);

/* What a row of `count` takes: how many side by side, in how many vectors each. */
typedef struct {
    size_t lanes, vectors;
    multiplication multiply;
} way;

static way way_of(size_t count, const modulus *by)
{
    const size_t words = by->D * by->L;
    if (count <= FEW)
        return (way){1, words / LANES, multiply_alone};
    return (way){count < LANES ? count : LANES, words, multiply_eight};
}

/* stride: words from one row to the next, or 0: all are one row */
IFMA static void load(vec *to, const uint64_t *rows, size_t stride, const way *use, const modulus *by)
{
    if (use->multiply == multiply_alone)
        load_alone(to, rows, by->L, by->D);
    else
        load_eight(to, rows, stride, use->vectors, use->lanes);
}

/* The inverse; `from` is spoilt. */
IFMA static void store(uint64_t *rows, vec *from, const way *use, const modulus *by)
{
    if (use->multiply == multiply_alone)
        store_alone(rows, from, by->L, by->D);
    else
        store_eight(rows, from, use->vectors, use->lanes);
}

IFMA static void multiply_rows(uint64_t *out, const uint64_t *a, const uint64_t *b, size_t stride, size_t count,
                               const modulus *by, vec *room)
{
    const size_t words = by->D * by->L;
    vec *x = room, *y = x + words, *rest = y + words;

    while (count) {
        const way use = way_of(count, by);
        load(x, a, words, &use, by);
        load(y, b, stride, &use, by);
        use.multiply(x, x, y, by, rest);
        store(out, x, &use, by);
        out += use.lanes * words, a += use.lanes * words, b += use.lanes * stride, count -= use.lanes;
    }
}

/* Fixed windows of four bits. Every entry of the table is read for every digit, and exponents of equal length take the
   same steps. */
IFMA static void power_rows(uint64_t *out, const uint64_t *base, size_t count, const uint64_t *one,
                            const uint8_t *exponent, size_t bytes, const modulus *by, vec *room)
{
    const size_t words = by->D * by->L;

    while (count) {
        const way use = way_of(count, by);
        const size_t V = use.vectors;
        vec *table = room, *result = table + WINDOW * V, *chosen = result + V, *rest = chosen + V;
        load(table, one, 0, &use, by);
        load(result, one, 0, &use, by);
        load(table + V, base, words, &use, by);
        for (size_t i = 2; i < WINDOW; i++)
            use.multiply(table + i * V, table + (i - 1) * V, table + V, by, rest);
        for (size_t place = 0; place < 2 * bytes; place++) {
            const vec digit = _mm512_set1_epi64(exponent[place / 2] >> (place % 2 ? 0 : 4) & 15);
            for (int i = 0; i < 4; i++)
                use.multiply(result, result, result, by, rest);
            memset(chosen, 0, V * sizeof(vec));
            for (size_t i = 0; i < WINDOW; i++) {
                const __mmask8 equal = _mm512_cmpeq_epi64_mask(digit, _mm512_set1_epi64((long long)i));
                for (size_t j = 0; j < V; j++)
                    chosen[j] = _mm512_mask_mov_epi64(chosen[j], equal, table[i * V + j]);
            }
            use.multiply(result, result, chosen, by, rest);
        }
        store(out, result, &use, by);
        out += use.lanes * words, base += use.lanes * words, count -= use.lanes;
    }
}

/* As load_eight, for rows that are anywhere. */
IFMA static void load_chosen(vec *to, const uint64_t *const *rows, size_t words)
{
    for (size_t j = 0; j < words; j += 8) {
        for (size_t i = 0; i < LANES; i++)
            to[j + i] = _mm512_loadu_si512(rows[i] + j);
        transpose(to + j);
    }
}

/* out = the product of tables[g][digits[g][i]]^(2^i) over all groups g and places i, for public digits: of eight places the
   products over the groups, side by side; then from the last place to the first, alone. chosen: `places` rows, rounded up to
   a multiple of eight. */
IFMA static void multiply_powers(uint64_t *out, const uint64_t *tables, const uint8_t *digits, size_t groups, size_t entries,
                                 size_t places, const modulus *by, uint64_t *chosen, vec *room)
{
    const size_t words = by->D * by->L;
    vec *x = room, *y = x + words, *rest = y + words;

    for (size_t first = 0; first < places; first += LANES) {
        for (size_t g = 0; g < groups; g++) {
            const uint64_t *rows[LANES];
            for (size_t i = 0; i < LANES; i++) {
                const size_t place = first + i < places ? first + i : first;
                rows[i] = tables + (g * entries + digits[g * places + place]) * words;
            }
            load_chosen(g ? y : x, rows, words);
            if (g)
                multiply_eight(x, x, y, by, rest);
        }
        store_eight(chosen + first * words, x, words, LANES);
    }
    load_alone(x, chosen + (places - 1) * words, by->L, by->D);
    for (size_t i = places - 1; i-- > 0;) {
        multiply_alone(x, x, x, by, rest);
        load_alone(y, chosen + i * words, by->L, by->D);
        multiply_alone(x, x, y, by, rest);
    }
    store_alone(out, x, by->L, by->D);
}

/* What was computed with is a secret, and no compiler may think that nobody reads it again. */
static void *(*const volatile wipe)(void *, int, size_t) = memset;

/* power(out, base, one, exponent, moduli, inverse, D), or multiply(out, left, right, None, moduli, inverse, D); moduli: n and
   c_1 .. c_(D - 1) */
static PyObject *compute(PyObject *module, PyObject *arguments)
{
    Py_buffer out, a, b, n, exponent = {0};
    PyObject *how;
    unsigned long long inverse;
    unsigned int D;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*Oy*KI", &out, &a, &b, &how, &n, &inverse, &D))
        return NULL;

    const size_t words = (size_t)n.len / 8, L = D ? words / D : 0;
    const int powers = how != Py_None, single = b.len == n.len;
    PyObject *result = NULL;
    if (!available())
        PyErr_SetString(PyExc_RuntimeError, "this processor has no AVX-512 IFMA");
    else if (D < 1 || D > DIGITS || L < 16 || L % 8 || (size_t)n.len != 8 * D * L || L * (D + 1) > 2 * LIMIT ||
             out.len % n.len || a.len != out.len || !(single || (b.len == out.len && !powers)))
        PyErr_SetString(PyExc_ValueError, "rows of one multiple of 8 limbs, 16 to 1000, are multiplied with one row or as many");
    else if (!powers || PyObject_GetBuffer(how, &exponent, PyBUF_SIMPLE) == 0) {
        /* the moduli; table, result and chosen, or both factors; what a multiplication needs */
        const size_t size = (words * (powers ? WINDOW + 4 : 4) + 3 * L + ROWS + 1) * sizeof(vec);
        vec *room = aligned_alloc(sizeof(vec), size);
        if (!room)
            PyErr_NoMemory();
        else {
            const size_t count = (size_t)out.len / (size_t)n.len;
            const modulus by = {L, D, n.buf, room, inverse};
            Py_BEGIN_ALLOW_THREADS
            load_alone(room, n.buf, L, D);
            if (powers)
                power_rows(out.buf, a.buf, count, b.buf, exponent.buf, (size_t)exponent.len, &by, room + words);
            else
                multiply_rows(out.buf, a.buf, b.buf, single ? 0 : words, count, &by, room + words);
            wipe(room, 0, size);
            Py_END_ALLOW_THREADS
            free(room);
            result = Py_NewRef(Py_None);
        }
        if (powers)
            PyBuffer_Release(&exponent);
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&a);
    PyBuffer_Release(&b);
    PyBuffer_Release(&n);
    return result;
}

/* multi_power(out, tables, digits, groups, moduli, inverse, D): tables (groups, entries) of numbers, digits (groups, places) of
   bytes below `entries` */
static PyObject *multi_power(PyObject *module, PyObject *arguments)
{
    Py_buffer out, tables, digits, n;
    unsigned long long inverse;
    unsigned int D;
    Py_ssize_t groups;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*ny*KI", &out, &tables, &digits, &groups, &n, &inverse, &D))
        return NULL;

    const size_t words = (size_t)n.len / 8, L = D ? words / D : 0, row = 8 * words;
    const int fits = D >= 1 && D <= DIGITS && L >= 16 && L % 8 == 0 && (size_t)n.len == 8 * D * L && L * (D + 1) <= 2 * LIMIT &&
                     out.len == n.len && groups > 0 && tables.len > 0 && digits.len > 0 && digits.len % groups == 0 &&
                     (size_t)tables.len % ((size_t)groups * row) == 0;
    const size_t entries = fits ? (size_t)tables.len / ((size_t)groups * row) : 0, places = fits ? (size_t)(digits.len / groups) : 0;
    int inside = fits;
    for (Py_ssize_t i = 0; fits && i < digits.len; i++)
        inside &= ((const uint8_t *)digits.buf)[i] < entries;
    PyObject *result = NULL;
    if (!available())
        PyErr_SetString(PyExc_RuntimeError, "this processor has no AVX-512 IFMA");
    else if (!inside)
        PyErr_SetString(PyExc_ValueError, "tables of equally many numbers need one byte for each table and place, below that number");
    else {
        const size_t size = (5 * words + 3 * L + ROWS + 1) * sizeof(vec), padded = (places + LANES - 1) / LANES * LANES;
        vec *room = aligned_alloc(sizeof(vec), size);
        uint64_t *chosen = padded <= SIZE_MAX / row ? malloc(padded * row) : NULL;
        if (!room || !chosen)
            PyErr_NoMemory();
        else {
            const modulus by = {L, D, n.buf, room, inverse};
            Py_BEGIN_ALLOW_THREADS
            load_alone(room, n.buf, L, D);
            multiply_powers(out.buf, tables.buf, digits.buf, (size_t)groups, entries, places, &by, chosen, room + words);
            Py_END_ALLOW_THREADS
            result = Py_NewRef(Py_None);
        }
        free(room);
        free(chosen);
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&tables);
    PyBuffer_Release(&digits);
    PyBuffer_Release(&n);
    return result;
}

#else

static int available(void) { return 0; }
static PyObject *compute(PyObject *module, PyObject *arguments)
{
    (void)module, (void)arguments;
    PyErr_SetString(PyExc_RuntimeError, "built for another processor or by another compiler");
    return NULL;
}
static PyObject *multi_power(PyObject *module, PyObject *arguments) { return compute(module, arguments); }

#endif

static PyObject *is_available(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(available());
}

static PyMethodDef methods[] = {
    {"available", is_available, METH_NOARGS, "Whether this processor has AVX-512 IFMA."},
    {"compute_digits", compute, METH_VARARGS, "Products, or powers with one exponent, of rows of limbs: see kernel.py."},
    {"multi_power", multi_power, METH_VARARGS, "The product of chosen entries of tables to powers of two: see kernel.py."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_ifma", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__ifma(void) { return PyModuleDef_Init(&definition); }
