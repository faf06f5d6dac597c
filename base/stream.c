/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stream.h"

#include <stdint.h>
#include <string.h>

#include "include/priv/bits.h"

#ifdef __x86_64__
#include <immintrin.h>

/* One turn of each loop, and how far ahead of it lines are asked for: in its own block, and from its last part on in
   the next one's head. The hardware prefetcher starts anew at each page, and between two blocks there is bookkeeping
   during which memory would else be idle. */
#define TURN 256u
#define AHEAD 4096u

#define ASK(p)                                                                                                         \
  do {                                                                                                                 \
    _mm_prefetch((p), _MM_HINT_T0);                                                                                    \
    _mm_prefetch((p) + 64, _MM_HINT_T0);                                                                               \
    _mm_prefetch((p) + 128, _MM_HINT_T0);                                                                              \
    _mm_prefetch((p) + 192, _MM_HINT_T0);                                                                              \
  } while (0)

/* What to ask for in the turn at i of n; without a next block that is what is there already. */
static inline const char *ahead_of(const char *s, size_t i, size_t n, const char *next)
{
  size_t at = i + MIN_OF((size_t)AHEAD, n);
  return at < n ? s + at : next ? next + (at - n) : s + i;
}

/* d is 64-byte aligned and n a multiple of TURN in all of these. */
__attribute__((target("avx512f"))) static void nt_avx512(char *d, const char *s, size_t n, const char *next)
{
  for (size_t i = 0; i < n; i += TURN) {
    __m512i a = _mm512_loadu_si512(s + i), b = _mm512_loadu_si512(s + i + 64);
    __m512i c = _mm512_loadu_si512(s + i + 128), e = _mm512_loadu_si512(s + i + 192);
    ASK(ahead_of(s, i, n, next));
    _mm512_stream_si512((void *)(d + i), a);
    _mm512_stream_si512((void *)(d + i + 64), b);
    _mm512_stream_si512((void *)(d + i + 128), c);
    _mm512_stream_si512((void *)(d + i + 192), e);
  }
}
__attribute__((target("avx2"))) static void nt_avx2(char *d, const char *s, size_t n, const char *next)
{
  for (size_t i = 0; i < n; i += TURN) {
    __m256i v[8];
    for (unsigned k = 0; k < 8; k++)
      v[k] = _mm256_loadu_si256((const void *)(s + i + 32 * k));
    ASK(ahead_of(s, i, n, next));
    for (unsigned k = 0; k < 8; k++)
      _mm256_stream_si256((void *)(d + i + 32 * k), v[k]);
  }
}
/* What is left of a turn, line by line: only a partial line is stored through the cache. */
__attribute__((target("avx2"))) static size_t nt_lines(char *d, const char *s, size_t n)
{
  size_t i = 0;
  for (; i + CACHE_LINE <= n; i += CACHE_LINE) {
    __m256i a = _mm256_loadu_si256((const void *)(s + i)), b = _mm256_loadu_si256((const void *)(s + i + 32));
    _mm256_stream_si256((void *)(d + i), a);
    _mm256_stream_si256((void *)(d + i + 32), b);
  }
  return i;
}
__attribute__((target("avx2"))) static void cached_avx2(char *d, const char *s, size_t n)
{
  for (size_t i = 0; i < n; i += TURN) {
    __m256i v[8];
    for (unsigned k = 0; k < 8; k++)
      v[k] = _mm256_loadu_si256((const void *)(s + i + 32 * k));
    for (unsigned k = 0; k < 8; k++)
      _mm256_storeu_si256((void *)(d + i + 32 * k), v[k]);
  }
}
__attribute__((target("avx2"))) static void zero_avx2(char *d, size_t n)
{
  const __m256i z = _mm256_setzero_si256();
  for (size_t i = 0; i < n; i += 32)
    _mm256_stream_si256((void *)(d + i), z);
}

bool stream_available(void)
{
  return __builtin_cpu_supports("avx2");
}

/* Bytes until d is on a cache line. */
static size_t head_of(const char *d, size_t n)
{
  size_t h = (size_t)(-(uintptr_t)d & (CACHE_LINE - 1));
  return MIN_OF(h, n);
}

void stream_copy_cached(void *dst, const void *src, size_t n)
{
  char *d = dst;
  const char *s = src;
  if (n >= TURN && stream_available()) {
    size_t body = n & ~(size_t)(TURN - 1);
    cached_avx2(d, s, body);
    d += body;
    s += body;
    n -= body;
  }
  memcpy(d, s, n);
}

void stream_copy_movsb(void *dst, const void *src, size_t n)
{
  __asm__ volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n) : : "memory");
}

void stream_copy(void *dst, const void *src, size_t n, const void *next)
{
  if (!stream_available()) {
    memcpy(dst, src, n);
    return;
  }
  char *d = dst;
  const char *s = src;
  size_t head = head_of(d, n);
  memcpy(d, s, head);
  d += head;
  s += head;
  n -= head;
  size_t body = n & ~(size_t)(TURN - 1);
  if (body) {
    if (__builtin_cpu_supports("avx512f"))
      nt_avx512(d, s, body, next);
    else
      nt_avx2(d, s, body, next);
  }
  body += nt_lines(d + body, s + body, n - body);
  memcpy(d + body, s + body, n - body);
}

void stream_zero(void *dst, size_t n)
{
  if (!stream_available()) {
    memset(dst, 0, n);
    return;
  }
  char *d = dst;
  size_t head = head_of(d, n);
  memset(d, 0, head);
  d += head;
  n -= head;
  size_t body = n & ~(size_t)31;
  zero_avx2(d, body);
  memset(d + body, 0, n - body);
}
#else
bool stream_available(void)
{
  return false;
}
void stream_copy_cached(void *dst, const void *src, size_t n)
{
  memcpy(dst, src, n);
}
void stream_copy_movsb(void *dst, const void *src, size_t n)
{
  memcpy(dst, src, n);
}
void stream_copy(void *dst, const void *src, size_t n, const void *next)
{
  (void)next;
  memcpy(dst, src, n);
}
void stream_zero(void *dst, size_t n)
{
  memset(dst, 0, n);
}
#endif
