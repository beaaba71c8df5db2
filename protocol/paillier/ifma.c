/* Montgomery multiplication with AVX-512 IFMA (Gueron and Krasnov 2016), of eight numbers at a time or of one: for kernel.py.

A number is a row of L limbs of 52 bits, the lowest first, in 64-bit words; L is a multiple of 8. R = 2^(52 L). Vectors
hold numbers in one of two ways:

    eight   vector j is limb j of eight numbers, one in each lane; the lanes never meet
    alone   vector j < L / 8 holds the limbs j, j + L / 8, j + 2 L / 8, ... of one number

What comes in is below 2 n and so is what goes out, with n < R / 4: the product a b + m n, m < R, is divided by R, and
(4 n^2 + R n) / R < 2 n. So nothing is ever compared with n, and the time depends on nothing but the sizes.

The multiplier gives the low or high 52 bits of a product of 52 bits by 52 and adds them to 64 bits. A limb of the sum
receives at most four such halves of every one of the L rows, and a carry below 2^12 of every limb below it: with
L <= LIMIT below 2^64. So carries are only looked at where a limb leaves the sum. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LANES = 8, ROWS = 8, LIMIT = 1000, WINDOW = 16, FEW = 4 };

#define IFMA __attribute__((target("avx512f,avx512ifma")))
#define INLINE static inline __attribute__((always_inline)) IFMA
#define UNROLL _Pragma("GCC unroll 16")

typedef __m512i vec;

typedef struct {
    size_t L;
    const uint64_t *n;
    const vec *alone; /* n, in that way */
    uint64_t inverse; /* -1 / n modulo 2^52 */
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

