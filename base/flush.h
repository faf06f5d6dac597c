/* SPDX-License-Identifier: Apache-2.0 */
/* Cache lines and memory: what a power loss, or a host that shares memory without coherence, makes one care about. */
#ifndef BASE_FLUSH_H
#define BASE_FLUSH_H

#include <stddef.h>

/* Which instruction does it: asked of the CPU once (asking is a trap in a virtual machine), kept by the caller. */
enum flush_by { FLUSH_NONE = 0, FLUSH_CLFLUSH = 1, FLUSH_CLFLUSHOPT = 2, FLUSH_CLWB = 3 };
/* FLUSH_NONE: this CPU, or this build, has none. */
enum flush_by flush_probe(void);

/* The lines of [p, p+n) are in memory, and so is every non-temporal store before, when it returns. Where a load
   would fault, this does: memory that may be bad or gone is flushed under a guard. */
void flush_back(enum flush_by by, const void *p, size_t n);
/* What this CPU has of these lines is forgotten, so that the next load reads memory. Whoever calls has not written
   them: a dirty line would go to memory over what is there. */
void flush_drop(enum flush_by by, const void *p, size_t n);
#endif
