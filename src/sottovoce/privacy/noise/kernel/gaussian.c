/* Gaussian noise for float32 arrays: AES-256 in counter mode, then the Box-Muller transform.
 *
 *     out[i] = (accumulate ? out[i] : 0) + std * z[i],    z[i] normal and independent
 *
 * Two stages alternate on a chunk that fits the L1 cache. The cipher writes random words, 8 or 16
 * blocks in flight, with VAES where the processor supports it (the words are the same). The
 * transform makes 16 values from three vectors of eight words:
 *
 *     u in (0, 1) from 54 bits, an angle from 32 bits, r = sqrt(-2 ln u), z = r cos and r sin.
 *
 * No step branches on random bits or uses them as a table index, so that timing and cache reveal
 * nothing about the noise. The deviation of z from a normal variable:
 *
 *   - arithmetic in float32 moves a value by less than 3.7e-7 of itself (6.2 times 2**-24);
 *   - the angle is a multiple of 2**-32 turns, which moves a value by less than 7.4e-10 r;
 *   - the radii are spaced by 6e-10 at 6, 4e-7 at 7 and 6e-4 at 8, and end at 8.73; the
 *     probability beyond is 3e-18.
 */

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ROUNDS 14
#define IN_FLIGHT 16    /* blocks; the cipher writes them in multiples of this number */
#define BATCH 16        /* values made from three vectors of words */
#define BATCH_BLOCKS 6  /* the same vectors, as blocks of the cipher */
#define CHUNK (32 * BATCH)
#define CHUNK_BLOCKS (32 * BATCH_BLOCKS)

#define AESNI __attribute__((target("aes,avx2,fma")))
#define VAES __attribute__((target("vaes,aes,avx2,fma")))
#define AVX2 __attribute__((target("avx2,fma")))
#define MATH AVX2 __attribute__((always_inline)) static inline

/* ---- The cipher ------------------------------------------------------------------------- */

typedef struct {
    __m128i round_key[ROUNDS + 1];
    __m128i counter;    /* the next block, as a little-endian number */
} Stream;

typedef void Cipher(Stream *stream, __m128i *out, size_t blocks);

AESNI static __m128i key_step(__m128i key, __m128i mixed)
{
    key = _mm_xor_si128(key, _mm_slli_si128(key, 4));
    key = _mm_xor_si128(key, _mm_slli_si128(key, 8));
    return _mm_xor_si128(key, mixed);
}

/* FIPS 197, section 5.2: even round keys use the round constant, odd ones only substitute. */
#define EVEN(i, round_constant) \
    k[i] = key_step(k[(i) - 2], \
        _mm_shuffle_epi32(_mm_aeskeygenassist_si128(k[(i) - 1], round_constant), 0xff))
#define ODD(i) \
    k[i] = key_step(k[(i) - 2], \
        _mm_shuffle_epi32(_mm_aeskeygenassist_si128(k[(i) - 1], 0), 0xaa))

AESNI static void expand_key(const uint8_t key[32], __m128i k[ROUNDS + 1])
{
    k[0] = _mm_loadu_si128((const __m128i *)key);
    k[1] = _mm_loadu_si128((const __m128i *)(key + 16));
    EVEN(2, 0x01), ODD(3), EVEN(4, 0x02), ODD(5), EVEN(6, 0x04), ODD(7), EVEN(8, 0x08), ODD(9);
    EVEN(10, 0x10), ODD(11), EVEN(12, 0x20), ODD(13), EVEN(14, 0x40);
}

