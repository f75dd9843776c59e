/* The elementwise part of an LSTM step, in one pass over memory.
 *
 *   forward   i, f, o = sigmoid and g = tanh, in place;
 *             c = f before + i g,   squashed = tanh(c),   hidden = o squashed
 *   backward  dh += outer,   dc += dh o (1 - squashed^2),
 *             di = dc g i (1 - i),   df = dc before f (1 - f),   dg = dc i (1 - g^2),
 *             do = dh squashed o (1 - o),   dc *= f
 *
 * Gates are rows [i, f, g, o] of `size` numbers each, everything else rows of `size` numbers; all
 * are contiguous except `outer`. Below -87 a sigmoid is zero (a padded step closes its gates with an
 * infinite input) and a NaN stays a NaN; otherwise sigmoid and tanh are accurate to 4 units in the
 * last place.
 */

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "sharing.h"

#define LANES 8
#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE AVX2 __attribute__((always_inline)) static inline

/* ---- Vectors, the last of which may be partial ------------------------------------------ */

INLINE __m256i first_lanes(size_t count)
{
    return _mm256_cmpgt_epi32(
        _mm256_set1_epi32((int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

INLINE __m256 load(const float *x, size_t count)
{
    return count == LANES ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first_lanes(count));
}

INLINE void store(float *x, __m256 values, size_t count)
{
    if (count == LANES) _mm256_storeu_ps(x, values);
    else _mm256_maskstore_ps(x, first_lanes(count), values);
}

INLINE __m256 constant(float x) { return _mm256_set1_ps(x); }

/* ---- Activations ------------------------------------------------------------------------ */

/* exp(x), with x clamped to [-87, 88]; the polynomial is that of the Cephes library.
 * The order of the operands of min and max lets a NaN through. */
INLINE __m256 exponential(__m256 x)
{
    x = _mm256_max_ps(constant(-87.0f), _mm256_min_ps(constant(88.0f), x));
    __m256 n = _mm256_round_ps(
        _mm256_mul_ps(x, constant(1.44269504f)), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, constant(0.693359375f), x);
    r = _mm256_fnmadd_ps(n, constant(-2.12194440e-4f), r);
    __m256 p = constant(1.9875691500e-4f);
    p = _mm256_fmadd_ps(p, r, constant(1.3981999507e-3f));
    p = _mm256_fmadd_ps(p, r, constant(8.3334519073e-3f));
    p = _mm256_fmadd_ps(p, r, constant(4.1665795894e-2f));
    p = _mm256_fmadd_ps(p, r, constant(1.6666665459e-1f));
    p = _mm256_fmadd_ps(p, r, constant(0.5f));
    p = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r), constant(1.0f));
    __m256i power = _mm256_slli_epi32(
        _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(power));
}

/* Zero below -87, so that a gate can be closed completely. */
INLINE __m256 sigmoid(__m256 x)
{
    __m256 e = exponential(_mm256_sub_ps(_mm256_setzero_ps(), x));
    __m256 y = _mm256_div_ps(constant(1.0f), _mm256_add_ps(constant(1.0f), e));
    return _mm256_and_ps(y, _mm256_cmp_ps(x, constant(-87.0f), _CMP_NLT_UQ));
}

/* A polynomial near zero (Cephes), where 1 - 2 / (e^2x + 1) loses precision. */
INLINE __m256 hyperbolic_tangent(__m256 x)
{
    const __m256 sign = constant(-0.0f);
    __m256 size = _mm256_andnot_ps(sign, x), square = _mm256_mul_ps(x, x);
    __m256 e = exponential(_mm256_add_ps(size, size));
    __m256 far = _mm256_sub_ps(
        constant(1.0f), _mm256_div_ps(constant(2.0f), _mm256_add_ps(e, constant(1.0f))));
    far = _mm256_or_ps(far, _mm256_and_ps(sign, x));
    __m256 p = constant(-5.70498872745e-3f);
    p = _mm256_fmadd_ps(p, square, constant(2.06390887954e-2f));
    p = _mm256_fmadd_ps(p, square, constant(-5.37397155531e-2f));
    p = _mm256_fmadd_ps(p, square, constant(1.33314422036e-1f));
    p = _mm256_fmadd_ps(p, square, constant(-3.33332819422e-1f));
    __m256 near = _mm256_fmadd_ps(_mm256_mul_ps(p, square), x, x);
    return _mm256_blendv_ps(far, near, _mm256_cmp_ps(size, constant(0.625f), _CMP_LT_OQ));
}

/* ---- Forward ---------------------------------------------------------------------------- */

typedef struct {
    float *gates;
    const float *before;
    float *cells, *squashed, *hidden;
    size_t size;
} Forward;

INLINE void forward_lanes(const Forward *all, size_t row, size_t k, size_t count)
{
    size_t size = all->size, place = row * size + k;
    float *gates = all->gates + row * 4 * size + k;
    __m256 i = sigmoid(load(gates, count));
    __m256 f = sigmoid(load(gates + size, count));
    __m256 g = hyperbolic_tangent(load(gates + 2 * size, count));
    __m256 o = sigmoid(load(gates + 3 * size, count));
    __m256 c = _mm256_fmadd_ps(f, load(all->before + place, count), _mm256_mul_ps(i, g));
    __m256 squashed = hyperbolic_tangent(c);
    store(gates, i, count);
    store(gates + size, f, count);
    store(gates + 2 * size, g, count);
    store(gates + 3 * size, o, count);
    store(all->cells + place, c, count);
    store(all->squashed + place, squashed, count);
    store(all->hidden + place, _mm256_mul_ps(o, squashed), count);
}

AVX2 static void forward(const void *job, size_t from, size_t to)
{
    const Forward *all = job;
    for (size_t row = from; row < to; row++) {
        size_t k = 0;
        for (; k + LANES <= all->size; k += LANES) forward_lanes(all, row, k, LANES);
        if (k < all->size) forward_lanes(all, row, k, all->size - k);
    }
}

/* ---- Backward --------------------------------------------------------------------------- */

typedef struct {
    const float *gates, *before, *squashed, *outer;
    float *dh, *dc, *out;
    size_t size, outer_row;     /* outer_row: the row stride of `outer` */
} Backward;

/* x - x^2 */
INLINE __m256 slope(__m256 x) { return _mm256_mul_ps(x, _mm256_sub_ps(constant(1.0f), x)); }

INLINE void backward_lanes(const Backward *all, size_t row, size_t k, size_t count)
{
    const __m256 one = constant(1.0f);
    size_t size = all->size, place = row * size + k, gate = row * 4 * size + k;
    __m256 i = load(all->gates + gate, count), f = load(all->gates + gate + size, count);
    __m256 g = load(all->gates + gate + 2 * size, count);
    __m256 o = load(all->gates + gate + 3 * size, count);
    __m256 squashed = load(all->squashed + place, count);
    __m256 outer = load(all->outer + row * all->outer_row + k, count);
    __m256 dh = _mm256_add_ps(load(all->dh + place, count), outer);
    __m256 through = _mm256_mul_ps(o, _mm256_fnmadd_ps(squashed, squashed, one));
    __m256 dc = _mm256_fmadd_ps(dh, through, load(all->dc + place, count));
    __m256 di = _mm256_mul_ps(_mm256_mul_ps(dc, g), slope(i));
    __m256 df = _mm256_mul_ps(_mm256_mul_ps(dc, load(all->before + place, count)), slope(f));
    __m256 dg = _mm256_mul_ps(_mm256_mul_ps(dc, i), _mm256_fnmadd_ps(g, g, one));
    __m256 d_o = _mm256_mul_ps(_mm256_mul_ps(dh, squashed), slope(o));
    store(all->out + gate, di, count);
    store(all->out + gate + size, df, count);
    store(all->out + gate + 2 * size, dg, count);
    store(all->out + gate + 3 * size, d_o, count);
    store(all->dh + place, dh, count);
    store(all->dc + place, _mm256_mul_ps(dc, f), count);
}

AVX2 static void backward(const void *job, size_t from, size_t to)
{
    const Backward *all = job;
    for (size_t row = from; row < to; row++) {
        size_t k = 0;
        for (; k + LANES <= all->size; k += LANES) backward_lanes(all, row, k, LANES);
        if (k < all->size) backward_lanes(all, row, k, all->size - k);
    }
}

/* ---- Public functions ------------------------------------------------------------------- */

int sottovoce_lstm_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

void sottovoce_lstm_forward(
    float *gates, const float *before, float *cells, float *squashed, float *hidden,
    size_t rows, size_t size, size_t threads)
{
    Forward job = {gates, before, cells, squashed, hidden, size};
    share_out(forward, &job, rows, threads);
}

void sottovoce_lstm_backward(
    const float *gates, const float *before, const float *squashed, const float *outer, float *dh,
    float *dc, float *out, size_t rows, size_t size, size_t outer_row, size_t threads)
{
    Backward job = {gates, before, squashed, outer, dh, dc, out, size, outer_row};
    share_out(backward, &job, rows, threads);
}
