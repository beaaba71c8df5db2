/* Arithmetic modulo p = 2^64 - 2^32 + 1 and SHA-256 of many messages at a time: for field.py and merkle.py.

Every function computes what the numpy code beside its caller computes, bit for bit. Field elements are 64-bit words below
p; a word that is not below p gives a wrong word, never an access out of bounds. No branch and no address depends on a
word: only on lengths and on the places of columns, which are public.

The loops are plain C that compilers turn into vector instructions. On x86-64 with GCC or Clang each loop is compiled a
second (and SHA-256 a third) time for AVX-512 (and AVX2), and the processor decides at import which one runs. There, a
product of two words is put together from four products of 32-bit halves; elsewhere it is one 128-bit product, if the
compiler has that type. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* includes the vectorisation of all loops */
#endif

#if defined(__clang__) /* which would unroll short loops before it vectorises */
#define EACH(INDEX, COUNT)                                                                                             \
    _Pragma("clang loop unroll(disable) vectorize(enable)") for (int INDEX = 0; INDEX < COUNT; INDEX++)
#else
#define EACH(INDEX, COUNT) for (int INDEX = 0; INDEX < COUNT; INDEX++)
#endif

#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

#if defined(__x86_64__) && defined(__clang__)
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw")))
#define AVX2 __attribute__((target("avx2")))
#elif defined(__x86_64__) && defined(__GNUC__)
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,prefer-vector-width=512")))
#define AVX2 __attribute__((target("avx2")))
#endif

typedef uint64_t word;

enum { LANES = 8, HASHES = 16, HASH = 32, BLOCK = 16, LONGEST = 30 };

static const word P = 0xFFFFFFFF00000001u, LOW = 0xFFFFFFFFu;

/* The instructions of this processor: 0 portable, 1 AVX2, 2 AVX-512. */
static int level;

/* ---- Field ---- */

INLINE word add(word a, word b)
{
    const word total = a + b, wrapped = total + (LOW & -(word)(total < a));
    return wrapped - (P & -(word)(wrapped >= P));
}

INLINE word subtract(word a, word b)
{
    return a - b + (P & -(word)(a < b));
}

/* high 2^64 + low modulo p, because 2^64 = 2^32 - 1 and 2^96 = -1 */
INLINE word reduce(word high, word low)
{
    const word top = high >> 32, bottom = high & LOW, lifted = (bottom << 32) - bottom;
    const word reduced = low - top - (LOW & -(word)(low < top));
    const word total = reduced + lifted, wrapped = total + (LOW & -(word)(total < lifted));
    return wrapped - (P & -(word)(wrapped >= P));
}

/* halves: whether the product is made of 32-bit halves; a constant wherever this is inlined */
INLINE word multiply(word a, word b, int halves)
{
#ifdef __SIZEOF_INT128__
    if (!halves) {
        const unsigned __int128 product = (unsigned __int128)a * b;
        return reduce((word)(product >> 64), (word)product);
    }
#else
    (void)halves;
#endif
    const word a0 = a & LOW, a1 = a >> 32, b0 = b & LOW, b1 = b >> 32;
    const word low = a0 * b0, middle = a0 * b1 + (low >> 32), cross = a1 * b0 + (middle & LOW);
    return reduce(a1 * b1 + (middle >> 32) + (cross >> 32), (cross << 32) | (low & LOW));
}