AESNI static __m128i reversed(__m128i bytes)
{
    return _mm_shuffle_epi8(
        bytes, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

AESNI static void start(Stream *stream, const uint8_t key[32], const uint8_t first[16])
{
    expand_key(key, stream->round_key);
    stream->counter = reversed(_mm_loadu_si128((const __m128i *)first));
}

/* Both ciphers round `blocks` up to a multiple of IN_FLIGHT, write that many, and count them. */

AESNI static void cipher_aesni(Stream *stream, __m128i *out, size_t blocks)
{
    const __m128i *key = stream->round_key, one = _mm_set_epi64x(0, 1);
    __m128i counter = stream->counter;
    for (size_t done = 0; done < (blocks + IN_FLIGHT - 1) / IN_FLIGHT * IN_FLIGHT; done += 8) {
        __m128i b[8];
        for (int j = 0; j < 8; j++) {
            b[j] = _mm_xor_si128(reversed(counter), key[0]);
            counter = _mm_add_epi64(counter, one);
        }
        for (int round = 1; round < ROUNDS; round++)
            for (int j = 0; j < 8; j++)
                b[j] = _mm_aesenc_si128(b[j], key[round]);
        for (int j = 0; j < 8; j++)
            _mm_store_si128(out + done + j, _mm_aesenclast_si128(b[j], key[ROUNDS]));
    }
    stream->counter = counter;
}

VAES static void cipher_vaes(Stream *stream, __m128i *out, size_t blocks)
{
    const __m128i *key = stream->round_key;
    const __m256i two = _mm256_set_epi64x(0, 2, 0, 2);
    const __m256i reverse = _mm256_broadcastsi128_si256(
        _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    __m256i counter = _mm256_add_epi64(
        _mm256_broadcastsi128_si256(stream->counter), _mm256_set_epi64x(0, 1, 0, 0));
    for (size_t done = 0; done < blocks; done += IN_FLIGHT) {
        __m256i b[8], k = _mm256_broadcastsi128_si256(key[0]);
        for (int j = 0; j < 8; j++) {
            b[j] = _mm256_xor_si256(_mm256_shuffle_epi8(counter, reverse), k);
            counter = _mm256_add_epi64(counter, two);
        }
        for (int round = 1; round < ROUNDS; round++) {
            k = _mm256_broadcastsi128_si256(key[round]);
            for (int j = 0; j < 8; j++)
                b[j] = _mm256_aesenc_epi128(b[j], k);
        }
        k = _mm256_broadcastsi128_si256(key[ROUNDS]);
        for (int j = 0; j < 8; j++)
            _mm256_store_si256(
                (__m256i *)(out + done + 2 * j), _mm256_aesenclast_epi128(b[j], k));
    }
    stream->counter = _mm256_castsi256_si128(counter);
}

/* ---- The transform ---------------------------------------------------------------------- */

MATH __m256 constant(float x) { return _mm256_set1_ps(x); }
MATH __m256i whole(int x) { return _mm256_set1_epi32(x); }
MATH __m256 multiply_add(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }

/* upper * 2**-24 + lower * 2**-55 for 24 and 31 bits: the resolution near 0 is the same. */
MATH __m256 fraction(__m256i upper, __m256i lower)
{
    __m256 small = _mm256_mul_ps(_mm256_cvtepi32_ps(lower), constant(0x1p-55f));
    return multiply_add(_mm256_cvtepi32_ps(upper), constant(0x1p-24f), small);
}

/* sqrt(-2 ln u), where u is an odd multiple of 2**-55 taken from two words. */
MATH __m256 radius(__m256i word, __m256i finer)
{
    __m256i upper = _mm256_srli_epi32(word, 8);
    __m256i lower = _mm256_or_si256(_mm256_srli_epi32(finer, 1), whole(1));
    __m256 u = fraction(upper, lower);
    __m256 one_minus_u = fraction(_mm256_xor_si256(upper, whole(0xffffff)),
                                  _mm256_sub_epi32(whole(INT32_MIN), lower));

    /* u = 2**exponent * (1 + f) with 1 + f from sqrt(1/2) to sqrt(2). */
    const __m256i root_half = whole(0x3f3504f3);
    __m256i bits = _mm256_sub_epi32(_mm256_castps_si256(u), root_half);
    __m256 exponent = _mm256_cvtepi32_ps(_mm256_srai_epi32(bits, 23));
    bits = _mm256_add_epi32(_mm256_and_si256(bits, whole(0x7fffff)), root_half);
    __m256 f = _mm256_sub_ps(_mm256_castsi256_ps(bits), constant(1.0f));
    /* Near 1 a float32 is too coarse for small radii; use 1 - u there. The sign of the exponent
     * selects. */
    f = _mm256_blendv_ps(_mm256_sub_ps(_mm256_setzero_ps(), one_minus_u), f, exponent);

    /* ln(1 + f) = f - f**2 / 2 + f**3 p(f), p from the Cephes library. */
    __m256 p = constant(7.0376836292e-2f);
    p = multiply_add(p, f, constant(-1.1514610310e-1f));
    p = multiply_add(p, f, constant(1.1676998740e-1f));
    p = multiply_add(p, f, constant(-1.2420140846e-1f));
    p = multiply_add(p, f, constant(1.4249322787e-1f));
    p = multiply_add(p, f, constant(-1.6668057665e-1f));
    p = multiply_add(p, f, constant(2.0000714765e-1f));
    p = multiply_add(p, f, constant(-2.4999993993e-1f));
    p = multiply_add(p, f, constant(3.3333331174e-1f));
    p = multiply_add(p, f, constant(-0.5f));
    __m256 ln = multiply_add(_mm256_mul_ps(f, f), p, f);
    ln = multiply_add(exponent, constant(0.69314718056f), ln);
    return _mm256_sqrt_ps(_mm256_mul_ps(constant(-2.0f), ln));
}

/* A point on the unit circle: 30 bits turn it by less than an eighth of a circle from the x axis,
 * one bit chooses the side of the axis, and one exchanges x and y. */
MATH void direction(__m256i word, __m256 *x, __m256 *y)
{
    /* An odd number of 2**-33 turns, so that positive and negative angles are symmetric. */
    __m256i turn = _mm256_or_si256(_mm256_srai_epi32(_mm256_slli_epi32(word, 2), 1), whole(1));
    __m256 angle = _mm256_mul_ps(_mm256_cvtepi32_ps(turn), constant(6.283185307f * 0x1p-33f));
    __m256 square = _mm256_mul_ps(angle, angle);

    __m256 s = constant(-1.9515295891e-4f);
    s = multiply_add(s, square, constant(8.3321608736e-3f));
    s = multiply_add(s, square, constant(-1.6666654611e-1f));
    s = multiply_add(_mm256_mul_ps(s, square), angle, angle);

    __m256 c = constant(2.443315711809948e-5f);
    c = multiply_add(c, square, constant(-1.388731625493765e-3f));
    c = multiply_add(c, square, constant(4.166664568298827e-2f));
    c = multiply_add(c, square, constant(-0.5f));
    c = multiply_add(c, square, constant(1.0f));

    __m256i sign = _mm256_and_si256(_mm256_slli_epi32(word, 1), whole(INT32_MIN));
    c = _mm256_xor_ps(c, _mm256_castsi256_ps(sign));
    *x = _mm256_blendv_ps(c, s, _mm256_castsi256_ps(word));
    *y = _mm256_blendv_ps(s, c, _mm256_castsi256_ps(word));
}

/* Sixteen values at `out` from three vectors of words; `keep` masks what was there before. */
MATH void batch(float *out, const __m256i *words, __m256 std, __m256 keep)
{
    __m256 x, y, r = _mm256_mul_ps(std, radius(words[0], words[1]));
    direction(words[2], &x, &y);
    __m256 left = _mm256_and_ps(keep, _mm256_loadu_ps(out));
    __m256 right = _mm256_and_ps(keep, _mm256_loadu_ps(out + 8));
    _mm256_storeu_ps(out, multiply_add(r, x, left));
    _mm256_storeu_ps(out + 8, multiply_add(r, y, right));
}

AVX2 static void transform(float *out, size_t n, const __m256i *words, float std, int accumulate)
{
    const __m256 scale = constant(std), keep = _mm256_castsi256_ps(whole(accumulate ? -1 : 0));
    for (; n >= BATCH; n -= BATCH, out += BATCH, words += 3)
        batch(out, words, scale, keep);
    if (n) {
        float last[BATCH] = {0};
        memcpy(last, out, n * sizeof *out);
        batch(last, words, scale, keep);
        memcpy(out, last, n * sizeof *out);
    }
}

/* ---- Public functions ------------------------------------------------------------------- */

static Cipher *best_cipher(void)
{
    return __builtin_cpu_supports("vaes") ? cipher_vaes : cipher_aesni;
}

/* Whether this processor has the required instructions. Call nothing else here if it has not. */
int sottovoce_noise_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("avx2")
        && __builtin_cpu_supports("fma");
}

/* Noise for `count` arrays, each with its own size and standard deviation. Every call needs a new
 * key: the counter starts at zero and continues through all arrays. */
void sottovoce_noise(float *const *outs, const size_t *sizes, const float *stds, size_t count,
                     int accumulate, const uint8_t key[32])
{
    __m128i words[CHUNK_BLOCKS] __attribute__((aligned(32)));
    Cipher *cipher = best_cipher();
    Stream stream;
    start(&stream, key, (const uint8_t[16]){0});
    for (size_t i = 0; i < count; i++)
        for (size_t done = 0, n; done < sizes[i]; done += n) {
            n = sizes[i] - done < CHUNK ? sizes[i] - done : CHUNK;
            cipher(&stream, words, (n + BATCH - 1) / BATCH * BATCH_BLOCKS);
            transform(outs[i] + done, n, (const __m256i *)words, stds[i], accumulate);
        }
}

/* For tests, the first stage alone: AES-256 of `first`, `first` + 1 and so on, big-endian numbers
 * whose lower 64 bits count. `without_vaes` selects the cipher for older processors. */
void sottovoce_noise_words(uint8_t *out, size_t blocks, int without_vaes, const uint8_t key[32],
                           const uint8_t first[16])
{
    __m128i words[IN_FLIGHT] __attribute__((aligned(32)));
    Cipher *cipher = without_vaes ? cipher_aesni : best_cipher();
    Stream stream;
    start(&stream, key, first);
    for (size_t n; blocks; blocks -= n, out += 16 * n) {
        n = blocks < IN_FLIGHT ? blocks : IN_FLIGHT;
        cipher(&stream, words, n);
        memcpy(out, words, 16 * n);
    }
}

/* For tests, the second stage alone: standard normal values, 16 from every 96 bytes of words. */
void sottovoce_noise_values(float *out, const uint8_t *words, size_t batches)
{
    __m128i aligned[BATCH_BLOCKS] __attribute__((aligned(32)));
    for (size_t i = 0; i < batches; i++) {
        memcpy(aligned, words + i * sizeof aligned, sizeof aligned);
        transform(out + i * BATCH, BATCH, (const __m256i *)aligned, 1.0f, 0);
    }
}
