/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each op does once its order has come. A handler either fills the outcome and returns true, or has made a step
 * that will, and returns false. ops_cell.c: ops on one cell, which may be items of a BATCH; ops_plain.c: the rest.
 */
#ifndef MOVER_OPS_H
#define MOVER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/job.h"
#include "mover/store/store.h"
#include "policy/verdict.h"

struct region;
struct step;

/* What one directive or one item asks for, whichever it came from. */
struct wish {
  uint8_t key[16];
  uint64_t off, len;
  const void *next; /* where the item behind it will read: a hint, or NULL */
};
struct call {
  struct lane *l;
  struct session *s;
  struct job *j;
  uint32_t item;
  const struct wish *w;
};
typedef bool (*op_handler)(const struct call *c, struct outcome *o);

bool ops_put(const struct call *c, struct outcome *o);
bool ops_get(const struct call *c, struct outcome *o);
bool ops_map(const struct call *c, struct outcome *o);
bool ops_unmap(const struct call *c, struct outcome *o);
bool ops_move(const struct call *c, struct outcome *o);
bool ops_drop(const struct call *c, struct outcome *o);
bool ops_stat(const struct call *c, struct outcome *o);

bool ops_nop(const struct call *c, struct outcome *o);
bool ops_fence(const struct call *c, struct outcome *o);
bool ops_alloc(const struct call *c, struct outcome *o);
bool ops_commit(const struct call *c, struct outcome *o);
bool ops_copy(const struct call *c, struct outcome *o);
bool ops_publish(const struct call *c, struct outcome *o);
bool ops_account(const struct call *c, struct outcome *o);
bool ops_quarantine(const struct call *c, struct outcome *o);

/* MAP of what is here, whatever tier it asks for. */
bool ops_map_here(const struct call *c, struct outcome *o);

/* Shared by the handlers. */
extern const struct outcome outcome_ok;
struct outcome outcome_refused(unsigned reason);
/* Refused, or missed for what is not here. */
struct outcome outcome_for(unsigned reason);
/* Why a quarantined cell is: POISONED when the mover itself saw bad memory there, else QUARANTINED. */
unsigned ops_bad_reason(struct store *st, const struct cell_facts *f);
struct outcome outcome_of(const struct policy_verdict *v);
/* Takes the region of an id into use for the job (into *place). NULL: BAD_REGION. */
struct region *ops_region_get(struct session *s, uint16_t id, uint16_t *place);
unsigned ops_layout(const struct session *s, uint16_t id, const struct dray_layout **ret_layout);
/* The store's id for a session's materialization-key id; 0 is none. */
unsigned ops_mkey(const struct session *s, uint32_t id, uint32_t *ret_mkey);
void ops_ask(struct lane *l, struct session *s, const struct job *j, uint32_t mkey, uint64_t bytes,
             const struct cell_facts *f, struct policy_ask *ret_ask);
/* Is a CRC to be kept, or the kept one checked? */
bool ops_crc(const struct call *c);
/* A step that reads f's pinned copy `slot`. */
struct step *ops_step_reading(const struct call *c, unsigned kind, const struct cell_facts *f, struct slot_ref slot);
#endif
