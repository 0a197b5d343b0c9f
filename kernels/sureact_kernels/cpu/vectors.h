// What the CPU kernels share: sixteen floats at a time, in one order of operations wherever a value stands.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace sureact {

constexpr int kLanes = 16;
constexpr long kSerialValues = 1 << 15;  // up to which waking a second thread costs more than it saves

using Floats = __m512;
using Bytes = __m512i;  // also sixteen int32

inline Floats widen(const uint16_t* bfloat16) {
    const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bfloat16));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

// Rounds to nearest, ties to even, as torch does; NaN stays NaN.
inline void narrow(uint16_t* bfloat16, Floats x) {
    const Bytes bits = _mm512_castps_si512(x);
    const Bytes is_odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    Bytes rounded = _mm512_add_epi32(bits, _mm512_add_epi32(is_odd, _mm512_set1_epi32(0x7fff)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    rounded = _mm512_mask_mov_epi32(rounded, is_nan, _mm512_set1_epi32(0x7fc00000));
    const __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(bfloat16), half);
}

// Adds the lanes: halves, then quarters, and so on.
inline float sum(Floats x) {
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
}

// e^x to about one unit in the last place; 0 below -87.3, infinity above 88.7, NaN for NaN. Exactly 1 at 0.
// Source: the reduction of Cody and Waite with a Taylor polynomial of degree 7 on [-ln(2) / 2, ln(2) / 2].
inline Floats exp(Floats x) {
    const Floats log2e = _mm512_set1_ps(1.44269504f);
    const Floats n = _mm512_roundscale_ps(_mm512_mul_ps(x, log2e), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    Floats r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    Floats p = _mm512_set1_ps(1.0f / 5040);
    constexpr float kInverses[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    for (const float inverse : kInverses) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(inverse));
    p = _mm512_scalef_ps(p, n);
    const __mmask16 is_tiny = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_LT_OQ);
    p = _mm512_mask_mov_ps(p, is_tiny, _mm512_setzero_ps());
    const __mmask16 is_huge = _mm512_cmp_ps_mask(x, _mm512_set1_ps(88.7f), _CMP_GT_OQ);
    return _mm512_mask_mov_ps(p, is_huge, _mm512_set1_ps(__builtin_inff()));
}

// The bytes of four columns.
using Quad = int32_t __attribute__((may_alias));

// In every lane. Like the product below, in assembly only because the order must stay as written: else the compiler
// (gcc 12) collects all loads in front, runs out of registers and keeps the sums in memory.
inline Bytes repeat(const Quad& bytes) {
    Bytes all;
    asm volatile("vpbroadcastd %1, %0" : "=v"(all) : "m"(bytes));
    return all;
}

// Adds to each sum the products of its four unsigned and four signed bytes.
inline void add_products(Bytes& sums, Bytes unsigned_bytes, Bytes signed_bytes) {
    asm volatile("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(unsigned_bytes), "v"(signed_bytes));
}

// Memory for the length of one call, on a boundary of the cache's lines; null if there is none left.
template <typename T>
class Scratch {
   public:
    explicit Scratch(long count)
        : data_(static_cast<T*>(std::aligned_alloc(64, (count * static_cast<long>(sizeof(T)) + 63) / 64 * 64))) {}
    ~Scratch() { std::free(data_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    operator T*() const { return data_; }

   private:
    T* data_;
};

}  // namespace sureact
