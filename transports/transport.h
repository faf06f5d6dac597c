/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport is: two const tables of functions over one opened pool device. This header is the
 * specification; transports/stub.h gives every op a function that says "not supported", so the core
 * never tests for NULL; transports/check.h holds the checks that the core makes once for all of them.
 *
 * Life: open (keeper, before the fork: devices, rings, registered buffers) -> start (worker, after the
 * fork) -> slab_add / submit / poll / slab_del -> stop -> close. A worker that dies leaves a device that
 * quiesce() brings to rest in the keeper: when it returns, no byte of an old xfer lands any more.
 *
 * Threads: cold ops may be called from any thread of the worker and lock for themselves. Hot ops of
 * lane l are called by lane l's thread alone, so they need no lock among themselves.
 *
 * A transport never calls up, never logs, keeps no global state and never waits without a deadline.
 * Functions return 0 or -errno; expected ends of an xfer are done records, not errors.
 */
#ifndef TRANSPORTS_TRANSPORT_H
#define TRANSPORTS_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "include/priv/err.h"
#include "transports/xfer.h"

struct copy_plan; /* base/copy.h */
struct dev;       /* one opened pool device; each transport embeds it first in its own struct */

/* How the engine-visible isolation of a device is cut. */
enum dev_isolation {
  DEV_PER_SLAB = 1, /* each slab has an fd of its own: any tenant */
  DEV_PRIVATE = 2,  /* the whole device is one unit and belongs to one tenant */
  DEV_SHARED = 3,   /* the whole device is one unit and holds published cells only */
  DEV_HIDDEN = 4,   /* no fd of it ever leaves the mover (file tier): any tenant */
};

/* What the configuration says of a pool; strings live as long as the device. */
struct dev_config {
  const char *name;             /* pool name, for errors */
  const char *path;             /* cxl: /dev/daxN.M, a file or a directory; file: a directory; memory: NULL;
                                   rdma: addresses of the peer, transports/rdma/address.h */
  uint64_t capacity;            /* bytes; 0: all there is (cxl device or file) */
  uint32_t lanes;               /* 1..DEV_LANES_MAX */
  uint32_t depth;               /* file: xfers in flight per lane, 1..1024 */
  uint64_t bounce_bytes;        /* file: bounce memory per lane */
  int32_t numa_node;            /* -1: none */
  bool huge_pages;              /* ask for hugetlb, and for THP where there is none */
  bool buffered;                /* file: no O_DIRECT (then path says io_uring_buffered) */
  bool no_uring;                /* file: use the pread/pwrite pool although io_uring is there (tests, filters) */
  const struct copy_plan *copy; /* addressable: how to copy, measured or configured; NULL: copy_plan_default */
  const char *owner;            /* cxl single device or file: tenant that owns it; "shared": published cells only */
  uint8_t keep;                 /* enum dev_keep: cxl single device or file */
  uint8_t coherence;            /* enum dev_coherence: cxl single device or file */
  bool strict;                  /* less than asked is an error of open; nothing is wiped before that is known */
  const char *node;             /* rdma: this node's name, as the peer sees it */
  const char *peer;             /* rdma: the peer's, as our configuration has it; NULL: it has none */
  const char *key_file;         /* rdma: NULL: none, and the peer must be on this host */
  uint32_t timeout_ms;          /* rdma: of an xfer without a deadline; 0: 5000 */
  bool bounces;                 /* rdma: engines' memory is never registered: all bytes go through bounce memory */
  uint64_t piece_max;           /* rdma: bytes of one registration at most, for tests; 0: the device's own limit */
};

/* Queues into one device: those of 64 lanes, and one for who is no lane (mover/drain.h). */
#define DEV_LANES_MAX 65u

/* Who keeps the caches of the hosts that share a device in step. */
enum dev_coherence {
  DEV_COHERENT = 0, /* the hardware */
  DEV_SOFTWARE = 1, /* we: transports/cxl/share.h; needs keep. No engine maps it */
  DEV_APART = 2,    /* nobody: no engine maps it */
};

/* Does a mapped device remember what is on it. */
enum dev_keep {
  DEV_KEEP_NO = 0,    /* it is wiped when it is opened */
  DEV_KEEP_YES = 1,   /* its first units hold a directory; another owner's, size or version is an error */
  DEV_KEEP_FRESH = 2, /* the same, but wiped and begun anew, whatever was there */
};

/* What an opened device is. Filled by open; constant after. */
struct dev_caps {
  uint64_t capacity; /* bytes for slabs */
  uint64_t unit;     /* slab sizes and offsets are multiples of this (a power of two) */
  uint32_t align;    /* I/O on whole multiples of this is zero-copy; anything else bounces */
  bool addressable;  /* slab_mem.base is valid: CPU loads and stores reach the bytes */
  bool persistent;   /* keeps an index (index_* ops work) */
  bool incoherent;   /* addressable, but only the mover may: engines get copies */
  bool emulated;     /* stands in for a device: all output must say so */
  bool asynchronous; /* submit returns before the bytes are in place */
  enum dev_isolation isolation;
  char owner[64]; /* DEV_PRIVATE: the tenant's name */
  char note[160]; /* what is less than asked ("no huge pages: 4 KiB pages"), or "" */
  bool aside;     /* the note only informs: nothing that was asked for is missing */
};

