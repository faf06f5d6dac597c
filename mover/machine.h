/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory is there to be had, by the machine and by the control group the mover is in. */
#ifndef MOVER_MACHINE_H
#define MOVER_MACHINE_H

#include <stdint.h>

#include "include/priv/err.h"

struct config;

/* Bytes that could still be taken: the least of MemAvailable and what each limited cgroup (v2) above us has left. root
   is
   "" (tests: a directory in its place). 0, or -errno when /proc/meminfo does not say. */
int machine_memory_left(const char *root, uint64_t *ret_bytes);
/* Do the tiers that live in memory fit? 0, or -ENOMEM with the numbers and the fix in e. */
int machine_fits(const struct config *cfg, const char *root, struct err *e);
/* Lane idx of n keeps to its share of the CPUs that this process may use (every nth one): a woken helper is then not
   put behind the lane that it is to help, which the kernel does where CPUs share no cache. With one lane, or fewer CPUs
   than lanes, nothing is changed. */
void machine_lane_place(uint32_t idx, uint32_t n);
#endif
