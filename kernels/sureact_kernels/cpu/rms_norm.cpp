// out[t, d] = x[t, d] / sqrt(mean_d(x[t] ** 2) + eps) * weight[d], for x or for x + residual: see rms_norm.py.

#include "norms.h"

using namespace sureact;

extern "C" void sureact_rms_norm(const float* x, const float* weight, float eps, float* out, long rows, long size,
                                 int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * size > kSerialValues)
    for (long row = 0; row < rows; row++) normalize(x + row * size, weight, eps, size, out + row * size);
}

extern "C" void sureact_add_rms_norm(const float* x, const float* residual, const float* weight, float eps, float* out,
                                     float* total, long rows, long size, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * size > kSerialValues)
    for (long row = 0; row < rows; row++) {
        float* sum = total + row * size;
        for (long d = 0; d < size; d += kLanes)
            _mm512_storeu_ps(sum + d, _mm512_add_ps(_mm512_loadu_ps(residual + row * size + d),
                                                    _mm512_loadu_ps(x + row * size + d)));
        normalize(sum, weight, eps, size, out + row * size);
    }
}
