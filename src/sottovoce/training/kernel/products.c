/* Sums of products for gradient norms of float32 arrays. All arrays are contiguous, except the x of
 * grams: its groups and rows may have any stride, as in recurrent layers.
 *
 *   grams      out[g][r][s] = <x[g][r], x[g][s]>; computes one half and copies the other
 *   pair_sums  squares[g] = sum_rs (a[g][r][s] + c) b[g][r][s], the sum in double precision,
 *              sizes[g] = sum_r sqrt((a[g][r][r] + c) b[g][r][r])
 *   norm_sums  weight[g] = sum_r (x[g][r] - mean[g][r]) scale[g][r] b[g][r] and bias[g] = sum_r b[g][r]
 *
 * Groups are independent and are distributed over threads. An inner product is summed in eight
 * lanes, each in memory order: its rounding errors are below those of a matrix product that adds
 * terms sequentially.
 */

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "sharing.h"

#define LANES 8
/* A tile of inner products: three rows by four use all sixteen registers. */
#define TALL 3
#define WIDE 4

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE AVX2 __attribute__((always_inline)) static inline

/* ---- Gram matrices ---------------------------------------------------------------------- */

typedef struct {
    const float *x;
    float *out;
    size_t n, d, group, row;    /* the last two are strides, in numbers */
} Grams;

/* The sums over the lanes of four vectors. */
INLINE __m128 lane_sums(const __m256 v[WIDE])
{
    __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

/* Three rows starting at a times four rows starting at b, with row stride `row`. */
INLINE void tile(const float *a, const float *b, size_t row, size_t d, __m128 out[TALL])
{
    __m256 sums[TALL][WIDE];
    for (int i = 0; i < TALL; i++)
        for (int j = 0; j < WIDE; j++) sums[i][j] = _mm256_setzero_ps();
    size_t k = 0;
    for (; k + LANES <= d; k += LANES) {
        __m256 x = _mm256_loadu_ps(a + k);
        __m256 y = _mm256_loadu_ps(a + row + k);
        __m256 z = _mm256_loadu_ps(a + 2 * row + k);
        for (int j = 0; j < WIDE; j++) {
            __m256 w = _mm256_loadu_ps(b + j * row + k);
            sums[0][j] = _mm256_fmadd_ps(x, w, sums[0][j]);
            sums[1][j] = _mm256_fmadd_ps(y, w, sums[1][j]);
            sums[2][j] = _mm256_fmadd_ps(z, w, sums[2][j]);
        }
    }
    for (int i = 0; i < TALL; i++) out[i] = lane_sums(sums[i]);
    for (; k < d; k++) {
        __m128 w = _mm_setr_ps(b[k], b[row + k], b[2 * row + k], b[3 * row + k]);
        for (int i = 0; i < TALL; i++) out[i] = _mm_fmadd_ps(_mm_set1_ps(a[i * row + k]), w, out[i]);
    }
}

/* The last tile of a row or column is shifted back to be a full one: n is at least four. */
AVX2 static void grams(const void *job, size_t from, size_t to)
{
    const Grams *all = job;
    size_t n = all->n, d = all->d, row = all->row;
    for (size_t g = from; g < to; g++) {
        const float *x = all->x + g * all->group;
        float *out = all->out + g * n * n;
        for (size_t top = 0; top < n; top += TALL) {
            size_t r = top + TALL <= n ? top : n - TALL;
            for (size_t left = top / WIDE * WIDE; left < n; left += WIDE) {
                size_t s = left + WIDE <= n ? left : n - WIDE;
                __m128 rows[TALL];
                float square[TALL][WIDE];
                tile(x + r * row, x + s * row, row, d, rows);
                for (int i = 0; i < TALL; i++) {
                    _mm_storeu_ps(out + (r + i) * n + s, rows[i]);
                    _mm_storeu_ps(square[i], rows[i]);
                }
                for (int j = 0; j < WIDE; j++)
                    for (int i = 0; i < TALL; i++) out[(s + j) * n + r + i] = square[i][j];
            }
        }
    }
}

/* ---- Norms from pairs of Gram matrices -------------------------------------------------- */

typedef struct {
    const float *a, *b;
    float c;
    float *squares, *sizes;
    size_t n;
} Pairs;

#define BLOCK (8 * LANES)   /* summed in float32 before it is added to the double */

AVX2 static void pair_sums(const void *job, size_t from, size_t to)
{
    const Pairs *all = job;
    size_t n = all->n, numbers = n * n;
    __m256 c = _mm256_set1_ps(all->c);
    for (size_t g = from; g < to; g++) {
        const float *a = all->a + g * numbers, *b = all->b + g * numbers;
        __m256d total = _mm256_setzero_pd();
        size_t i = 0;
        for (; i + LANES <= numbers;) {
            __m256 block = _mm256_setzero_ps();
            size_t end = i + BLOCK < numbers ? i + BLOCK : numbers;
            for (; i + LANES <= end; i += LANES) {
                __m256 shifted = _mm256_add_ps(_mm256_loadu_ps(a + i), c);
                block = _mm256_fmadd_ps(shifted, _mm256_loadu_ps(b + i), block);
            }
            total = _mm256_add_pd(total, _mm256_cvtps_pd(_mm256_castps256_ps128(block)));
            total = _mm256_add_pd(total, _mm256_cvtps_pd(_mm256_extractf128_ps(block, 1)));
        }
        double lanes[4], size = 0;
        _mm256_storeu_pd(lanes, total);
        double square = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
        for (; i < numbers; i++) square += (a[i] + all->c) * b[i];
        for (size_t r = 0; r < numbers; r += n + 1) size += sqrtf((a[r] + all->c) * b[r]);
        all->squares[g] = (float)square;
        all->sizes[g] = (float)size;
    }
}

/* ---- LayerNorm -------------------------------------------------------------------------- */

typedef struct {
    const float *x, *b, *mean, *scale;
    float *weight, *bias;
    size_t n, d;
} Norms;

AVX2 static void norm_sums(const void *job, size_t from, size_t to)
{
    const Norms *all = job;
    size_t n = all->n, d = all->d;
    for (size_t g = from; g < to; g++) {
        float *restrict weight = all->weight + g * d, *restrict bias = all->bias + g * d;
        memset(weight, 0, d * sizeof *weight);
        memset(bias, 0, d * sizeof *bias);
        for (size_t r = g * n; r < (g + 1) * n; r++) {
            const float *restrict x = all->x + r * d, *restrict b = all->b + r * d;
            float mean = all->mean[r], scale = all->scale[r];
            for (size_t k = 0; k < d; k++) {
                weight[k] += (x[k] - mean) * scale * b[k];
                bias[k] += b[k];
            }
        }
    }
}

/* ---- Public functions ------------------------------------------------------------------- */

int sottovoce_products_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

void sottovoce_grams(
    const float *x, float *out, size_t groups, size_t n, size_t d, size_t group, size_t row,
    size_t threads)
{
    Grams job = {x, out, n, d, group, row};
    share_out(grams, &job, groups, threads);
}

void sottovoce_pair_sums(
    const float *a, const float *b, float c, float *squares, float *sizes,
    size_t groups, size_t n, size_t threads)
{
    Pairs job = {a, b, c, squares, sizes, n};
    share_out(pair_sums, &job, groups, threads);
}

void sottovoce_norm_sums(
    const float *x, const float *b, const float *mean, const float *scale,
    float *weight, float *bias, size_t groups, size_t n, size_t d, size_t threads)
{
    Norms job = {x, b, mean, scale, weight, bias, n, d};
    share_out(norm_sums, &job, groups, threads);
}