/* How one gets to a device on another machine, and what went that way. */
enum dev_reach {
  DEV_TRYING = 1, /* lost a moment ago, or not spoken to yet */
  DEV_OPEN = 2,   /* it answers */
  DEV_DOWN = 3,   /* it does not */
};
struct dev_paths {
  uint32_t open, all;   /* ways there; open ones */
  uint32_t gen;         /* rises when what was there is lost (its slabs answer PEER_STALE) */
  uint8_t reach;        /* enum dev_reach */
  const char *why;      /* the last connection was lost for, or did not come about; static text, NULL: none was */
  uint32_t epoch;       /* the peer's, as it last said; 0: it never did */
  uint64_t dials, lost; /* connections begun in all, the asking one's and data; lost: how often the asking one was */
  uint32_t backoff_ms;  /* until it is tried again; 0: it is not waited for */
  uint64_t asked, answer_ns;         /* questions answered; a running mean of how long that took */
  uint64_t ops[2], bytes[2], failed; /* xfers that ended: [0] read, [1] written; failed ones count there only */
  uint64_t latency_ns, bytes_per_s;  /* running means: of an xfer, taken to done; of a busy lane. 0: none yet */
};

/* One slab's memory. Made by slab_add, owned by the caller until slab_del. */
struct slab_mem {
  uint64_t bytes;
  uint64_t dev_off; /* where in the device; 0 for memory */
  void *base;       /* the mover's mapping, NULL when the device is not addressable */
  int fd;           /* for engines, read-only to them (sealed, mode 0400 or O_RDONLY); -1 when hidden */
  uint64_t fd_off;  /* where the slab starts in fd */
  uint32_t unit;    /* the transport's own handle */
  const void *far;  /* rdma: a peer's cell (transports/rdma/remote.h); else NULL */
};

/* What a persistent device remembers of one cell. */
#define INDEX_NAME_MAX 32
struct index_entry {
  uint8_t key[16];
  uint8_t mkey_hash[16]; /* digest of the materialization key, zero: none */
  char tenant[INDEX_NAME_MAX];
  char agent[INDEX_NAME_MAX];
  uint64_t len;
  uint32_t crc; /* CRC32C of the bytes when has_crc */
  uint32_t generation;
  uint8_t scope, taint, has_crc, zero; /* taint 0: not judged yet */
};

/* Called by index_scan for each valid slab, then for each valid cell in it. Return 0 to go on. */
struct index_visitor {
  void *ctx;
  int (*slab)(void *ctx, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
              const char *agent, uint8_t scope);
  int (*cell)(void *ctx, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e);
  /* [dev_off, dev_off+len) of the device is known to be bad, from before; in any order with the others. May be NULL. */
  int (*bad)(void *ctx, uint64_t dev_off, uint64_t len, bool proven);
};

/* Cold ops. Size first, so that a table compiled against another header is refused. */
struct transport_cold {
  uint32_t size; /* sizeof(struct transport_cold) */
  const char *name;
  uint8_t tier_default; /* enum dray_tier */

  /* Opens the pool's device and fills ret_dev->caps. Runs in the keeper before the fork. -ENOENT, -EBUSY,
     -EINVAL, -EACCES, -ENODEV, -ENOSPC, -ENOMEM, each with a text that names the path and the fix. */
  int (*open)(const struct dev_config *cfg, struct err *e, struct dev **ret_dev);
  /* In the worker, before its sandbox closes: loads what start will need and could not load any more then. 0 or -errno
     with a text. */
  int (*prepare)(struct dev *d, struct err *e);
  /* After the fork, in the worker, before any hot op. */
  int (*start)(struct dev *d, struct err *e);
  /* In the worker: no hot op follows. Everything in flight has been polled. */
  void (*stop)(struct dev *d);
  /* In the keeper after a worker died: waits, at most deadline_ms, until nothing of it can land any more.
     0, or -ETIMEDOUT. Afterwards start may be called in a new worker. */
  int (*quiesce)(struct dev *d, uint32_t deadline_ms);
  void (*close)(struct dev *d);

  /* bytes is a multiple of caps.unit. The memory reads as zero or is never readable before it is written.
     0 (with a text in e when it is less than asked: no huge pages left); -ENOSPC (device full, or disk full: then e
     says so), -ENOMEM, -EMFILE, -EINVAL (size; caps.persistent: before index_scan of what is there). A device that
     is one unit gives every slab the same fd: it is the device's, only slab_del's caller stops using it. */
  int (*slab_add)(struct dev *d, uint64_t bytes, struct err *e, struct slab_mem *ret_mem);
  /* No xfer on it is in flight. lent: an fd of it left the mover, so its memory is not reused for
     another tenant without zeroing (memory: the memfd is closed, which destroys it). */
  void (*slab_del)(struct dev *d, struct slab_mem *mem, bool lent);