/* Defines NAME(PARAMETERS), which calls NAME_loop with these arguments and with whether to multiply by halves. */
#ifdef AVX512
#define DISPATCH(NAME, PARAMETERS, ...)                                                                                \
    AVX512 static void NAME##_avx512 PARAMETERS { NAME##_loop(__VA_ARGS__, 1); }                                       \
    static void NAME##_portable PARAMETERS { NAME##_loop(__VA_ARGS__, 0); }                                            \
    static void NAME PARAMETERS { (level == 2 ? NAME##_avx512 : NAME##_portable)(__VA_ARGS__); }
#else
#define DISPATCH(NAME, PARAMETERS, ...)                                                                                \
    static void NAME PARAMETERS { NAME##_loop(__VA_ARGS__, 0); }
#endif

/* out = a b, a + b or a - b; b repeats after `period` words, which divides count */
INLINE void entrywise_loop(word *restrict out, const word *a, const word *b, size_t count, size_t period, char operation,
                           int halves)
{
    const size_t length = period == 1 ? count : period; /* of a run of out for which b is one run, or one word */
    for (size_t start = 0; start < count; start += length, out += length, a += length) {
        if (operation == '+' && period == 1)
            for (size_t i = 0; i < length; i++)
                out[i] = add(a[i], b[0]);
        else if (operation == '+')
            for (size_t i = 0; i < length; i++)
                out[i] = add(a[i], b[i]);
        else if (operation == '-' && period == 1)
            for (size_t i = 0; i < length; i++)
                out[i] = subtract(a[i], b[0]);
        else if (operation == '-')
            for (size_t i = 0; i < length; i++)
                out[i] = subtract(a[i], b[i]);
        else if (period == 1)
            for (size_t i = 0; i < length; i++)
                out[i] = multiply(a[i], b[0], halves);
        else
            for (size_t i = 0; i < length; i++)
                out[i] = multiply(a[i], b[i], halves);
    }
}
DISPATCH(entrywise, (word *restrict out, const word *a, const word *b, size_t count, size_t period, char operation), out, a,
         b, count, period, operation)

/* out (rows, columns) = left (rows, inner) right (inner, columns) */
INLINE void product_loop(word *restrict out, const word *left, const word *right, size_t rows, size_t inner, size_t columns,
                         int halves)
{
    memset(out, 0, rows * columns * sizeof(word));
    for (size_t k = 0; k < inner; k++) {
        const word *row = right + k * columns;
        for (size_t r = 0; r < rows; r++) {
            const word weight = left[r * inner + k];
            word *to = out + r * columns;
            for (size_t i = 0; i < columns; i++)
                to[i] = add(to[i], multiply(row[i], weight, halves));
        }
    }
}
DISPATCH(product, (word *restrict out, const word *left, const word *right, size_t rows, size_t inner, size_t columns), out,
         left, right, rows, inner, columns)

/* out (columns) = sum over the rows of left right, entry by entry, or of left alone */
INLINE void column_sums_loop(word *restrict out, const word *left, const word *right, size_t rows, size_t columns, int halves)
{
    memset(out, 0, columns * sizeof(word));
    for (size_t r = 0; r < rows; r++, left += columns) {
        if (right) {
            for (size_t i = 0; i < columns; i++)
                out[i] = add(out[i], multiply(left[i], right[i], halves));
            right += columns;
        } else
            for (size_t i = 0; i < columns; i++)
                out[i] = add(out[i], left[i]);
    }
}
DISPATCH(column_sums, (word *restrict out, const word *left, const word *right, size_t rows, size_t columns), out, left, right,
         rows, columns)

/* 1 if a is 0 and 0 otherwise */
INLINE word is_zero(word a)
{
    return (a | -a) >> 63 ^ 1;
}

/* out = 1 / a, or 0 for 0: prefix products, one power with exponent p - 2, and the way back (Montgomery 1987) */
static void inverses(word *restrict out, const word *a, size_t count)
{
    word running = 1, inverse = 1;
    for (size_t i = 0; i < count; i++) {
        out[i] = running;
        running = multiply(running, a[i] + is_zero(a[i]), 0);
    }
    for (int bit = 63; bit >= 0; bit--) {
        inverse = multiply(inverse, inverse, 0);
        if ((P - 2) >> bit & 1)
            inverse = multiply(inverse, running, 0);
    }
    for (size_t i = count; i-- > 0;) {
        const word zero = is_zero(a[i]);
        out[i] = multiply(out[i], inverse, 0) & (zero - 1);
        inverse = multiply(inverse, a[i] + zero, 0);
    }
}

/* ---- Transform ---- */

typedef struct {
    size_t length, cosets, columns; /* points of a coset, a power of two; cosets; coefficients of a row, at most length */
    const word *twiddles;           /* length / 2 powers of the root, then length / 4 of its square, ...: length - 1 */
    const word *scales;             /* (cosets, length): what each coefficient is multiplied by */
    const uint32_t *reversed;       /* the bit-reversal permutation of 0 .. length - 1 */
    const uint32_t *needed;         /* (cosets, length + 1): wanted points among those before each; or NULL: all are */
    const int64_t *places;          /* the `wanted` points, if there are not all */
    size_t wanted;
} plan;

/* Transforms LANES polynomials, work[i][lane], by decimation in frequency; point j comes out at place reversed[j]. */
INLINE void transform_lanes(word (*work)[LANES], const plan *by, const uint32_t *needed, int halves)
{
    const word *twiddles = by->twiddles;
    for (size_t half = by->length / 2; half; twiddles += half, half /= 2)
        for (size_t start = 0; start < by->length; start += 2 * half) {
            if (needed && needed[start] == needed[start + 2 * half])
                continue;
            for (size_t i = 0; i < half; i++) {
                word *restrict upper = work[start + i], *restrict lower = work[start + half + i];
                const word twiddle = twiddles[i];
                EACH (lane, LANES) {
                    const word a = upper[lane], b = lower[lane];
                    upper[lane] = add(a, b);
                    lower[lane] = multiply(subtract(a, b), twiddle, halves);
                }
            }
        }
}

/* out (rows, cosets length) or (rows, wanted): rows (rows, columns) as polynomials, at point q of coset s: entry
   s + cosets q. room: (cosets + 1) length LANES words. */
INLINE void transform_loop(word *restrict out, const word *rows, size_t count, const plan *by, word *room, int halves)
{
    const size_t size = by->cosets * by->length;
    word(*const lanes)[LANES] = (word(*)[LANES])room, (*const work)[LANES] = lanes + by->length;

    for (size_t done = 0; done < count; done += LANES) {
        const size_t used = count - done < LANES ? count - done : LANES;
        for (size_t lane = 0; lane < LANES; lane++)
            for (size_t i = 0; i < by->columns; i++)
                lanes[i][lane] = lane < used ? rows[(done + lane) * by->columns + i] : 0;
        for (size_t s = 0; s < by->cosets; s++) {
            word(*const coset)[LANES] = work + s * by->length;
            const word *scales = by->scales + s * by->length;
            for (size_t i = 0; i < by->columns; i++)
                EACH (lane, LANES)
                    coset[i][lane] = multiply(lanes[i][lane], scales[i], halves);
            memset(coset + by->columns, 0, (by->length - by->columns) * sizeof *coset);
            transform_lanes(coset, by, by->needed ? by->needed + s * (by->length + 1) : NULL, halves);
        }
        if (by->needed)
            for (size_t i = 0; i < by->wanted; i++) {
                const size_t place = (size_t)by->places[i];
                const word *point = work[place % by->cosets * by->length + by->reversed[place / by->cosets]];
                for (size_t lane = 0; lane < used; lane++)
                    out[(done + lane) * by->wanted + i] = point[lane];
            }
        else
            for (size_t q = 0; q < by->length; q++)
                for (size_t lane = 0; lane < used; lane++) {
                    word *to = out + (done + lane) * size + q * by->cosets;
                    for (size_t s = 0; s < by->cosets; s++)
                        to[s] = work[s * by->length + by->reversed[q]][lane];
                }
    }
}
DISPATCH(transform, (word *restrict out, const word *rows, size_t count, const plan *by, word *room), out, rows, count, by,
         room)

/* ---- SHA-256 (FIPS 180-4) of HASHES messages at a time, one in each lane ---- */

static const uint32_t CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static const uint32_t INITIAL[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

typedef struct {
    uint32_t state[8][HASHES], block[BLOCK][HASHES], rest[HASHES]; /* rest: the byte that does not fill a word yet */
    size_t words;                                                  /* absorbed, of 32 bits; the byte is not counted */
} hasher;

INLINE uint32_t rotate(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

INLINE void round_of(const uint32_t *restrict a, const uint32_t *restrict b, const uint32_t *restrict c,
                     uint32_t *restrict d, const uint32_t *restrict e, const uint32_t *restrict f,
                     const uint32_t *restrict g, uint32_t *restrict h, const uint32_t *restrict w, uint32_t constant)
{
    EACH (i, HASHES) {
        const uint32_t x = e[i], y = a[i];
        const uint32_t first = h[i] + (rotate(x, 6) ^ rotate(x, 11) ^ rotate(x, 25)) + ((x & f[i]) ^ (~x & g[i])) +
                               constant + w[i];
        d[i] += first;
        h[i] = first + (rotate(y, 2) ^ rotate(y, 13) ^ rotate(y, 22)) + ((y & b[i]) | (c[i] & (y | b[i])));
    }
}

INLINE void compress_loop(hasher *restrict into)
{
    uint32_t v[8][HASHES], (*const w)[HASHES] = into->block;
    memcpy(v, into->state, sizeof v);
    for (int t = 0; t < 64; t += BLOCK) {
        if (t)
            for (int j = 0; j < BLOCK; j++)
                EACH (i, HASHES) {
                    const uint32_t x = w[(j + 1) % BLOCK][i], y = w[(j + 14) % BLOCK][i];
                    w[j][i] += (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[(j + 9) % BLOCK][i] +
                               (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
                }
        for (int j = 0; j < BLOCK; j += 8) {
            const uint32_t *k = CONSTANTS + t + j;
            round_of(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], w[j], k[0]);
            round_of(v[7], v[0], v[1], v[2], v[3], v[4], v[5], v[6], w[j + 1], k[1]);
            round_of(v[6], v[7], v[0], v[1], v[2], v[3], v[4], v[5], w[j + 2], k[2]);
            round_of(v[5], v[6], v[7], v[0], v[1], v[2], v[3], v[4], w[j + 3], k[3]);
            round_of(v[4], v[5], v[6], v[7], v[0], v[1], v[2], v[3], w[j + 4], k[4]);
            round_of(v[3], v[4], v[5], v[6], v[7], v[0], v[1], v[2], w[j + 5], k[5]);
            round_of(v[2], v[3], v[4], v[5], v[6], v[7], v[0], v[1], w[j + 6], k[6]);
            round_of(v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[0], w[j + 7], k[7]);
        }
    }
    for (int j = 0; j < 8; j++)
        EACH (i, HASHES)
            into->state[j][i] += v[j][i];
}

typedef void (*compression)(hasher *);

/* Starts messages whose first byte is `prefix`. */
INLINE void start(hasher *into, uint32_t prefix)
{
    for (int j = 0; j < 8; j++)
        EACH (i, HASHES)
            into->state[j][i] = INITIAL[j];
    EACH (i, HASHES)
        into->rest[i] = prefix;
    into->words = 0;
}

/* Appends four bytes to each message: those of a number, the highest first. */
INLINE void absorb(hasher *into, const uint32_t *restrict numbers, compression compress)
{
    uint32_t *restrict to = into->block[into->words % BLOCK];
    EACH (i, HASHES) {
        to[i] = into->rest[i] << 24 | numbers[i] >> 8;
        into->rest[i] = numbers[i] & 255;
    }
    if (++into->words % BLOCK == 0)
        compress(into);
}

/* Appends `length` bytes of memory, a multiple of 4, to each of `used` messages; those of a message follow those of the
   message before. */
INLINE void absorb_bytes(hasher *into, const uint8_t *from, size_t length, size_t used, compression compress)
{
    uint32_t numbers[HASHES] = {0};
    for (size_t j = 0; j < length; j += 4) {
        for (size_t i = 0; i < used; i++) {
            const uint8_t *at = from + i * length + j;
            numbers[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
        }
        absorb(into, numbers, compress);
    }
}

INLINE uint32_t swapped(uint32_t x)
{
    return x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24;
}

/* Appends the eight bytes of a word, the lowest first, to each of `used` messages. */
INLINE void absorb_words(hasher *into, const word *from, size_t used, compression compress)
{
    word several[HASHES] = {0};
    uint32_t low[HASHES], high[HASHES];
    if (used == HASHES)
        memcpy(several, from, sizeof several);
    else
        memcpy(several, from, used * sizeof(word));
    EACH (i, HASHES) {
        low[i] = swapped((uint32_t)several[i]);
        high[i] = swapped((uint32_t)(several[i] >> 32));
    }
    absorb(into, low, compress);
    absorb(into, high, compress);
}

/* Ends the messages and writes the hashes of `used` of them, HASH bytes each. */
INLINE void finish(hasher *into, uint8_t *out, size_t used, compression compress)
{
    const word bits = (word)into->words * 32 + 8;
    uint32_t numbers[HASHES];
    EACH (i, HASHES)
        numbers[i] = (uint32_t)1 << 31;
    absorb(into, numbers, compress);
    memset(numbers, 0, sizeof numbers);
    while (into->words % BLOCK != BLOCK - 2)
        absorb(into, numbers, compress);
    EACH (i, HASHES) {
        into->block[BLOCK - 2][i] = (uint32_t)(bits >> 32);
        into->block[BLOCK - 1][i] = (uint32_t)bits;
    }
    compress(into);
    for (size_t i = 0; i < used; i++)
        for (int j = 0; j < 8; j++)
            for (int shift = 24; shift >= 0; shift -= 8)
                *out++ = (uint8_t)(into->state[j][i] >> shift);
}

/* out (columns, HASH) = SHA-256(0, salt, column) of every column of `rows` rows; salts (columns, salt) */
INLINE void hash_columns_loop(uint8_t *out, const uint8_t *salts, size_t salt, const word *words, size_t rows, size_t columns,
                              hasher *room, compression compress)
{
    for (size_t at = 0; at < columns; at += HASHES) {
        const size_t used = columns - at < HASHES ? columns - at : HASHES;
        start(room, 0);
        absorb_bytes(room, salts + at * salt, salt, used, compress);
        for (size_t r = 0; r < rows; r++)
            absorb_words(room, words + r * columns + at, used, compress);
        finish(room, out + at * HASH, used, compress);
    }
}

/* out (count, HASH) = SHA-256(1, left, right) of every pair (count, 2 HASH) */
INLINE void hash_pairs_loop(uint8_t *out, const uint8_t *pairs, size_t count, hasher *room, compression compress)
{
    for (size_t at = 0; at < count; at += HASHES) {
        const size_t used = count - at < HASHES ? count - at : HASHES;
        start(room, 1);
        absorb_bytes(room, pairs + at * 2 * HASH, 2 * HASH, used, compress);
        finish(room, out + at * HASH, used, compress);
    }
}

#define HASHING(NAME, TARGET)                                                                                          \
    TARGET static void compress_##NAME(hasher *into) { compress_loop(into); }                                          \
    TARGET static void hash_columns_##NAME(uint8_t *out, const uint8_t *salts, size_t salt, const word *words,         \
                                           size_t rows, size_t columns, hasher *room)                                  \
    {                                                                                                                  \
        hash_columns_loop(out, salts, salt, words, rows, columns, room, compress_##NAME);                              \
    }                                                                                                                  \
    TARGET static void hash_pairs_##NAME(uint8_t *out, const uint8_t *pairs, size_t count, hasher *room)               \
    {                                                                                                                  \
        hash_pairs_loop(out, pairs, count, room, compress_##NAME);                                                     \
    }

HASHING(portable, )
#ifdef AVX512
HASHING(avx2, AVX2)
HASHING(avx512, AVX512)
#define HASH_DISPATCH(NAME, ...)                                                                                       \
    (level == 2 ? NAME##_avx512 : level == 1 ? NAME##_avx2 : NAME##_portable)(__VA_ARGS__)
#else
#define HASH_DISPATCH(NAME, ...) NAME##_portable(__VA_ARGS__)
#endif

/* ---- Python ---- */

/* What was computed with is a secret, and no compiler may think that nobody reads it again. */
static void *(*const volatile wipe)(void *, int, size_t) = memset;

enum { MOST = 4 }; /* buffers of a call */

typedef struct {
    Py_buffer views[MOST];
    size_t count;
} buffers;

static void release(buffers *these)
{
    while (these->count)
        PyBuffer_Release(&these->views[--these->count]);
}

/* Gets the buffers of the first `count` of `expected` arguments, the first one to write to; from number `words` on they
   hold words. Returns 0 with an exception if there are not as many arguments, if one is no contiguous memory, or if words
   are not aligned. */
static int get(buffers *these, PyObject *const *arguments, Py_ssize_t given, Py_ssize_t expected, Py_ssize_t count,
               Py_ssize_t words)
{
    these->count = 0;
    if (given != expected) {
        PyErr_SetString(PyExc_TypeError, "a wrong number of arguments");
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Py_buffer *view = &these->views[i];
        if (PyObject_GetBuffer(arguments[i], view, i ? PyBUF_SIMPLE : PyBUF_WRITABLE)) {
            release(these);
            return 0;
        }
        these->count++;
        if (i >= words && view->len && ((uintptr_t)view->buf % sizeof(word) || view->len % (Py_ssize_t)sizeof(word))) {
            release(these);
            PyErr_SetString(PyExc_ValueError, "an array does not consist of aligned words");
            return 0;
        }
    }
    return 1;
}

static size_t words_of(const buffers *these, int which)
{
    return (size_t)these->views[which].len / sizeof(word);
}

static PyObject *finished(buffers *these, const char *fault)
{
    release(these);
    if (fault) {
        PyErr_SetString(PyExc_ValueError, fault);
        return NULL;
    }
    return Py_NewRef(Py_None);
}

static const char LENGTHS[] = "the lengths of arrays do not fit together";

static PyObject *py_entrywise(PyObject *const *arguments, Py_ssize_t given, char operation)
{
    buffers these;
    const char *fault = NULL;
    if (!get(&these, arguments, given, 3, 3, 0))
        return NULL;
    const size_t count = words_of(&these, 0), period = words_of(&these, 2);
    if (words_of(&these, 1) != count || (count && (!period || count % period)))
        fault = LENGTHS;
    else if (count) {
        Py_BEGIN_ALLOW_THREADS
        entrywise(these.views[0].buf, these.views[1].buf, these.views[2].buf, count, period, operation);
        Py_END_ALLOW_THREADS
    }
    return finished(&these, fault);
}

static PyObject *py_add(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    return py_entrywise(arguments, given, '+');
}

static PyObject *py_subtract(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    return py_entrywise(arguments, given, '-');
}

static PyObject *py_multiply(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    return py_entrywise(arguments, given, '*');
}

/* product(out, left, right, rows): out (rows, columns), left (rows, inner), right (inner, columns) */
static PyObject *py_product(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    buffers these;
    const char *fault = NULL;
    (void)module;
    if (!get(&these, arguments, given, 4, 3, 0))
        return NULL;
    const size_t rows = PyLong_AsSize_t(arguments[3]), left = words_of(&these, 1), out = words_of(&these, 0);
    if (rows == (size_t)-1 && PyErr_Occurred()) {
        release(&these);
        return NULL;
    }
    const size_t inner = rows ? left / rows : 0, columns = rows ? out / rows : 0;
    if (!rows || left % rows || out % rows ||
        (columns && inner > SIZE_MAX / columns) || words_of(&these, 2) != inner * columns)
        fault = LENGTHS;
    else {
        Py_BEGIN_ALLOW_THREADS
        product(these.views[0].buf, these.views[1].buf, these.views[2].buf, rows, inner, columns);
        Py_END_ALLOW_THREADS
    }
    return finished(&these, fault);
}

/* column_sums(out, left, right or out of no length): out (columns), left and right (rows, columns) */
static PyObject *py_column_sums(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    buffers these;
    const char *fault = NULL;
    (void)module;
    if (!get(&these, arguments, given, given == 2 ? 2 : 3, given == 2 ? 2 : 3, 0))
        return NULL;
    const size_t columns = words_of(&these, 0), all = words_of(&these, 1);
    const int products = given == 3;
    if ((columns ? all % columns : all) || (products && words_of(&these, 2) != all))
        fault = LENGTHS;
    else if (columns) {
        Py_BEGIN_ALLOW_THREADS
        column_sums(these.views[0].buf, these.views[1].buf, products ? these.views[2].buf : NULL, all / columns, columns);
        Py_END_ALLOW_THREADS
    }
    return finished(&these, fault);
}

static PyObject *py_inverses(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    buffers these;
    const char *fault = NULL;
    (void)module;
    if (!get(&these, arguments, given, 2, 2, 0))
        return NULL;
    if (words_of(&these, 0) != words_of(&these, 1))
        fault = LENGTHS;
    else {
        Py_BEGIN_ALLOW_THREADS
        inverses(these.views[0].buf, these.views[1].buf, words_of(&these, 0));
        Py_END_ALLOW_THREADS
    }
    return finished(&these, fault);
}

static void reverse(uint32_t *reversed, size_t length)
{
    reversed[0] = 0;
    for (size_t done = 1; done < length; done *= 2)
        for (size_t i = 0; i < done; i++) {
            /* among twice as many numbers, i has twice the place, and i + done comes right after it */
            reversed[i] *= 2;
            reversed[i + done] = reversed[i] + 1;
        }
}

/* Counts the wanted points before each place of each coset. Returns 0 if one is no point. */
static int count_needed(uint32_t *needed, const plan *by)
{
    const size_t stride = by->length + 1;
    memset(needed, 0, by->cosets * stride * sizeof *needed);
    for (size_t i = 0; i < by->wanted; i++) {
        const int64_t place = by->places[i];
        if (place < 0 || (uint64_t)place >= by->cosets * by->length)
            return 0;
        needed[(size_t)place % by->cosets * stride + by->reversed[(size_t)place / by->cosets] + 1]++;
    }
    for (size_t s = 0; s < by->cosets; s++)
        for (size_t i = 0; i < by->length; i++)
            needed[s * stride + i + 1] += needed[s * stride + i];
    return 1;
}

/* Transforms with memory of its own; returns what is wrong, or NULL. */
static const char *run_transform(word *out, const word *rows, size_t count, plan by)
{
    const size_t points = by.cosets * by.length;
    const size_t size = (points + by.length) * LANES * sizeof(word), indices = by.length + by.cosets * (by.length + 1);
    const char *fault = NULL;
    word *room = aligned_alloc(LANES * sizeof(word), size);
    uint32_t *index = malloc(indices * sizeof *index);
    if (!room || !index)
        fault = "out of memory";
    else {
        reverse(index, by.length);
        by.reversed = index;
        by.needed = by.places ? index + by.length : NULL;
        if (by.places && !count_needed(index + by.length, &by))
            fault = "a place is outside the transform";
        else
            transform(out, rows, count, &by, room);
        wipe(room, 0, size);
    }
    free(room);
    free(index);
    return fault;
}

/* transform(out, rows, twiddles, scales, columns) or transform(out, rows, twiddles, scales, columns, places) */
static PyObject *py_transform(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    buffers these;
    Py_buffer places = {0};
    const char *fault = NULL;
    (void)module;
    if (!get(&these, arguments, given, given == 6 ? 6 : 5, 4, 0))
        return NULL;
    const size_t columns = PyLong_AsSize_t(arguments[4]);
    if ((columns == (size_t)-1 && PyErr_Occurred()) ||
        (given == 6 && PyObject_GetBuffer(arguments[5], &places, PyBUF_SIMPLE))) {
        release(&these);
        return NULL;
    }
    const size_t length = words_of(&these, 2) + 1, scales = words_of(&these, 3), all = words_of(&these, 1);
    const size_t wanted = given == 6 ? (size_t)places.len / sizeof(int64_t) : scales;
    if (length & (length - 1) || length >> LONGEST || !scales || scales % length || scales >> LONGEST ||
        scales > SIZE_MAX / (4 * LANES * sizeof(word)) ||
        !columns || columns > length || all % columns || wanted >> LONGEST ||
        (wanted && all / columns > SIZE_MAX / wanted) || words_of(&these, 0) != all / columns * wanted ||
        places.len % (Py_ssize_t)sizeof(int64_t) || (uintptr_t)places.buf % sizeof(int64_t))
        fault = LENGTHS;
    else {
        const plan by = {.length = length, .cosets = scales / length, .columns = columns, .twiddles = these.views[2].buf,
                         .scales = these.views[3].buf, .places = given == 6 ? places.buf : NULL, .wanted = wanted};
        Py_BEGIN_ALLOW_THREADS
        fault = run_transform(these.views[0].buf, these.views[1].buf, all / columns, by);
        Py_END_ALLOW_THREADS
    }
    if (given == 6)
        PyBuffer_Release(&places);
    return finished(&these, fault);
}

/* hash_columns(out, salts, words): out (columns, HASH), salts (columns, a multiple of 4 bytes), words (rows, columns) */
static PyObject *py_hash_columns(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    buffers these;
    const char *fault = NULL;
    (void)module;
    if (!get(&these, arguments, given, 3, 3, 2))
        return NULL;
    const size_t columns = (size_t)these.views[0].len / HASH, all = words_of(&these, 2);
    const size_t salt = columns ? (size_t)these.views[1].len / columns : 0;
    if (!columns || (size_t)these.views[0].len != columns * HASH || (size_t)these.views[1].len != columns * salt || salt % 4 ||
        all % columns)
        fault = LENGTHS;
    else {
        Py_BEGIN_ALLOW_THREADS
        hasher room;
        HASH_DISPATCH(hash_columns, these.views[0].buf, these.views[1].buf, salt, these.views[2].buf, all / columns, columns,
                      &room);
        wipe(&room, 0, sizeof room);
        Py_END_ALLOW_THREADS
    }
    return finished(&these, fault);
}

/* hash_pairs(out, pairs): out (count, HASH), pairs (count, 2 HASH) */
static PyObject *py_hash_pairs(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    buffers these;
    const char *fault = NULL;
    (void)module;
    if (!get(&these, arguments, given, 2, 2, 2))
        return NULL;
    const size_t count = (size_t)these.views[0].len / HASH;
    if ((size_t)these.views[0].len != count * HASH || these.views[1].len / 2 != these.views[0].len || these.views[1].len % 2)
        fault = LENGTHS;
    else {
        Py_BEGIN_ALLOW_THREADS
        hasher room;
        HASH_DISPATCH(hash_pairs, these.views[0].buf, these.views[1].buf, count, &room);
        wipe(&room, 0, sizeof room);
        Py_END_ALLOW_THREADS
    }
    return finished(&these, fault);
}

/* use(level): 0 portable, 1 AVX2, 2 AVX-512, or less if the processor has less; returns the level. For tests. */
static PyObject *py_use(PyObject *module, PyObject *number)
{
    const long wanted = PyLong_AsLong(number);
    (void)module;
    if (wanted == -1 && PyErr_Occurred())
        return NULL;
    level = 0;
#ifdef AVX512
    __builtin_cpu_init();
    if (wanted >= 1 && __builtin_cpu_supports("avx2"))
        level = 1;
    if (wanted >= 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        level = 2;
#endif
    return PyLong_FromLong(level);
}

#define FAST(NAME, TEXT) {#NAME, (PyCFunction)(void (*)(void))py_##NAME, METH_FASTCALL, TEXT}

static PyMethodDef methods[] = {
    FAST(add, "out = a + b; b repeats."),
    FAST(subtract, "out = a - b; b repeats."),
    FAST(multiply, "out = a * b; b repeats."),
    FAST(product, "Matrix product: (out, left, right, rows)."),
    FAST(column_sums, "Sums over the first axis, of one array or of products: (out, left[, right])."),
    FAST(inverses, "out = 1 / a; 0 for 0."),
    FAST(transform, "Values of polynomials: (out, rows, twiddles, scales, columns[, places]), see field.py."),
    FAST(hash_columns, "Hashes of leaves: (out, salts, words), see merkle.py."),
    FAST(hash_pairs, "Hashes of inner nodes: (out, pairs), see merkle.py."),
    {"use", py_use, METH_O, "Select the instructions, for tests: 0 portable, 1 AVX2, 2 AVX-512."},
    {NULL, NULL, 0, NULL},
};

static int initialise(PyObject *module)
{
    PyObject *most = PyLong_FromLong(2), *used = most ? py_use(module, most) : NULL;
    Py_XDECREF(most);
    Py_XDECREF(used);
    return used ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, initialise}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_field", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__field(void) { return PyModuleDef_Init(&definition); }
