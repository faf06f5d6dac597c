/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is known to be poisoned. A kernel without memory-failure handling reports poison like a missing page
 * (BUS_ADRERR); the guard asks here before it believes that. Who poisons a mapping on purpose (tests, the fault
 * transport) enters it, and takes it out before the mapping goes.
 */
#ifndef BASE_KNOWN_H
#define BASE_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

#define KNOWN_MAX 4096u

/* [base, base+len) is bad, in units of unit bytes (a power of two). 0, -EINVAL, -ENOSPC. Any thread. */
int known_bad_add(const void *base, uint64_t len, uint64_t unit);
/* Forgets every entry that touches the range. Any thread. */
void known_bad_del(const void *base, uint64_t len);
/* Is this byte in a known bad range? Then *ret_unit. Safe in a signal handler. */
bool known_bad_find(uintptr_t addr, uint64_t *ret_unit);
#endif