  /* caps.persistent: remembers slabs and cells. index_slab is called once after slab_add. The entry is written
     after its bytes, removal before the slot is reused. Cheap: a store into a mapped page. 0, -ENOSPC, -EIO.
     -EHWPOISON: the memory that it remembers in is bad; it serves, but nothing of it outlives the mover. Said again by
     each of them from then on. */
  int (*index_slab)(struct dev *d, const struct slab_mem *mem, uint64_t slot_bytes, uint32_t slots, const char *tenant,
                    const char *agent, uint8_t scope);
  int (*index_put)(struct dev *d, const struct slab_mem *mem, uint32_t slot, const struct index_entry *e);
  void (*index_del)(struct dev *d, const struct slab_mem *mem, uint32_t slot);
  /* A hint: index_put or index_del of that slot follows. */
  void (*index_expect)(struct dev *d, const struct slab_mem *mem, uint32_t slot);
  /* At start, before any slab_add: visits what is there. Entries that do not verify are skipped and counted.
     0, -EHWPOISON (as above; what could be read was visited), -errno. */
  int (*index_scan)(struct dev *d, const struct index_visitor *v, uint64_t *ret_skipped);
  /* Remembers that a piece of the device is bad. 0, -ENOSPC, -EIO, -EHWPOISON, -ENOTSUP. */
  int (*index_bad)(struct dev *d, uint64_t dev_off, uint64_t len, bool proven);
  /* Somebody met poison in this unit of our memory. -EHWPOISON: it is where the device remembers; 0: it is not. */
  int (*index_met)(struct dev *d, uintptr_t addr, uint64_t unit);

  /* No slab is left: lets go of what is the machine's (mapping, fds, lock), so that the device can be taken away.
     From then on slab_add says -ENODEV. In each process that has the device; idempotent. 0; -ENOTSUP: there is nothing
     that could be taken away. */
  int (*detach)(struct dev *d);
  /* In the worker: memory of an engine, mapped at base, that xfers may name until memory_del returns. The device may
     come to reach it without bounce memory. Pins nothing yet, and xfers on memory that was not added work as well.
     0, -ENOMEM, -EEXIST (it overlaps another). */
  int (*memory_add)(struct dev *d, void *base, uint64_t bytes);
  /* No xfer on it is in flight; before it is unmapped. */
  void (*memory_del)(struct dev *d, void *base);
  /* -ENOTSUP: it is on this machine. Any thread. */
  int (*paths)(struct dev *d, struct dev_paths *ret_paths);
};

/* Hot ops. */
struct transport_hot {
  uint32_t size;
  /* Takes the xfer (already checked by xfer_check). 0: exactly one done record will follow from poll.
     -EAGAIN: full, try after poll; nothing else. Never blocks; a synchronous transport does the copy here. */
  int (*submit)(struct dev *d, uint32_t lane, const struct xfer *x);
  /* Pushes what submit gathered to the device. Called once per sweep. */
  void (*flush)(struct dev *d, uint32_t lane);
  /* Up to n done records. Never blocks. */
  uint32_t (*poll)(struct dev *d, uint32_t lane, struct xfer_done *done, uint32_t n);
  /* An fd that is readable when poll has something, -1 when the transport is synchronous. It need not tell of what
     comes while the lane polls anyway: only once doze was called, and poll after it has found nothing. It may tell late
     of what poll has returned already: the next poll, which finds nothing, quiets it. */
  int (*poll_fd)(struct dev *d, uint32_t lane);
  /* The lane means to sleep on poll_fd; it polls once more first. */
  void (*doze)(struct dev *d, uint32_t lane);
  /* Xfers taken and not yet returned by poll. */
  uint32_t (*in_flight)(struct dev *d, uint32_t lane);
};

struct transport {
  const struct transport_cold *cold;
  const struct transport_hot *hot;
};

struct dev {
  const struct transport_cold *cold;
  const struct transport_hot *hot; /* loud dummies until start and after stop */
  struct dev_caps caps;
};

extern const struct transport transport_memory;
extern const struct transport transport_cxl;
extern const struct transport transport_file;
extern const struct transport transport_rdma; /* where the build has it: HAVE_RDMA */

/* Puts an opened device, before start, behind one that goes wrong as the script says (transports/fault/script.h); inner
   is the new device's on success. 0, -EINVAL (the script, with a text), -ENOMEM. */
int fault_wrap(struct dev *inner, const char *script, uint32_t lanes, struct err *e, struct dev **ret_dev);
/* Is it a script. 0 or -EINVAL with a text. */
int fault_check(const char *script, struct err *e);
#endif
