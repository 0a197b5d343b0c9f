// The root-mean-square normalization of one row.
#pragma once

#include <cmath>

#include "vectors.h"

namespace sureact {

// `size` is a multiple of 16; `out` may be `x`.
inline void normalize(const float* x, const float* weight, float eps, long size, float* out) {
    Floats even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();  // two sums, since one would wait for itself
    long d = 0;
    for (; d + 2 * kLanes <= size; d += 2 * kLanes) {
        const Floats first = _mm512_loadu_ps(x + d), second = _mm512_loadu_ps(x + d + kLanes);
        even = _mm512_fmadd_ps(first, first, even);
        odd = _mm512_fmadd_ps(second, second, odd);
    }
    if (d < size) even = _mm512_fmadd_ps(_mm512_loadu_ps(x + d), _mm512_loadu_ps(x + d), even);
    const float mean = sum(_mm512_add_ps(even, odd)) / static_cast<float>(size);
    const Floats scale = _mm512_set1_ps(1.0f / std::sqrt(mean + eps));
    for (d = 0; d < size; d += kLanes)
        _mm512_storeu_ps(out + d,
                         _mm512_mul_ps(_mm512_mul_ps(_mm512_loadu_ps(x + d), scale), _mm512_loadu_ps(weight + d)));
}

}  // namespace sureact
