// out[t, n] = steps[t] * sum over groups g of (scale[g, n] * sum_k q[n, k] * v[t, k] + offset[g, n] * sum_k v[t, k])
//             + bias[n],    offset = zero - 8 * scale: see int4_product.py.
//
// The sums within a group are exact; those over groups are float32 and in order. The matrix lies in blocks of four
// panels of 16 outputs, [out / 64][in / 32][4][320 bytes]; the last block may have fewer panels. A stretch of 320 bytes
// is the 16 pairs of scale and zero of a group, then four vectors, whose low nibbles are four columns of sixteen
// outputs and whose high nibbles are the next four.

#include "products.h"

namespace sureact {
namespace {

constexpr int kGroup = 32;  // columns that share a scale and a zero
constexpr int kQuads = kGroup / kQuad;
constexpr int kPairsBytes = kLanes * 4;
constexpr int kVectorBytes = 64;
constexpr long kStretch = kPairsBytes + kQuads / 2 * kVectorBytes;

struct Product {
    const uint8_t* blocks;
    const float* bias;
    float* out;
    long out_features, groups;
    const uint8_t* bytes;     // signed
    const float* group_sums;  // of the integers of each row, [groups][rows multiplied together]
    const float* steps;

    const char* start() const { return reinterpret_cast<const char*>(blocks); }

    template <int kRows>
    void multiply_block(long first_panel, int width, long first_row, const Ahead& ahead) const {
        if (width == 4) return multiply<kRows, 4>(first_panel, 0, width, first_row, ahead);
        int panel = 0;
        for (; panel + 2 <= width; panel += 2) multiply<kRows, 2>(first_panel, panel, width, first_row, ahead);
        if (panel < width) multiply<kRows, 1>(first_panel, panel, width, first_row, ahead);
    }

    // Multiplies `kWidth` panels, from `offset`, of the block of `width` panels that begins at `first_panel`.
    template <int kRows, int kWidth>
    void multiply(long first_panel, int offset, int width, long first_row, const Ahead& ahead) const {
        const uint8_t* stretch = blocks + (first_panel * groups + offset) * kStretch;
        const long step = ahead.bytes / groups;
        Floats total[kRows][kWidth];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < kWidth; j++) total[r][j] = _mm512_setzero_ps();
        for (long group = 0; group < groups; group++, stretch += width * kStretch) {
            for (long byte = 0; byte < step; byte += 64) fetch<1>(ahead.start + group * step + byte);
            add_group<kRows, kWidth>(stretch, group, first_row, total);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < kWidth; j++) {
                const long output = (first_panel + offset + j) * kLanes;
                Floats sum = _mm512_mul_ps(total[r][j], _mm512_set1_ps(steps[first_row + r]));
                if (bias != nullptr) sum = _mm512_add_ps(sum, _mm512_loadu_ps(bias + output));
                _mm512_storeu_ps(out + (first_row + r) * out_features + output, sum);
            }
    }

    template <int kRows, int kWidth>
    inline void add_group(const uint8_t* stretch, long group, long first_row, Floats (&total)[kRows][kWidth]) const {
        const uint8_t* rows = bytes + first_row * groups * kGroup * 2;
        Bytes high[kRows][kWidth], low[kRows][kWidth];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < kWidth; j++) high[r][j] = low[r][j] = _mm512_setzero_si512();
#pragma GCC unroll 8
        for (int vector = 0; vector < kQuads / 2; vector++) {
            const Bytes lowest = _mm512_set1_epi8(0x0f);
            Bytes nibbles[2][kWidth];
#pragma GCC unroll 8
            for (int j = 0; j < kWidth; j++) {
                const Bytes both = _mm512_loadu_si512(stretch + j * kStretch + kPairsBytes + vector * kVectorBytes);
                nibbles[0][j] = _mm512_and_si512(both, lowest);
                nibbles[1][j] = _mm512_and_si512(_mm512_srli_epi16(both, 4), lowest);
            }
#pragma GCC unroll 8
            for (int half = 0; half < 2; half++)
#pragma GCC unroll 8
                for (int r = 0; r < kRows; r++) {
                    const long quad = group * kQuads + 2 * vector + half;
                    const Quad* pair = reinterpret_cast<const Quad*>(rows + quad_offset(quad, r, kRows));
                    const Bytes highs = repeat(pair[0]), lows = repeat(pair[1]);
#pragma GCC unroll 8
                    for (int j = 0; j < kWidth; j++) {
                        add_products(high[r][j], nibbles[half][j], highs);
                        add_products(low[r][j], nibbles[half][j], lows);
                    }
                }
        }
#pragma GCC unroll 8
        for (int j = 0; j < kWidth; j++) {
            const Bytes pairs = _mm512_loadu_si512(stretch + j * kStretch);  // two bfloat16 each
            const Floats scale = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
            const Floats zero = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff0000)));
            const Floats offset = _mm512_fnmadd_ps(scale, _mm512_set1_ps(8.0f), zero);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; r++) {
                // At most 15 * 32 * 32639: exact as a float too.
                const Bytes sum = _mm512_add_epi32(_mm512_slli_epi32(high[r][j], 8), low[r][j]);
                total[r][j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, total[r][j]);
                const Floats row_sum = _mm512_set1_ps(group_sums[first_row * groups + group * kRows + r]);
                total[r][j] = _mm512_fmadd_ps(row_sum, offset, total[r][j]);
            }
        }
    }
};

