// Attention over the paged cache: see paged_attention.py.
//
// Four rows (a query and one of its heads each) are computed together, since they read the same keys and values. A
// row's result is made block by block of the cache: scores, their largest, exponentials, sums; then joined with that of
// the blocks before. Every row is computed by the same operations in the same order, whatever rows it stands beside; a
// key that it does not see counts as zero.

#include <omp.h>

#include "vectors.h"

namespace sureact {
namespace {

constexpr int kRows = 4;     // computed together
constexpr int kQueries = 8;  // of one sequence, with all heads of a group: what a thread takes at once
constexpr int kChunk = 4;    // vectors of the output whose sums are kept in registers
constexpr float kInfinity = __builtin_inff();

struct Attention {
    const float* q;                 // [num_tokens, q_heads, size]
    const uint16_t *keys, *values;  // [num_blocks, block_size, kv_heads, size], bfloat16
    const int64_t *tables, *first_rows, *context_lens;
    float scale;
    float* out;  // like q
    long num_seqs, max_blocks, block_size, q_heads, kv_heads, size;

    long group() const { return q_heads / kv_heads; }
};

// Some queries of one sequence with one key head.
struct Tile {
    long seq, head, first_query, num_queries;
    long num_rows(const Attention& a) const { return num_queries * a.group(); }
    // The position in its sequence of the query of a row.
    long position(const Attention& a, long row) const {
        return a.context_lens[seq] - (a.first_rows[seq + 1] - a.first_rows[seq]) + first_query + row / a.group();
    }
    long last_block(const Attention& a) const { return position(a, num_rows(a) - 1) / a.block_size; }
    long offset(const Attention& a, long row) const {
        const long token = a.first_rows[seq] + first_query + row / a.group();
        return (token * a.q_heads + head * a.group() + row % a.group()) * a.size;
    }
};

// What some keys say for the rows of a tile.
struct Part {
    float* peak;   // [rows]: the largest score
    float* total;  // [rows]: sum of exp(score - peak)
    float* mean;   // [rows, size]: sum of exp(score - peak) * value

    static long num_floats(long rows, long size) { return rows * (size + 2); }
    static Part at(float* memory, long rows) { return {memory, memory + rows, memory + 2 * rows}; }
};

inline long padded(long rows) { return (rows + kRows - 1) / kRows * kRows; }

// The sums over the lanes of four vectors.
inline __m128 sums(Floats a, Floats b, Floats c, Floats d) {
    const Floats ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const Floats cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const Floats low = _mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(1, 0, 1, 0));
    const Floats high = _mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 2, 3, 2));
    const Floats all = _mm512_add_ps(low, high);
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
}

// Scores of four rows with `count` keys, [count, 4].
template <int kVectors>
void score(const float* q, const uint16_t* keys, long stride, long count, long size, float* scores) {
    const long vectors = kVectors ? kVectors : size / kLanes;
    for (long t = 0; t < count; t++, keys += stride) {
        Floats dot[kRows];
        for (int r = 0; r < kRows; r++) dot[r] = _mm512_setzero_ps();
#pragma GCC unroll 8
        for (long v = 0; v < vectors; v++) {
            const Floats key = widen(keys + v * kLanes);
#pragma GCC unroll 4
            for (int r = 0; r < kRows; r++)
                dot[r] = _mm512_fmadd_ps(_mm512_loadu_ps(q + r * size + v * kLanes), key, dot[r]);
        }
        _mm_storeu_ps(scores + t * kRows, sums(dot[0], dot[1], dot[2], dot[3]));
    }
}

