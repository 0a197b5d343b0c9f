// What the products with int8 and int4 matrices share: rows of floats as 16-bit integers in two bytes, as
// `quantize_rows` of int8_product.py has it, and how the work is shared out.
#pragma once

#include "vectors.h"

namespace sureact {

constexpr int kQuad = 4;       // columns that one 32-bit lane of the byte product takes
constexpr int kPanels = 4;     // panels of 16 outputs in a block of a matrix
constexpr int kBlockRows = 2;  // rows multiplied together; with three, gcc 12 has too few registers for their sums

constexpr long kNearBytes = 4096;  // how far ahead a block is fetched that is read once

constexpr float kLevels = 32639.0f;
constexpr float kLeastAmax = 1e-30f;
constexpr float kZeroStep = 128 * 257 + 0.5f;

inline long panels_from(long first, long num_panels) {
    return num_panels - first < kPanels ? num_panels - first : kPanels;
}

// What a pass over a block of a matrix fetches on its way: `bytes` from `start`, evenly. The processor's own
// prefetching stops at each page and starts slowly, and knows nothing of the next block: while many rows are multiplied
// with one block, the next one comes from memory.
struct Ahead {
    const char* start;
    long bytes;
};

template <int kLines>
inline void fetch(const char* start) {
#pragma GCC unroll 8
    for (int line = 0; line < kLines; line++) _mm_prefetch(start + line * 64, _MM_HINT_T0);
}

// A row within the rows that are multiplied together.
struct Place {
    long first_row;
    int row, rows;
};

// Where the bytes of a row stand: [in_features / 4][rows][high, low][4].
inline long quad_offset(long quad, int row, int rows) { return (quad * rows + row) * 2 * kQuad; }

// Returns the row's step; NaN where the row holds NaN or infinity. `flip` is 0 for bytes with 128 as their zero, 128
// for signed ones.
inline float quantize_row(const float* x, long in_features, uint8_t* bytes, const Place& place, int flip) {
    Floats amax_lanes = _mm512_set1_ps(kLeastAmax);
    __mmask16 is_finite = 0xffff;
    for (long k = 0; k < in_features; k += kLanes) {
        const Floats magnitude = _mm512_abs_ps(_mm512_loadu_ps(x + k));
        is_finite &= _mm512_cmp_ps_mask(magnitude, _mm512_set1_ps(3.4028235e38f), _CMP_LE_OQ);
        amax_lanes = _mm512_max_ps(amax_lanes, magnitude);
    }
    const float amax = _mm512_reduce_max_ps(amax_lanes);
    const Floats inverse = _mm512_set1_ps(is_finite == 0xffff ? kLevels / amax : 0.0f);
    const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
    for (long k = 0; k < in_features; k += kLanes) {
        Floats shifted = _mm512_mul_ps(_mm512_loadu_ps(x + k), inverse);
        shifted = _mm512_add_ps(shifted, _mm512_set1_ps(kZeroStep));
        const Bytes counts = _mm512_cvttps_epi32(shifted);
        const __m128i low = _mm_xor_si128(_mm512_cvtepi32_epi8(counts), flips);
        const __m128i high = _mm_xor_si128(_mm512_cvtepi32_epi8(_mm512_srli_epi32(counts, 8)), flips);
        const __m128i pairs[2] = {_mm_unpacklo_epi32(high, low), _mm_unpackhi_epi32(high, low)};
        for (int half = 0; half < 2; half++) {
            const long quad = k / kQuad + 2 * half;
            _mm_storel_epi64(reinterpret_cast<__m128i*>(bytes + quad_offset(quad, place.row, place.rows)), pairs[half]);
            _mm_storel_epi64(reinterpret_cast<__m128i*>(bytes + quad_offset(quad + 1, place.row, place.rows)),
                             _mm_unpackhi_epi64(pairs[half], pairs[half]));
        }
    }
    return is_finite == 0xffff ? amax * (1.0f / kLevels) : __builtin_nanf("");
}

// Quantizes all rows, then multiplies block after block of the matrix with all of them. With one or two rows, which
// wait for the memory, threads take blocks as they come free, in turns of at least 64 KiB; with more, each has a
// stretch.
template <typename Product, typename Quantize>
void multiply_all(const Product& product, long rows, long num_panels, long panel_bytes, int threads,
                  Quantize quantize) {
    const long num_blocks = (num_panels + kPanels - 1) / kPanels, block_bytes = kPanels * panel_bytes;
    const auto quantize_one = [&](long row) {
        const long first = row / kBlockRows * kBlockRows;
        quantize(row, Place{first, static_cast<int>(row - first), rows - first < kBlockRows ? 1 : kBlockRows});
    };
    const auto multiply_one = [&](long block) {
        const long first = block * kPanels, num_passes = (rows + kBlockRows - 1) / kBlockRows;
        const int width = static_cast<int>(panels_from(first, num_panels));
        const char* start = product.start() + block * block_bytes;
        for (long pass = 0; pass < num_passes; pass++) {
            const long row = pass * kBlockRows, bytes = block_bytes / num_passes;
            const Ahead ahead{num_passes == 1 ? start + kNearBytes : start + block_bytes + pass * bytes, bytes};
            if (rows - row >= kBlockRows)
                product.template multiply_block<kBlockRows>(first, width, row, ahead);
            else
                product.template multiply_block<1>(first, width, row, ahead);
        }
    };
    if (rows <= kBlockRows) {
        for (long row = 0; row < rows; row++) quantize_one(row);
#pragma omp parallel for schedule(dynamic, 1 + (1 << 16) / block_bytes) num_threads(threads)
        for (long block = 0; block < num_blocks; block++) multiply_one(block);
        return;
    }
#pragma omp parallel num_threads(threads)
    {
#pragma omp for schedule(static)
        for (long row = 0; row < rows; row++) quantize_one(row);
#pragma omp for schedule(static)
        for (long block = 0; block < num_blocks; block++) multiply_one(block);
    }
}

}  // namespace sureact
