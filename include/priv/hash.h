/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of the house: XXH3, so that a key's digest and the directory's spread are one family. */
#ifndef PRIV_HASH_H
#define PRIV_HASH_H

#include <stdint.h>
#include <string.h>
#include <xxhash.h>

static inline uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
  return XXH3_64bits_withSeed(p, n, seed);
}
/* Where (domain, key) lives. Keys are chosen by engines, so they are mixed with a seed of the mover's. */
static inline uint64_t hash_key(const uint8_t key[16], uint32_t domain, uint64_t seed)
{
  uint64_t a, b;
  memcpy(&a, key, 8);
  memcpy(&b, key + 8, 8);
  a ^= seed;
  b ^= ((uint64_t)domain << 32 | domain) * 0x9e3779b97f4a7c15ull;
  __uint128_t m = (__uint128_t)(a ^ 0x2d358dccaa6c78a5ull) * (b ^ 0x8bb84b93962eacc9ull ^ (seed << 1 | seed >> 63));
  uint64_t h = (uint64_t)m ^ (uint64_t)(m >> 64);
  h ^= h >> 29;
  h *= 0xbf58476d1ce4e5b9ull;
  return h ^ h >> 32;
}
#endif