// Adds up values by weights `[count, 4]` for `kWidth` vectors of four rows.
template <int kWidth>
void weigh(const float* weights, const uint16_t* values, long stride, long count, long size, float* mean) {
    Floats sum[kRows][kWidth];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < kWidth; v++) sum[r][v] = _mm512_setzero_ps();
    for (long t = 0; t < count; t++, values += stride) {
        Floats value[kWidth];
#pragma GCC unroll 4
        for (int v = 0; v < kWidth; v++) value[v] = widen(values + v * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; r++) {
            const Floats weight = _mm512_set1_ps(weights[t * kRows + r]);
#pragma GCC unroll 4
            for (int v = 0; v < kWidth; v++) sum[r][v] = _mm512_fmadd_ps(weight, value[v], sum[r][v]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < kWidth; v++) _mm512_storeu_ps(mean + r * size + v * kLanes, sum[r][v]);
}

// Turns scores `[count, 4]` into exponentials in place and writes their largest and their sums, four each. `count` is a
// multiple of four; hidden scores are -infinity.
void exponentiate(float* scores, long count, float* peak, float* total) {
    Floats most = _mm512_set1_ps(-kInfinity);
    for (long i = 0; i < count * kRows; i += kLanes) most = _mm512_max_ps(most, _mm512_loadu_ps(scores + i));
    const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(most), _mm512_extractf32x8_ps(most, 1));
    const __m128 row_peak = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    _mm_storeu_ps(peak, row_peak);
    // A row that sees none of the keys: all its exponentials shall be 0, and -infinity less itself is NaN.
    const __m128 is_blind = _mm_cmpeq_ps(row_peak, _mm_set1_ps(-kInfinity));
    const Floats shift = _mm512_broadcast_f32x4(_mm_andnot_ps(is_blind, row_peak));
    Floats sum = _mm512_setzero_ps();
    for (long i = 0; i < count * kRows; i += kLanes) {
        const Floats weight = exp(_mm512_sub_ps(_mm512_loadu_ps(scores + i), shift));
        _mm512_storeu_ps(scores + i, weight);
        sum = _mm512_add_ps(sum, weight);
    }
    const __m256 sum_half = _mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1));
    _mm_storeu_ps(total, _mm_add_ps(_mm256_castps256_ps128(sum_half), _mm256_extractf128_ps(sum_half, 1)));
}

// Computes what block `block` of the table says for all rows of a tile. `q` is scaled and padded to four rows.
template <int kVectors>
void attend_block(const Attention& a, const Tile& tile, long block, const float* q, float* scores, const Part& part) {
    const long stride = a.kv_heads * a.size, num_rows = tile.num_rows(a);
    const long start = a.tables[tile.seq * a.max_blocks + block] * a.block_size * stride + tile.head * a.size;
    for (long row = 0; row < num_rows; row += kRows) {
        const auto visible = [&](long r) {
            const long count = tile.position(a, r < num_rows ? r : num_rows - 1) + 1 - block * a.block_size;
            return count < 0 ? 0 : count < a.block_size ? count : a.block_size;
        };
        const long count = visible(row + kRows - 1), count_padded = padded(count);
        score<kVectors>(q + row * a.size, a.keys + start, stride, count, a.size, scores);
        for (long t = visible(row); t < count_padded; t++)
            for (int r = 0; r < kRows; r++)
                if (t >= visible(row + r)) scores[t * kRows + r] = -kInfinity;
        exponentiate(scores, count_padded, part.peak + row, part.total + row);
        long v = 0;
        for (; v + kChunk <= a.size / kLanes; v += kChunk)
            weigh<kChunk>(scores, a.values + start + v * kLanes, stride, count, a.size,
                          part.mean + row * a.size + v * kLanes);
        for (; v < a.size / kLanes; v++)
            weigh<1>(scores, a.values + start + v * kLanes, stride, count, a.size,
                     part.mean + row * a.size + v * kLanes);
    }
}

// Joins what the next block says to what those before it said.
void join(const Part& whole, const Part& next, long rows, long size) {
    for (long row = 0; row < rows; row++) {
        const float peak = whole.peak[row] > next.peak[row] ? whole.peak[row] : next.peak[row];
        const Floats peaks = _mm512_set1_ps(peak);
        const Floats kept = exp(_mm512_sub_ps(_mm512_set1_ps(whole.peak[row]), peaks));
        const Floats added = exp(_mm512_sub_ps(_mm512_set1_ps(next.peak[row]), peaks));
        const auto joined = [&](Floats old_sum, Floats new_sum) {
            return _mm512_fmadd_ps(new_sum, added, _mm512_mul_ps(old_sum, kept));
        };
        whole.peak[row] = peak;
        whole.total[row] = _mm512_cvtss_f32(joined(_mm512_set1_ps(whole.total[row]), _mm512_set1_ps(next.total[row])));
        for (long d = row * size; d < (row + 1) * size; d += kLanes)
            _mm512_storeu_ps(whole.mean + d, joined(_mm512_loadu_ps(whole.mean + d), _mm512_loadu_ps(next.mean + d)));
    }
}

