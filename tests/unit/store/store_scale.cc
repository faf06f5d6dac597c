/* SPDX-License-Identifier: Apache-2.0 */
/* Not a test: what the directory costs with 10^4 and with 10^7 cells. Lookups of both are interleaved in small rounds, so
   that the machine's mood is the same for both. */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include <sys/stat.h>

#include "tests/unit/store/fake_dev.h"

namespace {
using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point a) { return std::chrono::duration<double>(Clock::now() - a).count(); }

void KeyOf(uint64_t n, uint8_t key[16])
{
  memcpy(key, &n, 8);
  memset(key + 8, 0, 8);
}

/* Cells of 64 B in memory that is never touched: what is measured is the directory. */
struct Big {
  FakeDev dev{1ull << 40};
  store_config cfg{};
  int fd[ARENA_COUNT];
  store *s = nullptr;
  uint64_t cells;
  uint32_t tenant = 0;

  explicit Big(uint64_t n) : cells(n)
  {
    for (int &f : fd)
      f = memfd_create("arena", 0);
    cfg.pools = 1;
    cfg.pool[0].tier = DRAY_TIER_DRAM;
    cfg.pool[0].attendable = true;
    cfg.pool[0].dev = &dev.d;
    cfg.pool[0].capacity = 1ull << 40;
    cfg.cells_max = 16u << 20;
    cfg.slabs_max = STORE_SLABS_MAX;
    cfg.leases_max = 1024;
    cfg.seed = 42;
    err e{};
    if (store_new(&cfg, fd, nullptr, &e, &s) < 0) {
      fprintf(stderr, "%s\n", e.text);
      exit(1);
    }
    tenant = store_tenant(s, "t");
    store_who who = {tenant, store_agent(s, tenant, "a"), DRAY_SCOPE_AGENT};
    auto t0 = Clock::now();
    for (uint64_t i = 0; i < n; i++) {
      slot_ref r;
      cell_new c{};
      cell_facts f;
      KeyOf(i, c.key);
      c.who = who;
      c.len = 64;
      if (store_alloc(s, 0, &who, 64, &r) != DRAY_REASON_OK || store_commit(s, &c, r, 1, &f) != DRAY_REASON_OK) {
        fprintf(stderr, "insert %llu refused\n", (unsigned long long)i);
        exit(1);
      }
      store_unpin(s, r);
    }
    double sec = Seconds(t0);
    StoreStats st;
    ::store_stats(s, &st);
    uint64_t touched = 0;
    for (int f : fd) {
      struct stat sb;
      fstat(f, &sb);
      touched += (uint64_t)sb.st_blocks * 512;
    }
    printf("%10llu cells: %.2f s to insert (%.0f ns each), directory %.1f B per cell, arenas touched %.1f MiB (%.1f B per cell)\n",
           (unsigned long long)n, sec, sec * 1e9 / (double)n, (double)st.directory_bytes / (double)n,
           (double)touched / 1048576, (double)touched / (double)n);
  }
  ~Big()
  {
    store_free(s);
    for (int f : fd)
      close(f);
  }
  /* ns per lookup over `count` random keys, announced `burst` at a time as a lane does with what it takes from a ring;
     unpins are not timed. */
  double Round(std::mt19937_64 &rng, uint32_t count, bool pin, uint32_t burst)
  {
    std::vector<uint8_t> keys(16 * count);
    std::vector<slot_ref> pins(count);
    for (uint32_t i = 0; i < count; i++)
      KeyOf(rng() % cells, &keys[16 * i]);
    cell_facts f;
    auto t0 = Clock::now();
    for (uint32_t i = 0; i < count; i++) {
      if (burst > 1 && i % burst == 0) {
        store_hint hint[STORE_HINTS_MAX];
        uint32_t n = std::min(burst, count - i);
        for (uint32_t k = 0; k < n; k++)
          hint[k].key = &keys[16 * (i + k)];
        store_expect(s, tenant, hint, n, pin);
      }
      if (store_find(s, tenant, &keys[16 * i], pin ? DRAY_TIER_ANY : PIN_NONE, 2, &f, &pins[i]) != DRAY_REASON_OK)
        abort();
    }
    double ns = Seconds(t0) * 1e9 / count;
    for (uint32_t i = 0; pin && i < count; i++)
      store_unpin(s, pins[i]);
    return ns;
  }
};

double Median(std::vector<double> v)
{
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}
} // namespace

int main(int argc, char **argv)
{
  uint64_t large = argc > 1 ? strtoull(argv[1], nullptr, 10) : 10000000;
  Big small(10000), big(large);
  std::mt19937_64 rng(1);
  for (uint32_t burst : {1u, 8u, 32u})
    for (bool pin : {false, true}) {
      std::vector<double> a, b;
      for (int i = 0; i < 400; i++) {
        a.push_back(small.Round(rng, 1000, pin, burst));
        b.push_back(big.Round(rng, 1000, pin, burst));
      }
      printf("lookup%s, %2u at a time: median %.0f ns at %llu cells, %.0f ns at %llu cells: %.2f times (random keys)\n",
             pin ? " with pin" : "         ", burst, Median(a), (unsigned long long)small.cells, Median(b),
             (unsigned long long)big.cells, Median(b) / Median(a));
    }
  err e{};
  int rc = store_audit(big.s, &e);
  printf("audit: %s\n", rc == 0 ? "books balance" : e.text);
  return rc != 0;
}
