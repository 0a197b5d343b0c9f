// out[t, d] = silu(gate_up[t, d]) * gate_up[t, size + d]: see silu_and_mul.py.

#include "vectors.h"

using namespace sureact;

extern "C" void sureact_silu_and_mul(const float* gate_up, float* out, long rows, long size, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * size > kSerialValues)
    for (long row = 0; row < rows; row++) {
        const float* gate = gate_up + row * 2 * size;
        for (long d = 0; d < size; d += kLanes) {
            const Floats x = _mm512_loadu_ps(gate + d);
            const Floats one = _mm512_set1_ps(1.0f);
            const Floats divisor = _mm512_add_ps(one, exp(_mm512_sub_ps(_mm512_setzero_ps(), x)));
            const Floats product = _mm512_mul_ps(_mm512_div_ps(x, divisor), _mm512_loadu_ps(gate + size + d));
            _mm512_storeu_ps(out + row * size + d, product);
        }
    }
}