void scale_queries(const Attention& a, const Tile& tile, float* q) {
    const long num_rows = tile.num_rows(a);
    for (long row = 0; row < padded(num_rows); row++) {
        const float* source = a.q + tile.offset(a, row < num_rows ? row : num_rows - 1);
        for (long d = 0; d < a.size; d += kLanes)
            _mm512_storeu_ps(q + row * a.size + d, _mm512_mul_ps(_mm512_loadu_ps(source + d), _mm512_set1_ps(a.scale)));
    }
}

void write(const Attention& a, const Tile& tile, const Part& whole) {
    for (long row = 0; row < tile.num_rows(a); row++) {
        float* target = a.out + tile.offset(a, row);
        for (long d = 0; d < a.size; d += kLanes)
            _mm512_storeu_ps(target + d, _mm512_div_ps(_mm512_loadu_ps(whole.mean + row * a.size + d),
                                                       _mm512_set1_ps(whole.total[row])));
    }
}

void attend_part(const Attention& a, const Tile& tile, long block, const float* q, float* scores, const Part& part) {
    if (a.size == 64) return attend_block<4>(a, tile, block, q, scores, part);
    if (a.size == 128) return attend_block<8>(a, tile, block, q, scores, part);
    attend_block<0>(a, tile, block, q, scores, part);
}

// The tiles of all sequences, one after another.
long count_tiles(const Attention& a, long seq) {
    return (a.first_rows[seq + 1] - a.first_rows[seq] + kQueries - 1) / kQueries * a.kv_heads;
}

Tile find_tile(const Attention& a, long index) {
    long seq = 0;
    for (; index >= count_tiles(a, seq); seq++) index -= count_tiles(a, seq);
    const long num_queries = a.first_rows[seq + 1] - a.first_rows[seq], first = index / a.kv_heads * kQueries;
    return {seq, index % a.kv_heads, first, num_queries - first < kQueries ? num_queries - first : kQueries};
}

}  // namespace
}  // namespace sureact

using namespace sureact;

extern "C" bool sureact_paged_attention(const float* q, const uint16_t* keys, const uint16_t* values,
                                        const int64_t* tables, const int64_t* first_rows, const int64_t* context_lens,
                                        float scale, float* out, long num_seqs, long max_blocks, long block_size,
                                        long q_heads, long kv_heads, long size, int threads) {
    const Attention a{q,   keys,     values,     tables,     first_rows, context_lens, scale,
                      out, num_seqs, max_blocks, block_size, q_heads,    kv_heads,     size};
    long num_tiles = 0;
    for (long seq = 0; seq < num_seqs; seq++) num_tiles += count_tiles(a, seq);
    const long rows = padded(kQueries * a.group()), part_floats = Part::num_floats(rows, size);
    const long query_floats = rows * size, score_floats = padded(block_size) * kRows;
    const long floats_of_thread = (query_floats + score_floats + 2 * part_floats + kLanes - 1) / kLanes * kLanes;
    const Scratch<float> scratch(threads * floats_of_thread);
    if (!scratch) return false;
#pragma omp parallel num_threads(threads)
    {
        float* const scaled = scratch + omp_get_thread_num() * floats_of_thread;
        float *const scores = scaled + query_floats, *const parts = scores + score_floats;
        const Part whole = Part::at(parts, rows), next = Part::at(parts + part_floats, rows);
#pragma omp for schedule(dynamic, 1)
        for (long index = 0; index < num_tiles; index++) {
            const Tile tile = find_tile(a, index);
            scale_queries(a, tile, scaled);
            attend_part(a, tile, 0, scaled, scores, whole);
            for (long block = 1; block <= tile.last_block(a); block++) {
                attend_part(a, tile, block, scaled, scores, next);
                join(whole, next, tile.num_rows(a), size);
            }
            write(a, tile, whole);
        }
    }
    return true;
}
