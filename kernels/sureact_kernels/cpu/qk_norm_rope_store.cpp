// Normalizes (if asked) and rotates queries and keys, and writes keys and values into the paged cache: see
// qk_norm_rope_store.py.

#include "norms.h"

namespace sureact {
namespace {

// `sin` has its first half negated. `size` is a multiple of 32; `out` is not `x`.
void rotate(const float* x, const float* cos, const float* sin, long size, float* out) {
    const long half = size / 2;
    for (long d = 0; d < size; d += kLanes) {
        const Floats other = _mm512_loadu_ps(x + (d < half ? d + half : d - half));
        const Floats swapped = _mm512_mul_ps(other, _mm512_loadu_ps(sin + d));
        const Floats kept = _mm512_mul_ps(_mm512_loadu_ps(x + d), _mm512_loadu_ps(cos + d));
        _mm512_storeu_ps(out + d, _mm512_add_ps(kept, swapped));
    }
}

void store(const float* x, long size, uint16_t* out) {
    for (long d = 0; d < size; d += kLanes) narrow(out + d, _mm512_loadu_ps(x + d));
}

constexpr long kMostDimensions = 512;

}  // namespace
}  // namespace sureact

using namespace sureact;

extern "C" void sureact_qk_norm_rope_store(const float* qkv, const float* cos, const float* sin, uint16_t* keys,
                                           uint16_t* values, const int64_t* slots, const float* q_weight,
                                           const float* k_weight, float eps, float* q_out, long rows, long q_heads,
                                           long kv_heads, long size, int threads) {
#pragma omp parallel for schedule(static) \
    num_threads(threads) if (rows * (q_heads + 2 * kv_heads) * size > kSerialValues)
    for (long row = 0; row < rows; row++) {
        alignas(64) float normed[kMostDimensions], rotated[kMostDimensions];
        const float* head = qkv + row * (q_heads + 2 * kv_heads) * size;
        for (long h = 0; h < q_heads + kv_heads; h++, head += size) {
            const bool is_query = h < q_heads;
            const float* x = head;
            if (q_weight != nullptr) {
                normalize(head, is_query ? q_weight : k_weight, eps, size, normed);
                x = normed;
            }
            float* out = is_query ? q_out + (row * q_heads + h) * size : rotated;
            rotate(x, cos + row * size, sin + row * size, size, out);
            if (!is_query) store(rotated, size, keys + (slots[row] * kv_heads + h - q_heads) * size);
        }
        for (long h = 0; h < kv_heads; h++, head += size)
            store(head, size, values + (slots[row] * kv_heads + h) * size);
    }
}
