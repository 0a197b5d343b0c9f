// out[t, n] = steps[t] * (256 * s(high) + s(low)) + bias[n], s(i) = float(i) * scales[n]: see int8_product.py.
//
// The matrix lies in blocks of four panels of 16 outputs, [out / 64][in / 4][4][16][4]; the last block may have fewer
// panels. One vector holds four columns of sixteen outputs, so that a byte product adds into sixteen sums and none must
// be added up across lanes; and all is read in one stretch from end to end.

#include "products.h"

namespace sureact {
namespace {

constexpr int kVectorBytes = kLanes * kQuad;

struct Product {
    const int8_t* blocks;
    const int32_t* sums;  // 128 times the sum of each output's row: what the zero point of the bytes adds
    const float* scales;
    const float* bias;
    float* out;
    long out_features, quads;
    const uint8_t* bytes;
    const float* steps;

    const char* start() const { return reinterpret_cast<const char*>(blocks); }

    template <int kRows>
    void multiply_block(long first_panel, int width, long first_row, const Ahead& ahead) const {
        const long step = ahead.bytes / quads;  // bytes that are fetched with each four columns
        switch (width) {
            case 4:
                if (step <= 64) return multiply<kRows, 4, 1>(first_panel, first_row, ahead.start, step);
                if (step <= 128) return multiply<kRows, 4, 2>(first_panel, first_row, ahead.start, step);
                return multiply<kRows, 4, 4>(first_panel, first_row, ahead.start, step);
            case 3: return multiply<kRows, 3, 1>(first_panel, first_row, ahead.start, step);
            case 2: return multiply<kRows, 2, 1>(first_panel, first_row, ahead.start, step);
            case 1: return multiply<kRows, 1, 1>(first_panel, first_row, ahead.start, step);
        }
    }

    template <int kRows, int kWidth, int kLines>
    void multiply(long first_panel, long first_row, const char* ahead, long step) const {
        const int8_t* vectors = blocks + first_panel * quads * kVectorBytes;
        const uint8_t* rows = bytes + first_row * quads * 2 * kQuad;
        Bytes high[kRows][kWidth], low[kRows][kWidth];
#pragma GCC unroll 8
        for (int j = 0; j < kWidth; j++) {
            const Bytes sum = _mm512_loadu_si512(sums + (first_panel + j) * kLanes);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; r++) high[r][j] = low[r][j] = _mm512_sub_epi32(_mm512_setzero_si512(), sum);
        }
        for (long quad = 0; quad < quads; quad++, vectors += kWidth * kVectorBytes, ahead += step) {
            fetch<kLines>(ahead);
            Bytes weights[kWidth];
#pragma GCC unroll 8
            for (int j = 0; j < kWidth; j++) weights[j] = _mm512_loadu_si512(vectors + j * kVectorBytes);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; r++) {
                const Quad* pair = reinterpret_cast<const Quad*>(rows + quad_offset(quad, r, kRows));
                const Bytes highs = repeat(pair[0]), lows = repeat(pair[1]);
#pragma GCC unroll 8
                for (int j = 0; j < kWidth; j++) {
                    add_products(high[r][j], highs, weights[j]);
                    add_products(low[r][j], lows, weights[j]);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
            for (int j = 0; j < kWidth; j++) store(high[r][j], low[r][j], (first_panel + j) * kLanes, first_row + r);
    }

    void store(Bytes high, Bytes low, long output, long row) const {
        const Floats scale = _mm512_loadu_ps(scales + output);
        const Floats large = _mm512_mul_ps(_mm512_cvtepi32_ps(high), scale);
        const Floats small = _mm512_mul_ps(_mm512_cvtepi32_ps(low), scale);
        Floats sum = _mm512_add_ps(small, _mm512_mul_ps(large, _mm512_set1_ps(256.0f)));
        sum = _mm512_mul_ps(sum, _mm512_set1_ps(steps[row]));
        if (bias != nullptr) sum = _mm512_add_ps(sum, _mm512_loadu_ps(bias + output));
        _mm512_storeu_ps(out + row * out_features + output, sum);
    }
};

}  // namespace
}  // namespace sureact

using namespace sureact;

extern "C" bool sureact_int8_product(const float* x, long rows, const int8_t* blocks, const int32_t* sums,
                                     const float* scales, const float* bias, float* out, long out_features,
                                     long in_features, int threads) {
    const Scratch<uint8_t> bytes(rows * in_features * 2);
    const Scratch<float> steps(rows);
    if (!bytes || !steps) return false;
    const Product product{blocks, sums, scales, bias, out, out_features, in_features / kQuad, bytes, steps};
    const auto quantize = [&](long row, const Place& place) {
        uint8_t* start = bytes + place.first_row * in_features * 2;
        steps[row] = quantize_row(x + row * in_features, in_features, start, place, 0);
    };
    multiply_all(product, rows, out_features / kLanes, kLanes * in_features, threads, quantize);
    return true;
}

extern "C" void sureact_pack_int8(const int8_t* weight, long out_features, long in_features, int8_t* blocks,
                                  int32_t* sums, int threads) {
    const long num_panels = out_features / kLanes;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (long panel = 0; panel < num_panels; panel++) {
        const int8_t* source = weight + panel * kLanes * in_features;
        const long first = panel / kPanels * kPanels, width = panels_from(first, num_panels);
        int8_t* target = blocks + first * kLanes * in_features + (panel - first) * kVectorBytes;
        int32_t total[kLanes] = {};
        for (long quad = 0; quad < in_features / kQuad; quad++, target += width * kVectorBytes)
            for (int n = 0; n < kLanes; n++) {
                std::memcpy(target + n * kQuad, source + n * in_features + quad * kQuad, kQuad);
                for (int k = 0; k < kQuad; k++) total[n] += target[n * kQuad + k];
            }
        for (int n = 0; n < kLanes; n++) sums[panel * kLanes + n] = 128 * total[n];
    }
}
