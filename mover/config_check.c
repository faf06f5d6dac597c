/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration must be as a whole, once all of it has been said; and what it leaves open. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "include/priv/bits.h"
#include "include/priv/cleanup.h"
#include "mover/config.h"
#include "mover/config_file.h"
#include "mover/metrics.h"

static int config_calibration(struct config *c, struct err *e)
{
  CLEAN_FD fd = open(c->calibration, O_RDONLY | O_CLOEXEC);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) < 0)
    return err_set(e, -errno, "calibration: %s: %s", c->calibration, strerror(errno));
  if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > (off_t)MIB(4))
    return err_set(e, -EINVAL, "calibration: %s: need a regular file of 1 byte to 4 MiB, have %lld bytes",
                   c->calibration, (long long)st.st_size);
  CLEAN_PTR char *text = malloc((size_t)st.st_size);
  if (!text)
    return -ENOMEM;
  if (read(fd, text, (size_t)st.st_size) != st.st_size)
    return err_set(e, -EIO, "calibration: %s: could not read it whole", c->calibration);
  struct err inner = {{0}};
  int r = profile_parse(&c->policy.profiles, text, (size_t)st.st_size, &inner);
  if (r < 0)
    err_set(e, r, "%.200s: %.280s", c->calibration, inner.text);
  return r;
}

static int peer_of(const struct config *c, const char *name, size_t n)
{
  for (uint32_t i = 0; i < c->peers_n; i++)
    if (strlen(c->peer[i].name) == n && memcmp(c->peer[i].name, name, n) == 0)
      return (int)i;
  return -1;
}

/* The peers of a tier, by their places in `peers:`. */
static int find_peers(const struct config *c, struct config_tier *t, struct err *e)
{
  const char *at = t->peer ? t->peer : "";
  t->peers_n = 0;
  for (size_t n = strcspn(at, ","); n || *at; at += n + (at[n] == ','), n = strcspn(at, ",")) {
    int i = peer_of(c, at, n);
    if (i < 0)
      return err_set(e, -EINVAL, "config: tier %s: peer '%.*s' is none of peers:", t->name, (int)MIN_OF(n, 64u), at);
    for (uint32_t k = 0; k < t->peers_n; k++)
      if (t->peer_at[k] == i)
        return err_set(e, -EINVAL, "config: tier %s: peer %s: given twice", t->name, c->peer[i].name);
    t->peer_at[t->peers_n++] = (uint16_t)i; /* none twice: as many as there are peers at most */
  }
  return t->peers_n ? 0 : err_set(e, -EINVAL, "config: tier %s: peer '' is none of peers:", t->name);
}

/* A pool that a peer lends, or, under the name remote, what the peer has. */
static int check_rdma_tier(const struct config *c, struct config_tier *t, unsigned tier, struct err *e)
{
#ifndef HAVE_RDMA
  return err_set(e, -EINVAL,
                 "config: tier %s: this drayd was built without RDMA (libibverbs-dev, librdmacm-dev, "
                 "nettle-dev; -Drdma)",
                 t->name);
#endif
  if (tier != DRAY_TIER_REMOTE_DRAM && tier != DRAY_TIER_REMOTE)
    return err_set(e, -EINVAL, "config: tier %s: transport rdma is for remote_dram and remote", t->name);
  int r = find_peers(c, t, e);
  if (r < 0)
    return r;
  if (tier == DRAY_TIER_REMOTE_DRAM && t->peers_n > 1)
    return err_set(e, -EINVAL, "config: tier %s: need one peer that lends, have %u: only remote may have several",
                   t->name, t->peers_n);
  if (tier == DRAY_TIER_REMOTE && (t->capacity || t->fault))
    return err_set(e, -EINVAL, "config: tier remote: it is what the peer has: no capacity, no fault");
  if (tier == DRAY_TIER_REMOTE_DRAM && t->capacity < MIB(1))
    return err_set(e, -EINVAL, "config: tier %s: capacity: need at least 1 MiB, have %llu bytes", t->name,
                   (unsigned long long)t->capacity);
  t->path = c->peer[t->peer_at[0]].address;
  return 0;
}

static int config_check_tier(struct config *c, uint32_t i, struct err *e)
{
  struct config_tier *t = &c->tier[i];
  unsigned tier = t->name ? dray_tier_by_name(t->name) : 0;
  if (!tier)
    return err_set(e, -EINVAL, "config: tier '%s': none of hbm dram numa_far cxl remote_dram disk remote",
                   t->name ? t->name : "");
  bool memory = t->transport && strcmp(t->transport, "memory") == 0,
       cxl = t->transport && strcmp(t->transport, "cxl") == 0, file = t->transport && strcmp(t->transport, "file") == 0;
  if (t->transport && strcmp(t->transport, "rdma") == 0) {
    int r = check_rdma_tier(c, t, tier, e);
    if (r < 0)
      return r;
  } else if (tier == DRAY_TIER_REMOTE || (!memory && !cxl && !file))
    return err_set(e, -EINVAL, "config: tier %s: transport '%s': none of memory cxl file rdma", t->name,
                   t->transport ? t->transport : "");
  if (!memory && !t->path)
    return err_set(e, -EINVAL, "config: tier %s: path is missing", t->name);
  if ((memory || file) && t->capacity < MIB(1))
    return err_set(e, -EINVAL, "config: tier %s: capacity: need at least 1 MiB, have %llu bytes", t->name,
                   (unsigned long long)t->capacity);
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(c->tier[k].name, t->name) == 0)
      return err_set(e, -EINVAL, "config: tier %s: given twice", t->name);
  return 0;
}