// The sum of the integers of each group, which fits a float exactly.
void sum_groups(const uint8_t* bytes, long groups, const Place& place, float* sums) {
    for (long group = 0; group < groups; group++) {
        int high = 0, low = 0;
        for (int quad = 0; quad < kQuads; quad++) {
            const int8_t* pair =
                reinterpret_cast<const int8_t*>(bytes) + quad_offset(group * kQuads + quad, place.row, place.rows);
            for (int k = 0; k < kQuad; k++) {
                high += pair[k];
                low += pair[kQuad + k];
            }
        }
        sums[group * place.rows + place.row] = static_cast<float>(256 * high + low);
    }
}

}  // namespace
}  // namespace sureact

using namespace sureact;

extern "C" bool sureact_int4_product(const float* x, long rows, const uint8_t* blocks, const float* bias, float* out,
                                     long out_features, long in_features, int threads) {
    const long groups = in_features / kGroup;
    const Scratch<uint8_t> bytes(rows * in_features * 2);
    const Scratch<float> steps(rows), group_sums(rows * groups);
    if (!bytes || !steps || !group_sums) return false;
    const Product product{blocks, bias, out, out_features, groups, bytes, group_sums, steps};
    const auto quantize = [&](long row, const Place& place) {
        uint8_t* start = bytes + place.first_row * in_features * 2;
        steps[row] = quantize_row(x + row * in_features, in_features, start, place, 128);
        sum_groups(start, groups, place, group_sums + place.first_row * groups);
    };
    multiply_all(product, rows, out_features / kLanes, groups * kStretch, threads, quantize);
    return true;
}

// `nibbles` is [out_features, in_features / 2], the even column in the low half; `scales_and_zeros` is
// [in_features / 32, out_features, 2], bfloat16.
extern "C" void sureact_pack_int4(const uint8_t* nibbles, const uint16_t* scales_and_zeros, long out_features,
                                  long in_features, uint8_t* blocks, int threads) {
    const long groups = in_features / kGroup, num_panels = out_features / kLanes;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long panel = 0; panel < num_panels; panel++) {
        const long first = panel / kPanels * kPanels, width = panels_from(first, num_panels);
        uint8_t* stretch = blocks + (first * groups + panel - first) * kStretch;
        for (long group = 0; group < groups; group++, stretch += width * kStretch) {
            std::memcpy(stretch, scales_and_zeros + (group * out_features + panel * kLanes) * 2, kPairsBytes);
            for (int n = 0; n < kLanes; n++) {
                const uint8_t* row = nibbles + ((panel * kLanes + n) * in_features + group * kGroup) / 2;
                for (int vector = 0; vector < kQuads / 2; vector++, row += kQuad)
                    for (int k = 0; k < kQuad; k++) {
                        const int shift = k % 2 * 4, first_quad = row[k / 2] >> shift & 15,
                                  next = row[2 + k / 2] >> shift & 15;
                        stretch[kPairsBytes + vector * kVectorBytes + n * kQuad + k] =
                            static_cast<uint8_t>(next << 4 | first_quad);
                    }
            }
        }
    }
}
