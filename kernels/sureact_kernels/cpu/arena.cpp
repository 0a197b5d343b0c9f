// Memory that is read from end to end, over and over: see arena.py.

#include <sys/mman.h>

#include <cstdint>

extern "C" void sureact_ask_for_large_pages(void* memory, long size, int threads) {
    (void)threads;
    constexpr uintptr_t kPage = 4096;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + kPage - 1) / kPage * kPage;
    const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + size) / kPage * kPage;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}