int config_finish(struct config *c, struct err *e)
{
  if (c->tiers_n == 0)
    return err_set(e, -EINVAL, "config: tiers: at least one tier is needed");
  if (c->chunk_bytes && (c->chunk_bytes < KIB(4) || c->chunk_bytes > MIB(16) || !is_aligned(c->chunk_bytes, KIB(4))))
    return err_set(e, -EINVAL, "config: chunk: need a multiple of 4 KiB in 4 KiB..16 MiB, have %llu bytes",
                   (unsigned long long)c->chunk_bytes);
  for (uint32_t i = 0; i < c->tiers_n; i++) {
    int r = config_check_tier(c, i, e);
    if (r < 0)
      return r;
  }
  /* the ladder is by tier, hottest first, whatever order the file has */
  for (uint32_t i = 1; i < c->tiers_n; i++)
    for (uint32_t k = i; k > 0 && dray_tier_by_name(c->tier[k].name) < dray_tier_by_name(c->tier[k - 1].name); k--) {
      struct config_tier t = c->tier[k];
      c->tier[k] = c->tier[k - 1];
      c->tier[k - 1] = t;
    }
  for (uint32_t i = 0; i < c->tenants_n; i++)
    for (uint32_t k = 0; k < i; k++) {
      const struct config_tenant *a = &c->tenant[i], *b = &c->tenant[k];
      if (strcmp(a->name, b->name) == 0)
        return err_set(e, -EINVAL, "config: tenant %s: given twice", a->name);
      if ((a->token && b->token && strcmp(a->token, b->token) == 0) ||
          (a->uid >= 0 && a->uid == b->uid && !a->token && !b->token))
        return err_set(e, -EINVAL, "config: tenants %s and %s cannot be told apart: same token or uid", b->name,
                       a->name);
    }
  uint32_t ip;
  uint16_t port;
  if (c->metrics && metrics_address(c->metrics, &ip, &port) < 0)
    return err_set(e, -EINVAL, "config: metrics: '%.60s' is not an address such as 127.0.0.1:9469", c->metrics);
  if (c->metrics && !metrics_built())
    return err_set(e, -EINVAL, "config: metrics: this drayd was built without libmicrohttpd");
  int quota = config_quota_check(c, &c->quota, e);
  quota = quota ? quota : config_usage_check(c, e);
  if (quota < 0)
    return quota;
  if (c->calibration) {
    int r = config_calibration(c, e);
    if (r < 0)
      return r;
  }
  /* what the configuration leaves open the calibration decides, and what that leaves open, we */
  const struct profile_tuning *tuning = &c->policy.profiles.tuning;
  long cpus = sysconf(_SC_NPROCESSORS_ONLN);
  if (!c->chunk_bytes)
    c->chunk_bytes = tuning->chunk_bytes ? align_up(tuning->chunk_bytes, KIB(4)) : KIB(256);
  if (!c->lanes)
    c->lanes = tuning->lanes ? tuning->lanes : cpus > 4 ? 4 : cpus > 2 ? 2 : 1;
  if (tuning->has_copy)
    c->copy = tuning->copy;
  else if (tuning->nt_min_bytes)
    c->copy.stream_min = MIN_OF(tuning->nt_min_bytes, COPY_NEVER);
  memset(c->policy.ladder, 0, sizeof c->policy.ladder);
  c->pools_n = c->tiers_n - (c->tiers_n && strcmp(c->tier[c->tiers_n - 1].name, "remote") == 0);
  if (!c->pools_n)
    return err_set(e, -EINVAL, "config: tiers: remote alone is none: at least one pool of our own is needed");
  for (uint32_t i = 0; i < c->pools_n; i++) {
    c->policy.ladder[i] = (uint8_t)dray_tier_by_name(c->tier[i].name);
    if (c->tier[i].coherence != DEV_COHERENT) /* whatever the profile says */
      c->policy.profiles.tier[c->policy.ladder[i]].coherent = false;
  }
  return 0;
}

uint32_t config_devs(const struct config *c)
{
  return c->pools_n + (c->pools_n < c->tiers_n ? c->tier[c->pools_n].peers_n : 0);
}

const struct config_tier *config_dev_tier(const struct config *c, uint32_t i)
{
  return &c->tier[MIN_OF(i, c->pools_n)];
}

const struct config_peer *config_dev_peer(const struct config *c, uint32_t i)
{
  const struct config_tier *t = config_dev_tier(c, i);
  return t->peers_n ? &c->peer[t->peer_at[i < c->pools_n ? 0 : i - c->pools_n]] : NULL;
}
