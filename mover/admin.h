/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: JSON in, JSON out (include/dray/admin.h). Control thread. */
#ifndef MOVER_ADMIN_H
#define MOVER_ADMIN_H

#include <stddef.h>
#include <stdint.h>

struct daemon;
struct admin;

void admin_accept(struct daemon *d);
/* Readable or writable. */
void admin_serve(struct daemon *d, struct admin *a);
void admin_expire(struct daemon *d, uint64_t now_ms);
/* The answer to a request's text: malloc'ed JSON, never NULL but for want of memory. */
char *admin_answer(struct daemon *d, const char *request, size_t n);
#endif