/* out = a b / R modulo n, of eight. t: room for L + ROWS + 1 vectors; out may be a or b. */
IFMA static void multiply_eight(vec *out, const vec *a, const vec *b, const modulus *by, vec *t)
{
    const vec zero = _mm512_setzero_si512(), mask = _mm512_set1_epi64((1LL << 52) - 1);
    const vec k = _mm512_set1_epi64((long long)by->inverse);
    const uint64_t *n = by->n;
    const size_t L = by->L;

    for (size_t j = 0; j < L + ROWS + 1; j++)
        t[j] = zero; /* t[L ..] stay so */
    for (size_t block = 0; block < L; block += ROWS) {
        vec x[ROWS], m[ROWS], w[ROWS + 1], carry = zero;

        /* The ROWS lowest limbs of t + x b tell the multiple m of n that makes them vanish. */
        UNROLL for (int r = 0; r < ROWS; r++) {
            x[r] = a[block + r];
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
            m[r] = _mm512_madd52lo_epu64(zero, w[r], k);
            UNROLL for (int j = 0; j + r < ROWS; j++) {
                const vec limb = _mm512_set1_epi64((long long)n[j]);
                w[j + r] = _mm512_madd52lo_epu64(w[j + r], m[r], limb);
                if (j + r + 1 < ROWS)
                    w[j + r + 1] = _mm512_madd52hi_epu64(w[j + r + 1], m[r], limb);
            }
            if (r + 1 < ROWS)
                w[r + 1] = _mm512_add_epi64(w[r + 1], _mm512_srli_epi64(w[r], 52));
        }

        /* t = (t + x b + m n) / 2^(52 ROWS): the window w slides over t, and its lowest limb is done at each step. */
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
        UNROLL for (int r = 0; r < ROWS; r++)
            t[L - ROWS + r] = w[r];
    }
    vec carry = zero;
    for (size_t j = 0; j < L; j++) {
        carry = _mm512_add_epi64(carry, t[j]);
        out[j] = _mm512_and_si512(carry, mask);
        carry = _mm512_srli_epi64(carry, 52);
    }
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

/* t = (t + x b + m n) / 2^52 for one limb x of a after the other; limb 0 is lane 0 of vector 0. Vector 0 leaves on one
   side and comes back on the other, a lane lower: its limb L / 8 is then where the last vector's next limb would be. */
IFMA static void multiply_alone(vec *out, const vec *a, const vec *b, const modulus *by, vec *t)
{
    const vec zero = _mm512_setzero_si512(), mask = _mm512_set1_epi64((1LL << 52) - 1);
    const vec k = _mm512_set1_epi64((long long)by->inverse), *n = by->alone;
    const size_t K = by->L / 8;

    for (size_t j = 0; j < K; j++)
        t[j] = zero;
    vec w = zero, next; /* t[0], and what comes after it */
    for (size_t i = 0, lane = 0, at = 0; i < by->L; i++) {
        const vec x = _mm512_set1_epi64(((const long long *)(a + at))[lane]);
        w = _mm512_madd52lo_epu64(w, x, b[0]);
        next = _mm512_madd52hi_epu64(_mm512_madd52lo_epu64(t[1], x, b[1]), x, b[0]);
        const vec m = _mm512_broadcastq_epi64(_mm512_castsi512_si128(_mm512_madd52lo_epu64(zero, w, k)));
        w = _mm512_madd52lo_epu64(w, m, n[0]);
        next = _mm512_madd52lo_epu64(_mm512_madd52hi_epu64(next, m, n[0]), m, n[1]);
        next = _mm512_add_epi64(next, _mm512_maskz_srli_epi64(1, w, 52));
        for (size_t j = 2; j < K; j++) {
            vec s = _mm512_madd52hi_epu64(t[j], x, b[j - 1]);
            s = _mm512_madd52lo_epu64(s, x, b[j]);
            s = _mm512_madd52hi_epu64(s, m, n[j - 1]);
            t[j - 1] = _mm512_madd52lo_epu64(s, m, n[j]);
        }
        w = _mm512_madd52hi_epu64(_mm512_alignr_epi64(zero, w, 1), x, b[K - 1]);
        t[K - 1] = _mm512_madd52hi_epu64(w, m, n[K - 1]);
        w = next;
        if (++at == K)
            at = 0, lane++;
    }
    t[0] = w;

    /* Carries run through the vectors, and from lane to lane. After the second time a lane hands on 0 or 1, and one that
       gets 1 hands it on when all its limbs are full: the sum of the two masks tells which lanes get one in the end. */
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
    for (size_t j = 0; j < K; j++)
        out[j] = t[j];
}

IFMA static void load_alone(vec *to, const uint64_t *row, size_t stride, size_t L, size_t lanes)
{
    (void)stride, (void)lanes;
    for (size_t i = 0; i < L; i++)
        ((uint64_t *)(to + i % (L / 8)))[i / (L / 8)] = row[i];
}

IFMA static void store_alone(uint64_t *row, vec *from, size_t L, size_t lanes)
{
    (void)lanes;
    for (size_t i = 0; i < L; i++)
        row[i] = ((const uint64_t *)(from + i % (L / 8)))[i / (L / 8)];
}

typedef struct {
    size_t lanes, shrink;
    void (*multiply)(vec *, const vec *, const vec *, const modulus *, vec *);
    void (*load)(vec *, const uint64_t *, size_t, size_t, size_t);
    void (*store)(uint64_t *, vec *, size_t, size_t);
} way;

static const way eight = {LANES, 1, multiply_eight, load_eight, store_eight};
static const way alone = {1, 8, multiply_alone, load_alone, store_alone};

/* stride: words from one row of b to the next, or 0: all are multiplied by one row. */
IFMA static void multiply_rows(uint64_t *out, const uint64_t *a, const uint64_t *b, size_t stride, size_t count,
                               const modulus *by, vec *room)
{
    const size_t L = by->L;
    vec *x = room, *y = x + L, *t = y + L;

    while (count) {
        const way *use = count <= FEW ? &alone : &eight;
        const size_t lanes = count < use->lanes ? count : use->lanes;
        use->load(x, a, L, L, lanes);
        use->load(y, b, stride, L, lanes);
        use->multiply(x, x, y, by, t);
        use->store(out, x, L, lanes);
        out += lanes * L, a += lanes * L, b += lanes * stride, count -= lanes;
    }
}

/* The product of `factors` neighbouring rows to one exponent each, the same for every product. Fixed windows of four
   bits, whose squarings the factors share. Every entry of the table is read for every digit, and exponents of equal length
   take the same steps. */
IFMA static void power_rows(uint64_t *out, const uint64_t *base, size_t count, size_t factors, const uint64_t *one,
                            const uint8_t *exponents, size_t bytes, const modulus *by, vec *room)
{
    const size_t L = by->L;

    while (count) {
        const way *use = count <= FEW ? &alone : &eight;
        const size_t lanes = count < use->lanes ? count : use->lanes, V = L / use->shrink;
        vec *result = room, *chosen = result + V, *tables = chosen + V, *t = tables + factors * WINDOW * V;
        use->load(result, one, 0, L, lanes);
        for (size_t factor = 0; factor < factors; factor++) {
            vec *table = tables + factor * WINDOW * V;
            use->load(table, one, 0, L, lanes);
            use->load(table + V, base + factor * L, factors * L, L, lanes);
            for (size_t i = 2; i < WINDOW; i++)
                use->multiply(table + i * V, table + (i - 1) * V, table + V, by, t);
        }
        for (size_t place = 0; place < 2 * bytes; place++) {
            for (int i = 0; i < 4; i++)
                use->multiply(result, result, result, by, t);
            for (size_t factor = 0; factor < factors; factor++) {
                const vec *table = tables + factor * WINDOW * V;
                const uint8_t octet = exponents[factor * bytes + place / 2];
                const vec digit = _mm512_set1_epi64(octet >> (place % 2 ? 0 : 4) & 15);
                memset(chosen, 0, V * sizeof(vec));
                for (size_t i = 0; i < WINDOW; i++) {
                    const __mmask8 equal = _mm512_cmpeq_epi64_mask(digit, _mm512_set1_epi64((long long)i));
                    for (size_t j = 0; j < V; j++)
                        chosen[j] = _mm512_mask_mov_epi64(chosen[j], equal, table[i * V + j]);
                }
                use->multiply(result, result, chosen, by, t);
            }
        }
        use->store(out, result, L, lanes);
        out += lanes * L, base += lanes * factors * L, count -= lanes;
    }
}

/* What was computed with is a secret, and no compiler may think that nobody reads it again. */
static void *(*const volatile wipe)(void *, int, size_t) = memset;

/* power(out, bases, one, exponents, modulus, inverse), or multiply(out, left, right, None, modulus, inverse) */
static PyObject *compute(PyObject *module, PyObject *arguments)
{
    Py_buffer out, a, b, n, exponents = {0};
    PyObject *how;
    unsigned long long inverse;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "w*y*y*Oy*K", &out, &a, &b, &how, &n, &inverse))
        return NULL;

    const size_t row = (size_t)n.len, L = row / 8, factors = out.len ? (size_t)(a.len / out.len) : 1;
    const int powers = how != Py_None, single = b.len == n.len;
    PyObject *result = NULL;
    if (!available())
        PyErr_SetString(PyExc_RuntimeError, "this processor has no AVX-512 IFMA");
    else if (row < 128 || row % 64 || L > LIMIT || out.len % (Py_ssize_t)row || a.len != out.len * (Py_ssize_t)factors ||
             !factors || (factors > 1 && !powers) || !(single || (b.len == out.len && !powers)))
        PyErr_SetString(PyExc_ValueError, "rows of one multiple of 8 limbs, 16 to 1000, are multiplied with one row or as many");
    else if (!powers || PyObject_GetBuffer(how, &exponents, PyBUF_SIMPLE) == 0) {
        const size_t size = (L * (powers ? WINDOW * factors + 4 : 4) + ROWS + 1) * sizeof(vec);
        vec *room = aligned_alloc(sizeof(vec), size);
        if (!room)
            PyErr_NoMemory();
        else {
            const size_t count = (size_t)out.len / row;
            const modulus by = {L, n.buf, room, inverse};
            Py_BEGIN_ALLOW_THREADS
            load_alone(room, n.buf, 0, L, 1);
            if (powers)
                power_rows(out.buf, a.buf, count, factors, b.buf, exponents.buf, (size_t)exponents.len / factors, &by, room + L);
            else
                multiply_rows(out.buf, a.buf, b.buf, single ? 0 : L, count, &by, room + L);
            wipe(room, 0, size);
            Py_END_ALLOW_THREADS
            free(room);
            result = Py_NewRef(Py_None);
        }
        if (powers)
            PyBuffer_Release(&exponents);
    }
    PyBuffer_Release(&out);
    PyBuffer_Release(&a);
    PyBuffer_Release(&b);
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

#endif

static PyObject *is_available(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(available());
}

static PyMethodDef methods[] = {
    {"available", is_available, METH_NOARGS, "Whether this processor has AVX-512 IFMA."},
    {"compute", compute, METH_VARARGS, "Products, or powers with one exponent, of rows of limbs: see kernel.py."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_ifma", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__ifma(void) { return PyModuleDef_Init(&definition); }
