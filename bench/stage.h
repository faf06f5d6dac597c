/* SPDX-License-Identifier: Apache-2.0 */
/* The stage a bench plays on: a mover of its own in a directory of its own, pinned, and what to ask it. */
#ifndef BENCH_STAGE_H
#define BENCH_STAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <dray/dray.h>

struct stage {
  char dir[96], socket[112], admin[112];
  pid_t pid; /* the keeper */
};

/* Starts drayd (beside this program, or $DRAYD) with these "--set" values (NULL-terminated, may be NULL) on CPU cpu
   (-1: any); waits until it serves, at most 60 s. base: directory under which to work, NULL: $TMPDIR or /tmp. 0 or
   -errno; errors are told on stderr. */
int stage_open(struct stage *s, const char *base, int cpu, const char *const *sets);
/* The same with a configuration file of this text; NULL: none. */
int stage_open_config(struct stage *s, const char *base, int cpu, const char *const *sets, const char *config);
/* Ends it as stage_close() does, but for its directory, and starts another one there; how long it took to end, and then
   to serve. 0 or -errno; then the directory is gone, too. */
int stage_again(struct stage *s, int cpu, const char *const *sets, const char *config, uint64_t *ret_stop_ns,
                uint64_t *ret_start_ns);
/* A configuration with quotas, rates and rules in force for who runs this, and room for all of the bench. */
struct stage_policy {
  char text[512];
};
struct stage_policy stage_policy(void);
/* SIGTERM, waits, removes the directory. */
void stage_close(struct stage *s);
/* A session there. Exits the process with a message when there is none: a bench without its mover has nothing to say.
 */
struct dray *stage_session(const struct stage *s, uint32_t entries, uint32_t items);
/* A counter of `status` ("taken", "completed"), or 0. */
uint64_t stage_counter(const struct stage *s, const char *name);
/* CPU nanoseconds that the mover's processes have used. */
uint64_t stage_cpu_ns(const struct stage *s);

/* rm -rf of something the bench made. */
void stage_remove(const char *dir);
void stage_pin(int cpu);
void stage_pin_none(void); /* every CPU again */
uint64_t stage_now_ns(void);
/* A pattern that tells cells apart, and whether memory still holds it. */
void stage_fill(void *p, uint64_t bytes, uint64_t seed);
bool stage_check(const void *p, uint64_t bytes, uint64_t seed);
/* Key number i. */
void stage_key(uint64_t i, uint8_t ret_key[16]);
/* One directive, submitted and awaited; its completion. */
struct dray_cqe stage_one(struct dray *d);
#endif
