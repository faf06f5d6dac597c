/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy_crc.h"

#include <string.h>

#include "base/crc.h"
#include "include/priv/bits.h"
#include "include/priv/order.h"

uint32_t copy_crc_plain(void *dst, const void *src, size_t n, uint32_t crc)
{
  char part[2048];
  for (size_t at = 0; at < n;) {
    size_t k = MIN_OF(n - at, sizeof part);
    memcpy(part, (const char *)src + at, k);
    copied_once();
    crc = crc32c(crc, part, k);
    memcpy((char *)dst + at, part, k);
    at += k;
  }
  return crc;
}

#ifdef __x86_64__
#include <immintrin.h>

struct unaligned {
  uint64_t v;
} __attribute__((packed, may_alias));

/* volatile: exactly one load, whatever the compiler finds cheaper */
static inline uint64_t load_once(const char *p)
{
  return ((const volatile struct unaligned *)p)->v;
}

/* Three lanes side by side: crc32 takes three cycles, but one can start in each. over_*: see struct three_way in
   base/crc.c. 5440: three lanes and one line more are 16 KiB; a 4 KiB page has room for three of 1344. */
struct lanes {
  size_t lane;
  uint64_t over_two, over_one;
};
static const struct lanes lanes_of[] = {
    {5440, 0x0c8774a7, 0xfa0f2bd0}, {1344, 0x889774e1, 0xc9c8b782}, {320, 0x6b749fb2, 0xbac2fd7b}};

/* How far ahead of a lane its lines are asked for, and at its end the next block's: three lanes of CRC fill the CPU's
   window long before they cover the memory's latency. Measured: 0.82 of a plain copy without, 0.97 with 1 KiB. */
#define AHEAD 1024u

#define STEP(c, d, s, off)                                                                                             \
  do {                                                                                                                 \
    uint64_t v_ = load_once((s) + (off));                                                                              \
    (c) = _mm_crc32_u64((c), v_);                                                                                      \
    memcpy((d) + (off), &v_, 8);                                                                                       \
  } while (0)

/* The line goes to its destination and to a private copy, from which the CRC is taken: eight scalar loads of the source
   would be a second read of it, and eight scalar stores cost more than the CRC. */
__attribute__((target("avx2"), always_inline)) static inline void line_move(char *d, const char *s, uint64_t own[8],
                                                                            const bool stream)
{
  __m256i a = _mm256_loadu_si256((const void *)s), b = _mm256_loadu_si256((const void *)(s + 32));
  if (stream) {
    _mm256_stream_si256((void *)d, a);
    _mm256_stream_si256((void *)(d + 32), b);
  } else {
    _mm256_storeu_si256((void *)d, a);
    _mm256_storeu_si256((void *)(d + 32), b);
  }
  _mm256_store_si256((void *)own, a);
  _mm256_store_si256((void *)(own + 4), b);
}

__attribute__((target("avx2,sse4.2,pclmul"), always_inline)) static inline uint32_t
three(uint32_t c, char *d, const char *s, const struct lanes *w, const bool stream, const char *next)
{
  uint64_t own[3][8] __attribute__((aligned(64)));
  uint64_t c0 = c, c1 = 0, c2 = 0;
  const size_t n = w->lane, by = MIN_OF((size_t)AHEAD, n);
  for (size_t i = 0; i < n; i += CACHE_LINE, d += CACHE_LINE, s += CACHE_LINE) {
    const char *ahead = i + by < n ? s + by : next ? next + (i + by - n) : s;
    _mm_prefetch(ahead, _MM_HINT_T0);
    _mm_prefetch(ahead + n, _MM_HINT_T0);
    _mm_prefetch(ahead + 2 * n, _MM_HINT_T0);
    line_move(d, s, own[0], stream);
    line_move(d + n, s + n, own[1], stream);
    line_move(d + 2 * n, s + 2 * n, own[2], stream);
    copied_once(); /* the CRC is of `own`, not of the source read again */
    for (unsigned k = 0; k < 8; k++) {
      c0 = _mm_crc32_u64(c0, own[0][k]);
      c1 = _mm_crc32_u64(c1, own[1][k]);
      c2 = _mm_crc32_u64(c2, own[2][k]);
    }
  }
  /* crc32 of a product is the product reduced: moves a lane's CRC over the lanes behind it */
  __m128i k = _mm_set_epi64x((long long)w->over_one, (long long)w->over_two);
  __m128i a = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)c0), k, 0x00);
  __m128i b = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)c1), k, 0x10);
  return (uint32_t)(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(a, b))) ^ c2);
}

/* d is aligned to a line when stream. */
__attribute__((target("avx2,sse4.2,pclmul"), always_inline)) static inline uint32_t
body(uint32_t c, char **d, const char **s, size_t *n, const bool stream, const char *next)
{
  for (unsigned k = 0; k < ARRAY_LEN(lanes_of); k++)
    for (size_t step = 3 * lanes_of[k].lane; *n >= step; *n -= step, *d += step, *s += step) {
      /* within one block the next lanes begin right behind; the hint is for the last of it */
      bool last = *n - step < 3 * lanes_of[ARRAY_LEN(lanes_of) - 1].lane;
      c = three(c, *d, *s, &lanes_of[k], stream, last ? next : *s + step);
    }
  uint64_t v = c, own[8] __attribute__((aligned(64)));
  for (; *n >= CACHE_LINE; *n -= CACHE_LINE, *d += CACHE_LINE, *s += CACHE_LINE) {
    line_move(*d, *s, own, stream);
    copied_once();
    for (unsigned k = 0; k < 8; k++)
      v = _mm_crc32_u64(v, own[k]);
  }
  return (uint32_t)v;
}

__attribute__((target("sse4.2"))) static uint32_t ends(uint32_t c, char *d, const char *s, size_t n)
{
  uint64_t v = c;
  for (; n >= 8; n -= 8, d += 8, s += 8)
    STEP(v, d, s, 0);
  c = (uint32_t)v;
  for (; n; n--) {
    unsigned char b = *(const volatile unsigned char *)s++;
    c = _mm_crc32_u8(c, b);
    *d++ = (char)b;
  }
  return c;
}

__attribute__((target("avx2,sse4.2,pclmul"))) static uint32_t run(char *d, const char *s, size_t n, uint32_t c,
                                                                  bool stream, const char *next)
{
  size_t head = (size_t)(-(uintptr_t)d & (CACHE_LINE - 1));
  head = MIN_OF(head, n);
  c = ends(c, d, s, head);
  d += head;
  s += head;
  n -= head;
  c = stream ? body(c, &d, &s, &n, true, next) : body(c, &d, &s, &n, false, next);
  return ends(c, d, s, n);
}

uint32_t copy_crc(void *dst, const void *src, size_t n, uint32_t crc, bool stream, const void *next)
{
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
    return copy_crc_plain(dst, src, n, crc);
  return ~run(dst, src, n, ~crc, stream, next);
}
#else
uint32_t copy_crc(void *dst, const void *src, size_t n, uint32_t crc, bool stream, const void *next)
{
  (void)stream, (void)next;
  return copy_crc_plain(dst, src, n, crc);
}
#endif
